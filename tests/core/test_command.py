"""The command line: every command with its exit status, on good files and on hostile ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from formatter_command.main import main
from formatter_command.reading import read_text
from formatter_core import parse
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[2]
#: Of a process that runs the command line from this checkout.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations")])}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "maximum": 35}},
    "required": ["name", "age"],
}
MODULE = """
from dataclasses import dataclass
from formatter_core import formats
@dataclass
class Person:
    name: str
    age: int
@dataclass
class Worker(Person):
    city: str
    job: str
digits = formats.regex("[0-9]+")
as_it_says = formats.python_type(Person)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "schema.json": json.dumps(SCHEMA), "good.json": '{"name": "Ann", "age": 7}\n',
        "bad.json": '{"name": "Ann",\n "age": 39}',
        "short.json": '{"name": "Ann"', "any.json": '{"age": 7, "name": "Ann"}',
        "escaped.json": '{"\\u006eame" : "Ann", "age": 7.0}', "shapes_of_mine.py": MODULE,
        "letters.kbnf": 'start ::= "a" start "b" | "c"; other ::= "d";', "letters.gbnf": 'root ::= "a" root "b" | "c"',
        "letters.ebnf": 'root ::= "a" root "b" | "c"', "letters.lark": 'start: "a" start "b" | "c"',
        "letters.txt": "aacbb", "module_that_fails.py": "raise RuntimeError('no luck')",
        "module_that_ends.py": "raise SystemExit(0)", "module_with_a_mistake.py": "(",
        "module_without_the_name.py": "def __getattr__(name): raise RuntimeError('no ' + name)",
        "broken.json": "{", "refused.json": '{"items": {"uniqueItems": true}}', "not_a_schema.json": "[1]",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


MATCHES = [
    (["schema.json", "good.json"], 0, "good.json: matches"),
    (["schema.json", "good.json", "bad.json"], 1, "bad.json:2:10: the text does not match at byte 25: expected"),
    (["schema.json", "short.json"], 1, "short.json: output ended too early: expected"),
    (["schema.json", "any.json"], 0, "any.json: matches"),
    (["schema.json", "any.json", "--key-order", "schema"], 1, "any.json:1:3"),
    (["schema.json", "any.json", "--key-order", "schema"], 1, "must come before"),
    (["schema.json", "escaped.json"], 0, "escaped.json: matches"),
    (["schema.json", "escaped.json", "--spelling", "canonical"], 1, "escaped.json:1:3"),
    (["shapes_of_mine:as_it_says", "escaped.json"], 1, "escaped.json:1:3"),
    (["schema.json", "any.json", "--key-order", "any"], 0, "any.json: matches"),
    (["schema.json", "good.json", "--whitespace", "compact"], 1, "good.json:1:9"),
    (["schema.json", "good.json", "--exact"], 1, "good.json:1:26"),
    (["shapes_of_mine:Person", "good.json", "bad.json"], 0, "bad.json: matches"),
    (["shapes_of_mine:Person", "any.json", "--key-order", "any"], 0, "any.json: matches"),
    (["shapes_of_mine:digits", "good.json"], 1, "expected a digit"),
    (["letters.kbnf", "letters.txt"], 0, "letters.txt: matches"),
    (["letters.kbnf", "letters.txt", "--start", "other"], 1, "expected `d`"),
    (["letters.gbnf", "letters.txt"], 0, "letters.txt: matches"),
    (["letters.ebnf", "letters.txt"], 0, "letters.txt: matches"),
    (["letters.lark", "letters.txt"], 0, "letters.txt: matches"),
    (["--regex", "[abc]+", "letters.txt"], 0, "letters.txt: matches"),
    (["--regex", "[ac]+", "letters.txt"], 1, "letters.txt:1:4"),
]


@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    MATCHES,
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_match(folder, capsys, arguments: list[str], status: int, shown: str) -> None:
    assert main(["match", *arguments]) == status
    assert shown in capsys.readouterr().out


def test_match_explains_a_fault_with_much_text_on_both_sides(folder, capsys) -> None:
    (folder / "long.txt").write_text("a" * 98_000 + "c" * 5_000, encoding="utf-8")
    assert main(["match", "--regex", "a*b", "long.txt"]) == 1
    assert "does not match at byte 98000: expected `a`–`b`" in capsys.readouterr().out


WRONG = [
    (["absent.json", "good.json"], "absent.json: No such file"),
    (["absent", "good.json"], "FORMAT is a JSON Schema file"),
    (["schema.json", "absent.txt"], "absent.txt: No such file"),
    (["schema.json", "."], "Is a directory"),
    (["broken.json", "good.json"], "broken.json: not a JSON Schema"),
    (["not_a_schema.json", "good.json"], "not_a_schema.json: not a JSON Schema"),
    (["refused.json", "good.json"], "uniqueItems"),
    (["no_such_module:Type", "good.json"], "no_such_module"),
    (["module_that_fails:Type", "good.json"], "importing it raises RuntimeError: no luck"),
    (["module_that_ends:Type", "good.json"], "importing it raises SystemExit"),
    (["module_with_a_mistake:Type", "good.json"], "importing it raises SyntaxError"),
    (["module_without_the_name:Type", "good.json"], "importing it raises RuntimeError: no Type"),
    (["..module:Type", "good.json"], "importing it raises TypeError"),
    (["-", "-"], "standard input can be read only once"),
    (["schema.json", "-", "good.json", "-"], "standard input can be read only once"),
    (["schema.json", "good.json", "--start", "name"], "--start is only for"),
    (["letters.lark", "letters.txt", "--start", "start"], "--start is only for"),
    (["--regex", "letters.kbnf", "letters.txt", "--start", "start"], "--start is only for"),
    (["shapes_of_mine:Nobody", "good.json"], "has no Nobody"),
    (["--regex", "(", "good.json"], "position 0"),
    (["--regex", "a", "good.json", "--key-order", "any"], "only for JSON Schemas and Python types"),
    (["letters.txt", "good.json"], "letters.txt: not a JSON Schema"),
    (["schema.json", "good.json", "--max-bytes", "5"], "longer than 5 bytes"),
]


@pytest.mark.parametrize(
    ("arguments", "shown"), WRONG, ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None
)
def test_what_cannot_be_found_out(folder, capsys, arguments: list[str], shown: str) -> None:
    assert main(["match", *arguments]) == 2
    streams = capsys.readouterr()
    assert shown in streams.err
    assert streams.err.startswith("formatter-core: ")
    assert streams.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["match"],
        ["match", "schema.json"],
        ["sample", "x", "-n", "0"],
        ["run", "m", "f", "p", "--engine", "x"],
    ],
)
def test_wrong_usage(capsys, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_coverage(folder, capsys) -> None:
    assert main(["coverage", "schema.json"]) == 0
    assert re.search("/properties/age +maximum +enforced", capsys.readouterr().out)
    assert main(["coverage", "refused.json"]) == 1
    assert re.search("uniqueItems +refused", capsys.readouterr().out)
    assert main(["coverage", "shapes_of_mine:Person"]) == 0
    assert main(["coverage", "letters.kbnf"]) == 2
    (folder / "misspelt.json").write_text('{"type": "string", "fromat": "date"}')
    assert main(["coverage", "misspelt.json"]) == 1
    (folder / "extended.json").write_text('{"type": "string", "x-order": 1}')
    assert main(["coverage", "extended.json"]) == 0


@pytest.mark.parametrize("content", [b"%s\r\n", b"%s\n", b"\xef\xbb\xbf%s", b"\xef\xbb\xbf%s\r\n"])
def test_what_editors_add_does_not_count(folder, content: bytes) -> None:
    (folder / "number.txt").write_bytes(content % b"27")
    assert main(["match", "--regex", "[0-9]{2}", "number.txt"]) == 0
    assert main(["match", "--exact", "--regex", "[0-9]{2}", "number.txt"]) == 1
    (folder / "number.txt").write_bytes(content % b"2\r")
    assert main(["match", "--regex", "[0-9]{2}", "number.txt"]) == 1


@pytest.mark.parametrize("format", ["schema.json", "shapes_of_mine:Person", "letters.lark", "shapes_of_mine:digits"])
def test_samples_are_in_their_format(folder, capsys, format: str) -> None:
    assert main(["sample", format, "-n", "20", "--json", "--seed", "3"]) == 0
    texts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(texts) == 20
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_bytes(text.encode())
    assert main(["match", "--exact", format, *(f"{number}.txt" for number in range(20))]) == 0
    main(["sample", format, "-n", "20", "--json", "--seed", "3"])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()[20:]] == texts


def test_self_test(capsys) -> None:
    assert main(["self-test", "--grammars", "5"]) == 0
    shown = capsys.readouterr().out
    assert "grammar engine: " in shown
    assert shown.rstrip().endswith("differences: 0")
    assert "shares of these grammars" in shown


# --- in a process of its own, as a shell runs it -----------------------------------------------------------------


def formatter_core(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "formatter_core", *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT, **options)


#: The command line in a process that may take as much memory as the file has bytes, the interpreter included.
WITHIN_A_GIGABYTE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
from formatter_command.main import main
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep this limit")
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("schema.json", "large"), 1),
        (("large", "good.json"), 2),
        (("--regex", "[^z]*", "large", "--max-bytes", "99999"), 2),
    ],
)
def test_a_file_of_a_gigabyte_takes_little_memory(folder, arguments: tuple[str, ...], status: int) -> None:
    with (folder / "large").open("wb") as file:
        file.write(b'{"name": "')
        file.truncate(2**30)
    program = [sys.executable, "-c", WITHIN_A_GIGABYTE, "match", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False, env=ENVIRONMENT)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


def test_binary_files(folder, capsys) -> None:
    (folder / "binary").write_bytes(bytes(range(256)) * 100)
    assert main(["match", "binary", "good.json"]) == 2
    assert main(["match", "schema.json", "binary"]) == 1
    assert "byte 0" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="needs yes")
@pytest.mark.parametrize(
    "arguments", [("match", "-", "good.json"), ("match", "--regex", "[y\n]*", "-", "--max-bytes", "9999")]
)
def test_an_endless_pipe(folder, arguments: tuple[str, ...]) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        try:
            done = formatter_core(*arguments, stdin=endless.stdout)
        finally:
            endless.kill()
    assert done.returncode == 2
    assert "longer than" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough(folder) -> None:
    program = [sys.executable, "-m", "formatter_core", "sample", "--regex", "a{100}", "-n", "5000"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.stdout.close()
        assert writer.stderr is not None
        assert b"Traceback" not in writer.stderr.read()
    assert writer.returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell and /dev/full")
@pytest.mark.parametrize(
    ("redirection", "status", "shown"),
    sampled(
        [
            ("- <&-", 2, "formatter-core: standard input is closed\n"),
            ("- </dev/null >&-", 1, ""),
            ("- </dev/null >/dev/full", 2, "formatter-core: standard output: No space left on device\n"),
            ("- </dev/null 2>&-", 1, ""),
            ("absent 2>&-", 2, ""),
            ("absent 2>/dev/full", 2, ""),
            ("- </dev/null >/dev/full 2>/dev/full", 2, ""),
        ],
        3,
    ),
)
def test_streams_that_are_closed_or_full_are_no_answer(folder, redirection: str, status: int, shown: str) -> None:
    line = f"{sys.executable} -m formatter_core match schema.json {redirection}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == status
    assert done.stderr.endswith(shown)  # after what the slower grammar engine says of itself
    assert "Traceback" not in done.stderr


def test_a_terminal_that_knows_ascii_alone(folder) -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "formatter_core", "match", "--regex", "é[a-z]", "letters.txt"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert r"expected `\xe9`" in done.stdout


def test_the_version_and_the_help(folder) -> None:
    assert formatter_core("--version").stdout.strip() == re.search(
        '__version__ = "(.*)"', (ROOT / "formatter_core" / "__init__.py").read_text()
    )[1]  # fmt: skip
    help = formatter_core("--help")
    assert help.returncode == 0
    assert all(
        name in help.stdout for name in ("match", "coverage", "sample", "run", "trace", "self-test", "Exit status")
    )


# --- with a model ------------------------------------------------------------------------------------------------

PROMPT = "Ivo is 21 years old, lives in Delhi and works as a pilot.\n"


@pytest.fixture
def tiny_model() -> str:
    pytest.importorskip("transformers")
    return str(ROOT / "examples" / "tiny_model")


def test_run(folder, tiny_model: str, capsys) -> None:
    assert main(["run", tiny_model, "schema.json", PROMPT]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["age"] == 21
    assert main(["run", tiny_model, "shapes_of_mine:Worker", PROMPT, "--value"]) == 0
    assert "Worker(name='Ivo', age=21, city='Delhi', job='pilot')" in capsys.readouterr().out
    assert main(["run", tiny_model, "schema.json", PROMPT, "--max-tokens", "3"]) == 2
    assert "no complete output fits into max_tokens = 3; give at least" in capsys.readouterr().err


def test_run_with_what_is_not_there(folder, capsys) -> None:
    assert main(["run", "no/such/model", "schema.json", "p"]) == 2
    assert "no/such/model" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", "none"], ids=["without a key", "without a server"])
def test_run_on_a_server(folder, capsys, monkeypatch, key: str) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert main(["run", "small", "schema.json", "p", "--engine", "openai"]) == (1 if key else 2)
    assert ("Connection error" if key else "small: Missing credentials") in capsys.readouterr().err


def test_trace(folder, tiny_model: str, capsys) -> None:
    prompt = PROMPT.replace("21", "41")
    assert main(
        ["trace", tiny_model, "schema.json", prompt, "--html", "t.html", "--json", "t.json", "--seed", "1"]
    ) in (0, 1)
    assert "raise or drop `maximum` at #/properties/age" in capsys.readouterr().out
    assert json.loads(read_text("t.json"))["steps"]
    assert "<!doctype html>" in read_text("t.html")
    assert main(["trace", tiny_model, "schema.json", PROMPT, "--html", "no/such/folder/t.html"]) == 2


def test_every_kind_of_sample_is_in_its_format() -> None:
    from formatter_command.samples import TextSampler
    from formatter_core import formats

    kinds = [
        formats.json_schema({}), formats.json_schema(SCHEMA), formats.json_schema(SCHEMA, key_order="any"),
        formats.substring_of("héllo wörld"), formats.number(1, 5),
        formats.regex(r"\d{3}(-[a-zé]+)?"), formats.until("</a>"), formats.choice(["yes", "no"]),
        formats.kbnf("start ::= start 'a' | 'b';"),
        formats.python_type(dict[str, list[int | None]]),
        formats.json_schema({"type": "string", "pattern": "^a+$", "minLength": 4}),
        formats.json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2}),
        formats.json_schema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 3}),
    ]  # fmt: skip
    for kind in kinds:
        sampler = TextSampler(kind, room=60)
        texts = [sampler.text() for _ in range(30)]
        assert all(parse(kind, text).is_complete for text in texts), (kind, texts)
        assert len(set(texts)) > 1
