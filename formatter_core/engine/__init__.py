"""Grammar engines: what computes masks, behind one seam (`protocol`)."""

from __future__ import annotations

import logging
from functools import cache
from typing import Literal, TypeAlias, get_args

from formatter_core.engine.protocol import GrammarEngine
from formatter_core.errors import EngineUnavailable
from formatter_core.errors.arguments import one_of

__all__ = ["EngineName", "choose_engine"]

EngineName: TypeAlias = Literal["auto", "native", "kbnf"]

_log = logging.getLogger("formatter_core")

_REMEDIES = {
    "native": "install a wheel with the native engine, or Rust's cargo and then formatter-core from source",
    "kbnf": "install the slower kbnf engine: pip install 'formatter-core[kbnf]'",
}


def choose_engine(engine: EngineName | GrammarEngine) -> GrammarEngine:
    """The grammar engine of that name, or the given one; `"auto"` is the native one, or else the kbnf package.

    Raises:
        EngineUnavailable: it is not there, or this is a subinterpreter.
        InvalidArgument: there is no grammar engine of that name.
    """
    if not isinstance(engine, (str, type)) and hasattr(engine, "compile") and hasattr(engine, "name"):
        return engine
    chosen = one_of(engine, "engine", get_args(EngineName))
    for name in _REMEDIES if chosen == "auto" else (chosen,):
        found = _find(name)
        if found is not None:
            if chosen == "auto" and name == "kbnf":
                _notice_slow_engine()
            return found
    raise EngineUnavailable(chosen, list(_REMEDIES.values()) if chosen == "auto" else [_REMEDIES[chosen]])


@cache
def _find(name: str) -> GrammarEngine | None:
    # Imported when first asked for: neither the library nor the package is needed to work with formats alone.
    if name == "native":
        from formatter_core.engine.native import NativeEngine
        from formatter_core.engine.native_library import check_interpreter

        check_interpreter()
        return NativeEngine() if NativeEngine.available() else None
    from formatter_core.engine.kbnf.engine import KbnfEngine

    return KbnfEngine() if KbnfEngine.available() else None


@cache
def _notice_slow_engine() -> None:
    """Say it once a process."""
    _log.warning("the native grammar engine is not built, so the kbnf package computes the masks: exact, but slower")
