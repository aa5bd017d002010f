"""Turns prompts into typed rows with Ray's own LLM processor (`ray.data.llm`), which takes our logits processor.

python examples/vllm_ray_llm.py prompts.txt rows --model some/model

Ray starts vLLM, batches the rows and restarts actors that die. What it does not do is to go on where a job that died
had been; examples/vllm_ray.py does.
"""

# Annotations are no texts here: Ray sends `Review` to other processes, which could not resolve them.
import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import ray
from ray.data.llm import build_processor, vLLMEngineProcessorConfig

from formatter_vllm import create_extra_args, result


@dataclass
class Review:
    is_positive: bool
    stars: Literal[1, 2, 3, 4, 5]


def request_of(row: dict[str, Any]) -> dict[str, Any]:
    """Make the request to vLLM for a row; each could bring a format of its own."""
    arguments = create_extra_args(Review, fit=True)
    return {"prompt": row["prompt"], "sampling_params": {"max_tokens": 200, "extra_args": arguments}}


def row_of(answered: dict[str, Any]) -> dict[str, Any]:
    """The row with the columns of its answer."""
    return {"prompt": answered["prompt"], **asdict(result(answered["generated_text"], Review).value)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path, help="a text with a prompt in each line")
    parser.add_argument("rows", type=Path, help="a folder")
    parser.add_argument("--model", required=True)
    parser.add_argument("--actors", type=int, default=1, help="engines")
    parser.add_argument("--engine", type=json.loads, default={}, help="more arguments of vllm.LLM, as JSON")
    options = parser.parse_args()
    ray.init(ignore_reinit_error=True)
    has_gpus = bool(ray.cluster_resources().get("GPU"))
    config = vLLMEngineProcessorConfig(
        model_source=options.model,
        engine_kwargs={"logits_processors": ["formatter_vllm:FormatterLogitsProcessor"], **options.engine},
        concurrency=options.actors,
        batch_size=16,
        placement_group_config=None if has_gpus else {"bundles": [{"CPU": 1}]},
        chat_template_stage=False,  # these prompts are texts
        tokenize_stage=False,
        detokenize_stage=False,
        log_engine_metrics=False,  # for which vLLM wants more of Ray than `ray[data]`
    )
    prompts = [{"prompt": line} for line in options.prompts.read_text(encoding="utf-8").splitlines()]
    processor = build_processor(config, preprocess=request_of, postprocess=row_of)
    processor(ray.data.from_items(prompts)).write_parquet(str(options.rows.absolute()))


if __name__ == "__main__":
    main()
