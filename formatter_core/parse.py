"""The plain Python parser: recognising, and the captures of the preferred parse."""

from __future__ import annotations

from formatter_core.earley.recognizer import Recognizer
from formatter_core.earley.shortest import min_bytes

__all__ = ["Recognizer", "min_bytes"]
