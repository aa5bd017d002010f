"""Lead links to a benchmark's results to its section, and make other links out of `docs/` plain text, for mkdocs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)(?!docs/)([^)]*)\)")
_RESULTS = re.compile(r"benchmarks/results/(\w+)\.json")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the links of a page, because the site has only the pages."""
    depth = page.file.src_uri.count("/")

    def inside(link: re.Match[str]) -> str:
        text, up, target = link.groups()
        if up.count("../") <= depth:
            return link[0]
        results = _RESULTS.fullmatch(target)
        has_section = results is not None and (_BENCHMARKS / f"{results[1]}.py").is_file()
        return f"[{text}]({'../' * depth}benchmarks.md#{results[1]})" if results and has_section else text

    return _OUTSIDE.sub(inside, markdown)
