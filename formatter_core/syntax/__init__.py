"""Notations for grammars, read and written: regular expressions (Rust, ECMA 262) and KBNF."""
