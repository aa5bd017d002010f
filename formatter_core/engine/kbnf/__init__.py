"""The kbnf package as a grammar engine: a frozen profile, fenced in because its masks are wrong by default."""
