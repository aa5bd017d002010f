"""Token id -> bytes: `Vocabulary`, and one reader for each kind of tokenizer.

Importing this package imports no tokenizer library; each reader works on the object that it is handed.
"""

from __future__ import annotations

from formatter_core.vocabulary.vocabulary import Vocabulary, checked_end_ids, parts_of

__all__ = ["Vocabulary", "checked_end_ids", "parts_of"]
