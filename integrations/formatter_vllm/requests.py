"""The content of a request: a format as JSON data among the request's own arguments.

The key is `formatter`; its value is an object with one of the keys of `_READERS`, such as `json_schema`, `regex` or
`format` (what `Format.to_json` gives), or the JSON text of such an object, for requests over HTTP. In addition, `"fit":
true` makes the output complete within the request's own `max_tokens`, with `"after_reasoning"` the format begins after
the model's reasoning, `"forced_text"` sets the tokens that masks allow where the text is forced, and `"spelling"`,
`"whitespace"` and `"key_order"` set how JSON is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, TypeAlias, cast, get_args

from formatter_core import Format, Layout, formats
from formatter_core.errors import (
    InvalidArgument,
    InvalidFormat,
    InvalidGrammar,
    InvalidSchema,
    LimitExceeded,
    UnsupportedFormat,
)
from formatter_core.errors.arguments import one_of, shown
from formatter_core.formats.chat_answer import Reasoning
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.runtime.prepared import MaskedText
from formatter_core.schema.data import read_json
from formatter_vllm.settings import read_settings

__all__ = [
    "KEY",
    "KINDS",
    "THINK_CLOSE",
    "AfterReasoning",
    "content_of",
    "content_of_structured_outputs",
    "create_extra_args",
    "forced_text_of",
    "is_to_fit",
    "kind_of",
    "read_format",
]

#: From this similarity on, the name of another argument is taken for a misspelling of `formatter`.
_NEAR = 0.8
#: The request's argument with the format.
KEY = "formatter"
#: The options of JSON that may accompany a format, and the keys that take them.
_OF_JSON = {
    "spelling": ("json_schema", "lark", "structural_tag"),
    "whitespace": ("json_schema",),
    "key_order": ("json_schema",),
}
#: The options that may accompany a format.
_OPTIONS = ("fit", "forced_text", "after_reasoning", *_OF_JSON)
#: An option's name may be spelled with these escapes, though that is unusual.
_ESCAPED_LETTER = re.compile(r"\\u00[2-7]")
#: The markers of reasoning in most models.
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
#: Reasoning between these markers, and the format right after it, where vLLM's own reasoning parsers split; some of
#: them also split where a tool call begins.
_THINKING = Layout.from_json(
    {
        "name": "thinking",
        "source": [],
        "markers": [THINK_OPEN, THINK_CLOSE, "<tool_call>", "</tool_call>"],
        "reasoning": {"open": THINK_OPEN, "close": THINK_CLOSE},
    }
)
AfterReasoning: TypeAlias = bool | Literal["auto", "ended"]


def _grammar(text: str) -> Format:
    """Return a grammar in its own notation, as in vLLM's field `grammar`."""
    if "::=" not in text:
        return formats.lark(text)
    if _ROOT.search(text) is None:
        return formats.kbnf(text)
    ebnf, gbnf = formats.ebnf(text), formats.gbnf(text)
    try:
        ebnf.to_grammar(DEFAULT_LIMITS)
    except InvalidGrammar:
        with suppress(InvalidGrammar):
            gbnf.to_grammar(DEFAULT_LIMITS)
            return gbnf
    return ebnf


#: The rule in which EBNF and GBNF begin.
_ROOT = re.compile(r"^\s*root\s*::=", re.MULTILINE)

#: The values that each key takes, and the function that makes a format of them.
_READERS: dict[str, tuple[tuple[type, ...], Callable[..., Format]]] = {
    "json_schema": ((dict, bool, str), formats.json_schema),
    "regex": ((str,), formats.regex),
    "choice": ((list, tuple), formats.choice),
    "kbnf": ((str,), formats.kbnf),
    "ebnf": ((str,), formats.ebnf),
    "gbnf": ((str,), formats.gbnf),
    "lark": ((str,), formats.lark),
    "grammar": ((str,), _grammar),
    "structural_tag": ((dict, str), formats.structural_tag),
    "format": ((dict,), partial(formats.from_json, type=Any)),  # a type stays with the client: its schema is enough
}

#: The keys that a content may have.
KINDS = tuple(_READERS)
_FIRST_KEY = re.compile(rf'\s*\{{\s*"({"|".join(KINDS)})"')


def create_extra_args(
    format: Any,
    *,
    fit: bool = False,
    after_reasoning: AfterReasoning = False,
    forced_text: MaskedText | None = None,
) -> dict[str, str]:
    """Make the request's arguments: `SamplingParams(extra_args=...)`, or `extra_body={"vllm_xargs": ...}` over HTTP.

    Args:
        format: anything that `Compiler.compile` takes. Captures are kept; for a Python type the server uses its JSON
            Schema.
        fit: whether each output must be complete within the request's `max_tokens` (docs/budgets.md).
        after_reasoning: whether the format begins after reasoning between `<think>` and `</think>`: True, or "auto" if
            the model may leave it out, or "ended" if there is none. Reasoning that the prompt opens or ends counts.
        forced_text: what masks hold where the text is certain, as in `CompiledFormat.with_forced_text`; by default as
            in the server's settings.

    Returns:
        the format as text: vLLM copies the arguments of every request, and HTTP transports no objects there.

    Raises:
        InvalidFormat: not a format.
        InvalidArgument: `after_reasoning` or `forced_text` is something else.
    """
    _reasoning_of(after_reasoning)
    if forced_text is not None:
        one_of(forced_text, "forced_text", get_args(MaskedText))
    options = {"fit": bool(fit), "after_reasoning": after_reasoning, "forced_text": forced_text}
    given = {name: value for name, value in options.items() if value}
    return {KEY: json.dumps({"format": formats.as_format(format).to_json(), **given})}


def content_of(arguments: Any) -> str | None:
    """Return the content of a request's arguments as JSON text; None if they ask for no format.

    Raises:
        InvalidFormat: the content is not JSON data, or the key is misspelt.
    """
    if not isinstance(arguments, Mapping):
        return None
    if KEY not in arguments:
        for name in arguments:
            low = name.lower() if isinstance(name, str) else ""
            if low.startswith(KEY) or get_close_matches(KEY, [low], 1, _NEAR):  # such as FORMATTER, formatter_vllm
                raise InvalidFormat(f"the argument {name!r} is not known; did you mean {KEY!r}?")
        return None
    wanted = arguments[KEY]
    if isinstance(wanted, str):
        return wanted
    try:
        return json.dumps(wanted)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidFormat(f"`{KEY}` is not JSON data: {error}") from None


def kind_of(content: str) -> str | None:
    """Return the first key of a content, if it is an allowed key."""
    found = _FIRST_KEY.match(content)
    return None if found is None else found[1]


def read_format(content: str) -> Format:
    """Read the format that a content asks for.

    Raises:
        InvalidFormat: the content cannot be read.
        FormatterError: the error of making the format.
    """
    wanted = _read_json(content)
    kinds = [key for key in wanted if key not in _OPTIONS] if isinstance(wanted, Mapping) else []
    if len(kinds) != 1 or kinds[0] not in _READERS:
        found = f"the keys {', '.join(map(repr, wanted))}" if isinstance(wanted, Mapping) else type(wanted).__name__
        raise InvalidFormat(f"`{KEY}` is an object with exactly one of the keys {', '.join(_READERS)}; found {found}")
    fits = wanted.get("fit", False)
    if not isinstance(fits, bool):
        raise InvalidFormat(f"`{KEY}.fit` is a {type(fits).__name__}; give true or false")
    _forced_text_of(wanted)
    after_reasoning = wanted.get("after_reasoning", False)
    reasoning = _reasoning_of(after_reasoning)
    (kind,) = kinds
    types, read = _READERS[kind]
    if not isinstance(wanted[kind], types):
        named = " or ".join(map(_name, types))
        raise InvalidFormat(f"`{KEY}.{kind}` is a {type(wanted[kind]).__name__}; give {named}")
    options = {name: wanted[name] for name in _OF_JSON if name in wanted}
    for name in options:
        if kind not in _OF_JSON[name]:
            raise InvalidFormat(f"`{KEY}.{name}` goes with {', '.join(_OF_JSON[name])}, not with {kind}; leave it out")
    format = read(wanted[kind], **options)
    if reasoning is not None:
        format = formats.chat_answer(_THINKING, reasoning=reasoning, content=format)
    return format


def is_to_fit(content: str) -> bool:
    """Tell whether the output must be complete within the request's `max_tokens`.

    Raises:
        FormatterError: the content cannot be read.
    """
    return _read_option(content, "fit") is True


def forced_text_of(content: str) -> MaskedText | None:
    """Return what masks allow where the text is forced, if the content sets it; else None.

    Raises:
        FormatterError: the content cannot be read.
    """
    found = _read_option(content, "forced_text")
    return None if found is None else _forced_text_of({"forced_text": found})


def _read_option(content: str, name: str) -> Any:
    """Return the value of an option of a content, if the content may have options."""
    if f'"{name}"' not in content and not _ESCAPED_LETTER.search(content):
        return None
    wanted = _read_json(content)
    return wanted.get(name) if isinstance(wanted, Mapping) else None


def _forced_text_of(wanted: Mapping[str, Any]) -> MaskedText:
    found = wanted.get("forced_text", "exact")
    if found not in get_args(MaskedText):
        raise InvalidFormat(f"`{KEY}.forced_text` is {shown(found)}; give one of {', '.join(get_args(MaskedText))}")
    return cast(MaskedText, found)


def _read_json(content: str) -> Any:
    try:
        return read_json(content)
    except (InvalidSchema, LimitExceeded, RecursionError) as error:
        raise InvalidFormat(f"`{KEY}` is text, but not JSON text: {error}") from None


def _reasoning_of(after_reasoning: object) -> Reasoning | None:
    kinds: dict[object, Reasoning | None] = {False: None, True: "required", "auto": "auto", "ended": "off"}
    if not isinstance(after_reasoning, (bool, str)) or after_reasoning not in kinds:
        found = shown(after_reasoning)
        raise InvalidArgument(
            f'after_reasoning is {found}; give true, false, "auto" or "ended"', argument="after_reasoning"
        )
    return kinds[after_reasoning]


def _name(kind: type) -> str:
    return kind.__name__


def content_of_structured_outputs(kind: str, specification: str, is_behind_reasoning: bool = False) -> str:
    """Translate vLLM's own fields into the content of a request; a grammar may already be such a content.

    Args:
        kind: the name of a `StructuredOutputOptions`.
        specification: the format's text for this kind.
        is_behind_reasoning: whether vLLM splits reasoning from the output. JSON strings then contain no markers, which
            vLLM's parsers would remove.

    Raises:
        UnsupportedFormat: an unknown kind, or an output that must fit, for which vLLM provides no number of tokens.
        FormatterError: the content cannot be read.
    """
    if kind == "GRAMMAR" and specification.lstrip().startswith("{"):
        if is_to_fit(specification):
            raise UnsupportedFormat(f'"fit" stands among structured outputs; send it in `{KEY}`', server="vLLM")
        return specification  # no grammar begins so
    key = {"JSON": "json_schema", "JSON_OBJECT": "json_schema", "CHOICE": "choice"}.get(kind, kind.lower())
    if key not in _READERS:
        raise UnsupportedFormat(f"{kind.lower()} is not known to formatter-core", server="vLLM")
    others: dict[str, Any] = {name: value for name, value in read_settings().of_json.items() if key in _OF_JSON[name]}
    if is_behind_reasoning and key == "json_schema":
        others["after_reasoning"] = "ended"
    if kind == "JSON_OBJECT":
        specification = '{"type": "object"}'
    # A schema as text is read by the crate; a choice is JSON text already.
    written = specification if kind in ("CHOICE", "JSON_OBJECT") else json.dumps(specification)
    return "".join((f'{{"{key}": {written}', *(f', "{name}": "{value}"' for name, value in others.items()), "}"))
