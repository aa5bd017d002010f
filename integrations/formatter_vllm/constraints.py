"""The format of one request: the core's cursor on its output, and whether other rules of the request compete."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from formatter_core import Cursor, Formatter
from formatter_core.errors import FormatterError, InvalidArgument, UnsupportedFormat
from formatter_vllm import _compat_parameters
from formatter_vllm.compilers import RequestCompiler
from formatter_vllm.requests import content_of, is_to_fit

__all__ = ["Constraint", "Constraints", "asks_for_format"]


@dataclass(eq=False, slots=True)
class Constraint:
    """The constraint of one request that asks for a format.

    Attributes:
        cursor: the cursor that follows the request's output; it never raises.
        has_competing_rules: whether the request's other parameters may forbid tokens before the mask is applied.
        failure_id: the id that ends the request if it fails; None for its end ids.
        may_shorten: whether the output has a budget that has not restricted it yet.
        request_id: the id that the request came with; None if it is not known.
    """

    cursor: Cursor
    has_competing_rules: bool
    failure_id: int | None = None
    may_shorten: bool = False
    request_id: str | None = None


def asks_for_format(parameters: Any) -> bool:
    """Tell whether a request asks for a format, even if its content cannot be read."""
    try:
        return content_of(_compat_parameters.arguments_of(parameters)) is not None
    except FormatterError:
        return True


class Constraints:
    """A factory of the constraints of an engine's requests.

    Args:
        compiler: the compiler for the engine's tokens; None if there is no tokenizer, or if it cannot be read.
        unusable: the reason why the tokenizer cannot be read.
    """

    def __init__(self, compiler: RequestCompiler | None, unusable: Exception | None) -> None:
        self._compiler = compiler
        self._unusable = unusable

    def of_request(self, parameters: Any, prompt_ids: Callable[[], Sequence[int]] = tuple) -> Constraint:
        """Make the constraint of a new request that asks for a format. This never raises.

        Args:
            prompt_ids: gives the ids of the request's prompt.
        """
        end_ids: tuple[int, ...] = () if self._compiler is None else self._compiler.vocabulary.end_ids
        competing, failure_id, fits = False, None, False
        try:
            content = content_of(_compat_parameters.arguments_of(parameters)) or ""
            wanted = _compat_parameters.end_ids_of(parameters)
            if self._compiler is not None and self._compiler.failure_id in wanted:
                failure_id = self._compiler.failure_id
            end_ids = self._possible(wanted - {failure_id}) or end_ids
            competing = _compat_parameters.has_competing_rules(parameters)
            fits = is_to_fit(content)
            cursor = Cursor(self._formatter(content, fits, parameters, end_ids, prompt_ids))
        except Exception as error:  # noqa: BLE001 - an exception in a worker would end every request
            cursor = Cursor.failed(error, end_ids)
        shortens = fits and not cursor.has_failed
        return Constraint(cursor, competing, failure_id, shortens, _compat_parameters.request_id_of(parameters))

    def _formatter(
        self,
        content: str,
        fits: bool,
        parameters: Any,
        end_ids: tuple[int, ...],
        prompt_ids: Callable[[], Sequence[int]],
    ) -> Formatter:
        # vLLM before 0.11.1 checks no request before it comes here.
        reason = _compat_parameters.reason_to_refuse(parameters, fits=fits)
        if reason is not None:
            raise InvalidArgument(reason)
        if self._compiler is None:
            raise self._unusable or UnsupportedFormat("it was started without a tokenizer", server="vLLM")
        max_tokens = _compat_parameters.max_tokens_of(parameters) if fits else None
        return self._compiler.compile(content, prompt_ids).formatter(end_ids, max_tokens)

    def _possible(self, ids: Set[int | None]) -> tuple[int, ...]:
        """Return the ids at which a request stops, except those that the model cannot sample."""
        size = None if self._compiler is None else len(self._compiler.vocabulary)
        return tuple(sorted(one for one in ids if one is not None and (size is None or 0 <= one < size)))
