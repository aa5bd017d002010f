"""Collect text while it is written, up to a stop string; bring a formatter to where an output ended."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from functools import partial

from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.result import Result

__all__ = [
    "TextStream",
    "accept_output",
    "check_shown",
    "cut_back",
    "rejected",
    "stop_bytes",
    "stopped_result",
]

_decoder = getincrementaldecoder("utf-8")


def stop_bytes(stop_strings: str | Iterable[str]) -> tuple[bytes, ...]:
    """Return stop strings as bytes.

    Raises:
        InvalidArgument: a stop string is empty or not a string.
    """
    given = [stop_strings] if isinstance(stop_strings, str) else [*elements_of(stop_strings, "stop_strings", "texts")]
    try:
        found = tuple(stop.encode() for stop in given)
    except (AttributeError, UnicodeEncodeError):
        found = (b"",)
    if not all(found):
        raise InvalidArgument(
            f"the stop strings are {shown(given)}; give strings that are not empty, without lone surrogates",
            argument="stop_strings",
        )
    return found


def accept_output(formatter: Formatter, tokens: Sequence[int]) -> int:
    """Accept ids up to the first that ends the output, and return how many; ids after it are padding."""
    end = next((index for index, token in enumerate(tokens) if token in formatter.end_ids), len(tokens))
    return formatter.accept_tokens(tokens[: end + 1])


def rejected(formatter: Formatter, token_id: int) -> TokenRejected:
    """Make the error for an id that the formatter does not allow next, which explains it when it is read."""
    return TokenRejected(token_id, position=len(formatter.tokens), reason=partial(formatter.explain, token_id))


def cut_back(formatter: Formatter, text: bytes) -> None:
    """Roll back to `text`, a prefix of the accepted text, even if it ends in the middle of a token."""
    while len(formatter.bytes) > len(text):
        formatter.rollback(1)
    rest = text[len(formatter.bytes) :]
    if rest:
        formatter.accept_bytes(rest)


def stopped_result(formatter: Formatter, text: bytes) -> Result:
    """Return the result of a sequence that a stop string ended after `text`; its tokens also spell the stop string."""
    if formatter.bytes.startswith(text):
        formatter = formatter.fork()
        cut_back(formatter, text)
    return formatter.result("stop_string")


def check_shown(formatter: Formatter, before: bytes, text: str) -> None:
    """Check an inference engine's own text of an output against the text accepted after `before`.

    One must contain the other, apart from spaces and U+FFFD, which engines add and leave out: a stop string shortens
    the engine's text, and there may be more text around the accepted text.

    Raises:
        InvalidArgument: the texts contradict each other.
    """
    own = formatter.bytes[len(before) :].decode(errors="ignore")
    shown, accepted = (one.replace("\ufffd", "").replace(" ", "") for one in (text, own))
    if shown not in accepted and accepted not in shown:
        raise InvalidArgument(
            f"the output's text {text[:60]!r} differs from that of the accepted tokens, {own[:60]!r}; give the "
            "output of the job that this hook served last",
            argument="output",
        )


class TextStream:
    """The text of one output; it holds back text that may still become a stop string.

    Args:
        stops: the stop strings. The output ends before the one that is complete first; of several, before the longest.
    """

    def __init__(self, stops: tuple[bytes, ...] = ()) -> None:
        self.bytes = b""
        """The bytes that certainly belong to the output, and the bytes held back."""
        self.is_stopped = False
        """True once a stop string was met; `bytes` then ends before it."""
        self._stops = stops
        self._told = 0
        self._decoder = _decoder("replace")

    @property
    def holds_back(self) -> bool:
        """Return whether the last bytes may still become a stop string."""
        return self._told < len(self.bytes)

    def fork(self) -> TextStream:
        """Return a copy that continues independently."""
        other = TextStream(self._stops)
        other.bytes, other.is_stopped, other._told = self.bytes, self.is_stopped, self._told
        other._decoder.setstate(self._decoder.getstate())
        return other

    def begin(self, data: bytes) -> None:
        """Begin with bytes that were already reported."""
        self.bytes = data
        self._told = len(data)
        self._decoder.decode(data)

    def add(self, data: bytes) -> str:
        """Append bytes, and return the new characters that are certain. After a stop string nothing is added."""
        if self.is_stopped:
            return ""
        before = len(self.bytes)
        self.bytes += data
        if not self._stops:
            self._told = len(self.bytes)
            return self._decoder.decode(data)
        longest = max(map(len, self._stops))
        # A stop string that ends in the new bytes begins at most this far before them.
        start = max(0, before - longest + 1)
        # The stop string that is complete first, however the text is divided into pieces.
        found = min(
            ((place + len(stop), place) for stop in self._stops if (place := self.bytes.find(stop, start)) >= 0),
            default=None,
        )
        if found is not None:
            self.bytes = self.bytes[: found[1]]
            self.is_stopped = True
        certain = len(self.bytes) if found is not None else len(self.bytes) - self._held_back(longest)
        return self._tell(certain)

    def finish(self) -> str:
        """Return the text held back, once nothing follows; U+FFFD replaces a character that was cut."""
        return self._tell(len(self.bytes)) + self._decoder.decode(b"", True)

    def _tell(self, certain: int) -> str:
        new, self._told = self.bytes[self._told : certain], max(certain, self._told)
        return self._decoder.decode(new)

    def _held_back(self, longest: int) -> int:
        """Return how many of the last bytes may be the beginning of a stop string."""
        for count in range(min(longest - 1, len(self.bytes)), 0, -1):
            tail = self.bytes[len(self.bytes) - count :]
            if any(stop.startswith(tail) for stop in self._stops):
                return count
        return 0
