"""The vLLM adapter in an engine of the stand-ins: a tokenizer, requests with formats, the two runners."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import tokenizers
import torch

from formatter_core import Compiler, formats
from tests.adapters.vllm_stand_ins import WIDER, BatchRunner, Request, SlotRunner, config_of, parameters_of

ENDS = (0, 1)
WORD, NUMBER, LIST = r"[ab]{3,9}", r"-?(0|[1-9][0-9]{0,6})", r"\[(true|[0-9]{1,3})(, (true|[0-9]{1,3})){0,4}\]"


def make_tokenizer() -> Any:
    """Train a byte-level BPE with all bytes, two ends and a special token."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|end|>", "<|turn|>", "<|call|>"],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(['{"a": 17, "b": "é"}', "abab abba [true, 17, 203] true", '{"b": null}'] * 5, trainer)
    return made


@dataclass
class Engine:
    """The adapter in an engine: what the tests need of both runners."""

    hook: type
    config: types.SimpleNamespace
    tokenizer: object
    compiler: Compiler

    @property
    def width(self) -> int:
        return self.tokenizer.get_vocab_size() + WIDER

    def batch(self, seed: int = 0, **options) -> BatchRunner:
        return BatchRunner(self.hook(self.config, torch.device("cpu"), False), self.width, seed, **options)

    def slots(self, seed: int = 0, **options) -> SlotRunner:
        return SlotRunner(lambda states: self.hook(self.config, states), self.width, seed, **options)

    def request(self, format=None, *, end_ids=ENDS, chunks=1, **parameters) -> Request:
        from formatter_vllm import create_extra_args

        arguments = None if format is None else create_extra_args(format)
        compiled = None if format is None else self.compiler.compile(format)
        return Request(parameters_of(arguments, end_ids=end_ids, **parameters), compiled, chunks)

    def text(self, request: Request) -> str:
        ends = {*ENDS, *request.parameters.all_stop_token_ids}
        kept = [token for token in request.output if token not in ends]
        return self.tokenizer.decode(kept, skip_special_tokens=False)


def engine_of(tokenizer, named=True) -> Engine:
    from formatter_vllm import FormatterLogitsProcessor, create_vocabulary

    config = config_of(tokenizer, ENDS, named=[FormatterLogitsProcessor] if named else [])
    compiler = Compiler(create_vocabulary(tokenizer, model=config))
    return Engine(FormatterLogitsProcessor, config, tokenizer, compiler)


def mixed(engine: Engine) -> tuple[list[Request], list[str | None]]:
    patterns = [WORD, NUMBER, None, LIST, WORD, None, LIST, NUMBER, LIST]
    requests = [
        engine.request(None if pattern is None else formats.regex(pattern), chunks=1 + index % 3)
        for index, pattern in enumerate(patterns)
    ]
    return requests, patterns


def formats_end_only(engine: Engine):
    """Make a format that is complete at once: a request that cannot go on may only end."""
    return engine.compiler.compile(formats.regex(""))
