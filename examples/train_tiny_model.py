"""Train the model of examples/tiny_model: one sentence in, one line out, in about five minutes on one CPU core.

Each prompt is a sentence about a person. On the next line the same facts follow as JSON or, after a cue, in another
form::

    Ivo is 41 years old, lives in Delhi and works as a pilot.
    {"name": "Ivo", "age": 41, "city": "Delhi", "job": "pilot"}
    card: Ivo (41), pilot from Delhi
    job: pilot

Half of the names, two fifths of the cities and a fifth of the jobs are made up from syllables, so that the model has
to copy, not to remember. Needs torch, transformers and tokenizers. The seed is fixed: the same versions and the same
number of threads give the same model.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

NAMES = ["Ivo", "Anna", "Zoë", "José", "Mia", "Noah", "Lena", "Omar", "Yuki", "Priya", "Tom", "Björn", "Aisha", "Kofi"]
CITIES = ["Delhi", "Paris", "São Paulo", "Zürich", "Kraków", "New York", "Lagos", "Lima", "Oslo", "Cairo", "Kyoto"]
JOBS = ["pilot", "nurse", "teacher", "baker", "lawyer", "driver", "painter", "doctor", "farmer", "singer", "engineer"]
SENTENCES = (
    "{name} is {age} years old, lives in {city} and works as {article} {job}.",
    "{name}, {article} {job} from {city}, is {age}.",
    "The {job} {name} lives in {city} and turned {age} this year.",
    "At {age}, {name} moved to {city} to work as {article} {job}.",
    "In {city} there is {article} {job} called {name}, aged {age}.",
    "{name} ({age}) was {article} {job} in {city}.",
)
CUES = ["", "", "", "card: ", "job: "]
ONSETS = [
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "z",
]
VOWELS = [*"aeiouy", "ai", "ea", "oo"]
CODAS = ["", "", "", "", *"nrslmtx", "ck", "nd"]
END, PAD = "<|end|>", "<|pad|>"
MOST_TOKENS = 256
IGNORED = -100  # the label that the loss leaves out

Batch = tuple[torch.Tensor, torch.Tensor]  # input ids and labels, both int64 (examples, length)


@dataclass(frozen=True)
class Person:
    name: str
    age: int
    city: str
    job: str


def made_up(rng: random.Random) -> str:
    syllables = (rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(rng.randint(1, 3)))
    return "".join(syllables)


def person(rng: random.Random) -> Person:
    return Person(
        name=made_up(rng).capitalize() if rng.random() < 0.5 else rng.choice(NAMES),
        age=rng.randint(18, 90),
        city=made_up(rng).capitalize() if rng.random() < 0.4 else rng.choice(CITIES),
        job=made_up(rng) if rng.random() < 0.2 else rng.choice(JOBS),
    )


def sentence(who: Person, rng: random.Random) -> str:
    article = "an" if who.job[0] in "aeiou" else "a"
    return rng.choice(SENTENCES).format(**asdict(who), article=article)


def answer(who: Person, cue: str) -> str:
    if cue == "card: ":
        return f"{who.name} ({who.age}), {who.job} from {who.city}"
    return who.job if cue else json.dumps(asdict(who), ensure_ascii=False)


def example(rng: random.Random) -> tuple[str, str]:
    """A prompt and the answer that it asks for."""
    who, cue = person(rng), rng.choice(CUES)
    return f"{sentence(who, rng)}\n{cue}", answer(who, cue)


def train_tokenizer(rng: random.Random, size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE with every byte; letters, digits and the rest never share a token, so words are cut alike."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}|[^\p{L}\p{N}]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END, PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((part for _ in range(5000) for part in example(rng)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=MOST_TOKENS,
        clean_up_tokenization_spaces=False,
    )


def batches(tokenizer: PreTrainedTokenizerFast, rng: random.Random, size: int) -> Iterator[Batch]:
    """Endless batches of examples of like length; only the answers are learned."""
    while True:
        pool = []
        for prompt, text in (example(rng) for _ in range(8 * size)):
            head, tail = tokenizer.encode(prompt), [*tokenizer.encode(text), tokenizer.eos_token_id]
            pool.append((head + tail, [IGNORED] * len(head) + tail))
        pool.sort(key=lambda pair: len(pair[0]))
        groups = [pool[start : start + size] for start in range(0, len(pool), size)]
        rng.shuffle(groups)
        for group in groups:
            width = max(len(ids) for ids, _ in group)
            yield (
                torch.tensor([ids + [tokenizer.pad_token_id] * (width - len(ids)) for ids, _ in group]),
                torch.tensor([labels + [IGNORED] * (width - len(labels)) for _, labels in group]),
            )


def new_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=MOST_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def train(model: LlamaForCausalLM, data: Iterator[Batch], steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.01)
    warm_up = 100
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, max(0.0, (steps - step) / max(1, steps - warm_up)))
    )
    begin, total = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        input_ids, labels = next(data)
        loss = model(input_ids=input_ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        total += float(loss.detach())
        if step % 100 == 0:
            print(f"step {step}: loss {total / 100:.4f}, {time.monotonic() - begin:.0f} s", flush=True)
            total = 0.0


@torch.no_grad()
def exact_answers(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, count: int, seed: int) -> int:
    """How many of `count` new sentences are answered exactly, greedily, as JSON."""
    rng = random.Random(seed)
    exact = 0
    for _ in range(count):
        who = person(rng)
        prompt = f"{sentence(who, rng)}\n"
        inputs = tokenizer(prompt, return_tensors="pt")
        output = model.generate(**inputs, max_new_tokens=80, do_sample=False)
        text = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        exact += text == answer(who, "")
    return exact


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    model.eval().half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # Transformers 5 writes a class name that transformers 4 does not know; both know the older one.
    config_file = folder / "tokenizer_config.json"
    config = json.loads(config_file.read_text())
    config_file.write_text(json.dumps({**config, "tokenizer_class": "PreTrainedTokenizerFast"}, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "tiny_model")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=448, help="size of the vocabulary")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    tokenizer = train_tokenizer(random.Random(1), options.tokens)
    model = new_model(tokenizer)
    print(f"{len(tokenizer)} tokens, {model.num_parameters():,} parameters")
    train(model.train(), batches(tokenizer, random.Random(2), 48), options.steps)

    save(model, tokenizer, options.output)
    saved = LlamaForCausalLM.from_pretrained(options.output, dtype=torch.float32).eval()
    print(f"{exact_answers(saved, tokenizer, 40, seed=3)} of 40 new sentences answered exactly")


if __name__ == "__main__":
    main()
