"""Results of reading a text: captures, marks, and descriptions of what may come next. The native library reads."""
