"""Traces: what is recorded of each token, the page, and the traps with what is proposed."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats, parse, trace
from formatter_core.errors import InvalidArgument
from formatter_core.generation import ChosenToken, Generated, TokenScore, completion
from formatter_core.runtime.spans import pieces
from formatter_core.trace.runs import find_runs
from tests.core.tiny_logits_model import END, TinyModel, by_tokens, writes

HOSTILE = "</script><script>alert(1)</script><!-- & \u2028 \"'<b>"


def traced(format: object, wanted: bytes, prompt: str = "p", **options: object) -> trace.Trace:
    """The trace of a model that wants nothing but a text, and gets no more of it than the format allows."""
    model = TinyModel(writes(wanted, len(prompt)))
    return trace.trace_of(completion(model, format, scores=trace.SCORES, **options)(prompt))


def test_a_token_has_what_the_model_wanted_and_what_the_format_left() -> None:
    seen = traced(formats.choice(["yes", "no"]), b"maybe")
    first = seen.steps[0]
    assert (first.start, first.allowed, first.is_forced) == (0, 2, False)
    assert first.masked_probability == pytest.approx(1.0)
    assert first.refused is not None
    assert (first.refused.bytes, first.refused.is_allowed, first.refused.is_end) == (b"m", False, False)
    assert all(other.is_allowed for other in first.alternatives)
    assert math.isclose(sum(other.probability for other in first.alternatives), 1.0, rel_tol=1e-4)
    assert seen.result.is_complete
    assert b"".join(step.bytes or b"" for step in seen.steps) == seen.result.bytes
    assert seen.steps[-1].token_id == END
    assert seen.steps[-1].bytes is None
    assert seen.steps[-1].is_forced


def test_probabilities_are_those_of_the_model() -> None:
    model = TinyModel(by_tokens(3))
    output = completion(model, formats.regex("[a-z]{5}"), scores=trace.SCORES)("p")
    seen = trace.trace_of(output)
    for step, chosen in zip(seen.steps, output.chosen, strict=True):
        assert step.masked_probability == chosen.masked_probability
        assert step.probability == pytest.approx(math.exp(chosen.logprob or 0.0))
        assert step.wanted[0].probability >= step.wanted[-1].probability
        # The masks removed the rest of the probability.
        assert step.unmasked_probability == pytest.approx(step.probability * (1 - step.masked_probability), abs=1e-6)


def test_what_a_trace_needs() -> None:
    model = TinyModel(by_tokens())
    for output in (
        completion(model)("p"),
        completion(model, formats.regex("ab"))("p"),
        Generated((1,), b"a", "end"),
        None,
        "an output",
    ):
        with pytest.raises(InvalidArgument):
            trace.trace_of(output)


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "age": {"type": "integer", "maximum": 35},
        "city": {"enum": ["Oslo", "Paris"]},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def first_trap(format: object, wanted: bytes) -> trace.Trap:
    """The trap that the output meets first: a model made of one text is lost after it."""
    traps = traced(format, wanted, max_tokens=80).traps
    return min((trap for trap in traps if trap.causes), key=lambda trap: trap.causes)


@pytest.mark.parametrize(
    ("wanted", "place", "proposal"),
    [
        (b'{"name": "Ivan", "age": 3}', "#/properties/name", "`maxLength` at #/properties/name"),
        (b'{"name": "Ivo", "age": 39}', "#/properties/age", "`maximum` at #/properties/age"),
        (b'{"name": "Ivo", "age": 4, "city": "Rome"}', "#/properties/city", "`enum` at #/properties/city"),
        (b'{"age": 4, "name": "Ivo"}', "", 'key_order="any"'),
        (b'{"name": "Ivo"}', "", "`required` at #"),
        (b'{"name": "Ivo", "age": 4, "job": 1}', "", "`additionalProperties` at #"),
        (b'{   "name": "Ivo", "age": 4}', "", "Whitespace(spaces=16"),
        (b'{"name": null, "age": 4}', "#/properties/name", "`type` at #/properties/name"),
    ],
)
def test_a_trap_names_the_place_and_a_change_that_was_tried(wanted: bytes, place: str, proposal: str) -> None:
    trap = first_trap(SCHEMA, wanted)
    assert trap.place == place
    assert proposal in trap.proposal
    assert trap.is_checked
    assert trap.causes
    assert str(trap)


def test_a_trap_in_a_python_type_and_in_a_hole() -> None:
    assert "`maxItems`" in first_trap({"items": {}, "type": "array", "maxItems": 1}, b"[1, 2]").proposal
    assert (
        "more whitespace"
        in first_trap(formats.json_schema({"items": {}, "type": "array"}, whitespace="compact"), b"[1, 2]").proposal
    )
    b = FormatterBuilder()
    b.append("list: ", b.json(list[bool], name="all"))
    assert "`type` at #/items" in first_trap(b, b"list: [1]").proposal


@pytest.mark.parametrize(
    ("format", "wanted", "proposal"),
    [
        (formats.choice(["yes", "no"]), b"I think", "begin with `I`"),
        (formats.regex("[0-9]{3}"), b"12", "wants to stop here"),
        (formats.regex("[0-9]{3}"), b"12x", "allow `x` here"),
    ],
)
def test_where_no_change_is_known_the_advice_is_general(format: object, wanted: bytes, proposal: str) -> None:
    (trap, *_) = traced(format, wanted).traps
    assert proposal in trap.proposal
    assert not trap.is_checked


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        (b"1." + b"0" * 218 + b"1" * 15, [("0", 218, 2, 220)]),
        (b"a" * 16 + b" \n" * 32 + b"b", [("a", 16, 0, 16), (" ", 64, 16, 80)]),
        ("é".encode() * 17 + b"x" + "日".encode() * 16, [("é", 17, 0, 34), ("日", 16, 35, 83)]),
        (b"ab" * 20 + b"c" * 15 + b" " * 15, []),
        (b"", []),
    ],
)
def test_runs_of_one_character_and_of_blanks_are_counted(wanted: bytes, runs: list[tuple[str, int, int, int]]) -> None:
    seen = traced(formats.regex("(?s).*"), wanted)
    assert [(run.text, run.count, run.start, run.end) for run in seen.runs] == runs
    for run in seen.runs:
        assert run.steps == tuple(range(run.start, run.end))  # a token is a byte here
        assert str(run.count) in str(run)
    assert [run["count"] for run in seen.to_json()["runs"]] == [run.count for run in seen.runs]
    record = json.loads(_Tags(seen.to_html()).scripts[0])
    assert record["runs"] == [[run.text, run.count, list(run.steps)] for run in seen.runs]


def test_a_run_has_all_tokens_that_have_a_part_of_it() -> None:
    texts = [b"x0", b"", b"0" * 20, b"0,", None]
    starts = [0, 2, 2, 22, 24]
    steps = [
        trace.Step(0, text, start, 1, 0.0, 1.0, 1.0, (), (), "", "") for text, start in zip(texts, starts, strict=True)
    ]
    (run,) = find_runs(steps)
    assert (run.count, run.start, run.end, run.steps) == (22, 1, 23, (0, 2, 3))


def test_a_model_that_agrees_meets_no_trap() -> None:
    assert traced(SCHEMA, b'{"name": "Ivo", "age": 4}').traps == ()


def test_the_record_is_json() -> None:
    seen = traced(SCHEMA, b'{"name": "Ivo", "age": 39}', max_tokens=60)
    data = json.loads(json.dumps(seen.to_json()))
    assert data["is_complete"]
    assert "".join(step["bytes"] or "" for step in data["steps"]) == data["text"]
    assert data["steps"][0]["wanted"][0].keys() == {"token_id", "bytes", "probability", "is_allowed", "is_end"}
    assert data["traps"][0]["place"] == "#/properties/age"


# --- the page ----------------------------------------------------------------------------------------------------


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def hostile_trace() -> trace.Trace:
    """Hostile texts in the output, in a capture's name, among what the model wanted, and in a schema's pointer."""
    b = FormatterBuilder()
    schema = {"type": "object", "properties": {HOSTILE: {"type": "string"}}, "required": [HOSTILE]}
    b.append(HOSTILE, b.regex("[^x]{3,9}", name=f"hole{HOSTILE}"), "x", b.format(formats.json_schema(schema)))
    tokens = [*(bytes([byte]) for byte in range(256)), HOSTILE.encode(), None]
    vocabulary = Vocabulary(tokens, [257])
    compiled = Compiler(vocabulary).compile(b)
    text = HOSTILE.encode() + b"<i>x" + json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False).encode()
    ids = [256, *text[len(HOSTILE.encode()) :], 257]
    tops = (TokenScore(256, -0.1, 1), TokenScore(257, -3.0, 2))
    chosen = [ChosenToken(token, -0.1, -5.0, tops[1:], tops, 1, 1) for token in ids]
    formatter = compiled.formatter()
    assert formatter.accept_tokens(ids) == len(ids)
    return trace.make_trace(compiled, ids, chosen, formatter.result())


def test_no_text_of_a_model_or_schema_becomes_markup() -> None:
    seen = hostile_trace()
    page = seen.to_html()
    tags = _Tags(page)
    scripts = [attributes for tag, attributes in tags.tags if tag == "script"]
    assert [attributes.get("type") for attributes in scripts] == ["application/json", None]
    assert "b" not in {tag for tag, _ in tags.tags}
    record = json.loads(tags.scripts[0])
    assert any(HOSTILE in text for text in record["texts"])
    assert record["names"] == [f"hole{HOSTILE}"]
    for shown in (page.split('id="record">')[1].split("</script>")[0],):
        assert not re.search("[<>&\u2028\u2029]", shown)
    notebook = _Tags(seen._repr_html_())
    assert [tag for tag, _ in notebook.tags] == ["iframe"]
    assert notebook.tags[0][1]["srcdoc"] == page


def test_the_page_loads_nothing_and_runs_one_script() -> None:
    page = traced(formats.choice(["yes", "no"]), b"no").to_html()
    tags = _Tags(page)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & {tag for tag, _ in tags.tags}
    assert not re.search(r"https?://|@import|url\(", page)
    assert all("src" not in attributes for _, attributes in tags.tags)
    policy = next(attributes["content"] for _, attributes in tags.tags if attributes.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'; ")
    assert "innerHTML" not in page


def test_results_in_notebooks_are_escaped() -> None:
    b = FormatterBuilder()
    b.append("<b>", b.regex(".*", name="<i>"))
    shown = parse(b, f"<b>{HOSTILE[:5]}é")._repr_html_()
    assert {tag for tag, _ in _Tags(shown).tags} == {"div", "b", "pre"}
    assert "&lt;b&gt;" in shown
    assert "not complete" in parse(b, "<c")._repr_html_()
    output = completion(TinyModel(writes(b"<u>&", 1)))("p")
    assert "&lt;u&gt;&amp;" in output._repr_html_()


def test_texts_are_cut_where_spans_begin_and_end() -> None:
    spans = [(0, 1, 9), (1, 2, 4), (2, 4, 6), (3, 12, 14)]
    assert pieces(b"abcdefghij", 0, spans) == [
        (b"a", -1), (b"b", 0), (b"cd", 1), (b"ef", 2), (b"ghi", 0), (b"j", -1)
    ]  # fmt: skip
    assert pieces(b"de", 3, spans) == [(b"d", 1), (b"e", 2)]
    assert pieces(b"", 3, spans) == []


DRAWN = {"b", "button", "canvas", "code", "dd", "div", "dl", "dt", "h2", "span", "table", "tbody", "td", "tr"}


def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    page = tmp_path / "trace.html"
    page.write_text(hostile_trace().to_html(), encoding="utf-8")
    done = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
         f"--user-data-dir={tmp_path}/profile", page.as_uri()],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    drawn = _Tags(done.stdout.split("<main>")[1].split("</main>")[0])
    tokens = [attributes for _, attributes in drawn.tags if "data-index" in attributes]
    assert len(tokens) == len(hostile_trace().steps)
    assert {tag for tag, _ in drawn.tags} <= DRAWN
