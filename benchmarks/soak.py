"""Thousands of formats of all kinds, in several threads, dropped at random: every byte is counted, and comes back.

    python3.11 dev.py bench soak --seconds 6600      # writes soak.json, and draws soak.png

The native library is built once more, with an allocator that counts what it has handed out. A process of its own makes
formats of eight kinds, walks along them with forks, rollbacks, budgets, events and values, and drops them. A hundred
times on the way all threads stop: then what `Compiler.memory` and `CompiledFormat.memory` say is compared with what the
allocator has counted, and resident memory is read. The vocabulary is that of Llama 3, or bytes where its file is not at
hand.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import aim, markdown
from building.processes import ROOT
from building.variants import build_variant, copy_package
from dev import cache_folder

TITLE = "Memory while formats of all kinds come and go"
MEBIBYTE = 1 << 20
OPTIONS: dict[str, dict[str, Any]] = {
    "--seconds": {"type": float, "default": 600.0},
    "--formats": {"type": int, "default": 2000, "help": "how many different ones there are"},
    "--threads": {"type": int, "default": 4},
    "--seed": {"type": int, "default": 0},
}
SMOKE = {"seconds": 10.0}
#: Maximum deviations: of counted from allocated bytes, of resident memory over time, and of the end from the start.
COUNTED, GROWTH, LEFT = 0.02, 0.1, 0.25
#: As docs/limits.md recommends for processes of many threads, if memory matters: glibc then does not raise the size
#: from which it gives back the ends of its heaps.
ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": "131072"}
#: The number of kinds of bytes that have their own area in a picture.
SHOWN = 7


def readings(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The readings of `benchmarks.soaking`: at the start, on the way, and at the end."""
    library = build_variant(cache_folder(), features=["count-allocations"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_package(library, folder)
        numbers = [options.seconds, options.formats, options.threads, options.seed]
        words = [sys.executable, "-m", "benchmarks.soaking", *map(str, numbers), str(folder / "readings")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([name, str(ROOT)]), **ENVIRONMENT}
        subprocess.run(words, cwd=folder, env=env, check=True)
        lines = (folder / "readings").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def missing(reading: dict[str, Any]) -> float:
    """Return the deviation of the counted from the allocated bytes, as a share of the latter."""
    return float(sum(reading["counted"].values()) / reading["allocated"] - 1)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """A summary of all readings: MiB by time."""
    return summary(readings(options), options)


def summary(read: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """The readings as columns, of which the first is at the start, and the last at the end."""
    kinds = sorted(read[-2]["counted"], key=lambda kind: -max(one["counted"].get(kind, 0) for one in read))
    return {
        "formats": options.formats,
        "threads": options.threads,
        "vocabulary": read[0]["vocabulary"],
        "done": read[-2]["done"],
        "minutes": [round(one["seconds"] / 60, 2) for one in read],
        "resident": [round(one["resident"] / MEBIBYTE, 1) for one in read],
        "allocated": [round(one["allocated"] / MEBIBYTE, 2) for one in read],
        "counted, less allocated, as a share": [round(missing(one), 4) for one in read],
        "counted": {kind: [round(one["counted"].get(kind, 0) / MEBIBYTE, 1) for one in read] for kind in kinds},
    }


def show(found: dict[str, Any]) -> str:
    """Summarise the work done, the bytes counted, and resident memory over time."""
    minutes, resident, allocated = found["minutes"], found["resident"], found["allocated"]
    half = len(minutes) // 2
    rows = [[kind, f"{max(counts):.1f}"] for kind, counts in found["counted"].items()]
    rows.append(["all, as the allocator counts", f"{max(allocated):.1f}"])
    # Medians of both quarters of the second half: single readings depend on what is alive then.
    third, fourth = resident[half : (half + len(minutes)) // 2], resident[(half + len(minutes)) // 2 : -1]
    before, after = statistics.median(third), statistics.median(fourth)
    farthest = max(map(abs, found["counted, less allocated, as a share"][1:-1]))
    usual = statistics.median(map(abs, found["counted, less allocated, as a share"][1:-1]))
    done = ", ".join(f"{count:,} {what}" for what, count in found["done"].items())
    told = (
        f"Resident memory was {resident[0]:.0f} MiB at the start, {after:.0f} in the last quarter, {max(resident):.0f} "
        f"at most, and {resident[-1]:.0f} when all was dropped. Of the library's bytes, "
        f"{allocated[-1] - allocated[0]:.2f} MiB more were in use at the end than at the start."
    )
    return "\n".join(
        [
            f"In {minutes[-1]:.0f} minutes, for {found['vocabulary']}: {done}.",
            "",
            markdown(["bytes for", "MiB at most"], rows),
            "",
            aim("counted beside allocated, the median:", usual, COUNTED),
            aim("counted beside allocated, the farthest apart:", farthest, 2 * COUNTED),
            aim("resident memory of the last quarter, beside the one before, less one:", after / before - 1, GROWTH),
            aim("resident memory at the end, beside the start, less one:", resident[-1] / resident[0] - 1, LEFT),
            "",
            told,
        ]
    )


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Counted bytes by kind, one above the other, with those allocated; and resident memory."""
    minutes = found["minutes"][1:-1]
    figure, (counted, resident) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    kinds = list(found["counted"])
    others = [sum(found["counted"][kind][place] for kind in kinds[SHOWN:]) for place in range(1, len(minutes) + 1)]
    layers = [*(found["counted"][kind][1:-1] for kind in kinds[:SHOWN]), others]
    counted.stackplot(minutes, layers, labels=[*kinds[:SHOWN], "others"], alpha=0.8)
    counted.plot(minutes, found["allocated"][1:-1], color="black", linewidth=1, label="allocated")
    counted.set_title("the native library: counted by kind")
    resident.plot(minutes, found["resident"][1:-1], label="on the way")
    resident.axhline(found["resident"][0], color="0.6", linestyle=":", label="at the start")
    resident.axhline(found["resident"][-1], color="C1", linestyle="--", label="all dropped")
    resident.set_title("the whole process: resident")
    for axis in (counted, resident):
        axis.set_xlabel("minutes")
        axis.set_ylabel("MiB")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    return figure
