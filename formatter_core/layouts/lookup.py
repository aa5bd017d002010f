"""Find the layout of a model: by its tokenizer, or by an option of a server's command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from formatter_core.errors import FormatterError
from formatter_core.layouts.layout import Layout

__all__ = ["known_layout", "layout_option"]


def known_layout(tokenizer: Any) -> Layout | None:
    """Return the layout that a tokenizer's chat template writes; None if there is none, or it is not known."""
    try:
        return Layout.from_tokenizer(tokenizer)
    except FormatterError:
        return None


def layout_option(arguments: Sequence[str] | None) -> tuple[Layout | None, list[str]]:
    """Read `--layout NAME` from the arguments of a server; return that layout, or None, and the other arguments.

    Args:
        arguments: those of the command line; None for those of this process.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--layout", choices=Layout.names())
    ours, others = parser.parse_known_args(arguments)
    return None if ours.layout is None else Layout.named(ours.layout), others
