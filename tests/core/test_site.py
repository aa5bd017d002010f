"""The site: every page is reachable, every error has its line, the drawings are whole. `dev.py site` builds it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from formatter_core import errors
from formatter_core.limits import Limits

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_every_page_for_users_is_in_the_navigation() -> None:
    named = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    pages = {"benchmarks.md", *(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))}  # written by dev.py
    assert named == {page for page in pages if not page.startswith("decisions/")} - {"architecture.md"}


def test_the_readme_and_the_site_start_alike() -> None:
    pages = [" ".join(page.read_text(encoding="utf-8").split()) for page in (ROOT / "README.md", DOCS / "index.md")]
    readme, index = (page.replace("](docs/", "](").partition(" ## Next ") for page in pages)
    assert readme[:2] == index[:2]
    assert readme[1]


def test_every_error_says_what_to_do() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    classes = inspect.getmembers(errors, inspect.isclass)
    raised = {name for name, found in classes if issubclass(found, errors.FormatterError) and not name.startswith("_")}
    assert named == raised - {"FormatterError"}
    assert all(row[3].strip() for row in rows)


def test_every_limit_is_on_the_page_with_its_default() -> None:
    text = (DOCS / "limits.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+)(?: MiB)? \|", text, re.MULTILINE))
    defaults = {name: getattr(Limits(), name) for name in Limits.__dataclass_fields__}
    defaults["cache_bytes"] //= 2**20
    assert {name: int(value.replace(",", "")) for name, value in rows.items()} == defaults


@pytest.mark.parametrize("drawing", sorted((DOCS / "images").glob("*.svg")), ids=lambda path: path.name)
def test_a_drawing_can_be_read_without_seeing_it(drawing: Path) -> None:
    root = ElementTree.parse(drawing).getroot()
    assert root.get("role") == "img"
    assert (root.get("aria-label") or "").count(" ") > 5
