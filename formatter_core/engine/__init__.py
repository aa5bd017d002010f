"""Grammar engines: what computes masks, behind one seam (`protocol`)."""

from __future__ import annotations

from formatter_core.engine.protocol import GrammarEngine
from formatter_core.errors import EngineUnavailable, InvalidFormat

__all__ = ["choose_engine"]

_INSTALL_KBNF = "install the kbnf package (pip install kbnf==0.4.2)"


def choose_engine(engine: str | GrammarEngine) -> GrammarEngine:
    """The grammar engine of that name, or the given one.

    Raises:
        EngineUnavailable: it is not there.
        InvalidFormat: there is no grammar engine of that name.
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ("auto", "kbnf"):
        raise InvalidFormat(f"there is no grammar engine {engine!r}; use 'auto' or 'kbnf'")
    from formatter_core.engine.kbnf_package import KbnfEngine

    if KbnfEngine.available():
        return KbnfEngine()
    raise EngineUnavailable(engine, [_INSTALL_KBNF])
