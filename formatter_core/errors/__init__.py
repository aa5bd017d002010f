"""Every error that this project raises on purpose.

::

    FormatterError
    ├── InvalidFormat               the value is not a format
    │   ├── InvalidGrammar          a mistake in KBNF text or grammar values      line, column
    │   ├── InvalidRegex            a mistake in a pattern                        pattern, position
    │   └── InvalidSchema           not a JSON Schema                             pointer, keyword
    ├── InvalidArgument             an argument of the wrong type or value        argument
    ├── UnsupportedSchema           a keyword that is not enforced exactly        pointer, keyword
    ├── UnsatisfiableSchema         a schema without any valid document           pointer, pointers
    ├── UnsupportedByEngine         the engine does not support a node            engine, node
    ├── UnsupportedFormat           a server cannot enforce this format           server
    ├── UnsupportedLayout           an unknown layout of chat answers, or one that cannot express it
    ├── BudgetTooSmall              no completion has so few tokens               max_tokens, needed
    ├── LimitExceeded               an entry of `Limits`, or a fixed bound        limit, maximum, is_fixed
    ├── InvalidVocabulary           invalid token bytes or end ids                token_id
    ├── EngineUnavailable           no usable grammar engine                      engine, remedies
    ├── EngineFailed                a fault inside the grammar engine             engine, text
    ├── UnsupportedEngineVersion    the inference engine is too old               engine, found, needed, missing
    ├── TokenRejected               a token or text that the format forbids       token_id, position
    ├── MalformedAnswer             a server's answer that cannot be read         text
    ├── DeadEnd                     the vocabulary cannot continue the text       text
    ├── NoTokenLeft                 another rule forbids every allowed token      text
    ├── NoExactSample               no draft of a faithful sample was kept        draws, mass
    ├── NoParticleLeft              the weights of all particles are 0            particles
    ├── MaskOverridden              another rule allows what the format forbids   token_id
    ├── QueueFull                   too many formats are waiting to be compiled   queue_size, wait_seconds
    ├── PromptTooLong               no room for a token of output                 tokens, context_size
    ├── InvalidBitmask              not a writable C-contiguous int32 row
    │   └── BitmaskTooNarrow        an allowed id lies past the row's end         width, needed
    ├── ConcurrentUse               one formatter used by two threads at once
    ├── HookNotCalled               the inference engine never called a hook      remedy
    ├── HookReused                  a hook met a second request before a reset    hook
    ├── WrongModel                  a hook that was made for another model        hook, made_for, found, remedy
    ├── InvalidValue                the text is in its format, the type refuses   text, pointer, reason
    └── IncompleteResult            the value of a text that is not complete      ended, missing, text, position

Each message says what happened and ends with what to do. Each fact in it is a field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "BitmaskTooNarrow",
    "BudgetTooSmall",
    "ConcurrentUse",
    "DeadEnd",
    "EngineFailed",
    "EngineUnavailable",
    "FormatterError",
    "HookNotCalled",
    "HookReused",
    "IncompleteResult",
    "InvalidArgument",
    "InvalidBitmask",
    "InvalidFormat",
    "InvalidGrammar",
    "InvalidRegex",
    "InvalidSchema",
    "InvalidValue",
    "InvalidVocabulary",
    "LimitExceeded",
    "MalformedAnswer",
    "MaskOverridden",
    "NoExactSample",
    "NoParticleLeft",
    "NoTokenLeft",
    "PromptTooLong",
    "QueueFull",
    "TokenRejected",
    "UnsatisfiableSchema",
    "UnsupportedByEngine",
    "UnsupportedEngineVersion",
    "UnsupportedFormat",
    "UnsupportedLayout",
    "UnsupportedSchema",
    "WrongModel",
]


#: Characters of a JSON pointer that a message shows.
_LONGEST_PLACE = 200


class FormatterError(Exception):
    """The base class of every error that this project raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Inference engines send errors between processes; an error rebuilt from its message alone would lose its facts.
        return _restored, (type(self), self.args, self.__dict__)


class _WordedLater(FormatterError):
    """An error with one field that takes a parse to compute; the field is computed on first access."""

    def __init__(self, words: str | Callable[[], str]) -> None:
        super().__init__()
        self._words = words

    def _read(self) -> str:
        if not isinstance(self._words, str):
            try:
                self._words = self._words()
            except FormatterError as error:  # the arguments given so far can still be read
                self._words = f"unknown: {error}"
        return self._words

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        self._read()  # the parse stays in this process
        return super().__reduce__()


class InvalidFormat(FormatterError):
    """The given value does not describe a format."""


class InvalidGrammar(InvalidFormat):
    """KBNF text or grammar values contain a mistake.

    `line` and `column` count from 1; both are None if the mistake has no place in a text. In a structural tag,
    `pointer` is a JSON Pointer (RFC 6901) to the place.
    """

    def __init__(
        self, reason: str, *, line: int | None = None, column: int | None = None, pointer: str | None = None
    ) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        self.pointer = pointer
        where = "" if line is None else f"line {line}, column {column}: "
        if pointer is not None:
            where = f"at {pointer or 'the root'}: {where}"
        super().__init__(f"{where}{reason}")


class InvalidRegex(InvalidFormat):
    """A pattern is malformed, or no regular language can express it. `position` counts characters from 0."""

    def __init__(self, reason: str, *, pattern: str, position: int) -> None:
        self.reason = reason
        self.pattern = pattern
        self.position = position
        shown = pattern if len(pattern) <= 80 else pattern[:77] + "..."
        super().__init__(f"{reason} (at position {position} of {shown!r})")


class InvalidSchema(InvalidFormat):
    """The given value is not a JSON Schema. `pointer` is a JSON Pointer (RFC 6901) into the schema."""

    def __init__(self, reason: str, *, pointer: str = "", keyword: str | None = None) -> None:
        self.reason = reason
        self.pointer = pointer
        self.keyword = keyword
        super().__init__(f"at {pointer or 'the root'}: {reason}")


class InvalidArgument(FormatterError, ValueError):
    """An argument (not a format) has the wrong type or value. `argument` is its name, if the message is about one."""

    def __init__(self, reason: str, *, argument: str | None = None) -> None:
        self.reason = reason
        self.argument = argument
        super().__init__(reason)


class UnsupportedSchema(FormatterError):
    """A schema uses a feature that cannot be enforced exactly, so it is refused. `remedy` says what to do about it."""

    def __init__(self, reason: str, *, pointer: str, keyword: str, remedy: str = "") -> None:
        self.reason = reason
        self.pointer = pointer
        self.keyword = keyword
        self.remedy = remedy
        advice = f". {remedy}" if remedy else ""
        super().__init__(f"`{keyword}` at {pointer or 'the root'} is not supported: {reason}{advice}")

    def advising(self, remedy: str) -> UnsupportedSchema:
        """Return this error with another remedy: the advice depends on the function that takes the schema."""
        return UnsupportedSchema(self.reason, pointer=self.pointer, keyword=self.keyword, remedy=remedy)


class UnsatisfiableSchema(FormatterError):
    """No document satisfies the schema. `pointers` lead to the keywords that contradict each other, if found."""

    def __init__(self, reason: str, *, pointer: str = "", pointers: Sequence[str] = ()) -> None:
        self.reason = reason
        self.pointer = pointer
        self.pointers = tuple(pointers)
        where = "" if pointers else f" (at {pointer or 'the root'})"
        super().__init__(f"no document satisfies the schema{where}: {reason}")


class UnsupportedByEngine(FormatterError):
    """The grammar engine cannot enforce a node exactly; another engine may."""

    def __init__(self, reason: str, *, engine: str, node: str) -> None:
        self.reason = reason
        self.engine = engine
        self.node = node
        super().__init__(f"the grammar engine {engine!r} cannot enforce {node}: {reason}")


class UnsupportedLayout(FormatterError):
    """A layout of chat answers is unknown, or it cannot express the requested content."""


class UnsupportedFormat(FormatterError):
    """A server cannot enforce a format."""

    def __init__(self, reason: str, *, server: str) -> None:
        self.reason = reason
        self.server = server
        super().__init__(f"{server} cannot enforce this format: {reason}")


class LimitExceeded(FormatterError):
    """The input needs more of a resource than a bound allows.

    `limit` is an entry of `Limits`. If `is_fixed`, no setting raises the bound, and `limit` says what it counts. If the
    input is a schema, `pointer` leads to the part that exceeds the bound.
    """

    def __init__(
        self,
        limit: str,
        maximum: int,
        what: str,
        *,
        is_fixed: bool = False,
        pointer: str | None = None,
        remedy: str = "make it smaller",
    ) -> None:
        self.limit = limit
        self.maximum = maximum
        self.what = what
        self.is_fixed = is_fixed
        self.pointer = pointer
        self.remedy = remedy
        where = "" if pointer is None else f" at {pointer or 'the root'}"
        if len(where) > _LONGEST_PLACE:
            where = f"{where[:_LONGEST_PLACE]}…"
        bound = f"{maximum} {limit}, which is a fixed bound" if is_fixed else f"Limits.{limit} = {maximum}"
        raised = "" if is_fixed else ", or raise the limit"
        super().__init__(f"{what}{where} needs more than {bound}; {remedy}{raised}")

    def at(self, pointer: str) -> LimitExceeded:
        """Return this error with a pointer; return it unchanged if it already has one."""
        if self.pointer is not None:
            return self
        return LimitExceeded(
            self.limit, self.maximum, self.what, is_fixed=self.is_fixed, pointer=pointer, remedy=self.remedy
        )


class BudgetTooSmall(FormatterError):
    """The format, or a part with its own budget, has no known complete output within `max_tokens`.

    `needed` tokens are enough, including the end id of a whole output. It is None if no output is known that the
    vocabulary can spell.
    """

    def __init__(self, max_tokens: int, needed: int | None, *, part: str = "complete output") -> None:
        self.max_tokens = max_tokens
        self.needed = needed
        remedy = (
            "no output of this format that the vocabulary can spell is known; leave max_tokens out"
            if needed is None
            else f"give at least {needed}"
        )
        super().__init__(f"no {part} fits into max_tokens = {max_tokens}; {remedy}")


class InvalidVocabulary(FormatterError):
    """Token bytes or end ids are invalid. `token_id` is None if no single token is at fault."""

    def __init__(self, reason: str, *, token_id: int | None = None) -> None:
        self.reason = reason
        self.token_id = token_id
        super().__init__(reason)


class EngineUnavailable(FormatterError):
    """No grammar engine is usable; `remedies` lists what would make one usable."""

    def __init__(self, engine: str, remedies: Sequence[str]) -> None:
        self.engine = engine
        self.remedies = tuple(remedies)
        super().__init__(f"no usable grammar engine for engine={engine!r}; " + "; or ".join(self.remedies))


class EngineFailed(FormatterError):
    """The grammar engine failed internally. The objects that it was changing can no longer be used.

    These are one sequence, or all sequences of a compiled format, or those of all formats that were compiled for the
    vocabulary before. `text` is the engine's own message.
    """

    def __init__(self, engine: str, text: str) -> None:
        self.engine = engine
        self.text = text
        super().__init__(
            f"the {engine} grammar engine has failed, and what it was changing can no longer be used: {text}; compile "
            "the format again, and please report this with the format"
        )


class UnsupportedEngineVersion(FormatterError):
    """The installed inference engine lacks an interface that the adapter needs."""

    def __init__(self, engine: str, *, found: str, needed: str, missing: str) -> None:
        self.engine = engine
        self.found = found
        self.needed = needed
        self.missing = missing
        super().__init__(f"{engine} {found} has no {missing}; install {engine} {needed}")


class TokenRejected(_WordedLater):
    """The format does not allow this token here; nothing was changed.

    `token_id` is None for text without tokens. `position` counts what was accepted before: tokens, or bytes of text.
    `reason` is computed on first access.
    """

    def __init__(self, token_id: int | None, *, position: int, reason: str | Callable[[], str]) -> None:
        super().__init__(reason)
        self.token_id = token_id
        self.position = position

    @property
    def reason(self) -> str:
        """The reason why the token is not allowed."""
        return self._read()

    def __str__(self) -> str:
        what, unit = ("the text", "byte") if self.token_id is None else (f"token {self.token_id}", "token")
        return f"{what} is not allowed after {self.position} {unit}{'s' * (self.position != 1)}: {self.reason}"


class MalformedAnswer(FormatterError):
    """A server's answer cannot be read. `text` is what the server sent, as far as it is known."""

    def __init__(self, reason: str, *, text: str) -> None:
        self.reason = reason
        self.text = text
        shown = text if len(text) <= 300 else f"{text[:300]}..."
        sent = f"; it sent {shown!r}" if text else ""
        super().__init__(
            f"the server's answer is malformed: {reason}{sent}; check the address, and `server=` and `endpoint=`"
        )


class DeadEnd(_WordedLater):
    """No token continues the text and the format may not end here: no token of the vocabulary spells the next bytes.

    `expected` is computed on first access.
    """

    def __init__(self, text: bytes, expected: str | Callable[[], str]) -> None:
        super().__init__(expected)
        self.text = text

    @property
    def expected(self) -> str:
        """The description of what the format expects next."""
        return self._read()

    def __str__(self) -> str:
        tail = self.text[-40:].decode("utf-8", "replace")
        return (
            f"no token of the vocabulary continues {tail!r} (expected: {self.expected}); "
            "use a format that the vocabulary can spell"
        )


class NoTokenLeft(FormatterError):
    """Another rule of the inference engine forbids every token that the format allows."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        tail = text[-40:].decode("utf-8", "replace")
        super().__init__(
            f"every token that the format allows after {tail!r} is forbidden by another rule of the engine "
            "(a banned word, another logits processor, another filter); drop that rule or change the format"
        )


class NoExactSample(FormatterError):
    """No exact sample was drawn: too many drafts were rejected, or the sampling settings leave no token.

    `draws` counts the drafts; `mass` is an upper bound of the probability that a draft follows the format.
    """

    def __init__(self, draws: int, mass: float) -> None:
        self.draws = draws
        self.mass = mass
        if mass > 0:
            super().__init__(
                f"none of {draws} drafts followed the format, which the model does with a probability of at most "
                f"{mass:.3g}; ask for the format in the prompt, raise max_draws, or accept weighted samples: "
                'Faithful(otherwise="weighted")'
            )
        else:
            super().__init__(
                "the model gives no output of the format a probability above 0; ask for the format in the prompt, "
                "allow more tokens, or cut less off (top_k, top_p, min_p)"
            )


class NoParticleLeft(FormatterError):
    """All particles have weight 0: none leads to an output that both the model and the score allow.

    `particles` is the number of particles.
    """

    def __init__(self, particles: int) -> None:
        self.particles = particles
        super().__init__(
            f"the weights of all {particles} particles are 0: the score is 0, the sampling cuts off what the format "
            "allows, or the tokens do not suffice; use more samples, allow more tokens, or give a score above 0"
        )


class MaskOverridden(FormatterError):
    """Another rule of the inference engine restored the score of a token that the format forbids."""

    def __init__(self, token_id: int) -> None:
        self.token_id = token_id
        super().__init__(
            f"token {token_id} does not fit the format, but another logits processor, which runs after the format's, "
            "gave it a score again; put the format's processor last"
        )


class QueueFull(FormatterError):
    """A format is not compiled now because too many formats are waiting.

    `queue_size` is the number of waiting formats; `wait_seconds` is the expected wait, if it is known.
    """

    def __init__(self, queue_size: int, *, wait_seconds: float | None = None) -> None:
        self.queue_size = queue_size
        self.wait_seconds = wait_seconds
        needed = "" if wait_seconds is None else f", which is expected to take {wait_seconds:.0f} s"
        super().__init__(
            f"{queue_size} other formats are waiting to be compiled{needed}; try again later, or use a format that was "
            "compiled before"
        )


class PromptTooLong(FormatterError):
    """A prompt leaves no room for its output.

    `tokens`, `context_size` and `output` count tokens; `output` is the requested length, if it is known.
    """

    def __init__(self, tokens: int, context_size: int, *, output: int = 0) -> None:
        self.tokens = tokens
        self.context_size = context_size
        self.output = output
        followed = f" and what follows it {output}" if output else ""
        remedy = "shorten them" if output else "shorten the prompt"
        super().__init__(
            f"the prompt has {tokens} tokens{followed}, but the context holds {context_size}; {remedy}, "
            "or make the context larger"
        )


class InvalidBitmask(FormatterError):
    """The row is not a one-dimensional, writable, C-contiguous numpy array of int32."""


class BitmaskTooNarrow(InvalidBitmask):
    """An allowed token id is beyond the end of the row. `width` and `needed` count 32-bit words."""

    def __init__(self, *, width: int, needed: int) -> None:
        self.width = width
        self.needed = needed
        super().__init__(
            f"the row holds {width} words, but an allowed token needs {needed}; "
            "allocate rows with bitmask.words(number of token ids)"
        )


class ConcurrentUse(FormatterError):
    """Two threads use one formatter at once; give each thread its own fork."""


class HookNotCalled(FormatterError):
    """The inference engine never called a hook, so nothing was constrained. `remedy` says what to do."""

    def __init__(self, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(f"the inference engine never called this hook, so nothing was constrained; {remedy}")


class HookReused(FormatterError):
    """A hook that serves one request at a time received a second one. `hook` is its class; `remedy` says what to do."""

    def __init__(self, hook: str, remedy: str) -> None:
        self.hook = hook
        self.remedy = remedy
        super().__init__(f"this {hook} already serves another request; {remedy}")


class WrongModel(FormatterError):
    """A hook that was made for one model is used with another; the hook changed no scores.

    `hook` is its class, `made_for` and `found` describe the difference, and `remedy` says what to do.
    """

    def __init__(self, hook: str, *, made_for: str, found: str, remedy: str) -> None:
        self.hook = hook
        self.made_for = made_for
        self.found = found
        self.remedy = remedy
        super().__init__(f"this {hook} was made for {made_for}, but is used with {found}; {remedy}")


class InvalidValue(FormatterError):
    """The text matches its format, but the Python type refuses its value or cannot represent it.

    `text` is the text of the value, `pointer` is a JSON Pointer (RFC 6901) to the refused part, and `reason` is the
    type's own message.
    """

    def __init__(self, reason: str, *, text: str, pointer: str = "") -> None:
        self.reason = reason
        self.text = text
        self.pointer = pointer
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(
            f"the text {shown!r} is complete, but its value is refused (at {pointer or 'the root'}): {reason}; "
            "draw another sample (a greedy one is the same again), or use a type that accepts it"
        )


class IncompleteResult(FormatterError):
    """The value was requested of a text that is not complete.

    `missing` describes what was still expected, `text` is the text so far, and `ended` says how the sequence ended, if
    it has ended. `position` is the byte at which the text stops matching; None if the text could continue.
    """

    def __init__(
        self, *, ended: str | None, missing: str, text: str | None = None, position: int | None = None
    ) -> None:
        self.ended = ended
        self.missing = missing
        self.text = text
        self.position = position
        shown = "" if text is None else f"{'...' * (len(text) > 200)}{text[-200:]!r}"
        if position is not None:
            super().__init__(f"{missing}; the text is {shown}; if a model wrote it, this format did not constrain it")
            return
        so_far = "" if text is None else f" after {len(text)} characters, {shown}"
        remedy = _TO_DO.get(ended)
        super().__init__(f"the output is not complete{so_far}: {missing}" + (f"; {remedy}" if remedy else ""))


#: What to do about an incomplete output, by how it ended.
_TO_DO: dict[str | None, str] = {
    None: "continue the output if it can go on so, or read `text` and `captures`",
    "length": (
        "give the hook max_tokens= to make every output fit, raise max_new_tokens (max_tokens in other engines), or "
        "bound the field (`maxLength`, `maximum`, `maxItems`)"
    ),
    "stop_string": "leave out the stop string, or let the format say where the text ends",
}


def _restored(kind: type[FormatterError], arguments: tuple[Any, ...], facts: dict[str, Any]) -> FormatterError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(facts)
    return error
