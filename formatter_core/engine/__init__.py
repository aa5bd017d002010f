"""Grammar engines, which compute masks, behind one interface (`protocol`)."""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias, get_args

from formatter_core.engine.protocol import GrammarEngine
from formatter_core.errors import EngineUnavailable
from formatter_core.errors.arguments import one_of

__all__ = ["EngineName", "choose_engine"]

EngineName: TypeAlias = Literal["auto", "native", "kbnf"]


def choose_engine(engine: EngineName | GrammarEngine) -> GrammarEngine:
    """Return the grammar engine of that name, or the given engine; `"auto"` names the native one.

    Raises:
        EngineUnavailable: it is not there, or this is a subinterpreter; or the native library is not there, which reads
            the texts of every engine.
        InvalidArgument: there is no grammar engine of that name.
    """
    # Imported on first use: making formats needs neither the library nor the package.
    from formatter_core.engine.native_library import load

    if isinstance(engine, (str, type)) or not (hasattr(engine, "compile") and hasattr(engine, "name")):
        name = one_of(engine, "engine", get_args(EngineName))
        load()
        return _kbnf() if name == "kbnf" else _native()
    load()
    return engine


@cache
def _native() -> GrammarEngine:
    from formatter_core.engine.native import NativeEngine

    return NativeEngine()


@cache
def _kbnf() -> GrammarEngine:
    from formatter_core.engine.kbnf.engine import KbnfEngine

    if not KbnfEngine.available():
        raise EngineUnavailable("kbnf", ["pip install 'formatter-core[kbnf]'"])
    return KbnfEngine()
