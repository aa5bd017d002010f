"""Compare our readers of other engines' notations with these engines: does each text get the same answer?

    python3.11 dev.py run llama_cpp -m benchmarks.notations gbnf DIRECTORY --model MODEL.gguf --json OUT.json
    python3.11 dev.py run bench -m benchmarks.notations ebnf DIRECTORY --json OUT.json
    python3.11 dev.py run bench -m benchmarks.notations lark DIRECTORY --json OUT.json
    python3.11 dev.py run bench -m benchmarks.notations structural_tag DIRECTORY --json OUT.json

Every file of DIRECTORY is one grammar, such as the examples and tests that the engines publish. For each, texts are
made by random walks through our masks and through the engine's, and by mutating those; a text counts as accepted where
all of it is taken and an end may follow. Each grammar is read in a process of its own: engines may hang or abort.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from benchmarks.harness import ChildError, in_child
from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError

END = 256
#: Special tokens follow the end; in texts they are the characters from here on.
_SPECIALS, SPECIAL = 8, 0x10FFF0
#: The chance that a walk ends where it may, and the bytes after which it is given up.
_STOP, _LONGEST = 0.15, 160


class Matcher(Protocol):
    """Follow a sequence of bytes and special tokens, as one side sees it."""

    def reset(self) -> None: ...
    def allowed(self) -> list[int]: ...  # bytes, END, and special tokens from END + 1 on
    def push(self, symbol: int) -> bool: ...


class Ours:
    """Match by our reader and our masks."""

    def __init__(self, kind: str, text: str) -> None:
        format = getattr(formats, kind)(with_numbered_tokens(text) if kind == "structural_tag" else text)
        names = {f"<{index}>": END + 1 + index for index in range(_SPECIALS)}
        vocabulary = Vocabulary([*Vocabulary.of_bytes().tokens, *(None for _ in names)], [END], names)
        self._compiled = Compiler(vocabulary).compile(format)
        self.reset()

    def reset(self) -> None:
        self._formatter = self._compiled.formatter()

    def allowed(self) -> list[int]:
        return self._formatter.allowed_tokens()

    def push(self, byte: int) -> bool:
        return self._formatter.accept_tokens([byte]) == 1


class LlamaCpp:
    """Match by the grammar sampler of llama.cpp, over the byte tokens of a SentencePiece vocabulary."""

    def __init__(self, kind: str, text: str, model: str) -> None:
        import llama_cpp

        self._library: Any = llama_cpp
        self._llama = llama_cpp.Llama(model, vocab_only=True, verbose=False)
        vocabulary = llama_cpp.llama_model_get_vocab(self._llama.model)
        names = {llama_cpp.llama_vocab_get_text(vocabulary, i): i for i in range(self._llama.n_vocab())}
        self._ids = [names[b"<0x%02X>" % byte] for byte in range(256)] + [self._llama.token_eos()]
        self._sampler = llama_cpp.llama_sampler_init_grammar(vocabulary, text.encode(), b"root")
        if not self._sampler:
            raise ValueError("llama.cpp does not read it")

    def reset(self) -> None:
        self._library.llama_sampler_reset(self._sampler)

    def _possible(self, symbols: list[int]) -> list[int]:
        row = (self._library.llama_token_data * len(symbols))(*[(self._ids[symbol], 0.0, 0.0) for symbol in symbols])
        array = self._library.llama_token_data_array(row, len(symbols), -1, False)
        self._library.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return [symbol for symbol, entry in zip(symbols, row, strict=True) if entry.logit != -math.inf]

    def allowed(self) -> list[int]:
        return self._possible(list(range(257)))

    def push(self, byte: int) -> bool:
        if not self._possible([byte]):
            return False
        self._library.llama_sampler_accept(self._sampler, self._ids[byte])
        return True


class XGrammar:
    """Match by XGrammar, over a vocabulary of bytes."""

    def __init__(self, kind: str, text: str) -> None:
        import xgrammar

        tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
        tokens += [bytes([0xFF, index]) for index in range(_SPECIALS)]  # which is no text, so that only tokens match
        information = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, stop_token_ids=[END])
        compiler = xgrammar.GrammarCompiler(information)
        if kind == "structural_tag":
            compiled = compiler.compile_structural_tag(with_numbered_tokens(text))
        else:
            compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(text))
        self._matcher = xgrammar.GrammarMatcher(compiled)
        self._row = xgrammar.allocate_token_bitmask(1, END + 1 + _SPECIALS)

    def reset(self) -> None:
        self._matcher.reset()

    def allowed(self) -> list[int]:
        if not self._matcher.fill_next_token_bitmask(self._row):
            return list(range(END + 1))
        words = self._row[0].tolist()
        return [symbol for symbol in range(END + 1 + _SPECIALS) if words[symbol // 32] >> symbol % 32 & 1]

    def push(self, byte: int) -> bool:
        if self._matcher.is_terminated():
            return False
        if self._matcher.fill_next_token_bitmask(self._row) and not self._row[0].tolist()[byte // 32] >> byte % 32 & 1:
            return False  # only masks keep budgets
        return bool(self._matcher.accept_token(byte))


class Llguidance:
    """Match by llguidance, over a vocabulary of bytes."""

    def __init__(self, kind: str, text: str) -> None:
        import llguidance

        self._tokenizer = llguidance.LLTokenizer("byte")
        self._grammar = llguidance.LLMatcher.grammar_from_lark(text)
        self._module: Any = llguidance
        self.reset()
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())

    def reset(self) -> None:
        self._matcher = self._module.LLMatcher(self._tokenizer, self._grammar, log_level=0)

    def allowed(self) -> list[int]:
        if self._matcher.is_stopped():
            return [END] if self._matcher.is_accepting() else []
        data = self._matcher.compute_bitmask()
        found = [symbol for symbol in range(256) if data[symbol // 8] >> symbol % 8 & 1]
        return [*found, END] if self._matcher.is_accepting() else found

    def push(self, byte: int) -> bool:
        return not self._matcher.is_stopped() and self._matcher.try_consume_tokens([byte]) == 1


def accepts(matcher: Matcher, data: bytes) -> bool:
    """Tell whether all of a text is accepted and may be followed by an end."""
    matcher.reset()
    return all(map(matcher.push, symbols_of(data))) and END in matcher.allowed()


def symbols_of(data: bytes) -> list[int]:
    """Return the bytes and special tokens that a text stands for."""
    symbols: list[int] = []
    for char in data.decode():
        symbols += [END + 1 + ord(char) - SPECIAL] if ord(char) >= SPECIAL else char.encode()
    return symbols


def with_numbered_tokens(text: str) -> Any:
    """Return a structural tag whose tokens, by id or by name, are our special tokens."""
    numbers: dict[int | str, int] = {}

    def number(token: Any) -> Any:
        return numbers.setdefault(token, END + 1 + len(numbers)) if isinstance(token, int) or token else token

    def numbered(data: Any) -> Any:
        if isinstance(data, list):
            return [numbered(each) for each in data]
        if not isinstance(data, dict):
            return data
        made = {key: numbered(value) if key != "json_schema" else value for key, value in data.items()}
        for key in ("exclude_tokens", "trigger_tokens"):
            if isinstance(made.get(key), list):
                made[key] = [number(token) for token in made[key]]
        if made.get("type", "token") == "token" and "token" in made:
            made["token"] = number(made["token"])
        if made.get("type") == "token_dispatch":
            made["rules"] = [[number(token), *rest] for token, *rest in made["rules"]]
        return made

    return numbered(json.loads(text))


def walk(matcher: Matcher, rng: random.Random) -> bytes:
    """Draw a random text, even one that does not come to an end."""
    matcher.reset()
    data = bytearray()
    while len(data) < _LONGEST:
        allowed = matcher.allowed()
        if not allowed or (END in allowed and (len(allowed) == 1 or rng.random() < _STOP)):
            break
        printable = [symbol for symbol in allowed if 0x20 <= symbol < 0x7F or symbol > END]
        symbols = printable if printable and rng.random() < 0.9 else [symbol for symbol in allowed if symbol != END]
        symbol = rng.choice(symbols)
        data += bytes([symbol]) if symbol < END else chr(SPECIAL + symbol - END - 1).encode()
        if not matcher.push(symbol):
            break
    return bytes(data)


def mutated(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Change a text a little: a character more, less or changed, two exchanged, a part of another text."""
    text = data.decode("utf-8", "ignore")
    place = rng.randint(0, len(text))
    other = rng.choice(others).decode("utf-8", "ignore")
    char = rng.choice(other) if other and rng.random() < 0.7 else rng.choice("aZ0 \n\"'\\{}[]().,:<>é😀")
    kind = rng.randrange(5)
    if kind == 0:
        text = text[:place] + char + text[place:]
    elif kind == 1:
        text = text[:place] + text[place + 1 :]
    elif kind == 2:
        text = text[:place] + char + text[place + 1 :]
    elif kind == 3:
        text = text[:place] + text[place + 1 : place + 2] + text[place : place + 1] + text[place + 2 :]
    else:
        text = text[:place] + other[rng.randint(0, len(other)) :]
    return text.encode()


def compared(ours: Matcher, theirs: Matcher, strings: int, rng: random.Random) -> dict[str, Any]:
    """Find the texts on which the two sides differ."""
    walks = [walk(side, rng) for side in (ours, theirs) for _ in range(strings // 4)]
    texts = walks + [mutated(rng.choice(walks), walks, rng) for _ in range(strings - len(walks))]
    # llama.cpp ends its tokens at a zero byte, and takes bytes that are not UTF-8.
    texts = [text for text in texts if b"\0" not in text and text.decode("utf-8", "ignore").encode() == text]
    answers = [(text, accepts(ours, text), accepts(theirs, text)) for text in texts]
    return {
        "texts": len(texts),
        "accepted": sum(mine for _, mine, _ in answers),
        "differences": [
            {"text": text.decode("utf-8", "backslashreplace"), "ours": mine, "theirs": other}
            for text, mine, other in answers
            if mine != other
        ],
    }


def outcome(kind: str, text: str, judge: Callable[[str, str], Matcher], strings: int, seed: int) -> dict[str, Any]:
    """Compare the two sides on one grammar."""
    sides: dict[str, Matcher] = {}
    refusals: dict[str, str] = {}
    for side, make in (("ours", Ours), ("theirs", judge)):
        try:
            sides[side] = make(kind, text)
        except FormatterError as error:
            refusals[side] = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 (whatever an engine raises)
            refusals[side] = f"{type(error).__name__}: {str(error)[:300]}"
    if refusals:
        return {"outcome": "refused by " + " and ".join(sorted(refusals)), **refusals}
    found = compared(sides["ours"], sides["theirs"], strings, random.Random(seed))
    return {"outcome": "different" if found["differences"] else "same", **found}


def in_a_process(work: Callable[[], dict[str, Any]], cpu_seconds: int) -> dict[str, Any]:
    """Return the result of a function that may hang, or end its process."""
    try:
        return dict(in_child(work, cpu_seconds))
    except ChildError as error:
        return {"outcome": "took too long" if str(error) == "time-out" else "the process ended"}


def grammars(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of all grammars."""
    for path in sorted(directory.iterdir()):
        yield path.name, path.read_text(encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["gbnf", "ebnf", "lark", "structural_tag"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", help="a model of llama.cpp with a SentencePiece vocabulary, for gbnf")
    parser.add_argument("--strings", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=60, help="of CPU time for one grammar")
    parser.add_argument("--json", type=Path, help="where to write the results")
    options = parser.parse_args()
    judges: dict[str, Callable[[str, str], Matcher]] = {
        "gbnf": lambda kind, text: LlamaCpp(kind, text, options.model),
        "ebnf": XGrammar,
        "lark": Llguidance,
        "structural_tag": XGrammar,
    }
    judge = judges[options.kind]
    engine = {"gbnf": "llama_cpp", "lark": "llguidance"}.get(options.kind, "xgrammar")
    importlib.import_module(engine)  # once, before there are processes
    results = {}
    for seed, (name, text) in enumerate(grammars(options.directory)):
        found = in_a_process(lambda: outcome(options.kind, text, judge, options.strings, seed), options.seconds)  # noqa: B023
        results[name] = found
        if found["outcome"] not in ("same", "refused by ours and theirs"):
            sys.stdout.write(f"{name}: {found['outcome']} {found.get('ours') or found.get('differences', [])[:2]}\n")
    counts = Counter(found["outcome"] for found in results.values())
    sys.stdout.write(f"{dict(counts)}\n")
    if options.json:
        document = {"kind": options.kind, "strings": options.strings, "outcomes": counts, "grammars": results}
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
