"""Token bytes from the JSON description that the `tokenizers` library gives of a tokenizer (`Tokenizer.to_str()`).

Its parts define the text of each piece of the model:

- the **decoder**, a chain of steps, each read as the library runs it: `ByteLevel` (the byte alphabet of GPT-2),
  `ByteFallback` (`<0x0A>` is one byte), `Metaspace` and `Replace` (U+2581 is a space), `WordPiece` (`##x` is x,
  anything else is a space and itself), `BPEDecoder` (`x</w>` is x and a space), `Fuse`, `Strip`;
- `ByteLevel` as a **pre-tokenizer** or **normalizer** makes the pieces byte-level, whatever the decoder says, and
  the **model**'s `byte_fallback` makes `<0x0A>` one byte;
- if there is no decoder, the other parts imply one; if none is implied, reading fails;
- **added tokens** spell exactly their content; special ones and the unknown token are never text.

The leading space. A tokenizer that puts a space before its input (`Metaspace` with "always" or "first", `Prepend`)
encodes "a" as " a", and its decoder drops that one space again. Here every piece keeps its space: in generated
text it is a real one, except before the very first word where the prompt ended in nothing but special tokens. There
a format that begins with a word may begin with the piece without the space, or allow one. `WordPiece` puts its space
before every word in the same way, and has lost the rest of the original spacing (and often the case): generated text
is what its decoder would print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary.alphabets import BYTE_CHARACTERS, BYTE_PIECES, SPACE_MARK, byte_level, byte_piece

__all__ = ["read"]

Part: TypeAlias = Mapping[str, Any]
Step: TypeAlias = "Callable[[str], str | bytes]"

# In the order in which the library's WordPiece decoder applies them.
_CLEANUP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


def read(description: Part) -> list[bytes | None]:
    """Read the bytes of each token id from the parsed JSON description.

    Raises:
        InvalidVocabulary: the description does not define how pieces become text, or in an unknown way.
    """
    model: Part = description["model"]
    pieces = _pieces(model)
    steps = _steps(description, pieces)
    added: list[Part] = description.get("added_tokens") or []
    size = 1 + max((*pieces.values(), *(token["id"] for token in added)), default=-1)
    tokens: list[bytes | None] = [None] * size
    if steps == [byte_level]:
        for piece, token_id in pieces.items():
            tokens[token_id] = byte_level(piece)
    else:
        for piece, token_id in pieces.items():
            tokens[token_id] = _run(steps, piece)
    unknown = _unknown_id(model, pieces)
    if unknown is not None:
        tokens[unknown] = None
    for token in added:
        tokens[token["id"]] = None if token["special"] else token["content"].encode("utf-8")
    return tokens


def _pieces(model: Part) -> dict[str, int]:
    vocab = model["vocab"]
    if isinstance(vocab, dict):
        return vocab
    return {piece: token_id for token_id, (piece, _score) in enumerate(vocab)}


def _unknown_id(model: Part, pieces: Mapping[str, int]) -> int | None:
    if "unk_id" in model:
        unk_id: int | None = model["unk_id"]
        return unk_id
    return pieces.get(model.get("unk_token") or "")


def _run(steps: list[Step], piece: str) -> bytes:
    for step in steps:
        result = step(piece)
        if isinstance(result, bytes):
            return result
        piece = result
    return piece.encode("utf-8")


def _steps(description: Part, pieces: Mapping[str, int]) -> list[Step]:
    """Return the function that turns a piece into bytes; the first step that returns bytes is the last."""
    model: Part = description["model"]
    decoder = list(_flatten(description.get("decoder"), "decoders"))
    encoders = [
        *_flatten(description.get("normalizer"), "normalizers"),
        *_flatten(description.get("pre_tokenizer"), "pretokenizers"),
    ]
    if not _has(decoder, "ByteLevel") and _has(encoders, "ByteLevel"):
        return [byte_level]
    if not decoder:
        decoder = _decoder_from_the_rest(model, encoders, pieces, description)
    if model.get("byte_fallback") and not _has(decoder, "ByteFallback"):
        decoder = [{"type": "ByteFallback"}, *decoder]
    if not _has(decoder, "ByteLevel"):
        _refuse_byte_level_pieces(decoder, pieces)
    return _decoder_steps(decoder)


def _flatten(part: Part | None, key: str) -> Iterator[Part]:
    if part is None:
        return
    if part["type"] == "Sequence":
        for inner in part[key]:
            yield from _flatten(inner, key)
    else:
        yield part


def _has(parts: list[Part], kind: str) -> bool:
    return any(part["type"] == kind for part in parts)


def _decoder_from_the_rest(
    model: Part, encoders: list[Part], pieces: Mapping[str, int], description: Part
) -> list[Part]:
    """Return the decoder that the other parts imply if the description has none."""
    space: list[Part] = []
    for part in encoders:
        if part["type"] == "Metaspace":
            space = [{"type": "Replace", "pattern": {"String": part["replacement"]}, "content": " "}]
        elif part["type"] == "Replace" and part["pattern"] == {"String": " "}:
            space = [{"type": "Replace", "pattern": {"String": part["content"]}, "content": " "}]
    if model.get("byte_fallback") or all(piece in pieces for piece in BYTE_PIECES):
        default: list[Part] = [{"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "}]
        return [{"type": "ByteFallback"}, *(space or default)]
    if space:
        return space
    if model["type"] == "WordPiece":
        return [{"type": "WordPiece", "prefix": model["continuing_subword_prefix"], "cleanup": False}]
    if model["type"] == "WordLevel":
        # Without a decoder the library prints words with a space between them; no word begins with this prefix.
        return [{"type": "WordPiece", "prefix": "\0", "cleanup": False}]
    if model.get("end_of_word_suffix"):
        return [{"type": "BPEDecoder", "suffix": model["end_of_word_suffix"]}]
    if all(char in pieces for char in BYTE_CHARACTERS):
        return [{"type": "ByteLevel"}]
    found = {key: (description.get(key) or {}).get("type") for key in ("normalizer", "pre_tokenizer", "decoder")}
    raise InvalidVocabulary(
        f"the tokenizer (model {model['type']}, {found}) does not define how its pieces become text; "
        "set the decoder that it was trained with, or build Vocabulary(tokens, end_ids) yourself"
    )


def _refuse_byte_level_pieces(decoder: list[Part], pieces: Mapping[str, int]) -> None:
    """Raise if a byte-level vocabulary has another tokenizer's decoder, which rebuilding a tokenizer may cause."""
    if not all(char in pieces for char in BYTE_CHARACTERS) or BYTE_PIECES[0] in pieces:
        return
    if any(SPACE_MARK in piece for piece in pieces):
        return
    names = ", ".join(part["type"] for part in decoder)
    raise InvalidVocabulary(
        f"the pieces are byte-level, but the decoder ({names}) is not; load the tokenizer from its tokenizer.json, "
        "for example with transformers.PreTrainedTokenizerFast(tokenizer_file=...)"
    )


def _decoder_steps(decoder: list[Part]) -> list[Step]:
    steps: list[Step] = []
    whole_text = False
    for part in decoder:
        kind = part["type"]
        if kind == "Fuse":
            whole_text = True
        elif kind == "Strip" and whole_text:
            continue  # cuts the two ends of a whole text only
        elif whole_text and not _works_on_any_text(part):
            raise _unknown_decoder(decoder, f"{kind} after the pieces were fused")
        else:
            steps.append(_step(part, decoder))
            whole_text = whole_text or kind == "ByteLevel"
    return steps


def _works_on_any_text(part: Part) -> bool:
    """Tell whether applying the step to each piece equals applying it to the whole text."""
    if part["type"] == "Replace":
        return len(str(part["pattern"].get("String", ""))) == 1
    return bool(part["type"] == "Metaspace")


def _step(part: Part, decoder: list[Part]) -> Step:
    kind = part["type"]
    if kind == "ByteLevel":
        return byte_level
    if kind == "ByteFallback":
        return lambda piece: byte_piece(piece) or piece
    if kind == "Metaspace":
        mark = part["replacement"]
        return lambda piece: piece.replace(mark, " ")
    if kind == "Replace" and part["pattern"].get("String"):
        old, new = part["pattern"]["String"], part["content"]
        return lambda piece: piece.replace(old, new)
    if kind == "Strip":
        return lambda piece: _strip(piece, part["content"], part["start"], part["stop"])
    if kind == "WordPiece":
        return lambda piece: _word_piece(piece, part["prefix"], part["cleanup"])
    if kind == "BPEDecoder":
        suffix = part["suffix"]
        return lambda piece: piece.replace(suffix, " ")
    raise _unknown_decoder(decoder, f"{kind} {part.get('pattern', '')}".rstrip())


def _unknown_decoder(decoder: list[Part], what: str) -> InvalidVocabulary:
    names = ", ".join(part["type"] for part in decoder)
    return InvalidVocabulary(
        f"the decoder ({names}) has a step whose effect on single tokens is not known: {what}; "
        "build Vocabulary(tokens, end_ids) yourself"
    )


def _strip(piece: str, content: str, start: int, stop: int) -> str:
    for _ in range(start):
        piece = piece.removeprefix(content)
    for _ in range(stop):
        piece = piece.removesuffix(content)
    return piece


def _word_piece(piece: str, prefix: str, cleanup: bool) -> str:
    text = piece[len(prefix) :] if piece.startswith(prefix) else " " + piece
    if cleanup:
        for old, new in _CLEANUP:
            text = text.replace(old, new)
    return text
