"""Turns many prompts into typed columns of Parquet, with several vLLM engines under Ray Data; it resumes where it was.

python examples/vllm_ray.py prompts.txt rows --model some/model --actors 2
python examples/vllm_ray.py prompts.jsonl rows --model some/model --actors 2

A text has a prompt in each line, and each gets a `Review`. A line of a `.jsonl` file is an object with a `prompt`, and
may bring a `schema` of its own; the rows then hold the JSON text. The prompts are cut into parts, each of which becomes
one file in the folder `rows`. A part appears whole or not at all, under a name that depends on its number alone. So an
actor that dies loses and doubles nothing (Ray gives its part to another one), and the same command again makes only the
parts that are missing. Each actor reads the vocabulary and compiles each format once; actors share nothing.
"""

# Annotations are no texts here: Ray sends `Review` to actors, which could not resolve them.
import argparse
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pyarrow.parquet
import ray


@dataclass
class Review:
    is_positive: bool
    stars: Literal[1, 2, 3, 4, 5]  # a column holds no integers of any length


#: Where all rows have one format, each of its fields is a column.
COLUMNS = pyarrow.schema(
    [
        ("number", pyarrow.int64()),
        ("prompt", pyarrow.string()),
        ("is_positive", pyarrow.bool_()),
        ("stars", pyarrow.int64()),
        ("error", pyarrow.string()),
    ]
)
#: Where each row may bring its own.
TEXTS = pyarrow.schema(
    [("number", pyarrow.int64()), ("prompt", pyarrow.string()), ("json", pyarrow.string()), ("error", pyarrow.string())]
)


class Writer:
    """An actor: one vLLM engine, which turns parts into files."""

    def __init__(self, prompts: Path, rows: Path, size: int, engine: dict[str, Any]) -> None:
        from vllm import LLM

        from formatter_vllm import FormatterLogitsProcessor

        self.prompts, self.rows, self.size = read_prompts(prompts), rows, size
        self.llm = LLM(logits_processors=[FormatterLogitsProcessor], **engine)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for part in batch["part"]:
            self.write(int(part))
        return batch

    def write(self, part: int) -> None:
        """Write the file of a part, unless another actor did so before it died."""
        from vllm import SamplingParams

        from formatter_vllm import create_extra_args, result

        path = path_of(self.rows, part)
        if path.exists():
            return
        asked = self.prompts[part * self.size : (part + 1) * self.size]
        formats = [one.get("schema", Review) for one in asked]
        parameters = [
            SamplingParams(max_tokens=200, extra_args=create_extra_args(format, fit=True)) for format in formats
        ]
        outputs = self.llm.generate([one["prompt"] for one in asked], parameters, use_tqdm=False)
        rows = []
        for place, (one, format, output) in enumerate(zip(asked, formats, outputs, strict=True)):
            made = result(output.outputs[0], format)
            row: dict[str, Any] = {"number": part * self.size + place, "prompt": one["prompt"]}
            if not made.is_complete:
                row["error"] = str(made.missing)
            elif format is Review:
                row |= {**asdict(made.value), "json": made.text}
            else:
                row["json"] = made.text
            rows.append(row)
        schema = TEXTS if any("schema" in one for one in self.prompts) else COLUMNS
        half = path.with_suffix(f".{os.getpid()}")
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), half)
        half.replace(path)


def read_prompts(path: Path) -> list[dict[str, Any]]:
    """The prompts of a file, each with its schema if it has one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) if path.suffix == ".jsonl" else {"prompt": line} for line in lines]


def path_of(rows: Path, part: int) -> Path:
    """The file of a part."""
    return rows / f"part-{part:06}.parquet"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("rows", type=Path, help="a folder")
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--actors", type=int, default=1, help="engines, each with a GPU of its own where there are GPUs"
    )
    parser.add_argument("--part-size", type=int, default=256, help="prompts of one part, which an engine has at once")
    parser.add_argument("--engine", type=json.loads, default={}, help="more arguments of vllm.LLM, as JSON")
    options = parser.parse_args()
    rows = options.rows.absolute()
    rows.mkdir(parents=True, exist_ok=True)
    count = -(-len(read_prompts(options.prompts)) // options.part_size)
    missing = [{"part": part} for part in range(count) if not path_of(rows, part).exists()]
    print(f"{count - len(missing)} of {count} parts are there", flush=True)
    if not missing:
        return
    ray.init(ignore_reinit_error=True)
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    parts = ray.data.from_items(missing, override_num_blocks=len(missing)).map_batches(
        Writer,
        fn_constructor_args=(
            options.prompts.absolute(), rows, options.part_size, {"model": options.model, **options.engine}
        ),
        batch_size=1,
        concurrency=options.actors,
        num_gpus=gpus,
        num_cpus=0 if gpus else 0.5,
    )  # fmt: skip
    for _ in parts.iter_rows():  # Ray shows the progress
        pass
    absent = [part for part in range(count) if not path_of(rows, part).exists()]
    print(f"{count - len(absent)} of {count} parts are there", flush=True)


if __name__ == "__main__":
    main()
