"""Text as it grows, up to a stop string."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.result import Result

__all__ = ["TextStream", "check_shown", "cut_back", "stop_bytes", "stopped_result"]

_decoder = getincrementaldecoder("utf-8")


def stop_bytes(stop_strings: str | Iterable[str]) -> tuple[bytes, ...]:
    """Stop strings as bytes.

    Raises:
        InvalidArgument: one of them is empty, or not a text.
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


def cut_back(formatter: Formatter, text: bytes) -> None:
    """Take back what was accepted after `text`, which the accepted text begins with, even in the middle of a token."""
    while len(formatter.bytes) > len(text):
        formatter.rollback(1)
    rest = text[len(formatter.bytes) :]
    if rest:
        formatter.accept_bytes(rest)


def stopped_result(formatter: Formatter, text: bytes) -> Result:
    """The result of a sequence that a stop string ended after `text`; its tokens also spell the stop string."""
    if formatter.bytes.startswith(text):
        formatter = formatter.fork()
        cut_back(formatter, text)
    return formatter.result("stop_string")


def check_shown(formatter: Formatter, before: bytes, text: str) -> None:
    """Compare an inference engine's own text of an output with what was accepted after `before`.

    One has to hold the other, but for spaces and U+FFFD, which engines add and leave out: a stop string cuts the
    engine's text, and around what was accepted there may be more.

    Raises:
        InvalidArgument: they contradict each other.
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
    """The text of one output; what may yet turn out to be a stop string is held back.

    Args:
        stops: the output ends before the one that is complete first, of several the longest.
    """

    def __init__(self, stops: tuple[bytes, ...] = ()) -> None:
        self.bytes = b""
        """What is certain to belong to the output, and what is held back."""
        self.is_stopped = False
        """Whether a stop string was met; `bytes` then ends before it."""
        self._stops = stops
        self._told = 0
        self._decoder = _decoder("replace")

    @property
    def holds_back(self) -> bool:
        """Whether the last bytes may turn out to be a stop string."""
        return self._told < len(self.bytes)

    def fork(self) -> TextStream:
        """A copy that goes on by itself."""
        other = TextStream(self._stops)
        other.bytes, other.is_stopped, other._told = self.bytes, self.is_stopped, self._told
        other._decoder.setstate(self._decoder.getstate())
        return other

    def begin(self, data: bytes) -> None:
        """Begin with bytes that were reported before."""
        self.bytes = data
        self._told = len(data)
        self._decoder.decode(data)

    def add(self, data: bytes) -> str:
        """Append bytes; the characters that are certain and new. After a stop string nothing is added."""
        if self.is_stopped:
            return ""
        before = len(self.bytes)
        self.bytes += data
        if not self._stops:
            self._told = len(self.bytes)
            return self._decoder.decode(data)
        longest = max(map(len, self._stops))
        # A stop string that ends in the new bytes begins at most so far before them.
        start = max(0, before - longest + 1)
        # The one that is complete first, however the text came in parts.
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
        """What was held back, once nothing follows; a character that was cut becomes U+FFFD."""
        return self._tell(len(self.bytes)) + self._decoder.decode(b"", True)

    def _tell(self, certain: int) -> str:
        new, self._told = self.bytes[self._told : certain], max(certain, self._told)
        return self._decoder.decode(new)

    def _held_back(self, longest: int) -> int:
        """How many of the last bytes may be the beginning of a stop string."""
        for count in range(min(longest - 1, len(self.bytes)), 0, -1):
            tail = self.bytes[len(self.bytes) - count :]
            if any(stop.startswith(tail) for stop in self._stops):
                return count
        return 0
