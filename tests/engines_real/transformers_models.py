"""Small random models and a tokenizer trained on the spot, for tests on transformers itself."""

from __future__ import annotations

import json
import random
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

#: Logits that no token of the tokenizer has.
TAIL = 64


def trained_tokenizer(size: int = 500) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE with every byte, two end ids and a padding id."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 6))) for _ in range(300)]
    pairs = [(rng.choice(words), rng.choice(words), rng.randint(0, 9999)) for _ in range(500)]
    lines = [f'{{"{first}": {number}, "{second}": true}} {second} été 日本 😀' for first, second, number in pairs]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|end|>", "<|turn|>", "<|pad|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer as of Llama 2: spaces are U+2581, one precedes the text, unknown characters are bytes."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    words = ["the", "cab", "jade", "a", "bad", "head", "been", "{", "}", '"name":', "[1,", "2]", "été", "cafe"]
    lines = [" ".join(random.Random(seed).choices(words, k=8)) for seed in range(200)]
    trained.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=250, show_progress=False))
    learned = json.loads(trained.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *learned["vocab"]]
    merges = [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in learned["merges"]]
    vocab = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<s>",
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def random_model(kind: str, tokenizer: PreTrainedTokenizerFast, seed: int = 0) -> Any:
    """Make a model with random weights, whose logits are `TAIL` wider than the tokenizer; it ends at all end ids."""
    torch.manual_seed(seed)
    width = len(tokenizer) + TAIL
    sizes = {
        "vocab_size": width,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 1024,
        "initializer_range": 0.2,
    }
    if kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**sizes))
    elif kind == "qwen":
        model = Qwen2ForCausalLM(Qwen2Config(**sizes, num_key_value_heads=2))
    elif kind == "mistral":
        model = MistralForCausalLM(MistralConfig(**sizes, num_key_value_heads=2, sliding_window=24))
    elif kind == "t5":
        config = T5Config(
            vocab_size=width,
            d_model=64,
            d_kv=16,
            d_ff=96,
            num_layers=2,
            num_heads=4,
            initializer_factor=3.0,
            pad_token_id=tokenizer.pad_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
        model = T5ForConditionalGeneration(config)
    else:
        config = GPT2Config(
            vocab_size=width, n_embd=64, n_layer=2, n_head=4, n_positions=1024, initializer_range=0.2, bos_token_id=0
        )
        model = GPT2LMHeadModel(config)
    turn = tokenizer.get_vocab().get("<|turn|>")
    model.generation_config.eos_token_id = [end for end in (tokenizer.eos_token_id, turn) if end is not None]
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model.eval()
