"""Probabilities of options after a prompt, from the data that each kind of server returns.

The models send the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from formatter_core import formats
from formatter_core.errors import InvalidArgument, MalformedAnswer
from formatter_core.generation import ScoreSettings, greedy
from formatter_core.generation.models import ScoredText, TextRequest
from formatter_openai.jobs import Job, Service
from formatter_openai.wire import Choice, EchoedToken, PromptTokens, read_answer, read_echo, read_prompt

__all__ = ["Plan", "score_options"]

_T = TypeVar("_T")

#: Rounds of requests: each yields the requests that may run in parallel, receives their answers, and returns the
#: results.
Plan: TypeAlias = Generator[list[Job], list[Any], _T]

#: The most best tokens that OpenAI shows for a place.
_SHOWN = 20
#: The maximum number of requested tokens when an answer is compared with options.
_MAX_REQUESTED_TOKENS = 100
#: The text that llama-cpp-python writes after a prompt.
_WRITTEN = "0"
_SCORED = ScoreSettings(top=1, logprob=True)


class _Asked(NamedTuple):
    """The inputs for scoring the options of one prompt."""

    service: Service
    prompt: str
    options: Sequence[str]


def score_options(
    service: Service, prompts: Sequence[str], options: Sequence[str], with_end: bool
) -> Plan[list[list[ScoredText]]]:
    """Return the scores of each option after each prompt, in order.

    Raises:
        InvalidArgument: the server does not tell what this takes.
        MalformedAnswer: an answer cannot be read.
    """
    if with_end:
        raise InvalidArgument(
            "a server does not tell how probable the end of an output is; leave out with_end, and append to each "
            "option what follows it, such as a newline",
            argument="with_end",
        )
    way = _way_of(service)
    return _side_by_side([way(_Asked(service, prompt, options)) for prompt in prompts])


def _way_of(service: Service) -> Callable[[_Asked], Plan[list[ScoredText]]]:
    server, endpoint = service.server, service.endpoint
    if server in ("vllm", "formatter_vllm"):
        return _by_ids_of_the_chat if endpoint == "chat" else _by_ids
    if server == "llama_server" or (server == "llama_cpp" and endpoint == "chat"):
        return _by_writing_each
    if endpoint == "chat":
        return _by_the_best_tokens
    if server in ("ollama", "lmstudio"):
        raise InvalidArgument(
            f"{server} tells nothing about the tokens of a prompt, which options are scored by at the completions "
            "endpoint; use endpoint='chat'",
            argument="model",
        )
    return _by_echo


def _side_by_side(plans: Sequence[Plan[_T]]) -> Plan[list[_T]]:
    """Run plans together: the requests of a round are those of all of them."""
    results: dict[int, _T] = {}
    asked: dict[int, list[Job]] = {}

    def go_on(place: int, answers: list[Any] | None) -> None:
        try:
            asked[place] = next(plans[place]) if answers is None else plans[place].send(answers)
        except StopIteration as done:
            asked.pop(place, None)
            results[place] = done.value

    for place in range(len(plans)):
        go_on(place, None)
    while asked:
        counts = {place: len(jobs) for place, jobs in asked.items()}
        answers = iter((yield [job for jobs in asked.values() for job in jobs]))
        for place, count in counts.items():
            go_on(place, list(islice(answers, count)))
    return [results[place] for place in range(len(plans))]


# --- vLLM: the ids of texts, and the log-probability of each -----------------------------------------------------


def _by_ids(asked: _Asked) -> Plan[list[ScoredText]]:
    """Score options as tokens that continue those of the prompt, or else as separate tokens after it."""
    service, prompt, options = asked
    whole = yield [_with_scores(service, text) for text in (prompt, *(prompt + option for option in options))]
    before, *others = map(_told, whole)
    found: list[ScoredText | None] = [None] * len(options)
    for place, (ids, logprobs) in enumerate(others):
        if len(ids) > len(before.ids) and ids[: len(before.ids)] == before.ids:
            found[place] = _scored(ids, logprobs, len(before.ids))
    merged = [place for place, one in enumerate(found) if one is None]
    if merged:  # the tokenizer joins the prompt's end with the option's beginning
        again = yield from _behind(service, before.ids, [options[place] for place in merged])
        for place, one in zip(merged, again, strict=True):
            found[place] = one
    return [one for one in found if one is not None]


def _by_ids_of_the_chat(asked: _Asked) -> Plan[list[ScoredText]]:
    """Score options as the first tokens of the assistant's answer."""
    service, prompt, options = asked
    (job,) = service.jobs([prompt], TextRequest(max_tokens=1))
    (answer,) = yield [job]
    return (yield from _behind(service, _told(answer).ids, options))


def _behind(service: Service, before: tuple[int, ...], options: Sequence[str]) -> Plan[list[ScoredText]]:
    """Score options as separate tokens after other tokens."""
    spelt = yield [_with_scores(service, option, add_special_tokens=False) for option in options]
    whole = [(*before, *_told(answer).ids) for answer in spelt]
    answers = yield [_with_scores(service, list(ids)) for ids in whole]
    return [_scored(ids, _told(answer).logprobs, len(before)) for ids, answer in zip(whole, answers, strict=True)]


def _with_scores(service: Service, prompt: str | list[int], **more: Any) -> Job:
    """Return a request for vLLM's tokens of a prompt; vLLM always generates one token."""
    body = {"prompt_logprobs": 0, "return_token_ids": True, **more}
    return service.text_job(prompt, {"max_tokens": 1, "extra_body": body})


def _told(answer: Any) -> PromptTokens:
    told = read_prompt(answer)
    if not told.ids:
        raise InvalidArgument(
            "the server does not tell the ids of a prompt; use vLLM 0.10.2 or newer", argument="model"
        )
    return told


def _scored(ids: tuple[int, ...], logprobs: tuple[float | None, ...], start: int) -> ScoredText:
    some = [one for one in logprobs[start:] if one is not None]
    if not some or len(some) < len(ids) - start:
        raise InvalidArgument("the server gives no log-probabilities of this prompt's tokens", argument="model")
    return ScoredText(ids[start:], sum(some))


# --- servers that echo the prompt --------------------------------------------------------------------------------


def _by_echo(asked: _Asked) -> Plan[list[ScoredText]]:
    """Score options by the server's scores of its prompt: the tokens after those of the prompt alone."""
    service, prompt, options = asked
    arguments: dict[str, Any] = {"max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0}
    if service.server == "llama_cpp":  # which takes 0 for no bound
        arguments |= {"max_tokens": 1, "extra_body": {"grammar": f'root ::= "{_WRITTEN}"'}}
    texts = [prompt, *(prompt + option for option in options)]
    answers = yield [service.text_job(text, arguments) for text in texts]
    before, *others = (_echoed(service, text, answer) for text, answer in zip(texts, answers, strict=True))
    found = []
    for option, tokens in zip(options, others, strict=True):
        rest = tokens[len(before) :]
        if [one.text for one in tokens[: len(before)]] != [one.text for one in before] or not rest:
            raise InvalidArgument(
                f"the tokenizer joins the end of the prompt and the beginning of the option {option!r}; put a blank "
                "between them at the beginning of the options, not at the end of the prompt",
                argument="options",
            )
        if any(one.logprob is None for one in rest):
            raise InvalidArgument("the prompt has no tokens; give at least a character", argument="prompt")
        found.append(ScoredText((-1,) * len(rest), sum(one.logprob or 0.0 for one in rest)))
    return found


def _echoed(service: Service, text: str, answer: Any) -> list[EchoedToken]:
    echo = read_echo(answer, text)
    if echo is None:
        raise InvalidArgument(
            "the server does not echo a prompt with its log-probabilities; use endpoint='chat', where options of one "
            "token are scored by the best tokens",
            argument="model",
        )
    if service.server != "llama_cpp":
        return echo
    # The tokens of a character that has several are shown without a text.
    shown, expected = (_ascii(one) for one in ("".join(token.text for token in echo), text + _WRITTEN))
    if not shown.endswith(expected):
        # It pairs each token with the logits after that token, and leaves the last token out.
        raise InvalidArgument(
            "llama-cpp-python's server gives the tokens of a prompt each other's log-probabilities where the model has "
            "no token for the beginning of a text, as here; use endpoint='chat', or llama.cpp's own server",
            argument="model",
        )
    return echo[:-1]


def _ascii(text: str) -> str:
    return text.encode("ascii", "ignore").decode()


# --- what a server writes ----------------------------------------------------------------------------------------


def _by_writing_each(asked: _Asked) -> Plan[list[ScoredText]]:
    """Let the server write each option, under a grammar that allows nothing else.

    llama.cpp tells the log-probabilities before its grammar. The tokens are the likeliest that spell the option, chosen
    one after another.
    """
    service, prompt, options = asked
    jobs = []
    for option in options:
        most = len(option.encode()) + 1
        request = TextRequest(formats.choice([option]), max_tokens=most, sampling=greedy(), scores=_SCORED)
        jobs += service.jobs([prompt], request)
    answers = yield jobs
    return [_written(option.encode(), answer) for option, answer in zip(options, answers, strict=True)]


def _written(option: bytes, answer: Any) -> ScoredText:
    choice = _only_choice(answer)
    text, ids, logprob = b"", [], 0.0
    for one in choice.scores:
        if len(text) >= len(option):  # the end of the output may be among the tokens
            break
        text += one.score.bytes or b""
        ids.append(one.score.token_id)
        logprob += one.score.logprob
    # llama-cpp-python shows the tokens of a character that has several without a text, and no end.
    if option not in (text, choice.text.encode()):
        raise MalformedAnswer(f"its tokens spell {text!r}, where the grammar allows {option!r} alone", text="")
    return ScoredText(tuple(ids), logprob)


def _by_the_best_tokens(asked: _Asked) -> Plan[list[ScoredText]]:
    """Let the server answer once, and find each option among the best tokens of a place of the answer."""
    service, prompt, options = asked
    wanted = [option.encode() for option in options]
    most = min(_MAX_REQUESTED_TOKENS, max(map(len, wanted)))
    scores = ScoreSettings(top=_SHOWN, logprob=True)
    jobs = service.jobs([prompt], TextRequest(max_tokens=most, sampling=greedy(), scores=scores))
    (answer,) = yield jobs
    choice = _only_choice(answer)
    if not choice.scores:
        raise InvalidArgument(
            "the server gives no log-probabilities; use a model that has them, or another server", argument="model"
        )
    found = _among_the_best(choice, wanted)
    for option in wanted:
        if option not in found:
            raise InvalidArgument(
                f"the server shows the {_SHOWN} best tokens in each place of its answer, and the option "
                f"{option.decode()!r} is not among them; ask for an answer that begins with an option, and name the "
                "options by single tokens, such as letters; a server of vLLM or llama.cpp scores any",
                argument="options",
            )
    return [found[option] for option in wanted]


def _among_the_best(choice: Choice, wanted: Sequence[bytes]) -> dict[bytes, ScoredText]:
    """Return the options that a token completes after the part of the option written so far."""
    found: dict[bytes, ScoredText] = {}
    path, logprob = b"", 0.0
    ids: tuple[int, ...] = ()
    for one in choice.scores:
        for candidate in (one.score, *one.top):
            text = path + (candidate.bytes or b"")
            if text in wanted and text not in found:
                found[text] = ScoredText((*ids, candidate.token_id), logprob + candidate.logprob)
        path, ids, logprob = path + (one.score.bytes or b""), (*ids, one.score.token_id), logprob + one.score.logprob
        if not any(option.startswith(path) for option in wanted):
            break
    return found


def _only_choice(answer: Any) -> Choice:
    choices = read_answer(answer)
    if not choices:
        raise MalformedAnswer("it has no choices", text="")
    return choices[0]
