"""Our client of OpenAI-compatible servers with the server of llama-cpp-python, on loopback."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

for needed in ("llama_cpp", "uvicorn", "openai"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)

import llama_cpp  # noqa: E402
import openai  # noqa: E402

from formatter_core import formats  # noqa: E402
from formatter_core.errors import InvalidArgument  # noqa: E402
from formatter_core.generation import Sampling, ScoreSettings, choose, greedy  # noqa: E402
from formatter_core.generation.models import Finished, TextRequest  # noqa: E402
from formatter_llama_cpp import llama_model  # noqa: E402
from formatter_openai import openai_model  # noqa: E402
from tests.engines_real.llama_cpp_models import write_bpe, write_spm  # noqa: E402
from tests.engines_real.local_servers import serving  # noqa: E402
from tests.schemas import closed  # noqa: E402

TIME_OUT = 120
WARM = Sampling(temperature=1.0)
OPTIONS = formats.choice(["a person", 'the "age"', "日本\n"])
SCHEMA = closed({"a": {"enum": [1, 2]}, "b": {"type": "boolean"}})


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    model = write_bpe(folder / "model.gguf")
    with serving("llama_cpp.server", model, folder / "log", "--logits_all", "true") as address:
        yield address


@pytest.fixture(scope="module")
def model_of(address):
    client = openai.OpenAI(base_url=address, api_key="none", timeout=TIME_OUT, max_retries=0)
    return lambda **options: openai_model("small", client=client, server="llama_cpp", parallel=1, **options)


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_options_are_kept_as_a_grammar(model_of, endpoint) -> None:
    request = TextRequest(OPTIONS, max_tokens=60, samples=4, sampling=WARM, seed=3)
    (samples,) = model_of(endpoint=endpoint).complete(["the name of "], request)
    assert len(samples) == 4
    for output in samples:
        assert output.stopped == "end"
        assert output.result.value in OPTIONS.options
    assert len({output.text for output in samples}) > 1  # each sample has a seed of its own


def test_a_schema_is_kept_and_what_comes_back_is_checked(model_of) -> None:
    request = TextRequest(SCHEMA, max_tokens=200, samples=3, sampling=WARM, seed=1)
    (samples,) = model_of().complete(["the age is"], request)
    for output in samples:
        assert output.stopped == "end"
        assert output.result.value in [{"a": a, "b": b} for a in (1, 2) for b in (True, False)]


def test_a_stream(model_of) -> None:
    events = list(model_of(endpoint="completions").stream_complete(["the age"], TextRequest(OPTIONS, max_tokens=60)))
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished.output.result.value in OPTIONS.options


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_log_probabilities(model_of, endpoint) -> None:
    request = TextRequest(max_tokens=5, scores=ScoreSettings(top=3, logprob=True))
    ((output,),) = model_of(endpoint=endpoint).complete(["the age"], request)
    assert len(output.chosen) > 0
    for one in output.chosen:
        assert one.logprob == one.unmasked_logprob
        assert one.logprob <= 0
        assert one.token_id == -1
        assert one.bytes is not None
        # The completions endpoint lists tokens by their text, so those of the same text are one.
        assert len(one.top) >= (3 if endpoint == "chat" else 1)
        assert one.top[0].logprob == max(score.logprob for score in one.top)


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_every_format_that_a_grammar_can_say_is_kept(model_of, endpoint) -> None:
    for format in (formats.regex("[ab]{3,5}!"), SCHEMA, formats.kbnf("start ::= #'[0-9]{2}' ('x' | 'y');")):
        request = TextRequest(format, max_tokens=100, sampling=WARM, seed=2)
        ((output,),) = model_of(endpoint=endpoint).complete(["x"], request)
        assert output.stopped == "end"
        assert output.result.is_complete


def test_a_cut_answer_is_not_complete(model_of) -> None:
    ((output,),) = model_of().complete(["x"], TextRequest(formats.choice(["ab" * 100]), max_tokens=2))
    assert (output.stopped, output.result.is_complete) == ("length", False)


def test_a_prompt_that_is_too_long_is_an_error_of_its_own(model_of) -> None:
    (short,), (long,) = model_of(endpoint="completions").complete(["x", "the age " * 2000], TextRequest(max_tokens=4))
    assert short.error is None
    assert isinstance(long.error, openai.APIStatusError)


@pytest.mark.parametrize("module", ["llama_cpp.server", "formatter_llama_cpp.server"])
def test_options_are_scored_as_by_the_model_itself(tmp_path, module) -> None:
    """A model that begins each text with a token: the echoed prompt has the log-probabilities in their places."""
    path = write_spm(tmp_path / "model.gguf")
    prompt, options = "the age", [" of", " is seven", "!"]
    with serving(module, path, tmp_path / "log", "--logits_all", "true") as address:
        client = openai.OpenAI(base_url=address, api_key="none", timeout=TIME_OUT, max_retries=0)
        model = openai_model("small", client=client, server="llama_cpp", parallel=1, endpoint="completions")
        scores = choose(model, prompt, options)
    llama = llama_cpp.Llama(str(path), n_ctx=512, verbose=False, n_threads=1)
    expected = choose(llama_model(llama), prompt, options)
    assert [score.logprob for score in scores] == pytest.approx([score.logprob for score in expected], abs=0.01)
    assert [len(score.tokens) for score in scores] == [len(score.tokens) for score in expected]
    llama.close()


def test_without_such_a_token_options_are_written_by_the_chat_endpoint(model_of) -> None:
    with pytest.raises(InvalidArgument, match="each other's log-probabilities"):
        choose(model_of(endpoint="completions"), "the age", ["a", "b"])
    model = model_of()
    request = TextRequest(max_tokens=3, sampling=greedy(), scores=ScoreSettings(top=1, logprob=True))
    ((written,),) = model.complete(["the age"], request)
    # A greedy text is the likeliest spelling of itself.
    (score, other) = choose(model, "the age", [written.text, "zz"])
    assert score.logprob == pytest.approx(sum(one.unmasked_logprob for one in written.chosen), abs=0.01)
    assert score.logprob > other.logprob
