"""Random walks through grammars of SGLang: accepts, rollbacks, copies and jumps; each mask beside a fresh replay."""

from __future__ import annotations

import json
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.schemas import closed

SCHEMA = closed(
    {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["a", "ab", "é"]}}}, required=["name"]
)
#: Requests with much, with little and with split characters of text that has to come.
WALKED = [
    ("json", json.dumps(SCHEMA)),
    ("json", '{"type": "object", "properties": {"größe": {"enum": ["ä", "äh"]}}, "required": ["größe"]}'),
    ("regex", "(Größe|Größer): [0-9]{2}( und [a-z]{1,3}){0,5}"),
    ("ebnf", 'root ::= "(" root ")" | "[" "émile" "]"'),
]


def jump(grammar: Any, tokens: list[int], tokenizer: Any, begun: int = 0) -> bool:
    """Append forced text as a scheduler does: it tokenizes the output from the token `begun` on anew."""
    helper = grammar.try_jump_forward(tokenizer)
    text = tokenizer.decode(tokens[begun:])
    if helper is None or "\ufffd" in text:
        return False
    forced, state = grammar.jump_forward_str_state(helper)
    jumped = tokens[:begun] + tokenizer(text + forced, add_special_tokens=False)["input_ids"]
    grammar.jump_and_retokenize(list(tokens), jumped, state)
    tokens[:] = jumped
    return True


def walk(backend: Any, tokenizer: Any, steps: int) -> dict[str, int]:
    """Counts of the steps of each kind, of the jumps that changed earlier tokens, and the differences found."""
    rng, done = random.Random(0), Counter(steps=steps, different=0)
    fresh = [getattr(backend, f"dispatch_{kind}")(spec) for kind, spec in WALKED]
    rows = fresh[0].allocate_vocab_mask(448, 2, "cpu")
    number, grammar, tokens = 0, fresh[0].copy(), list[int]()
    for _ in range(steps):
        before = list(tokens)
        if rng.random() < 0.02:
            number, tokens = rng.randrange(len(fresh)), []
            grammar, kind = fresh[number].copy(), "begun"
        elif tokens and (rng.random() < 0.2 or len(tokens) > 40 or grammar.is_terminated()):
            count, kind = rng.randint(1, min(len(tokens), 8)), "rolled back"
            grammar.rollback(count)
            del tokens[-count:]
        elif rng.random() < 0.1:
            grammar, kind = grammar.copy(), "copied"
        elif rng.random() < 0.5 and jump(grammar, tokens, tokenizer):
            kind = "jumped"
            done["jumps that changed earlier tokens"] += tokens[: len(before)] != before
        else:
            tokens.append(rng.choice(grammar.cursor.formatter.allowed_tokens()))
            grammar.accept_token(tokens[-1])
            kind = "accepted"
        done[kind] += 1
        replayed = fresh[number].copy()
        for token in tokens:
            replayed.accept_token(token)
        both = [SimpleNamespace(row=row, grammar=one) for row, one in enumerate((grammar, replayed))]
        grammar.fill_vocab_mask_batched(both, rows)
        is_same = bool((rows[0] == rows[1]).all()) and grammar.cursor.error is replayed.cursor.error is None
        done["different"] += not is_same or grammar.cursor.bytes != replayed.cursor.bytes
    return dict(done)
