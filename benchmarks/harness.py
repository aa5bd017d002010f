"""Run benchmarks: options, turns, ratios of pairs, children with limits, JSON, tables and pictures."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import platform
import random
import resource
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
Clock = Callable[[], float]

#: Options of every benchmark; a module's own OPTIONS stand beside them.
COMMON: dict[str, dict[str, Any]] = {
    "--output": {"type": Path, "help": "without ending, by default the benchmark's name; .json and .png are added"},
    "--read": {"type": Path, "help": "show and draw this .json instead of measuring"},
    "--plot": {"type": Path, "help": "where to draw, if not beside the .json"},
    "--smoke": {"action": "store_true", "help": "as little as shows that it runs; its times say nothing"},
}

#: Pixels an inch of a picture, and pixels above and below what is plotted.
_DPI, _MARGIN = 100, 30
#: Characters of a line of JSON.
_WIDTH = 120


def main(benchmark: ModuleType, arguments: Sequence[str]) -> None:
    """Measure, write, print and draw, by what the module of a benchmark defines.

    `OPTIONS` are arguments of `add_argument` by option, `SMOKE` the values that they have with `--smoke`. `measure`
    takes the options and returns what is written, `show` makes a text of it, and `plot`, where there is one, draws it
    below `TITLE`. Neither needs the `rows`, of single schemas or formats, that some return: they are written to a file
    beside the other, `NAME.rows.json`, so that the first holds figures alone.
    """
    parser = argparse.ArgumentParser(
        description=benchmark.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option, settings in {**COMMON, **benchmark.OPTIONS}.items():
        parser.add_argument(option, **settings)
    options = parser.parse_args(arguments)
    options.output = options.output or Path(benchmark.__name__.rpartition(".")[2])
    if options.smoke:
        vars(options).update(benchmark.SMOKE)
    if options.read:
        found = json.loads(options.read.read_text(encoding="utf-8"))
    else:
        found = {"machine": machine(), **benchmark.measure(options)}
        if rows := found.pop("rows", None):
            write(options.output.with_suffix(".rows.json"), {"rows": rows})
        write(options.output.with_suffix(".json"), found)
    print(benchmark.show(found))
    if hasattr(benchmark, "plot"):
        draw(benchmark, found, options.plot or (options.read or options.output).with_suffix(".png"))


def machine() -> str:
    """Describe the machine."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Write JSON in few lines of at most 120 characters."""
    path.write_text(laid_out(rounded(found)) + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Leave eight significant digits of each float: no measurement has more."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def laid_out(value: Any, indent: int = 0, before: int = 0) -> str:
    """Lay JSON out in lines of at most 120 characters, of which the first has `before` already; scalars share lines."""
    flat = json.dumps(value, ensure_ascii=False)
    if before + len(flat) < _WIDTH or not isinstance(value, (dict, list)):
        return flat
    pad, lines, was_scalar = " " * (indent + 1), list[str](), False
    for name, item in value.items() if isinstance(value, dict) else ((None, item) for item in value):
        text = "" if name is None else json.dumps(str(name), ensure_ascii=False) + ": "
        text += laid_out(item, indent + 1, len(pad) + len(text))
        is_scalar = not isinstance(item, (dict, list))
        if was_scalar and is_scalar and len(lines[-1]) + len(text) + 2 < _WIDTH:
            lines[-1] += f", {text}"
        else:
            lines.append(pad + text)
        was_scalar = is_scalar
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, ",\n".join(lines), " " * indent + closing])


def draw(benchmark: ModuleType, found: Any, path: Path) -> None:
    """Save the figure that `plot(pyplot, found)` makes, between its title and the machine; or say that it cannot."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    framed(pyplot, benchmark, found).savefig(path, dpi=_DPI)


def framed(pyplot: Any, benchmark: ModuleType, found: Any) -> Any:
    """Put in what a benchmark plots as a picture, so that the title above and the machine below meet no legend."""
    drawn = io.BytesIO()
    benchmark.plot(pyplot, found).savefig(drawn, dpi=_DPI)
    drawn.seek(0)
    pixels = pyplot.imread(drawn)
    height, width = pixels.shape[0] + 2 * _MARGIN, pixels.shape[1]
    picture = pyplot.figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
    picture.figimage(pixels, 0, _MARGIN)
    words = picture.text(0.5, 1 - _MARGIN / 2 / height, benchmark.TITLE, ha="center", va="center", weight="bold")
    words.set_fontsize(words.get_fontsize() * min(1, 0.96 * width / words.get_window_extent().width))
    machine = f"measured on {found['machine']}"
    picture.text(1 - 10 / width, _MARGIN / 2 / height, machine, ha="right", va="center", fontsize=8, color="0.4")
    return picture


# --- measuring -------------------------------------------------------------------------------------------------------


def seconds_of(task: Callable[[], Any], clock: Clock = time.process_time) -> Callable[[], float]:
    """Make a task that runs another and returns how long it took."""

    def timed() -> float:
        begun = clock()
        task()
        return clock() - begun

    return timed


def take_turns(tasks: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run the tasks in rounds, each in a new random order, after one that warms every cache; return all results."""
    found: dict[str, list[T]] = {name: [] for name in tasks}
    for turn in range(rounds + 1):
        for name in random.Random(turn).sample(list(tasks), len(tasks)):
            gc.collect()
            measured = tasks[name]()
            if turn:
                found[name].append(measured)
    return found


def medians(found: Mapping[str, Iterable[float]], factor: float = 1.0) -> dict[str, float]:
    """Compute the median of each task, times a factor."""
    return {name: factor * statistics.median(values) for name, values in found.items()}


def ratio(ours: Iterable[float], theirs: Iterable[float]) -> float:
    """Compute the median of the ratios of the same round."""
    return statistics.median(own / other for own, other in zip(ours, theirs, strict=True))


def difference(ours: Iterable[float], theirs: Iterable[float]) -> float:
    """Compute the median of the differences of the same round."""
    return statistics.median(own - other for own, other in zip(ours, theirs, strict=True))


def beside(turns: Mapping[str, Sequence[float]], reference: str, factor: float = 1.0) -> dict[str, dict[str, float]]:
    """Compare each task with a reference: its median, and medians over pairs of the ratio and of the difference."""
    base = turns[reference]
    return {
        name: {
            "median": factor * statistics.median(values),
            "ratio": ratio(values, base),
            "more": factor * difference(values, base),
        }
        for name, values in turns.items()
    }


def spread(control: Sequence[float]) -> float:
    """Compute how far a task is from itself in the next round, as a share: how far to trust a ratio to it."""
    return statistics.median([abs(after / before - 1) for before, after in pairwise(control)] or [0.0])


def percentiles(values: Iterable[float], places: Sequence[float] = (50, 90, 99), digits: int = 2) -> dict[str, float]:
    """Compute percentiles by name: `p50`, …"""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {f"p{place:g}": round(ordered[min(last, int(place / 100 * len(ordered)))], digits) for place in places}


class ChildError(Exception):
    """Say that a child ended without an answer: "time-out", a signal, or its error."""


def in_child(work: Callable[[], Any], cpu_seconds: int | None, gibibytes: int = 8) -> Any:
    """Call `work` in a forked child with limits on CPU time and memory; return its result by JSON, and drop its output.

    A limit on CPU time makes `time.process_time` coarse, so set none if you read that clock.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (gibibytes << 30, gibibytes << 30))
        if cpu_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 2))
        try:
            answer = {"found": work()}
        except BaseException as error:  # noqa: BLE001 (panics too)
            answer = {"error": repr(error)[:300]}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if not data:
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        raise ChildError("time-out" if killed in (signal.SIGXCPU, signal.SIGKILL) else f"signal {killed}")
    answer = json.loads(data)
    if "error" in answer:
        raise ChildError(answer["error"])
    return answer["found"]


# --- telling ---------------------------------------------------------------------------------------------------------


def aim(what: str, found: float, limit: float, *, at_least: bool = False) -> str:
    """Write a figure beside our target."""
    sign, kept = ("≥", found >= limit) if at_least else ("≤", found <= limit)
    return f"{what} {found:.4g} ({sign} {limit:.4g}{'' if kept else ', MISSED'})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def bars(axis: Any, series: Mapping[str, Mapping[str, float]], *, lying: bool = False, labels: str = "") -> None:
    """Draw groups of bars: the series beside each other at each place; a place may lack a series."""
    places = list(dict.fromkeys(place for heights in series.values() for place in heights))
    width = 0.8 / len(series)
    for index, (name, heights) in enumerate(series.items()):
        at = [places.index(place) + (index - (len(series) - 1) / 2) * width for place in heights]
        drawn = (axis.barh if lying else axis.bar)(at, list(heights.values()), width, label=name)
        if labels:
            axis.bar_label(drawn, fmt=labels, fontsize=7)
    (axis.set_yticks if lying else axis.set_xticks)(range(len(places)), places)
    if lying and not axis.yaxis_inverted():
        axis.invert_yaxis()


def seconds_axis(axis: Any) -> None:
    """Label a logarithmic x axis of seconds: 1 µs, 10 µs, …"""
    from matplotlib.ticker import EngFormatter, LogLocator

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator())
    axis.xaxis.set_major_formatter(EngFormatter("s"))


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Collect now, and not while something is measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
