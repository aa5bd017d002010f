"""The format of one request: the core's cursor on its output, and whether other rules of the request compete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from formatter_core import Compiler, Cursor, Formatter
from formatter_core.errors import InvalidArgument, UnsupportedFormat
from formatter_vllm import _compat
from formatter_vllm.requests import Wanted, read_request

__all__ = ["Constraint", "Constraints"]


@dataclass(eq=False, slots=True)
class Constraint:
    """One request that asks for a format.

    Attributes:
        cursor: follows the request's output; nothing raises there.
        has_competing_rules: whether the request's other parameters may forbid tokens before the mask is applied.
    """

    cursor: Cursor
    has_competing_rules: bool


class Constraints:
    """Makes the constraints of an engine's requests.

    Args:
        compiler: for the engine's tokens; None if there is no tokenizer, or if it cannot be read.
        unusable: why the tokenizer cannot be read.
    """

    def __init__(self, compiler: Compiler | None, unusable: Exception | None) -> None:
        self._compiler = compiler
        self._unusable = unusable

    def of_request(self, parameters: Any) -> Constraint | None:
        """The constraint of a new request; None if it asks for no format. Never raises."""
        end_ids: tuple[int, ...] = () if self._compiler is None else self._compiler.vocabulary.end_ids
        competing = False
        try:
            wanted = read_request(_compat.request_arguments(parameters))
            if wanted is None:
                return None
            end_ids, competing = self._end_ids(parameters) or end_ids, _compat.competing_rules(parameters)
            return Constraint(Cursor(self._formatter(wanted, parameters, end_ids)), competing)
        except Exception as error:  # noqa: BLE001 - an exception in a worker would end every request
            return Constraint(Cursor.failed(error, end_ids), competing)

    def _formatter(self, wanted: Wanted, parameters: Any, end_ids: tuple[int, ...]) -> Formatter:
        reason = _compat.refused_parameters(
            parameters, fits=wanted.fits
        )  # vLLM before 0.11.1 checks no request before it comes here
        if reason is not None:
            raise InvalidArgument(reason)
        if self._compiler is None:
            raise self._unusable or UnsupportedFormat("it was started without a tokenizer", server="vLLM")
        max_tokens = _compat.request_max_tokens(parameters) if wanted.fits else None
        return self._compiler.compile(wanted.format).formatter(end_ids, max_tokens)

    def _end_ids(self, parameters: Any) -> tuple[int, ...]:
        """The ids at which this request stops, as far as the model can sample them."""
        wanted = sorted(_compat.request_end_ids(parameters))
        if self._compiler is not None:
            size = len(self._compiler.vocabulary)
            wanted = [token_id for token_id in wanted if 0 <= token_id < size]
        return tuple(wanted)
