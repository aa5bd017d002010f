"""Run ExLlamaV2 and ExLlamaV3 with scripts: formats, texts in them, and generators that follow them.

The forward pass is simulated. With ExLlamaV2 all else is the package's own. ExLlamaV3 samples on the GPU, so only its
jobs and filters are its own; the loop around them, in the order of its generator, and the sampler are simulated.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from examples import exllamav2_simulated as simulated
from formatter_core import CompiledFormat, formats
from formatter_core.runtime.torch_bitmask import RowMasker

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["article", "review", "note", "letter"]},
        "title": {"type": "string", "maxLength": 120},
        "authors": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "born": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
                    "address": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/place"}]},
                },
                "required": ["name", "born"],
                "additionalProperties": False,
            },
        },
        "score": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id", "kind", "title", "authors", "tags"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "town": {"type": "string"}},
            "required": ["town"],
        }
    },
}
REGEX = r"(Dear [A-Z][a-z]+,\n)?([A-Za-z ,']+[.!?] ?)+\d{4}-\d{2}-\d{2}: [^\n]+\n"
FORMATS = {"regex": formats.regex(REGEX), "schema": formats.json_schema(SCHEMA)}
COMMON = """
time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother area
money story fact month lot right study book eye job word business issue side kind head house service friend father
power
"""
WORDS = COMMON.split()


def is_second() -> bool:
    """Tell whether this is the environment of ExLlamaV2."""
    return any(Path(sys.prefix).glob("exllamav2/*/"))


class Lane(Protocol):
    """Generate with jobs that follow scripts."""

    def start(self, scripts: list[list[int]], filters: list[Any]) -> None:
        """Start a job for each script, with the filter of its place if there is one."""

    def filter_of(self, compiled: CompiledFormat) -> Any:
        """Make our filter."""

    def ready_filter(self, rows: list[NDArray[np.int32]]) -> Any:
        """Make a filter that gives these masks one after the other, or allows everything if there are none."""

    def step(self) -> None:
        """Generate one token of each job."""

    def set_pace(self, seconds: float, busy: bool) -> None:
        """Set the duration of the forward pass, and the way to wait for it."""

    def set_threads(self, count: int | None) -> None:
        """Set the number of threads that sample, if the generator lets us choose."""

    def check(self) -> None:
        """Check that every job has followed its script, with its filter."""


def second(folder: Path, release: str | None, names: Sequence[str]) -> tuple[str, dict[str, Lane], Any]:
    """Load ExLlamaV2: return its name and release, a generator for each name, and the vocabulary."""
    simulated.use_release(*[release] if release else [])
    import exllamav2

    from formatter_exllamav2 import create_vocabulary

    lanes = {name: SecondLane(folder) for name in names}
    made = lanes[names[0]].made
    return f"ExLlamaV2 {exllamav2.__version__}", dict(lanes), create_vocabulary(made.tokenizer, model=made.model)


class SecondLane:
    """Generate by a dynamic generator of ExLlamaV2."""

    def __init__(self, folder: Path) -> None:
        self._source = Script()
        self.made = simulated.Parts(folder, self._source)
        self.set_pace = self.made.forward.set_pace

    def set_threads(self, count: int | None) -> None:
        self.made.generator.max_sampling_threads = count

    def filter_of(self, compiled: CompiledFormat) -> Any:
        from formatter_exllamav2 import FormatterFilter

        return FormatterFilter(self.made.model, self.made.tokenizer, compiled)

    def ready_filter(self, rows: list[NDArray[np.int32]]) -> Any:
        from exllamav2.generator.filters import ExLlamaV2Filter

        from formatter_exllamav2.masks import AllowedIds

        end_ids, as_lists = [self.made.tokenizer.eos_token_id], hasattr(ExLlamaV2Filter, "allow_return_type_list")
        masks_logits = hasattr(ExLlamaV2Filter, "can_mask_logits")
        made: dict[int, Any] = {}
        for row in rows:
            if id(row) not in made:
                answer = partial(AllowedIds(row).answer, row, end_ids, None, as_lists=as_lists)
                made[id(row)] = RowMasker(row) if masks_logits else answer()
        masks = [made[id(row)] for row in rows]

        class ReadyFilter(ExLlamaV2Filter):  # type: ignore[misc]  # exllamav2 is not there when types are checked
            error = None

            def begin(self, prefix_str: str) -> None:
                self._place = 0

            def feed(self, token: Any) -> None:
                self._place = min(self._place + 1, len(masks) - 1)

            def use_background_worker(self) -> bool:
                return True

            def can_mask_logits(self) -> bool:
                return True

            def prepare_logit_mask(self) -> bool:
                return True

            def mask_logits(self, logits: torch.Tensor) -> torch.Tensor:
                return masks[self._place].masked(logits) if masks else logits

            def next(self) -> tuple[Any, Any]:
                return masks[self._place] if masks else (None, set())

        return ReadyFilter(self.made.model, self.made.tokenizer)

    def start(self, scripts: list[list[int]], filters: list[Any]) -> None:
        from exllamav2.generator import ExLlamaV2DynamicJob, ExLlamaV2Sampler

        made, self._source.scripts, self._filters = self.made, scripts, filters
        made.generator.reset_page_table()
        self._jobs = [
            ExLlamaV2DynamicJob(
                input_ids=torch.tensor([[0, 1, row]]),
                max_new_tokens=len(script),
                seed=row,
                gen_settings=ExLlamaV2Sampler.Settings(),
                filters=self._filters[row : row + 1],
                stop_conditions=[made.tokenizer.eos_token_id],
            )
            for row, script in enumerate(scripts)
        ]
        self._tokens: dict[Any, list[int]] = {job: [] for job in self._jobs}
        made.generator.enqueue(self._jobs)

    def step(self) -> None:
        for output in self.made.generator.iterate():
            if "token_ids" in output:
                self._tokens[output["job"]] += output["token_ids"].flatten().tolist()

    def check(self) -> None:
        while self.made.generator.num_remaining_jobs():
            self.step()
        check(self._source.scripts, [self._tokens[job] for job in self._jobs], self._filters)


def third(folder: Path, release: str | None, names: Sequence[str]) -> tuple[str, dict[str, Lane], Any]:
    """Load ExLlamaV3: return its name and release, a loop for each name, and the vocabulary."""
    if release:
        sys.path.insert(0, str(Path(sys.prefix) / "releases" / f"exllamav3-{release}"))
    without_gpu = importlib.import_module("tests.engines_real.exllamav3_without_gpu")
    exllamav3 = without_gpu.import_exllamav3()
    from formatter_exllamav3 import FormatterFilter, create_vocabulary
    from formatter_exllamav3._compat import PACKED_MASKS
    from formatter_exllamav3.masks import MaskBuffer

    class ReadyFilter(exllamav3.Filter):  # type: ignore[misc, name-defined]
        error = None
        masks: Sequence[torch.Tensor]

        def reset(self) -> None:
            self._place = 0

        def accept_token(self, token: int) -> None:
            self._place = min(self._place + 1, len(self.masks) - 1)

        def is_completed(self) -> bool:
            return False

        def use_background_worker(self) -> bool:
            return True

        def get_next_logit_mask(self) -> torch.Tensor:
            return self.masks[self._place]

    def packed(row: NDArray[np.int32]) -> torch.Tensor:
        buffer = MaskBuffer(width, packed=PACKED_MASKS)
        buffer.row[: len(row)] = row
        return buffer.tensor()

    class ThirdLane(without_gpu.Loop):  # type: ignore[misc, name-defined]
        """Replace the generator by a loop with a forward pass and a sampler that follows scripts."""

        def set_pace(self, seconds: float, busy: bool) -> None:
            self._seconds, self._wait_until = seconds, simulated.wait_busily if busy else simulated.wait_asleep

        def set_threads(self, count: int | None) -> None:
            """Do nothing: nothing samples here."""

        def filter_of(self, compiled: CompiledFormat) -> Any:
            return FormatterFilter(self.tokenizer, compiled)

        def ready_filter(self, rows: list[NDArray[np.int32]]) -> Any:
            found = ReadyFilter(self.tokenizer, None, None, True)
            made = {id(row): packed(row) for row in rows}
            found.masks = [made[id(row)] for row in rows] or [everything]
            return found

        def start(self, scripts: list[list[int]], filters: list[Any]) -> None:
            self._jobs, self._scripts, self._filters = [], scripts, filters
            for row, script in enumerate(scripts):
                ids = torch.tensor([[0, 1, row]])
                job = exllamav3.Job(input_ids=ids, max_new_tokens=len(script), filters=self._filters[row : row + 1])
                self._jobs.append(job)
                super().start(job)

        def launch(self) -> None:
            self._ready = time.perf_counter() + self._seconds

        def wait(self) -> None:
            self._wait_until(self._ready)

        def sample(self, job: Any) -> int:
            token: int = self._scripts[self._jobs.index(job)][max(0, job.new_tokens)]
            return token

        def check(self) -> None:
            while self.active_jobs:
                super().step()
            check(self._scripts, [without_gpu.tokens_of(job) for job in self._jobs], self._filters)
            self.results.clear()

    (folder / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    tokenizer = without_gpu.tokenizer_in(Path(tempfile.mkdtemp(prefix="exllamav3-")), folder)
    lanes = {name: ThirdLane(tokenizer) for name in names}
    width = lanes[names[0]].padded_vocab_size
    everything = packed(np.full(width // 32, -1, dtype=np.int32))
    return f"ExLlamaV3 {release or version('exllamav3')}", dict(lanes), create_vocabulary(tokenizer)


def check(scripts: list[list[int]], tokens: list[list[int]], filters: list[Any]) -> None:
    """Stop where a job has other tokens than its script, or a filter failed."""
    for script, found in zip(scripts, tokens, strict=True):
        # Some releases of ExLlamaV3 end a job one token before the last that it asked for.
        if len(found) < len(script) - 1 or found[: len(script)] != script[: len(found)]:
            raise SystemExit(f"other tokens than those of the script: {found} for {script}")
    for each in filters:
        if each.error is not None:
            raise each.error


class Script:
    """Make logits that push the next token of a row's script to the top of noise that stays the same."""

    def __init__(self) -> None:
        self.scripts: list[list[int]] = []
        self._noise = torch.randn(2**18, generator=torch.Generator().manual_seed(0))
        self._row_of: dict[int, int] = {}

    def logits(self, row: torch.Tensor, sequence: int, position: int, last: int) -> None:
        if position == 3:  # behind the prompt, whose last token is the number of the row
            self._row_of[sequence] = last
        row.copy_(self._noise[: len(row)])
        row[self.scripts[self._row_of[sequence]][position - 3]] += 60


class Texts:
    """Make texts in the formats as tokens: at each place the longest piece that fits."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._ids = {piece: token_id for token_id, piece in reversed(list(enumerate(pieces)))}
        self._longest = min(32, max(map(len, pieces)))

    def tokens(self, name: str, rng: random.Random, count: int) -> list[int]:
        text = self._letter(rng) if name == "regex" else self._document(rng)
        data, place, found = text.encode(), 0, list[int]()
        while len(found) < count:
            size = next(n for n in range(self._longest, 0, -1) if data[place : place + n] in self._ids)
            size = min(size, len(data) - place)
            found.append(self._ids[data[place : place + size]])
            place += size
        return found

    @staticmethod
    def _words(rng: random.Random, least: int, most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(least, most)))

    def _letter(self, rng: random.Random) -> str:
        lines = " ".join(self._words(rng, 4, 9).capitalize() + rng.choice(".!?") for _ in range(2))
        day = f"{rng.randint(1900, 2030)}-{rng.randint(10, 12)}-{rng.randint(10, 28)}"
        return f"Dear {rng.choice(WORDS).capitalize()},\n{lines} {day}: {self._words(rng, 200, 220)}\n"

    def _document(self, rng: random.Random) -> str:
        def author() -> dict[str, Any]:
            born = f"{rng.randint(1900, 2000)}-{rng.randint(10, 12)}-{rng.randint(10, 28)}"
            place = {"street": self._words(rng, 1, 2), "town": rng.choice(WORDS)}
            return {"name": self._words(rng, 2, 3).title(), "born": born, "address": rng.choice(["no " * 3, place])}

        return json.dumps(
            {
                "id": rng.randint(1, 10**6),
                "kind": rng.choice(["article", "review", "note", "letter"]),
                "title": self._words(rng, 3, 6).capitalize(),
                "authors": [author() for _ in range(rng.randint(8, 9))],
                "tags": [rng.choice(WORDS) for _ in range(40)],
            }
        )


def small_vocabulary() -> list[bytes]:
    return [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)]


def model_folder(pieces: list[bytes]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="exllamav2-"))
    special = {f"<|special {number}|>": len(pieces) + number for number in range(256)}
    tokenizer = simulated.byte_level_tokenizer(pieces[256:], first=pieces[:256], **special)
    end = len(pieces) + 1
    return simulated.write_model(folder, tokenizer, vocab_size=len(pieces) + 256, bos=len(pieces), eos=end)
