"""Token healing: the prompt's last token is sampled again, as any token that begins with its text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Formatter, bitmask
from formatter_core.errors import InvalidArgument, TokenRejected

__all__ = ["continued", "fill_bitmask", "healed_text"]


def healed_text(prefix: Any) -> bytes:
    """Return the text that a generator passes to `begin`: that of the prompt's last token if healed, else empty.

    Raises:
        InvalidArgument: something else, or a part of a character, which no text can begin with.
    """
    if isinstance(prefix, (list, tuple)):
        if len(prefix) > 1:
            raise InvalidArgument(f"a filter follows one output, not {len(prefix)}; create one filter for each prompt")
        prefix = prefix[0] if prefix else None
    if prefix is not None and not isinstance(prefix, str):
        raise InvalidArgument(f"begin takes the text of the prompt's last token or None, not a {type(prefix).__name__}")
    if "\ufffd" in (prefix or ""):
        raise InvalidArgument(
            "the prompt ends inside a character, where a token cannot be healed; turn token_healing off"
        )
    return (prefix or "").encode("utf-8")


def fill_bitmask(start: Cursor, healed: bytes, row: NDArray[np.int32]) -> None:
    """Allow the tokens that begin with the healed text and continue as an output may begin."""
    formatter = start.fork().formatter
    vocabulary = formatter.compiled.vocabulary
    can_begin: dict[bytes, bool] = {b"": True}
    ids = []
    for token_id in range(len(vocabulary)):
        data = vocabulary.text_token(token_id)
        if data is None or not data.startswith(healed):
            continue
        rest = data[len(healed) :]
        if rest not in can_begin:
            can_begin[rest] = _can_begin(formatter, rest)
        if can_begin[rest]:
            ids.append(token_id)
    row[:] = 0
    bitmask.set_ids(row, ids)


def continued(start: Cursor, healed: bytes, token_id: Any) -> Cursor:
    """Return the sequence after its first token; the healed text in that token is not output."""
    formatter = start.fork().formatter
    try:
        data = formatter.compiled.vocabulary.text_token(token_id) or b""
        if not data.startswith(healed):
            reason = f"the prompt's last token, {healed!r}, is to be healed, but this one does not begin with it"
            raise TokenRejected(token_id, position=0, reason=reason)
        if data != healed:
            formatter.accept_bytes(data[len(healed) :])
        cursor = Cursor(formatter)
    except Exception as error:  # noqa: BLE001 - any error ends this sequence and no other
        cursor = Cursor(formatter)
        cursor.fail(error)
    cursor.is_used = True
    return cursor


def _can_begin(formatter: Formatter, data: bytes) -> bool:
    try:
        formatter.accept_bytes(data)
    except TokenRejected:
        return False
    formatter.rollback(1)
    return True
