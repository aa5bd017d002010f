"""docs/fastapi.md as a reader follows it, with the real framework; and a reader who goes away."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs fastapi")
pytest.importorskip("transformers", reason="the page's model is one of transformers")

from tests.pages import ROOT, run_page

PAGE = ROOT / "docs" / "fastapi.md"


def test_the_page_runs_and_a_reader_who_goes_away_stops_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = run_page(PAGE)
    write, changes = names["write"], names["changes"]
    text = "Ivo is 41 years old, lives in Delhi and works as a pilot."

    async def main() -> None:
        fields: dict[str, Any] = {}
        async for sent in changes(text):
            if sent.startswith("data: "):
                change = json.loads(sent.removeprefix("data: "))
                path, added = change["path"], change["value"]
                fields[path] = fields[path] + added if change["op"] == "append" else added
        person = (await write(f"{text}\n")).value
        assert {path.removeprefix("/"): value for path, value in fields.items() if path} == vars(person)

        leaving = changes(text)
        await anext(leaving)
        await leaving.aclose()
        await asyncio.wait_for(write.model.run(lambda: None), 60)

    asyncio.run(main())
