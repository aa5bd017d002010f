"""Random schedules of a batch's operations on transformers' models, judged by forward passes of the model itself.

python3.11 dev.py run dev -m tests.engines_real.transformers_batches --schedules 300
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import torch
import transformers

from formatter_transformers import TransformersModel, transformers_model
from tests.engines_real.transformers_models import TAIL, random_model, trained_tokenizer

#: Families that take their positions in different ways: rotary, learned, from the mask, or as a bias.
FAMILIES: dict[str, dict[str, Any]] = {
    "OPT": {"hidden_size": 64, "word_embed_proj_dim": 64, "ffn_dim": 96, "max_position_embeddings": 256},
    "Bloom": {"hidden_size": 64},
    "Mpt": {"d_model": 64, "max_seq_len": 256},
    "Falcon": {"hidden_size": 64, "alibi": False},
    "Falcon, biased": {"hidden_size": 64, "alibi": True},
    "GPTNeoX": {"hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 256},
}
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "n_layers": 2, "n_heads": 4, "n_layer": 2, "n_head": 4}


def family_model(name: str, tokenizer: Any) -> Any:
    """Make a model with random weights of one of `FAMILIES`."""
    torch.manual_seed(0)
    family = name.partition(",")[0]
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer) + TAIL,
        **FAMILIES[name],
        **SIZES,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model.eval()


def with_lora(model: Any) -> Any:
    """Return the model with a PEFT adapter that changes its outputs."""
    import peft
    import torch.distributed.tensor  # noqa: F401 - peft takes it for imported, which transformers 4.46 does not do

    targets = [name for name in ("q_proj", "v_proj", "c_attn") if any(name in one for one, _ in model.named_modules())]
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=targets, init_lora_weights=False)
    return peft.get_peft_model(model, config).eval()


def compiled(model: Any) -> Any:
    """Return the model as torch.compile wraps it; traced, but not handed to a C++ compiler."""
    return torch.compile(model, backend="eager", dynamic=True)


#: Wrappers that users put around a model.
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda model: model,
    "peft": with_lora,
    "compiled": compiled,
    "compiled peft": lambda model: compiled(with_lora(model)),
}


def expected_logprobs(forward: Any, tokens: list[int]) -> torch.Tensor:
    """Compute log-probabilities (tokens, width) after each token by one forward pass without a cache."""
    with torch.no_grad():
        return torch.log_softmax(forward(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float(), -1)


def largest_error(model: TransformersModel, forward: Any, random: Random, operations: int = 6) -> float:
    """Run a random schedule; the largest difference between a log-probability and that of `forward`."""

    def tokens(least: int, most: int) -> list[int]:
        return [random.randrange(3, 400) for _ in range(random.randint(least, most))]

    worst = 0.0

    def compare(found: torch.Tensor, expected: torch.Tensor) -> None:
        nonlocal worst
        worst = max(worst, float((found - expected).abs().max()))

    common = tokens(0, 40)
    batch = model.start([common + tokens(1, 8) for _ in range(random.randint(1, 4))])
    most = random.choice([3, 3, 20])
    if random.random() < 0.5:  # rows that are made of a single one share its columns for a while
        batch.select([0])
        batch.select([0] * random.randint(2, 6))
        batch.forward([tokens(1, most) for _ in range(len(batch))])
    for _ in range(operations):
        kind = random.choice(["forward", "forward", "scored", "select", "crop", "tree"])
        new = [tokens(0, most) for _ in range(len(batch))]
        new[random.randrange(len(batch))] = tokens(1, 3)
        if kind == "select":
            batch.select([random.randrange(len(batch)) for _ in range(random.randint(1, 6))])
        elif kind == "tree":
            batch.select([random.randrange(len(batch))])
            nodes = tokens(1, 5)
            parents = [random.randrange(-1, at) for at in range(len(nodes))]
            logits = batch.forward_tree(nodes, parents)
            for node in range(len(nodes)):
                path, at = [], node
                while at >= 0:
                    path.insert(0, nodes[at])
                    at = parents[at]
                found = torch.log_softmax(logits[node].float(), -1)
                compare(found, expected_logprobs(forward, [*batch.tokens[0], *path])[-1])
        else:
            if kind == "crop":
                batch.crop([random.randint(1, len(row)) for row in batch.tokens])
                new = [one or tokens(1, 1) for one in new]
            if kind == "scored":
                scores = batch.forward_scored(new)
                for row, (whole, own) in enumerate(zip(batch.tokens, new, strict=True)):
                    if own:
                        before = expected_logprobs(forward, whole)[len(whole) - len(own) - 1 : -1]
                        compare(scores[row, -len(own) :], before.gather(1, torch.tensor(own)[:, None])[:, 0])
            else:
                batch.forward(new)
        for row, logits in zip(batch.tokens, batch.logits, strict=True):
            compare(torch.log_softmax(logits.float(), -1), expected_logprobs(forward, row)[-1])
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["llama", "gpt2", "qwen", *FAMILIES])
    parser.add_argument("--schedules", type=int, default=100, help="of each model")
    options = parser.parse_args()
    tokenizer = trained_tokenizer()
    for name in options.models:
        if name in FAMILIES:
            report(name, family_model(name, tokenizer), tokenizer, options.schedules)
            continue
        for wrapping, wrap in WRAPPERS.items():
            model = wrap(random_model(name, tokenizer))
            report(f"{name}, {wrapping}", model, tokenizer, options.schedules)


def report(title: str, torch_model: Any, tokenizer: Any, schedules: int) -> None:
    model = transformers_model(torch_model, tokenizer=tokenizer)
    errors = [largest_error(model, judge(torch_model), Random(seed)) for seed in range(schedules)]
    sys.stdout.write(f"{title}: {schedules} schedules, largest difference {max(errors):.1e}\n")


def judge(model: Any) -> Any:
    """Return the model that computes the expected values: without `torch.compile`, but with its adapter."""
    return getattr(model, "_orig_mod", model)


if __name__ == "__main__":
    main()
