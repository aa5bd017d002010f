"""Read the shared data sets and the vocabularies."""

from __future__ import annotations

import base64
import collections
import gzip
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from formatter_core import Vocabulary

Encode = Callable[[str], "list[int]"]

# Llama 3 cuts text into these words before it applies its byte pairs.
_LLAMA_3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def shared() -> Path:
    """Return the folder of shared data sets."""
    return Path(os.environ.get("FORMATTER_SHARED") or Path(__file__).resolve().parents[2] / "shared")


def llama3_ranks() -> dict[bytes, int]:
    """Read the byte pairs of Llama 3 with their ids."""
    path = shared() / "tokenizers" / "llama3.tiktoken"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is absent; set FORMATTER_SHARED to the folder of shared data sets")
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def llama3() -> tuple[Vocabulary, Encode]:
    """Make the 128,256 ids of Llama 3 from the file of its ranks among the shared data sets."""
    import tiktoken

    encoding = tiktoken.Encoding(
        "llama3",
        pat_str=_LLAMA_3_WORDS,
        mergeable_ranks=llama3_ranks(),
        special_tokens={"<|end_of_text|>": 128_001},
    )
    return Vocabulary.from_tiktoken(encoding, end_ids=[128_001], size=128_256), encoding.encode


def llama3_transformers() -> Any:
    """Make Llama 3's tokenizer for transformers."""
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    converter = TikTokenConverter(
        vocab_file=str(shared() / "tokenizers" / "llama3.tiktoken"),
        pattern=_LLAMA_3_WORDS,
        extra_special_tokens=["<|begin_of_text|>", "<|end_of_text|>"],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=converter.converted(), eos_token="<|end_of_text|>", pad_token="<|end_of_text|>"
    )


def tekken() -> tuple[Vocabulary, Encode]:
    """Read the 131,072 ids of Mistral's Tekken, which mistral-common ships."""
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    tokenizer = MistralTokenizer.v3(is_tekken=True)
    inner = tokenizer.instruct_tokenizer.tokenizer
    return Vocabulary.from_mistral_common(tokenizer), lambda text: inner.encode(text, bos=False, eos=False)


def byte_vocabulary() -> tuple[Vocabulary, Encode]:
    """Make a vocabulary of one token for each byte, and an end id."""
    return Vocabulary.of_bytes(), lambda text: list(text.encode())


def of_chunks(text: bytes, size: int) -> tuple[Vocabulary, list[int]]:
    """Make a vocabulary that spells a text in tokens of so many bytes, beside one for each byte; and these tokens."""
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    pieces = [*(bytes([byte]) for byte in range(256)), *sorted({chunk for chunk in chunks if len(chunk) > 1})]
    ids = {piece: number for number, piece in enumerate(pieces)}
    return Vocabulary([*pieces, None], [len(pieces)]), [ids[chunk] for chunk in chunks]


VOCABULARIES: dict[str, Callable[[], tuple[Vocabulary, Encode]]] = {
    "llama3": llama3,
    "tekken": tekken,
    "bytes": byte_vocabulary,
}


def read_cases() -> Iterator[dict[str, Any]]:
    """Yield real JSON Schemas with documents: objects with `id`, `split`, `schema` and `tests`, in the files' order."""
    for path in sorted((shared() / "maskbench").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def real_tools(*prefixes: str, servers: bool = False) -> list[dict[str, Any]]:
    """Make tools of the function-call schemas of these parts of the cases, and of those of public MCP servers."""
    schemas = [case["schema"] for case in read_cases() if case["id"].startswith(prefixes)]
    listed = shared() / "tools" / "mcp_tools_dev.jsonl"
    if servers and listed.is_file():
        schemas += [json.loads(line)["parameters"] for line in listed.read_text(encoding="utf-8").splitlines()]
    return [
        {"type": "function", "function": {"name": f"tool_{number}", "parameters": schema}}
        for number, schema in enumerate(schemas)
    ]


def valid_documents(case: dict[str, Any]) -> list[Any]:
    """Return the valid documents of one of these cases."""
    return [test["data"] for test in case["tests"] if test["valid"]]


def choose(count: int, seed: int, cases: Iterable[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Choose at most `count` cases of each kind, or all if `count` is 0; by default of the shared ones."""
    kinds: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for case in read_cases() if cases is None else cases:
        kinds[case["split"]].append(case)
    chooser = random.Random(seed)
    chosen: list[dict[str, Any]] = []
    for kind in sorted(kinds):
        chooser.shuffle(kinds[kind])
        chosen += kinds[kind][: count or None]
    return chosen
