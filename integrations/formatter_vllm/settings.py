"""The operator's settings: one JSON object in the environment variable `FORMATTER_VLLM_SETTINGS`."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, fields
from typing import Any, get_args

from formatter_core import Limits
from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import one_of, whole_number
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.runtime.prepared import MaskedText
from formatter_core.schema import KeyOrder, Spelling, WhitespaceName

__all__ = ["VARIABLE", "Settings", "read_settings"]

VARIABLE = "FORMATTER_VLLM_SETTINGS"


@dataclass(frozen=True)
class Settings:
    """The settings of one vLLM process.

    Attributes:
        limits: bounds on the cost of one request's format.
        cache_bytes: bytes of compiled formats that each process keeps.
        threads: the number of costly formats that each process compiles at a time.
        max_wait: the maximum expected wait for a format, in seconds; a request beyond that is answered with 503.
        queue_size: the number of costly formats that may wait in addition; None for as many as `max_wait` allows.
        spelling: how JSON of vLLM's own fields (`response_format`, `structured_outputs`, tools) is written, as in
            `formats.json_schema`. A format in the request's own arguments has its own setting.
        whitespace: the whitespace of JSON, likewise.
        key_order: the key order of JSON, likewise.
        forced_text: the tokens that masks allow where the text is forced, as in `CompiledFormat.with_forced_text`,
            unless a format in the request's own arguments has its own setting.
    """

    limits: Limits = DEFAULT_LIMITS
    cache_bytes: int = 256 * 2**20
    threads: int = 1
    max_wait: float = 10.0
    queue_size: int | None = None
    spelling: Spelling = "canonical"
    whitespace: WhitespaceName = "flexible"
    key_order: KeyOrder = "schema"
    forced_text: MaskedText = "exact"

    @property
    def of_json(self) -> dict[str, str]:
        """The options of JSON that are not the default."""
        return {name: getattr(self, name) for name in _OF_JSON if getattr(self, name) != getattr(Settings, name)}


#: The options of JSON, and their names.
_OF_JSON = {"spelling": Spelling, "whitespace": WhitespaceName, "key_order": KeyOrder}
#: All settings that are one of a few words.
_WORDS = {**_OF_JSON, "forced_text": MaskedText}


def read_settings() -> Settings:
    """Return the settings in the environment, or the defaults.

    Raises:
        InvalidArgument: the variable is not an object of these settings.
    """
    text = os.environ.get(VARIABLE, "").strip() or "{}"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{VARIABLE} is not JSON text: {error}", argument=VARIABLE) from None
    values = _checked(found, VARIABLE, Settings)
    if "limits" in values:
        values["limits"] = Limits(**_checked(values["limits"], f"{VARIABLE}: limits", Limits))
    wait = values.get("max_wait", 1)
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 < wait < math.inf:
        raise InvalidArgument(f"{VARIABLE}: max_wait is {wait!r}; give a number of seconds above 0", argument=VARIABLE)
    for name in values.keys() & {*_WORDS}:
        one_of(values[name], f"{VARIABLE}: {name}", get_args(_WORDS[name]))
    for name in values.keys() - {"limits", "max_wait", *_WORDS}:
        whole_number(values[name], f"{VARIABLE}: {name}", minimum=0 if name == "cache_bytes" else 1)
    return Settings(**values)


def _checked(found: Any, where: str, kind: type) -> dict[str, Any]:
    """Return the value if it is an object whose keys are fields of this class."""
    names = [field.name for field in fields(kind)]
    if not isinstance(found, dict) or not found.keys() <= {*names}:
        raise InvalidArgument(f"{where} is {found!r}; give an object of some of {', '.join(names)}", argument=VARIABLE)
    return found
