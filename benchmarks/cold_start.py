"""What does a whole process cost, from the first import to the last line, for one source, ten and a hundred?

    python -m benchmarks.cold_start
    python -m benchmarks.cold_start --quick                      # lists of 20, 1 and 5 sources, models of 3 x 64
    python -m benchmarks.cold_start --only pear --whole          # pear-mt on all sources too: a night

Proves that small jobs are fast, too: user and system CPU seconds of processes on one thread, everything included, as a
user starts them. The same checkpoints in the released layouts, 12 layers x 384, and the same lists of the bundled
translation model, 100 distinct candidates each, on both sides; repeats of all sides in turn, medians and ranges. The
PEAR is trained by `benchmarks.support.trained_pear` on other sources, once (half an hour); the COMET has random
weights, which change nothing where every pair is scored.

| row | ours | theirs |
| --- | --- | --- |
| pear | `mbr-decode --utility pear --dtype auto` | pear-mt 1.1.1: half a matrix per list, the best mean |
| comet | `mbr-decode --utility comet --strategy full` | mbrs 0.1.8: its MBR decoder with COMET |
| scores | `mbr-evaluate --judge comet`, one system, without cache and resamples | `comet-score` of unbabel-comet |
| bundled | `mbr-decode --nbest 100` of one sentence, the bundled models; `--utility chrf` on a list of 100 | targets |

pear-mt needs minutes per source, mbrs seconds: beyond `--measured` sources (2 for pear-mt, 10 for mbrs) their cost is a
straight line through one source and that number, marked with *, unless `--whole` runs them. Both read one source after
another, so that it is straight. For PEAR, the regret of both sides' choices under complete float32 matrices in both
orders is printed, with the interval of its difference over `--quality` lists; half a matrix is taken from the complete
one, which equals pear-mt's (`benchmarks.parity_pear_mt`). All numbers go to benchmarks/work/cold_start.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.headlines import headline, spread
from benchmarks.support.peers import ask_mbrs, ask_pear_mt, environment
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.quotes import add_keep_option, keep, spread_values
from benchmarks.support.tatoeba import candidate_lists, parts
from candidates.common.words import counted
from candidates.generation import Settings

FOLDER = WORK / "cold-start"
OUTPUT = WORK / "cold_start.json"
SENTENCE = "Tom told me that he wanted to meet my parents."
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
TARGETS = {"pear": {10: 10.0, 100: 50.0}}  # their CPU time over ours
BUNDLED_TARGETS = {"pear": 2.2, "chrf": 0.5}  # CPU seconds

Lists = list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Size:
    """How large the models and lists are."""

    layers: int = 12
    hidden: int = 384
    heads: int = 12
    candidates: int = 100

    @property
    def name(self) -> str:
        return f"{self.layers}x{self.hidden}"


@dataclass
class Side:
    """CPU seconds of one program, by number of sources; `drawn` are those numbers that were not run."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    drawn: set[int] = field(default_factory=set)

    def add(self, sources: int, seconds: float) -> None:
        self.seconds.setdefault(sources, []).append(seconds)

    def extend(self, counts: Sequence[int]) -> None:
        """Fill in numbers of sources that were not run, by the line through the smallest and the largest that were."""
        few, many = min(self.seconds), max(self.seconds)
        for count in counts:
            if count not in self.seconds:
                pairs = list(zip(self.seconds[few], self.seconds[many], strict=True))
                self.seconds[count] = [a + (b - a) / (many - few) * (count - few) for a, b in pairs]
                self.drawn.add(count)

    def cell(self, count: int) -> str:
        return f"{statistics.median(self.seconds[count]):,.1f}{'*' if count in self.drawn else ''}"


def of_children() -> float:
    """CPU seconds of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    before = of_children()
    return call(), of_children() - before


def run(command: Sequence[object], text: str = "") -> str:
    """The output of a command in a process of its own, on one thread, with compiled modules as installed ones have."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    cache = {"MBR_CACHE": str(FOLDER / "cache")}
    done = subprocess.run(
        [str(word) for word in command],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER,
        env={**variables, **ONE_THREAD, **cache},
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return done.stdout


def tool(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def real_lists(candidates: int, count: int) -> Lists:
    """The first lists of held-out sources whose candidates all differ."""
    sources = parts(TATOEBA)["held-out"][: 2 * count]
    made = candidate_lists(FOLDER / f"real-{count}x{candidates}.jsonl", sources, Settings(nbest=candidates))
    distinct = [(item.source, list(item.texts)) for item in made if len(set(item.texts)) == candidates]
    if len(distinct) < count:
        raise RuntimeError(f"only {len(distinct)} of {len(made)} lists have {candidates} distinct candidates")
    return distinct[:count]


def lists_file(lists: Lists) -> Path:
    file = FOLDER / f"lists-{len(lists)}x{len(lists[0][1])}.jsonl"
    lines = [json.dumps({"source": s, "candidates": [{"text": t} for t in texts]}) for s, texts in lists]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def decode(utility: str, model: Path, lists: Lists, *options: str) -> list[str]:
    """What `mbr-decode` chooses."""
    where = ["--candidates", lists_file(lists), "--utility", utility, "--model", model, "--device", "cpu"]
    output = run([tool("mbr-decode"), *where, "--threads", "1", "--format", "jsonl", "--quiet", *options])
    return [json.loads(line)["text"] for line in output.splitlines()]


# --- the rows


class Pear:
    """Half a matrix of pear-mt against our default strategy."""

    name = "pear"
    theirs = "pear-mt, half a matrix"
    ours = "mbr-decode --utility pear --dtype auto"

    def __init__(self, size: Size) -> None:
        from benchmarks.support.trained_pear import trained_released

        self.model = trained_released(layers=size.layers, hidden=size.hidden, heads=size.heads)
        self.choices: list[str] = []

    def run_ours(self, lists: Lists) -> None:
        choices = decode("pear", self.model, lists, "--dtype", "auto")
        self.choices = max(self.choices, choices, key=len)

    def run_theirs(self, lists: Lists) -> None:
        ask_pear_mt(self.model, [{"kind": "matrix", "mode": "half", "lists": lists, "batch_size": 64}])

    def quality(self, lists: Lists) -> str:
        """Regret of both sides' choices when every pair is scored in both orders, in bf16 where the processor has it:
        1 is a candidate at random."""
        import torch

        import pear
        from pear.runtime.precision import has_bf16

        metric = pear.load_metric(self.model)
        if has_bf16(torch.device("cpu")):
            metric = metric.bfloat16()
        regrets: dict[str, list[float]] = {"ours": [], "theirs": []}
        for (source, texts), choice in zip(lists, self.choices, strict=False):
            matrix = pear.pear_utility_matrix(metric, source, texts, mode="full", gpus=0, progress_bar=False)
            expected = (matrix - matrix.T).sum(axis=1)
            half = np.triu(matrix, 1)
            chosen = {"ours": texts.index(choice), "theirs": int((half - half.T).sum(axis=1).argmax())}
            for side, place in chosen.items():
                regrets[side].append(float((expected.max() - expected[place]) / (expected.max() - expected.mean())))
        differences = np.array(regrets["ours"]) - np.array(regrets["theirs"])
        draws = np.random.default_rng(1).choice(differences, size=(2000, len(differences))).mean(axis=1)
        low, high = np.quantile(draws, [0.025, 0.975])
        return (
            f"regret with every pair in both orders, {counted(len(differences), 'list')}: ours "
            f"{np.mean(regrets['ours']):.2%}, half a matrix {np.mean(regrets['theirs']):.2%}; difference "
            f"{differences.mean():+.2%} [{low:+.2%}, {high:+.2%}]"
        )


class Comet:
    """mbrs against ours, every pair on both sides."""

    name = "comet"
    theirs = "mbrs with COMET"
    ours = "mbr-decode --utility comet --strategy full"

    def __init__(self, size: Size) -> None:
        self.model = comet_model(size)

    def run_ours(self, lists: Lists) -> None:
        decode("comet", self.model, lists, "--strategy", "full")

    def run_theirs(self, lists: Lists) -> None:
        items = [{"source": source, "candidates": texts} for source, texts in lists]
        ask_mbrs([{"metric": "comet", "decoder": "exact", "checkpoint": str(self.model), "lists": items}])


class Scores:
    """One translation per source, judged with a reference."""

    name = "scores"
    theirs = "comet-score"
    ours = "mbr-evaluate --judge comet"

    def __init__(self, size: Size) -> None:
        self.model = comet_model(size)
        self.command = environment("mbrs").with_name("comet-score")  # mbrs needs unbabel-comet

    def run_ours(self, lists: Lists) -> None:
        source, system, reference = texts_of(lists)
        words = ["--sources", source, "--references", reference, "--systems", f"one={system}"]
        model = ["--judge", f"comet={self.model}", "--device", "cpu", "--threads", "1"]
        run([tool("mbr-evaluate"), *words, *model, "--bootstrap", "0", "--trials", "0", "--no-cache", "--quiet"])

    def run_theirs(self, lists: Lists) -> None:
        source, system, reference = texts_of(lists)
        model = ["--model", self.model / "checkpoints" / "model.ckpt", "--gpus", "0", "--quiet"]
        run([self.command, "-s", source, "-t", system, "-r", reference, *model])


ROWS = {row.name: row for row in (Pear, Comet, Scores)}


def comet_model(size: Size) -> Path:
    from tests.support.random_comet import write_random_comet

    root = FOLDER / f"comet-{size.name}"
    if not (root / "hparams.yaml").exists():
        sizes = (3072, 1024)
        write_random_comet(
            root, hidden_sizes=sizes, layers=size.layers, hidden=size.hidden, heads=size.heads, attention_gain=0.1
        )
    return root


def texts_of(lists: Lists) -> list[Path]:
    """Files of sources, translations and references: the first and the second candidate of each list."""
    files = []
    for name, texts in (
        ("source", [source for source, _ in lists]),
        ("system", [texts[0] for _, texts in lists]),
        ("reference", [texts[1] for _, texts in lists]),
    ):
        files.append(FOLDER / f"{name}-{len(lists)}.txt")
        files[-1].write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return files


def measure(
    kind: str, size: Size, counts: Sequence[int], repeats: int, most: int | None, quality: int
) -> dict[str, Any]:
    """CPU seconds of both sides for each number of sources; theirs are run on `most` sources at most."""
    row: Any = ROWS[kind](size)
    lists = real_lists(size.candidates, max(counts))
    ours, theirs = Side(), Side()
    limit = max(counts) if most is None else max(most, 2)
    run_theirs = sorted({1, *(count for count in counts if count <= limit), min(limit, max(counts))})
    few = [(source, texts[:3]) for source, texts in lists[:1]]
    row.run_ours(few)  # both read their files once, and compile modules
    row.run_theirs(few)
    for _ in range(repeats):
        for count in sorted({*counts, *run_theirs}):
            if count in counts:
                ours.add(count, timed(partial(row.run_ours, lists[:count]))[1])
            if count in run_theirs:
                theirs.add(count, timed(partial(row.run_theirs, lists[:count]))[1])
    theirs.extend(counts)
    ratios = {n: [b / a for a, b in zip(ours.seconds[n], theirs.seconds[n], strict=True)] for n in counts}
    for name, side in ((row.ours, ours), (row.theirs, theirs)):
        print(f"{name:<46}" + "".join(f"{side.cell(count):>12}" for count in counts), flush=True)
    print(f"{'  theirs over ours':<46}" + "".join(f"{statistics.median(ratios[n]):>12.1f}" for n in counts))
    for count in counts:
        sources = counted(count, "source")
        mark = ", extrapolated" if count in theirs.drawn else ""
        target = TARGETS.get(kind, {}).get(count) if size == Size() else None
        wanted = f"; target {target:.0f}" if target else ""
        headline(f"{row.theirs} over {row.ours}, {sources}{mark}: {spread(ratios[count])}{wanted}")
    if kind == "pear":
        headline(row.quality(lists[:quality]))
    return {"ours": ours.seconds, "theirs": theirs.seconds, "extrapolated": sorted(theirs.drawn), "ratios": ratios}


def bundled(repeats: int) -> dict[str, list[float]]:
    """One sentence with the bundled models, and a list without any model."""
    lists = FOLDER / "bundled.jsonl"
    lists.write_text(run([tool("mbr-generate"), "--nbest", "100", "--format", "jsonl"], SENTENCE + "\n"), "utf-8")
    commands: dict[str, tuple[list[object], str]] = {
        "pear": ([tool("mbr-decode"), "--utility", "pear", "--nbest", "100"], SENTENCE + "\n"),
        "chrf": ([tool("mbr-decode"), "--utility", "chrf", "--candidates", lists], ""),
        "torch": ([sys.executable, "-c", "import torch"], ""),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for repeat in range(repeats + 1):
        for name, (command, text) in commands.items():
            used = timed(partial(run, command, text))[1]
            if repeat:  # not the first one, which compiles modules
                seconds[name].append(used)
    for name, what in (("pear", "one sentence"), ("chrf", "one list of 100")):
        headline(f"bundled, --utility {name}, {what}: {spread(seconds[name])} CPU s; target {BUNDLED_TARGETS[name]}")
    headline(f"`import torch` alone, which a PEAR needs: {spread(seconds['torch'])} CPU s")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(*ROWS, "bundled"), action="append", help="this row; may be repeated")
    parser.add_argument("--sources", type=int, nargs="+", default=None, metavar="N", help="default: 1 10 100")
    parser.add_argument("--measured", type=int, metavar="N", help="sources that peers are run on at most")
    parser.add_argument("--quality", type=int, default=8, metavar="N", help="lists whose choices are judged")
    parser.add_argument("--whole", action="store_true", help="run peers on all sources: pear-mt takes hours")
    parser.add_argument("--quick", action="store_true", help="small models and lists; nothing is kept")
    parser.add_argument("--repeats", type=int, default=3)
    add_keep_option(parser)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    size = Size(3, 64, 4, 20) if options.quick else Size()
    counts = sorted(options.sources or ([1, 5] if options.quick else [1, 10, 100]))
    results: dict[str, Any] = json.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.exists() else {}
    chosen = options.only or [*ROWS, "bundled"]
    print(f"{'CPU s of whole processes, ' + size.name:<46}" + "".join(f"{count:>12}" for count in counts) + " sources")
    for name in (name for name in chosen if name in ROWS):
        most = None if options.whole or name == "scores" else options.measured or {"pear": 2, "comet": 10}[name]
        results[name] = measure(name, size, counts, options.repeats, most, options.quality)
    if any(result["extrapolated"] for result in results.values() if isinstance(result, dict) and "ours" in result):
        print("* extrapolated from fewer sources")
    if "bundled" in chosen:
        results["bundled"] = bundled(options.repeats)
    if not options.quick:
        OUTPUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        if options.keep:
            keep("cold_start", quoted_values({name: results[name] for name in chosen}))
    return 0 if options.quick or reached(results) else 1


def quoted_values(results: dict[str, Any]) -> dict[str, float]:
    """What a page may quote: theirs over ours by row and number of sources, and the seconds of the bundled models."""
    values: dict[str, float] = {}
    for name, result in results.items():
        for key, numbers in (result if name == "bundled" else result["ratios"]).items():
            values |= spread_values(f"{name}.{key}", numbers)
    return values


def reached(results: dict[str, Any]) -> bool:
    """Whether what was measured keeps all targets."""
    ratios = results.get("pear", {}).get("ratios", {})
    fast = all(statistics.median(values) >= TARGETS["pear"].get(int(count), 0.0) for count, values in ratios.items())
    light = results.get("bundled", {})
    return fast and all(statistics.median(light[name]) <= most for name, most in BUNDLED_TARGETS.items() if light)


if __name__ == "__main__":
    sys.exit(main())
