"""ExLlamaV2 without a GPU: everything is the package's own, except the simulated forward pass.

The configuration, tokenizer, cache, generator, sampler and filters are those of exllamav2; logits from
`Scripted` or `Random` replace those of its CUDA kernels. To import exllamav2 without a GPU, build its extension without
CUDA: `scripts/build_exllamav2.py`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

#: What ByteLevel tokenizers write for each byte (GPT-2's table).
_PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_CHARACTERS = {byte: chr(byte) for byte in _PRINTABLE} | {byte: chr(256 + n) for n, byte in enumerate(_OTHERS)}

WORDS = [
    "name",
    "age",
    "Ada",
    "pilot",
    "true",
    "false",
    " the",
    "\n\n",
    '{"',
    '":',
    '","',
    '"}',
    '": "',
    "  ",
    "é",
    "日",
]
WORDS_IN_BYTES = [word.encode() for word in WORDS]
SINGLE_BYTES = [bytes([byte]) for byte in range(256)]
SPECIAL = ["<|begin|>", "<|end|>", "<|turn|>"]


def use_release(version: str = "0.3.2") -> None:
    """Import exllamav2 from where `scripts/build_exllamav2.py` put this release; where it is installed, from there."""
    if importlib.util.find_spec("exllamav2") is None:
        sys.path.insert(0, str(Path(sys.prefix) / "exllamav2" / version))


class Model(Protocol):
    """Where logits come from: `sequence` tells apart the sequences that run, `position` is that of the next token."""

    def logits(self, row: torch.Tensor, sequence: int, position: int, last: int) -> None:
        """Write float32 (vocabulary,)."""


class Random:
    """Logits that depend on nothing but the last token, its position and the seed."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def logits(self, row: torch.Tensor, sequence: int, position: int, last: int) -> None:
        generator = torch.Generator().manual_seed(self._seed + 1_000_003 * position + 7919 * last)
        row.normal_(0, 3, generator=generator)


class Scripted:
    """Logits that all but force one script of tokens for each last token of a prompt."""

    def __init__(self, scripts: dict[int, Sequence[int]], prompt_length: int, base: torch.Tensor | None = None) -> None:
        self._scripts, self._length, self._base = scripts, prompt_length, base
        self._of_sequence: dict[int, Sequence[int]] = {}

    def logits(self, row: torch.Tensor, sequence: int, position: int, last: int) -> None:
        if position == self._length:
            self._of_sequence[sequence] = self._scripts[last]
        script = self._of_sequence[sequence]
        row.zero_() if self._base is None else row.copy_(self._base)
        row[script[min(position - self._length, len(script) - 1)]] += 60


def byte_level_tokenizer(
    words: Sequence[bytes] = WORDS_IN_BYTES,
    first: Sequence[bytes] = SINGLE_BYTES,
    **special: int,
) -> str:
    """The text of a tokenizer.json with one token for each byte, these words, and special tokens behind them."""
    pieces = ["".join(BYTE_CHARACTERS[byte] for byte in word) for word in [*first, *words]]
    vocab = {piece: token_id for token_id, piece in enumerate(dict.fromkeys(pieces))}
    names = special or {name: len(vocab) + number for number, name in enumerate(SPECIAL)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [{"id": token_id, "content": name, **flags} for name, token_id in names.items()],
            "pre_tokenizer": level,
            "decoder": level,
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        }
    )


def byte_fallback_tokenizer(words: Sequence[str] = tuple(WORDS)) -> str:
    """The same as Llama 2 had it: `<0x0A>` for a byte, U+2581 for a space; the special tokens are 0, 1 and 2."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [chr(code) for code in range(33, 127)] + [
        "▁",
        *(word.replace(" ", "▁") for word in words if len(word) > 1),
    ]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    space = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [{"id": token_id, "content": pieces[token_id], **flags} for token_id in range(3)],
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "decoder": {"type": "Sequence", "decoders": [space, {"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {
                "type": "BPE",
                "vocab": {piece: token_id for token_id, piece in enumerate(dict.fromkeys(pieces))},
                "merges": [],
                "unk_token": "<unk>",
                "byte_fallback": True,
            },
        }
    )


def write_model(folder: Path, tokenizer: str, *, vocab_size: int, bos: int, eos: int | list[int], **more: Any) -> Path:
    """The files of a model's folder, all but its weights; `more` goes into config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 8192,
        "rope_theta": 5e5,
        "initializer_range": 0.02,
        "vocab_size": vocab_size,
        "bos_token_id": bos,
        "eos_token_id": eos,
        **more,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    return folder


def write_small_model(folder: Path) -> Path:
    """The files of a model with some 280 tokens, one for each byte among them."""
    text = byte_level_tokenizer()
    first = len(json.loads(text)["model"]["vocab"])
    return write_model(folder, text, vocab_size=first + len(SPECIAL), bos=first, eos=[first + 1, first + 2])


class Parts:
    """The objects of exllamav2 for one folder: `config`, `tokenizer`, `model`, `cache`, and `generator`."""

    def __init__(
        self, folder: Path, source: Model, *, seconds: float = 0.0, busy: bool = False, **generator: Any
    ) -> None:
        import exllamav2
        from exllamav2 import attn
        from exllamav2.generator import ExLlamaV2DynamicGenerator

        self.config = exllamav2.ExLlamaV2Config()
        self.config.model_dir = str(folder)
        self.config.prepare(no_tensors=True)
        self.config.max_batch_size = 16
        self.tokenizer = exllamav2.ExLlamaV2Tokenizer(self.config)
        self.model = exllamav2.ExLlamaV2(self.config)
        self.forward = Forward(source, (self.config.vocab_size + 31) // 32 * 32, seconds, busy)
        self.model.forward_chunk = self.forward
        self.cache = exllamav2.ExLlamaV2Cache(self.model, max_seq_len=8192, fixed_device="cpu")
        attn.has_flash_attn_with_paged = True  # asked for before jobs are batched; no attention runs here
        options = {"max_batch_size": 16, "max_q_size": 8, **generator}
        self.generator = ExLlamaV2DynamicGenerator(self.model, self.cache, self.tokenizer, **options)


class Forward:
    """In the place of `ExLlamaV2.forward_chunk`: returns at once, and its logits are there `seconds` later.

    As on a GPU, it is the copy of the logits to the CPU that waits, without the GIL: asleep, or busily, which is how
    CUDA waits.
    """

    def __init__(self, source: Model, width: int, seconds: float, busy: bool) -> None:
        self.source, self.width = source, width
        self.set_pace(seconds, busy)

    def set_pace(self, seconds: float, busy: bool) -> None:
        """How long it takes, and how it is waited for."""
        self.seconds = seconds
        self._wait: Callable[[float], None] = wait_busily if busy else wait_asleep

    def __call__(self, input_ids: torch.Tensor, attn_params: Any = None, **options: Any) -> dict[str, torch.Tensor]:
        if options.get("preprocess_only"):
            return {}
        ready = time.perf_counter() + self.seconds
        rows, length = input_ids.shape
        with torch.inference_mode(False):  # as a copy from a GPU would be
            logits = torch.empty((rows, length, self.width), dtype=torch.float)
        for row in range(rows):
            sequence, start = _place(attn_params, options.get("cache"), row)
            for offset, last in enumerate(input_ids[row].tolist()):
                self.source.logits(logits[row, offset], sequence, start + offset + 1, last)
        return {"logits": _OnDevice.of(logits, ready, self._wait)}


def _place(attn_params: Any, cache: Any, row: int) -> tuple[int, int]:
    """Which sequence a row is, by its first page, and how many of its tokens came before."""
    if attn_params is None or not hasattr(attn_params, "block_index"):
        return 0, int(attn_params.past_len) if attn_params is not None else int(cache.current_seq_len)
    return int(attn_params.block_index[row, 0]), int(attn_params.cache_seqlens[row])


class _OnDevice(torch.Tensor):
    """A tensor whose copy waits until it has been computed."""

    @staticmethod
    def of(tensor: torch.Tensor, ready: float, wait: Callable[[float], None]) -> _OnDevice:
        made = tensor.as_subclass(_OnDevice)
        made.ready, made.wait = ready, wait  # type: ignore[attr-defined]
        return made

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.copy_ and isinstance(args[1], _OnDevice):
            args[1].wait(args[1].ready)  # type: ignore[attr-defined]
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


def wait_asleep(ready: float) -> None:
    """Until then, by sleeping."""
    time.sleep(max(0.0, ready - time.perf_counter()))


def wait_busily(ready: float) -> None:
    """Until then, without the GIL, as CUDA waits."""
    while time.perf_counter() < ready:
        hashlib.pbkdf2_hmac("sha256", b"0", b"0", 100)  # some 50 microseconds of work without the GIL
