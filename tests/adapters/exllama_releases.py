"""The releases of ExLlamaV2 and ExLlamaV3 on their stand-ins, with filters and jobs that are made alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from formatter_core import Compiler, formats
from tests.adapters import exllamav2_stand_ins, exllamav3_stand_ins
from tests.adapters.contract import END, OTHER_END, TOKENS, WIDTH, compiler_on

WORD = formats.regex("a[bc]{2,4}")
ENDS = (END, OTHER_END)
NAMES = [
    *(f"exllamav2 {version}" for version in exllamav2_stand_ins.GENERATIONS),
    *(f"exllamav3 {version}" for version in exllamav3_stand_ins.GENERATIONS),
]


class Release:
    """One release of one of the two engines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.engine, _, self.version = name.partition(" ")

    def filter_of(self, format: Any = WORD, compiler: Compiler | None = None, **options: Any) -> Any:
        compiled = (compiler or compiler_on("native")).compile(format)
        tokenizer = SimpleNamespace(config=SimpleNamespace(vocab_size=WIDTH))
        given = (None, tokenizer, compiled) if self.engine == "exllamav2" else (None, compiled)
        return import_module(f"formatter_{self.engine}").FormatterFilter(*given, **options)

    def job_of(self, script: Sequence[int], *filters: Any, ends: Sequence[int] = ENDS, **more: Any) -> Any:
        """Make a job whose model wishes for the tokens of the script; a wish is granted where the filters allow it."""
        if self.engine == "exllamav2":
            return exllamav2_stand_ins.ExLlamaV2DynamicJob(script, list(filters), ends, **more)
        return exllamav3_stand_ins.Job(filters, script=script, stop_conditions=ends, **more)

    def generator(self) -> Any:
        if self.engine == "exllamav2":
            return exllamav2_stand_ins.ExLlamaV2DynamicGenerator(self.version, WIDTH)
        return exllamav3_stand_ins.Generator(self.version)

    def run(self, *jobs: Any) -> None:
        self.generator().run(*jobs)


@contextmanager
def release_of(name: str) -> Iterator[Release]:
    engine, _, version = name.partition(" ")
    of = exllamav2_stand_ins.exllamav2_of if engine == "exllamav2" else exllamav3_stand_ins.exllamav3_of
    with of(version):
        yield Release(name)


def text_of(job: Any) -> bytes:
    assert max(job.tokens, default=0) < len(TOKENS), "ids that the vocabulary does not have were left allowed"
    return b"".join(TOKENS[token] or b"" for token in job.tokens)
