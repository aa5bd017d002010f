"""The backend for SGLang on SGLang's own base classes, beside its backends for llguidance and XGrammar; on a CPU.

    PYTHONPATH=.:integrations python scripts/try_sglang.py --schemas FOLDER_OF_MASKBENCH --output sglang.json

Needs an environment with SGLang's wheel (without its dependencies, which are CUDA's), torch for CPUs, transformers,
llguidance and xgrammar. What is compared: which documents, written compactly, each backend accepts; and on ours, that a
state after random accepts, rollbacks and copies gives the mask of a fresh replay.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from sglang.srt.constrained.base_grammar_backend import BaseGrammarBackend, GrammarRow, InvalidGrammarObject
from sglang.srt.constrained.llguidance_backend import GuidanceBackend
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend
from transformers import AutoTokenizer

from formatter_sglang import FormatterGrammarBackend

TINY = Path(__file__).resolve().parents[1] / "examples" / "tiny_model"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["a", "ab", "é"]}}},
    "required": ["name"],
    "additionalProperties": False,
}


def grammar_of(backend: BaseGrammarBackend, key: tuple[str, str]) -> Any:
    """As SGLang's manager asks: by the cache, or compiled in the executor."""
    value, is_cached = backend.get_cached_or_future_value(key, False)
    if not is_cached:
        value = value.result()
        backend.set_cache(key, value.copy())
    return value


def accepts(grammar: Any, tokens: list[int], end: int) -> bool:
    """Whether each token, and the end, is in the mask before it."""
    rows = grammar.allocate_vocab_mask(448, 1, "cpu")
    for token in [*tokens, end]:
        rows.fill_(-1)
        grammar.fill_vocab_mask(rows, 0)
        if not int(rows[0, token // 32]) >> (token % 32) & 1:
            return False
        grammar.accept_token(token)
    return True


def verdicts(backends: dict[str, Any], tokenizer: Any, folder: Path, most: int) -> dict[str, Any]:
    """Documents on which all three that compile the schema say the same, and the others."""
    same = refused = 0
    different: list[Any] = []
    for file in sorted(folder.glob("*.jsonl.gz"))[:1]:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            cases = [json.loads(line) for line in lines]
        for case in random.Random(0).sample(cases, min(most, len(cases))):
            schema = case.get("schema", case.get("json_schema"))
            for document in case.get("tests", [])[:4]:
                grammars = {name: grammar_of(one, ("json", json.dumps(schema))) for name, one in backends.items()}
                if any(isinstance(one, InvalidGrammarObject) for one in grammars.values()):
                    refused += 1
                    continue
                text = json.dumps(document.get("data"), separators=(",", ":"), ensure_ascii=False)
                tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
                found: dict[str, Any] = {}
                for name, one in grammars.items():
                    try:
                        found[name] = accepts(one, tokens, tokenizer.eos_token_id)
                    except Exception as error:  # noqa: BLE001 - whatever a backend raises is its verdict
                        found[name] = type(error).__name__
                if len(set(found.values())) == 1:
                    same += 1
                else:
                    different.append({**found, "valid": document.get("valid"), "document": text[:200]})
    return {"same": same, "refused by one": refused, "different": different}


def walk(backend: Any, steps: int) -> dict[str, int]:
    """Random accepts, rollbacks and copies; each mask beside that of a fresh replay."""
    rng, key = random.Random(0), ("json", json.dumps(SCHEMA))
    grammar, tokens, differing = grammar_of(backend, key), list[int](), 0
    rows = grammar.allocate_vocab_mask(448, 2, "cpu")
    for _ in range(steps):
        if tokens and (rng.random() < 0.3 or len(tokens) > 40 or grammar.is_terminated()):
            count = rng.randint(1, len(tokens))
            grammar.rollback(count)
            del tokens[-count:]
        elif rng.random() < 0.1:
            grammar = grammar.copy()
        else:
            allowed = grammar.cursor.formatter.allowed_tokens()
            tokens.append(rng.choice(allowed))
            grammar.accept_token(tokens[-1])
        fresh = grammar_of(backend, key)
        for token in tokens:
            fresh.accept_token(token)
        grammar.fill_vocab_mask_batched([GrammarRow(0, grammar), GrammarRow(1, fresh)], rows)
        differing += not bool((rows[0] == rows[1]).all())
    return {"steps": steps, "different": differing}


def fills(backends: dict[str, Any], rounds: int) -> dict[str, float]:
    """CPU microseconds for the masks of 32 rows; the median, taking turns."""
    found: dict[str, list[float]] = {name: [] for name in backends}
    batches = {
        name: [grammar_of(one, ("json", json.dumps(SCHEMA))) for _ in range(32)] for name, one in backends.items()
    }
    for turn in range(rounds):
        for name in random.Random(turn).sample(list(batches), len(batches)):
            rows = batches[name][0].allocate_vocab_mask(448, 32, "cpu")
            entries = [GrammarRow(row, grammar) for row, grammar in enumerate(batches[name])]
            begun = time.process_time()
            batches[name][0].fill_vocab_mask_batched(entries, rows)
            found[name].append(1e6 * (time.process_time() - begun))
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=Path, help="a folder of maskbench/*.jsonl.gz; without it no verdicts")
    parser.add_argument("--count", type=int, default=150, help="of the schemas")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=Path("sglang.json"))
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    ours = FormatterGrammarBackend(tokenizer, 448, {tokenizer.eos_token_id})
    backends = {
        "formatter": ours,
        "llguidance": GuidanceBackend(tokenizer=tokenizer, n_vocab=448, eos_token_ids={tokenizer.eos_token_id}),
        "xgrammar": XGrammarGrammarBackend(tokenizer, vocab_size=448, model_eos_token_ids=[tokenizer.eos_token_id]),
    }
    found: dict[str, Any] = {"walk": walk(ours, options.steps), "32 fills, us": fills(backends, 200)}
    if options.schemas:
        found["verdicts"] = verdicts(backends, tokenizer, options.schemas, options.count)
    options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(
        json.dumps(
            {
                **found,
                "verdicts": {
                    **found.get("verdicts", {}),
                    "different": len(found.get("verdicts", {}).get("different", [])),
                },
            }
        )
    )


if __name__ == "__main__":
    main()
