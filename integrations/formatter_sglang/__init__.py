"""An experiment: a grammar backend of SGLang. `register()`, then `--grammar-backend formatter`."""

from formatter_sglang.backend import FormatterGrammarBackend, register

__all__ = ["FormatterGrammarBackend", "register"]
