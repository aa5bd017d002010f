"""Every fenced Python block of the README and the docs runs, page by page, from top to bottom."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from examples import real_model
from tests.adapters.openai_stand_ins import Answer, StandIn, Verbatim, serving
from tests.pages import BLOCK, ROOT, run_page

PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if "```python" in page.read_text()
]
ADAPTERS = {folder.name for folder in (ROOT / "integrations").iterdir()}
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def imported(text: str) -> set[str]:
    """The packages that the code of a page imports, with what our adapters need."""
    found: set[str] = set()
    for block in BLOCK.finditer(text):
        for node in ast.walk(ast.parse(block[1])):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found.update(name.split(".")[0] for name in names)
    return found | {name.removeprefix("formatter_") for name in found if name in ADAPTERS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # The pretrained model of some pages is in the environment `answers`, where `test_answers.py` runs them.
    monkeypatch.setattr(real_model, "folder", lambda: ROOT / "examples" / "tiny_model")
    packages = imported(page.read_text(encoding="utf-8"))
    absent = [name for name in sorted(packages) if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed")
    with serving(StandIn(answer)) if "formatter_openai" in packages else contextlib.nullcontext(None) as server:
        if server is not None:
            monkeypatch.setenv("OPENAI_BASE_URL", server.address)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
        run_page(page)


def test_each_example_of_the_readme_has_at_most_eight_lines() -> None:
    for block in BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        assert len([line for line in block[1].splitlines() if line.strip()]) <= 8, block[1]


def answer(request: dict[str, Any], sample: int) -> Answer:
    """Answer a page about a server: with a person as JSON or as a line of text, or as vLLM with a prompt's logprobs."""
    if "prompt_logprobs" in request:
        told = [{"0": {"logprob": -1.0}} for _ in request["prompt"]]
        choice = {"index": 0, "text": "", "prompt_token_ids": [0] * len(told), "prompt_logprobs": told}
        raise Verbatim(json.dumps({"id": "1", "object": "x", "created": 0, "model": "m", "choices": [choice]}).encode())
    return Answer('{"name": "Grace Hopper", "age": 85}' if "messages" in request else "Name: Grace Hopper, age 85.")


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted(ROOT.glob("*/*.md")), *sorted(ROOT.glob("docs/*/*.md"))],
    ids=lambda page: page.name,
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
