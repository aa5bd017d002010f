"""The command line, `formatter-core`: one module for each kind of command, and what they share."""
