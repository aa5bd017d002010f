"""Try the backend for SGLang on SGLang's own classes, beside its backends for llguidance and XGrammar, on a CPU.

    PYTHONPATH=.:integrations python scripts/try_sglang.py --shared ../shared --output benchmarks/results/sglang.json

Needs an environment with SGLang's wheel (without its dependencies, which are CUDA's), torch for CPUs, transformers,
llguidance and xgrammar. What is tried:

- which documents, written compactly, each backend accepts, and why they differ where they do;
- ours after random accepts, rollbacks, copies and jumps beside a fresh replay;
- requests through SGLang's own `GrammarManager`, with and without its wrapper for reasoning; its scheduler, which needs
  CUDA's packages, is simulated: batches of random members, cancelled and computed again, and a format that fails;
- the cost of the masks of 32 rows, each at a random place of its own, with the vocabulary of Llama 3.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import xgrammar
from sglang.srt.constrained import base_grammar_backend, grammar_manager
from sglang.srt.constrained.base_grammar_backend import BaseGrammarBackend, GrammarRow, InvalidGrammarObject
from sglang.srt.constrained.llguidance_backend import GuidanceBackend
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter

import formatter_sglang.backend
from formatter_core import formats, parse
from formatter_sglang import FormatterGrammarBackend
from tests.adapters.sglang_walks import SCHEMA, jump, walk

TINY = Path(__file__).resolve().parents[1] / "examples" / "tiny_model"


def grammar_of(backend: BaseGrammarBackend, key: tuple[str, str]) -> Any:
    """Get a grammar as SGLang's manager does: from the cache, or compiled in the executor."""
    value, is_cached = backend.get_cached_or_future_value(key, False)
    if not is_cached:
        value = value.result()
        backend.set_cache(key, value.copy())
    return value


def accepts(grammar: Any, tokens: list[int], end: int) -> bool:
    """Tell whether each token, and the end, is in the mask before it."""
    rows = grammar.allocate_vocab_mask(448, 1, "cpu")
    for token in [*tokens, end]:
        rows.fill_(-1)
        grammar.fill_vocab_mask(rows, 0)
        if not int(rows[0, token // 32]) >> (token % 32) & 1:
            return False
        grammar.accept_token(token)
    return True


def verdicts(backends: dict[str, Any], tokenizer: Any, file: Path, most: int) -> dict[str, Any]:
    """Count the documents on which all three that compile the schema say the same; print the others with the cause."""
    counts = Counter[str]()
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in random.Random(0).sample(cases, min(most, len(cases))):
        schema = case.get("schema", case.get("json_schema"))
        grammars = {name: grammar_of(one, ("json", json.dumps(schema))) for name, one in backends.items()}
        if any(isinstance(one, InvalidGrammarObject) for one in grammars.values()):
            counts["refused by one"] += len(case.get("tests", []))
            continue
        for document in case.get("tests", []):
            text = json.dumps(document.get("data"), separators=(",", ":"), ensure_ascii=False)
            tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
            found = {name: verdict(one.copy(), tokens, tokenizer.eos_token_id) for name, one in grammars.items()}
            if len(set(found.values())) == 1:
                counts["same"] += 1
                continue
            cause = cause_of(found, schema, text, document.get("valid"))
            counts[cause] += 1
            print({"cause": cause, **found, "valid": document.get("valid"), "document": text[:200]})
    return dict(counts)


def verdict(grammar: Any, tokens: list[int], end: int) -> bool | str:
    """Tell whether a backend accepts a document, or what it raises."""
    try:
        return accepts(grammar, tokens, end)
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is its verdict
        return type(error).__name__


def cause_of(found: dict[str, Any], schema: Any, text: str, is_valid: bool) -> str:
    """Say who is wrong about a document, by the test suite; and whether XGrammar's strict mode is the cause."""
    wrong = sorted(name for name, said in found.items() if said != is_valid)
    cause = f"{' and '.join(wrong)}: {'refuses a valid' if is_valid else 'accepts an invalid'} document"
    if wrong == ["xgrammar"] and is_valid and accepts_undeclared_keys(schema, text):
        cause += ", because it forbids undeclared keys"
    return cause


def accepts_undeclared_keys(schema: Any, text: str) -> bool:
    """Tell whether XGrammar accepts a document without its strict mode, which SGLang leaves on."""
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo([]))
    compiled = compiler.compile_json_schema(json.dumps(schema), strict_mode=False)
    matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
    return bool(matcher.accept_string(text) and matcher.is_terminated())


# --- SGLang's manager ------------------------------------------------------------------------------------------------

REQUESTS: list[tuple[str, str, Any]] = [
    ("json_schema", json.dumps(SCHEMA), formats.json_schema(SCHEMA, key_order="any")),
    ("json_schema", '{"enum": ["yes", "no", 3.5]}', formats.json_schema({"enum": ["yes", "no", 3.5]})),
    ("regex", "[a-c]{2,6}(é|x)", formats.regex("[a-c]{2,6}(é|x)")),
    ("ebnf", 'root ::= "(" root ")" | [0-9]', formats.ebnf('root ::= "(" root ")" | [0-9]')),
    (
        "structural_tag",
        '{"type": "structural_tag", "format": {"type": "const_string", "value": "go"}}',
        formats.regex("go"),
    ),
    ("json_schema", '{"type": "nothing"}', None),
    ("regex", "(a", None),
]


class Request:
    """Hold what SGLang's manager needs of a request."""

    def __init__(self, number: int, rng: random.Random) -> None:
        kind, spec, self.format = rng.choice(REQUESTS)
        fields = dict.fromkeys(("json_schema", "regex", "ebnf", "structural_tag", "custom_params"))
        self.sampling_params = SimpleNamespace(**{**fields, kind: spec}, ebnf_full_assistant=False)
        self.rid, self.origin_input_ids, self.require_reasoning = str(number), [1], True
        self.grammar: Any = None
        self.grammar_key: Any = None
        self.grammar_wait_ct = 0
        self.tokens: list[int] = []
        self.aborted = ""

    def set_finish_with_abort(self, message: str) -> None:
        self.aborted, self.grammar = message, None

    def finished(self) -> bool:
        return bool(self.aborted)


def managed(tokenizer: Any, count: int, thoughts: str | None) -> dict[str, int]:
    """Count the outcomes of requests through SGLang's `GrammarManager`; `thoughts` names a parser of reasoning."""
    end, rng = tokenizer.eos_token_id, random.Random(0)
    serving = SimpleNamespace(
        skip_tokenizer_init=False, reasoning_parser=thoughts, enable_strict_thinking=thoughts is not None
    )
    parallel = SimpleNamespace(pp_rank=0, pp_size=1, tp_rank=0)
    grammar_manager.get_parallel = lambda: parallel
    for module in (grammar_manager, formatter_sglang.backend):
        module.__dict__["get_serving"] = lambda: serving
    base_grammar_backend.get_exec = lambda: SimpleNamespace(kernel=SimpleNamespace(grammar_backend="formatter"))
    os.environ["SGLANG_MAX_THINK_TOKENS"] = "9"
    model = SimpleNamespace(vocab_size=448, hf_eos_token_id={end}, think_end_ids=None)
    group = SimpleNamespace(world_size=1, first_rank=0, is_first_rank=True)
    scheduler = SimpleNamespace(
        server_args=None,
        tokenizer=tokenizer,
        model_config=model,
        dp_tp_cpu_group=None,
        dp_tp_group=group,
        pp_group=None,
    )
    manager = grammar_manager.GrammarManager(scheduler)
    waiting = [Request(number, rng) for number in range(count)]
    running: list[Request] = []
    queued, jumps, done, broken = 0, 0, Counter[str](), set[str]()
    while waiting or running or queued:
        while waiting and len(running) + queued < 32:
            request = waiting.pop()
            if manager.process_req_with_grammar(request):
                queued += 1
            elif request.aborted:
                done["refused" if request.format is None else "wrong"] += 1
            else:
                running.append(request)
        for request in manager.get_ready_grammar_requests() if queued else ():
            queued -= 1
            if request.aborted:
                done["refused" if request.format is None else "wrong"] += 1
            else:
                request.grammar.maybe_init_reasoning(thoughts is not None)
                running.append(request)
        batch = rng.sample(running, min(len(running), rng.randint(1, 16)))
        if not batch:
            continue
        rows = batch[0].grammar.allocate_vocab_mask(448, len(batch), "cpu")
        entries = [GrammarRow(row, one.grammar) for row, one in enumerate(batch)]
        batch[0].grammar.fill_vocab_mask_batched(entries, rows)
        logits = torch.rand(len(batch), 448)
        batch[0].grammar.apply_vocab_mask(logits, rows)
        for request, token in zip(batch, logits.argmax(dim=1).tolist(), strict=True):
            inner = request.grammar.grammar if thoughts else request.grammar
            if rng.random() < 0.003 and request.rid not in broken:
                broken.add(request.rid)
                inner.cursor.fail(RuntimeError("planted"))
            if rng.random() < 0.05 and len(request.tokens) > 2:
                request.grammar.rollback(2)
                del request.tokens[-2:]
                continue
            if rng.random() < 0.05:
                request.grammar = request.grammar.copy()
            # The wrapper for reasoning does not count the tokens of a jump, and would roll back too few after one.
            if thoughts is None and rng.random() < 0.05 and jump(request.grammar, request.tokens, tokenizer):
                jumps += 1
                continue
            try:
                request.grammar.accept_token(token)
            except ValueError:
                done["failed" if request.rid in broken else "wrong"] += 1
                running.remove(request)
                continue
            request.tokens.append(token)
            if request.grammar.is_terminated():
                running.remove(request)
                text = "".join(tokenizer.decode(request.tokens[:-1]).split("</think>")[bool(thoughts) :])
                done["complete" if parse(request.format, text).is_complete else "wrong"] += 1
            elif len(request.tokens) > 200 or rng.random() < 0.003:
                running.remove(request)
                done["cancelled"] += 1
    return {**done, "jumps": jumps}


# --- cost ------------------------------------------------------------------------------------------------------------


def fills(ranks: Path, rounds: int) -> dict[str, Any]:
    """Measure CPU microseconds for the masks of 32 rows, in turns: medians, and ours as a ratio of pairs."""
    tokenizer = llama3(ranks)
    width, end = 128_256, tokenizer.eos_token_id
    backends = all_backends(tokenizer, width, end)
    times: dict[str, list[float]] = {name: [] for name in backends}
    values = [{"name": f"Größe {number} of {number}", "tags": ["ab"] * (number % 5)} for number in range(32)]
    texts = [json.dumps(value, separators=(",", ":"), ensure_ascii=False) for value in values]
    for turn in range(rounds):
        rng = random.Random(turn)
        paths = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        paths = [path[: rng.randrange(len(path))] for path in paths]
        for name in rng.sample(list(backends), len(backends)):
            grammars = [grammar_of(backends[name], ("json", json.dumps(SCHEMA))) for _ in paths]
            for grammar, path in zip(grammars, paths, strict=True):
                for token in path:
                    grammar.accept_token(token)
            rows = grammars[0].allocate_vocab_mask(width, 32, "cpu")
            entries = [GrammarRow(row, grammar) for row, grammar in enumerate(grammars)]
            begun = time.process_time()
            grammars[0].fill_vocab_mask_batched(entries, rows)
            times[name].append(1e6 * (time.process_time() - begun))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {
        f"ours / {name}": statistics.median(a / b for a, b in zip(times["formatter"], times[name], strict=True))
        for name in times
        if name != "formatter"
    }
    return {**medians, **ratios}


def llama3(ranks: Path) -> Any:
    """Make a tokenizer of transformers from Llama 3's ranks."""
    words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    pattern = words + r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    special = [f"<|special_{number}|>" for number in range(256)]
    made = TikTokenConverter(vocab_file=str(ranks), pattern=pattern, extra_special_tokens=special).converted()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=special[1])


def all_backends(tokenizer: Any, width: int, end: int) -> dict[str, Any]:
    return {
        "formatter": FormatterGrammarBackend(tokenizer, width, {end}),
        "llguidance": GuidanceBackend(tokenizer=tokenizer, n_vocab=width, eos_token_ids={end}),
        "xgrammar": XGrammarGrammarBackend(tokenizer, vocab_size=width, model_eos_token_ids=[end]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, help="has maskbench/ and tokenizers/; without it no verdicts and costs")
    parser.add_argument("--count", type=int, default=150, help="of the schemas")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--output", type=Path, default=Path("sglang.json"))
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    backends = all_backends(tokenizer, 448, tokenizer.eos_token_id)
    formatter_sglang.register()
    found: dict[str, Any] = {
        "sglang": version("sglang"),
        "walk": walk(backends["formatter"], tokenizer, options.steps),
        "manager": managed(tokenizer, options.requests, None),
        "manager, reasoning": managed(tokenizer, options.requests, "qwen3"),
    }
    if options.shared:
        (file,) = options.shared.glob("maskbench/*dev.jsonl.gz")
        found["verdicts"] = verdicts(backends, tokenizer, file, options.count)
        found["32 fills, us"] = fills(options.shared / "tokenizers" / "llama3.tiktoken", 200)
    options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
