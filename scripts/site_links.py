"""For mkdocs: links that lead out of `docs/` become plain text, because the site has only the pages."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!docs/)[^)]*\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page as the site has it."""
    depth = page.file.src_uri.count("/")
    return _OUTSIDE.sub(lambda link: link[1] if _leaves(link[0], depth) else link[0], markdown)


def _leaves(link: str, depth: int) -> bool:
    """Whether a link of a page at this depth leads out of the folder of pages."""
    return link.partition("](")[2].count("../") > depth
