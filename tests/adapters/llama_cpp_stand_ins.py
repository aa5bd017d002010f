"""llama-cpp-python as far as a hook can tell: the module of each generation, and its `Llama` on a model that is a hash.

The generations differ in what the functions of the vocabulary are called and take, in who calls a logits processor
with which array, and in what becomes of an exception inside it.
"""

from __future__ import annotations

import ctypes
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.adapters.contract import END, OTHER_END, PAD, SPECIAL, TOKENS, WIDTH
from tests.adapters.engine_modules import modules_of

#: The releases in which something changed: nothing yet; `special` in token_to_piece; attributes instead of types;
#: `lstrip`; samplers in C, with a strided view; a pointer for the vocabulary; samplers that others can write.
GENERATIONS = ("0.2.64", "0.2.78", "0.2.82", "0.3.0", "0.3.7", "0.3.36")
#: The generations of the two ways to call a logits processor.
LIST_CALLED, ITERATED = "0.2.82", "0.3.36"

_CANDIDATE = np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True)
#: Pieces of the vocabulary: those of the contract, with names for what is special.
PIECES: list[bytes] = [token or b"" for token in TOKENS] + [b"<unused>"] * (WIDTH - len(TOKENS))
_NAMES = {END: b"<|end|>", OTHER_END: b"<|turn|>", SPECIAL: b"<|special|>", PAD: b"<|pad|>"}


def parsed(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@contextmanager
def llama_cpp_of(version: str) -> Iterator[types.ModuleType]:
    """Put a stand-in in the place of the module `llama_cpp`, and import the adapter anew on it."""
    with modules_of("formatter_llama_cpp", {"llama_cpp": {}}) as made:
        fill_module(made["llama_cpp"], version)
        yield made["llama_cpp"]


class LlamaGrammar:
    """Since 0.3.0 a grammar keeps its text; before, only what was read from it."""

    def __init__(self, text: str | None) -> None:
        if text is not None:
            self._grammar = text


class LogitsProcessorList(list):
    def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


def fill_module(module: Any, version: str) -> None:
    release = parsed(version)
    module.__version__ = version
    module.LogitsProcessorList = LogitsProcessorList
    module.Llama = Llama
    module.LlamaGrammar = LlamaGrammar
    handle = "vocabulary" if release >= (0, 3, 7) else "model"

    def checked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(pointer: str, *arguments: Any) -> Any:
            assert pointer == handle, f"{version} takes the {handle}"
            return function(*arguments)

        return call

    if release >= (0, 3, 7):
        module.llama_model_get_vocab = lambda model: "vocabulary"
        module.llama_vocab_get_attr = checked(attribute_of)
        module.llama_vocab_is_eog = checked(lambda token: is_end(token))  # looked up late: a test replaces it
    if (0, 2, 78) <= release < (0, 3, 7):
        module.llama_token_get_attr = checked(attribute_of)
    if release < (0, 2, 78):
        module.llama_token_get_type = checked(type_of)
    module.llama_token_is_eog = lambda pointer, token: is_end(token)
    module.llama_token_to_piece = piece_function(release, checked)
    text = "llama_vocab_get_text" if release >= (0, 3, 7) else "llama_token_get_text"
    setattr(module, text, checked(lambda token: _NAMES.get(token, b"[unused]")))
    if release >= (0, 3, 17):
        add_samplers(module)


def is_end(token: int) -> bool:
    return token in (END, OTHER_END)


def attribute_of(token: int) -> int:
    return 8 if token in _NAMES else 2 if token >= len(TOKENS) else 4


def type_of(token: int) -> int:
    return 3 if token in _NAMES else 5 if token >= len(TOKENS) else 1


def piece_function(release: tuple[int, ...], checked: Callable[..., Any]) -> Callable[..., Any]:
    def write(token: int, buffer: Any, length: int, special: bool) -> int:
        data = (_NAMES[token] if special else b"") if token in _NAMES else PIECES[token]
        if len(data) > length:
            return -len(data)
        ctypes.memmove(buffer, data, len(data))
        return len(data)

    inner = checked(write)
    if release >= (0, 2, 82):
        return lambda model, token, buffer, length, lstrip, special: inner(model, token, buffer, length, special)
    return lambda model, token, buffer, length, special: inner(model, token, buffer, length, special)


class ChainOfOneCall:
    pass


class Llama:
    """A model whose logits depend on all tokens so far, and the loop of the generation around it."""

    def __init__(self, version: str, *, seed: int = 0, draft_model: Callable[[np.ndarray], list[int]] | None = None):
        self.release = parsed(version)
        self.draft_model = draft_model
        self.model = "model"
        self.seed = seed
        self.swallowed: list[BaseException] = []
        self.input_ids = np.zeros(4096, dtype=np.intc)
        self.n_tokens = 0

    def n_vocab(self) -> int:
        return WIDTH

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        return [*([PAD] if add_bos else ()), *text]

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        random = np.random.default_rng([self.seed, len(ids), *(int(token) for token in ids[-8:])])
        return (random.standard_normal(WIDTH) * 3).astype(np.single)

    def generate(self, tokens: Sequence[int], logits_processor: Any = None, grammar: Any = None) -> Iterator[int]:
        """Greedy; with drafts, the ids that a processor sees hold those nobody has checked."""
        if self.release >= (0, 3, 0):
            self._sampler = ChainOfOneCall()
        pending, self.n_tokens = list(tokens), 0
        place = len(tokens) - 1
        while True:
            self.input_ids[self.n_tokens : self.n_tokens + len(pending)] = pending
            self.n_tokens += len(pending)
            while place < self.n_tokens:
                token = self._sample(place, logits_processor, grammar)
                place += 1
                yield token
                pending = [token]
                if place < self.n_tokens and token != self.input_ids[place]:
                    self.n_tokens = place
                    break
            if self.draft_model is not None:
                self.input_ids[self.n_tokens] = pending[0]
                pending.extend(int(token) for token in self.draft_model(self.input_ids[: self.n_tokens + 1]))

    def _sample(self, place: int, processors: Any, grammar: Any) -> int:
        logits = self.logits(self.input_ids[: place + 1])
        if processors is None:
            return int(logits.argmax())
        if self.release < (0, 3, 0):
            ids = self.input_ids[: place + 1]
            logits[:] = processors(ids, logits)
            return int(logits.argmax())
        candidates = np.zeros(WIDTH, dtype=_CANDIDATE).view(np.recarray)
        candidates.id[:], candidates.logit[:] = np.arange(WIDTH), logits
        try:
            for processor in processors:
                candidates.logit[:] = processor(self.input_ids[: self.n_tokens], candidates.logit)
        except BaseException as error:  # noqa: BLE001 - ctypes prints it and goes on
            self.swallowed.append(error)
        return int(candidates.logit.argmax())

    def create_completion(
        self,
        prompt: str,
        *,
        max_tokens: int = 100,
        logits_processor: Any = None,
        logit_bias: dict[int, float] | None = None,
        stop: Sequence[str] = (),
        echo: bool = False,
        grammar: Any = None,
    ) -> dict[str, Any]:
        if logit_bias is not None:

            def bias(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
                new = np.copy(scores)
                for token, value in logit_bias.items():
                    new[token] += value
                return new

            added = LogitsProcessorList([bias])
            logits_processor = added if logits_processor is None else logits_processor.extend(added)
        data, reason = b"", "length"
        tokens = self.generate(self.tokenize(prompt.encode()), logits_processor, grammar)
        for token in itertools.islice(tokens, max_tokens):
            if is_end(token):
                reason = "stop"
                break
            data += PIECES[token] if len(PIECES[token]) <= 32 else b""
            found = [data.index(word.encode()) for word in stop if word.encode() in data]
            if found:
                data, reason = data[: min(found)], "stop"
                break
        text = data.decode("utf-8", "ignore")
        return {"choices": [{"text": prompt + text if echo else text, "finish_reason": reason}]}


# --- samplers in C, as far as a sampler of others can tell -----------------------------------------------------


class TokenData(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class TokenDataArray(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.POINTER(TokenData)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    ]


class Sampler(ctypes.Structure):
    pass


class SamplerInterface(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Sampler))),
        ("accept", ctypes.CFUNCTYPE(None, ctypes.POINTER(Sampler), ctypes.c_int32)),
        ("apply", ctypes.CFUNCTYPE(None, ctypes.POINTER(Sampler), ctypes.POINTER(TokenDataArray))),
        ("reset", ctypes.CFUNCTYPE(None, ctypes.POINTER(Sampler))),
        ("clone", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Sampler))),
        ("free", ctypes.CFUNCTYPE(None, ctypes.POINTER(Sampler))),
        ("backend_init", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Sampler))),
    ]


Sampler._fields_ = [("iface", ctypes.POINTER(SamplerInterface)), ("ctx", ctypes.c_void_p)]


def add_samplers(module: Any) -> None:
    module.llama_token_data_array = TokenDataArray
    module.llama_sampler = Sampler
    module.llama_sampler_i = SamplerInterface
    module.made = []

    def init(interface: Any, context: Any) -> Any:
        sampler = Sampler(ctypes.pointer(interface), context)
        module.made.append(sampler)
        return ctypes.pointer(sampler)

    module.llama_sampler_init = init
    module.llama_sampler_chain_add = lambda chain, sampler: chain.append(sampler)


def sample(chain: Sequence[Any], logits: np.ndarray, ids: Sequence[int] | None = None) -> int:
    """`llama_sampler_sample`, greedy: each sampler of the chain in turn, then the best candidate that is left."""
    array, data = candidates_of(logits, ids)
    for sampler in chain:
        sampler.contents.iface.contents.apply(sampler, ctypes.pointer(array))
    left = data[: array.size]
    token = int(left["id"][left["logit"].argmax()])
    for sampler in chain:
        sampler.contents.iface.contents.accept(sampler, token)
    return token


def candidates_of(logits: np.ndarray, ids: Sequence[int] | None = None) -> tuple[TokenDataArray, np.ndarray]:
    data = np.zeros(len(logits), dtype=_CANDIDATE)
    data["id"], data["logit"] = range(len(logits)) if ids is None else ids, logits
    array = TokenDataArray(data.ctypes.data_as(ctypes.POINTER(TokenData)), len(data), -1, True)
    return array, data
