"""Run the answers' model under one engine: formatter-core, another library, or no format.

Every engine gets the same prompts, the same logits and, in sampled answers, the same draws. It says which tokens may
come next; all else is one loop.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Protocol, cast

import numpy as np

from benchmarks import engines as peers
from benchmarks.answer_tasks import Task
from benchmarks.cases import Case
from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats
from formatter_core.generation.forced import canonical_tokens
from formatter_core.runtime.prepared import MaskedText
from formatter_core.schema import Whitespace

__all__ = ["ENGINES", "LlamaModel", "TransformersModel", "Written", "guides"]

#: The separators of `json.dumps`.
DUMPS = Whitespace(comma=", ", colon=": ")

Logits = np.ndarray[Any, np.dtype[np.float32]]


class Guide(Protocol):
    """Mask one answer under a format."""

    def mask(self, logits: Logits) -> None:
        """Set the logits of all tokens that may not come next to -inf."""

    def accept(self, token_id: int) -> None:
        """Take a token that is not an end id."""


#: Makes guides for a task; raises where it has no notation for it.
Factory = Callable[[Task], Callable[[], Guide]]


@dataclass
class Written:
    """One answer.

    Attributes:
        ended: the model ended it, before the limit on tokens.
        choices: tokens for which more than one was allowed; the others need no forward pass of their own.
        masked: the log of the probability that the model gave to the tokens that were allowed, over all tokens.
        ids: the tokens, with the one that ended the answer.
    """

    text: str
    ended: bool
    tokens: int
    choices: int
    masked: float
    ids: list[int] = field(default_factory=list)


class LlamaModel:
    """Run a model on llama.cpp, which writes all answers to a prompt at once and computes the prompt once for them."""

    ROWS = 30
    CONTEXT = 6144

    def __init__(self, path: str, threads: int = 1) -> None:
        import llama_cpp

        from formatter_llama_cpp import create_vocabulary
        from formatter_llama_cpp.context import Entry, SharedContext

        self.library = llama_cpp
        self.llama = llama_cpp.Llama(path, n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
        self.size = self.llama.n_vocab()
        self.end_ids = [self.llama.tokenize(b"<|im_end|>", add_bos=False, special=True)[0]]
        self.vocabulary: Vocabulary = create_vocabulary(self.llama, end_ids=self.end_ids)
        self.entry = Entry
        self.context = SharedContext(
            self.llama, max_sequences=self.ROWS + 1, context_size=self.CONTEXT, batch=self.llama.n_batch
        )

    def encode(self, text: str) -> list[int]:
        return list(self.llama.tokenize(text.encode(), add_bos=False, special=False))

    def answers(self, prompt: str, rows: Sequence[tuple[Guide | None, str | None]], most: int) -> list[Written]:
        """Write an answer for each row, which is a guide and a seed, or None for a greedy answer."""
        tokens = self.llama.tokenize(prompt.encode(), add_bos=False, special=True)
        self.context.truncate(0, 0)
        self.context.decode([self.entry(token, (0,), place == len(tokens) - 1) for place, token in enumerate(tokens)])
        first = self.context.logits(len(tokens) - 1).copy()
        found: list[Written] = []
        for begin in range(0, len(rows), self.ROWS):
            found += self._group(len(tokens), first, rows[begin : begin + self.ROWS], most)
        return found

    def _group(
        self, length: int, first: Logits, rows: Sequence[tuple[Guide | None, str | None]], most: int
    ) -> list[Written]:
        found = [_Row(guide, seed) for guide, seed in rows]
        for number in range(1, len(found) + 1):
            self.context.share(0, number, length)
        logits = dict.fromkeys(range(len(found)), first)
        while logits:
            for number, row in list(enumerate(found)):
                if number in logits:
                    row.take(logits[number].copy(), self.is_end)
            live = [number for number, row in enumerate(found) if not row.ended and len(row.tokens) < most]
            if not live:
                break
            same: dict[tuple[int, ...], list[int]] = {}  # answers that are the same so far are computed once
            for number in live:
                same.setdefault(tuple(found[number].tokens), []).append(number)
            self.context.decode(
                [
                    self.entry(tokens[-1], tuple(number + 1 for number in numbers), True)
                    for tokens, numbers in same.items()
                ]
            )
            logits = {}
            for place, numbers in enumerate(same.values()):
                logits.update(dict.fromkeys(numbers, self.context.logits(place).copy()))
        for number in range(1, len(found) + 1):
            self.context.truncate(number, 0)
        return [
            Written(
                self._text(row.tokens[:-1] if row.ended else row.tokens),
                row.ended,
                len(row.tokens),
                row.choices,
                row.masked,
                row.tokens,
            )
            for row in found
        ]

    def is_end(self, token_id: int) -> bool:
        vocab = self.library.llama_model_get_vocab(self.llama.model)
        return token_id in self.end_ids or bool(self.library.llama_vocab_is_eog(vocab, token_id))

    def _text(self, tokens: Sequence[int]) -> str:
        return bytes(self.llama.detokenize(list(tokens))).decode("utf-8", "replace")


class _Row:
    """Hold one answer while it is written."""

    def __init__(self, guide: Guide | None, seed: str | None) -> None:
        self.guide = guide
        self.seed = seed
        self.tokens: list[int] = []
        self.ended = False
        self.choices = 0
        self.masked = 0.0

    def take(self, logits: Logits, is_end: Callable[[int], bool]) -> None:
        """Choose the next token, and tell the guide at once: a library may keep the mask of one answer only."""
        self.choices += 1
        if self.guide is not None:
            whole = _log_sum(logits)
            self.guide.mask(logits)
            self.masked += _log_sum(logits) - whole
            self.choices -= int(np.count_nonzero(np.isfinite(logits)) == 1)
        token = _draw(logits, self.seed, len(self.tokens))
        self.tokens.append(token)
        self.ended = is_end(token)
        if self.guide is not None and not self.ended:
            self.guide.accept(token)


class TransformersModel:
    """Run the model on transformers, in batches; formatter-core masks through its adapter."""

    ROWS = 14

    def __init__(self, path: str, threads: int = 1) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.torch = torch
        torch.set_num_threads(threads)
        self.tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
        self.tokenizer.pad_token = self.tokenizer.pad_token or "<|endoftext|>"
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.size = self.model.config.vocab_size
        self.end_ids = [cast("int", self.tokenizer.convert_tokens_to_ids("<|im_end|>"))]
        from formatter_transformers import create_vocabulary

        self.vocabulary: Vocabulary = create_vocabulary(self.tokenizer, model=self.model)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def write(
        self, name: str, tasks: Sequence[Task], prompts: Sequence[str], seed: int | None, most: int
    ) -> Iterator[Written]:
        """Yield an answer to each prompt, under the engine of this name."""
        for begin in range(0, len(prompts), self.ROWS):
            part = slice(begin, begin + self.ROWS)
            batch = self.tokenizer(list(prompts[part]), return_tensors="pt", padding=True, add_special_tokens=False)
            processors = self._processors(name, tasks[part])
            self.torch.manual_seed(seed or 0)
            sampling = {"do_sample": True, "temperature": 0.8, "top_k": 0} if seed is not None else {"do_sample": False}
            output = self.model.generate(
                **batch,
                **sampling,
                max_new_tokens=most,
                eos_token_id=self.end_ids,
                pad_token_id=self.tokenizer.pad_token_id,
                logits_processor=processors,
            )
            for row in output[:, batch["input_ids"].shape[1] :].tolist():
                ended = self.end_ids[0] in row
                kept = row[: row.index(self.end_ids[0])] if ended else row
                count = len(kept) + ended
                yield Written(str(self.tokenizer.decode(kept)), ended, count, count, 0.0, row[:count])

    def _processors(self, name: str, tasks: Sequence[Task]) -> list[Any]:
        if name == "no format":
            return []
        options = OUR_OPTIONS.get(name)
        if options is not None:
            from formatter_transformers import create_logits_processor

            wanted = [our_format(task, **options) for task in tasks]
            return [create_logits_processor(self.tokenizer, formats=wanted, model=self.model, end_ids=self.end_ids)]
        factory = ENGINES[name](self)
        assert factory is not None
        return [_Guided([factory(task)() for task in tasks], self.end_ids)]


class _Guided:
    """Wrap guides, one a row, as a logits processor of transformers."""

    def __init__(self, guides: Sequence[Guide], end_ids: Sequence[int]) -> None:
        self.guides = guides
        self.end_ids = end_ids
        self.finished = [False] * len(guides)
        self.is_first = True

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores = scores.clone()
        for row, guide in enumerate(self.guides):
            last = int(input_ids[row, -1])
            if not self.is_first and not self.finished[row]:
                self.finished[row] = last in self.end_ids
                if not self.finished[row]:
                    guide.accept(last)
            if not self.finished[row]:
                guide.mask(scores[row].numpy())
        self.is_first = False
        return scores


def _log_sum(logits: Logits) -> float:
    most = float(logits.max())
    return most + math.log(float(np.exp(logits - most).sum())) if math.isfinite(most) else -math.inf


def _draw(logits: Logits, seed: str | None, position: int, temperature: float = 0.8) -> int:
    """Choose the best token, or draw one by the Gumbel trick; the noise is the same for every engine."""
    if seed is None:
        return int(logits.argmax())
    noise = np.random.default_rng([*seed.encode(), position]).gumbel(size=len(logits))
    return int((logits / temperature + noise).argmax())


# --- the engines -----------------------------------------------------------------------------------------------------


class _Bits:
    """Guide an answer by masks that are packed rows."""

    def __init__(self, row: np.ndarray[Any, np.dtype[np.int32]]) -> None:
        self.row = row

    def fill(self) -> None:
        raise NotImplementedError

    def mask(self, logits: Logits) -> None:
        self.fill()
        bits = np.unpackbits(self.row.view(np.uint8), bitorder="little")[: len(logits)]
        logits[: len(bits)][bits == 0] = -np.inf
        logits[len(bits) :] = -np.inf


class _OurGuide(_Bits):
    def __init__(self, formatter: Any, row: Any) -> None:
        super().__init__(row)
        self.formatter = formatter

    def fill(self) -> None:
        self.formatter.fill_bitmask(self.row)

    def accept(self, token_id: int) -> None:
        self.formatter.accept_token(token_id)


class _CanonicalGuide(_OurGuide):
    """Spell certain text as the tokenizer would, as `forced_text="canonical"` does."""

    MOST = 100

    def __init__(self, formatter: Any, row: Any, encode: Callable[[str], list[int]]) -> None:
        super().__init__(formatter, row)
        self.encode = encode
        self.planned: list[int] = []

    def mask(self, logits: Logits) -> None:
        if not self.planned:
            self.planned = canonical_tokens(self.formatter, lambda text: self.encode(text.decode()), self.MOST)
        if self.planned:
            kept = logits[self.planned[0]]
            logits[:] = -np.inf
            logits[self.planned[0]] = kept
        else:
            super().mask(logits)

    def accept(self, token_id: int) -> None:
        super().accept(token_id)
        del self.planned[:1]


class _PeerGuide(_Bits):
    def __init__(self, sequence: Any, row: Any) -> None:
        super().__init__(row)
        self.sequence = sequence

    def fill(self) -> None:
        self.sequence.mask()

    def accept(self, token_id: int) -> None:
        if not self.sequence.accept(token_id):
            raise ValueError(f"refuses token {token_id}, which its mask allowed")


def ours(
    model: LlamaModel,
    budget: int | None = None,
    *,
    canonical: bool = False,
    forced_text: MaskedText = "exact",
    **options: Any,
) -> Factory:
    """Make guides of formatter-core; `options` are those of `formats.json_schema`."""
    from formatter_core import bitmask

    compiler = Compiler(model.vocabulary)
    row = bitmask.allocate(1, len(model.vocabulary))[0]

    def make(task: Task) -> Callable[[], Guide]:
        compiled = compiler.compile(our_format(task, **options)).with_forced_text(forced_text)
        if canonical:
            return lambda: _CanonicalGuide(compiled.formatter(max_tokens=budget), row, model.encode)
        return lambda: _OurGuide(compiled.formatter(max_tokens=budget), row)

    return make


def our_format(task: Task, **options: Any) -> Any:
    """Return a task's format, as formatter-core takes it."""
    if task.schema is not None:
        return formats.json_schema(task.schema, **options)
    builder = FormatterBuilder()
    for number, part in enumerate(task.parts):
        name = f"part{number}" if part.is_answer else None
        if part.options:
            builder.append(builder.choice(list(part.options), name=name) if name else part.options[0])
        else:
            builder.append(builder.regex(f"[{part.characters}]{{{part.least},{part.most}}}", name=name))
    return builder


def peer(model: LlamaModel, name: str) -> Factory:
    """Make guides of another library, as `benchmarks/engines.py` drives it."""
    engine: Any = peers.build(name, model.vocabulary, model.encode)
    if engine is None:
        raise ImportError(f"{name} is not installed")
    row = np.asarray(engine.rows)[0]

    def make(task: Task) -> Callable[[], Guide]:
        case = Case(task.name, (), schema=task.schema, pattern=None if task.schema else task.regex())
        start = engine.compile(case)
        return lambda: _PeerGuide(start(), row)

    return make


def outlines(model: LlamaModel) -> Factory:
    """Make guides of outlines-core: an automaton over all tokens, made in advance."""
    import outlines_core
    from outlines_core.json_schema import build_regex_from_schema

    tokens: dict[bytes, list[int]] = {}
    for token_id, token in enumerate(model.vocabulary.tokens):
        if token and token_id not in model.end_ids:
            tokens.setdefault(token, []).append(token_id)
    vocabulary = outlines_core.Vocabulary(model.end_ids[0], tokens)

    @cache
    def index(regex: str) -> Any:
        return outlines_core.Index(regex, vocabulary)

    class OutlinesGuide:
        def __init__(self, regex: str) -> None:
            self.guide = outlines_core.Guide(index(regex))

        def mask(self, logits: Logits) -> None:
            allowed = np.array(self.guide.get_tokens(), dtype=np.int64)
            kept = logits[allowed]
            logits[:] = -np.inf
            logits[allowed] = kept

        def accept(self, token_id: int) -> None:
            self.guide.advance(token_id, return_tokens=False)

    def make(task: Task) -> Callable[[], Guide]:
        regex = task.regex() if task.schema is None else build_regex_from_schema(json.dumps(task.schema))
        index(regex)
        return lambda: OutlinesGuide(regex)

    return make


def llama_grammar(model: LlamaModel) -> Factory:
    """Make guides of llama.cpp's own grammar, with the GBNF that llama-cpp-python makes of a schema."""
    library = model.library
    few = 1000  # of all tokens it would be slow; what is less probable than these is hardly ever drawn
    candidates = np.zeros(few, dtype=[("id", np.int32), ("logit", np.float32), ("p", np.float32)])

    class GrammarGuide:
        def __init__(self, text: str) -> None:
            vocab = library.llama_model_get_vocab(model.llama.model)
            self.sampler = library.llama_sampler_init_grammar(vocab, text.encode(), b"root")
            if not self.sampler:
                raise ValueError("llama.cpp does not read its own grammar")

        def mask(self, logits: Logits) -> None:
            best = np.argpartition(-logits, few)[:few]
            for begin in range(0, len(logits) - few, few):
                candidates["id"] = np.argsort(-logits)[begin : begin + few] if begin else best
                candidates["logit"] = logits[candidates["id"]]
                array = library.llama_token_data_array(
                    data=candidates.ctypes.data_as(ctypes.POINTER(library.llama_token_data)),
                    size=few,
                    selected=-1,
                    sorted=False,
                )
                library.llama_sampler_apply(self.sampler, ctypes.byref(array))
                if np.isfinite(candidates["logit"]).any():
                    break
            logits[:] = -np.inf
            logits[candidates["id"]] = candidates["logit"]

        def accept(self, token_id: int) -> None:
            library.llama_sampler_accept(self.sampler, token_id)

        def __del__(self) -> None:
            library.llama_sampler_free(self.sampler)

    def make(task: Task) -> Callable[[], Guide]:
        if task.schema is not None:
            from llama_cpp.llama_grammar import json_schema_to_gbnf

            text = json_schema_to_gbnf(json.dumps(task.schema))
        else:
            text = task.gbnf()
        return lambda: GrammarGuide(text)

    return make


#: Our own, by name: the options of `formats.json_schema`.
OUR_OPTIONS: dict[str, dict[str, Any]] = {
    "formatter-core": {},
    "formatter-core, json.dumps's blanks": {"whitespace": DUMPS},
    "formatter-core, one line": {"whitespace": "one_line"},
    "formatter-core, compact": {"whitespace": "compact"},
    "formatter-core, any key order": {"key_order": "any"},
    "formatter-core, any spelling": {"spelling": "any"},
}
#: By name: what the tables call an engine, and how it is made.
ENGINES: dict[str, Callable[[Any], Factory | None]] = {
    "no format": lambda _: None,
    **{name: partial(ours, **options) for name, options in OUR_OPTIONS.items()},
    "formatter-core, a budget of 60 tokens": partial(ours, budget=60),
    "formatter-core, longest forced text": partial(ours, forced_text="longest"),
    "formatter-core, one line, longest forced text": partial(ours, forced_text="longest", whitespace="one_line"),
    "formatter-core, canonical forced text": partial(ours, canonical=True),
    "llama.cpp's grammar": llama_grammar,
    "llguidance": lambda model: peer(model, "llguidance"),
    "XGrammar": lambda model: peer(model, "xgrammar"),
    "Outlines": outlines,
}


def guides(model: LlamaModel, names: Sequence[str]) -> dict[str, Factory | None]:
    """Make the engines of these names."""
    return {name: ENGINES[name](model) for name in names}
