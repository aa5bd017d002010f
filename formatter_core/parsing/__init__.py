"""What reading a text gives: captures, marks, and words for what may come next. The native library does the reading."""
