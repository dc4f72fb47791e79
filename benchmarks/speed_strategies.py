"""How much faster a whole run is with fewer comparisons, and what the strategy itself costs.

    python -m benchmarks.speed_strategies
    python -m benchmarks.speed_strategies --only pear-mt --lists 30
    python -m benchmarks.speed_strategies --only thousand         # or outside

Proves that `mbr-decode` with its default strategy is many times as fast as the authors' package with half a matrix,
that its choices are as good within the noise, and that the strategy itself takes little time. (1) Against pear-mt: the
same checkpoint (3 layers x 256, trained by `benchmarks.support.trained_pear`), the same lists of 100 samples with their
natural duplicates, CPU seconds on one thread, of the whole process and of decoding alone, and the quality of the
choices against the references. The lists come in portions, both programs in turn, so that a noisy machine affects both
alike. (2) The share of the time outside the model, for a model of 12 layers. (3) A list of 1,000 candidates against one
of 100: passes, time, time outside the model, memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed_pear import candidate_lists
from benchmarks.support.choosing import interval
from benchmarks.support.headlines import headline, spread
from benchmarks.support.peers import ask_pear_mt, ask_worker
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.quotes import add_keep_option, keep, spread_values
from benchmarks.support.tatoeba import parts, references
from benchmarks.support.teacher import Embedder, agreement
from benchmarks.support.trained_pear import trained_released
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from pear.shipped import DEFAULT, SHIPPED
from tests.support.random_pear import write_random_released

FOLDER = WORK / "speed-strategies"
PORTIONS = 3
TARGET = 15  # times as fast, the whole process
ENOUGH = 30  # lists from which on the target holds; with fewer, loading is most of the time


def samples(sources: list[str], count: int) -> list[tuple[str, list[str]]]:
    """Samples of the bundled translation model, duplicates written out; made once."""
    file = FOLDER / f"samples-{len(sources)}x{count}.json"
    if not file.exists():
        with open_generator(Settings(nbest=count, method="sample", top_k=10), device="cpu") as generator:
            items = [item for item in generator.generate(sources) if isinstance(item, CandidateList)]
        lists = [(item.source, [candidate.text for candidate in item.listed()]) for item in items]
        file.write_text(json.dumps(lists), encoding="utf-8")
    return [(source, texts) for source, texts in json.loads(file.read_text(encoding="utf-8"))]


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def our_choices(model: Path, lists: list[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """The command as a user runs it."""
    candidates, output = FOLDER / "lists.jsonl", FOLDER / "best.jsonl"
    candidates.write_text(
        "".join(json.dumps({"source": s, "candidates": [{"text": t} for t in texts]}) + "\n" for s, texts in lists),
        encoding="utf-8",
    )
    program = "import sys; from candidates.command.launch import start; sys.exit(start('mbr-decode'))"
    words = [
        "--utility",
        "pear",
        "--model",
        str(model),
        "--device",
        "cpu",
        "--threads",
        "1",
        "--candidates",
        str(candidates),
    ]
    subprocess.run(
        [sys.executable, "-c", program, *words, "-o", output, "--format", "jsonl", "--force", "--quiet"],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def against_pear_mt(count: int, quoted: dict[str, float]) -> bool:
    sources = parts(TATOEBA)["test"][:count]
    lists = samples(sources, 100)
    model = trained_released(layers=3, hidden=256, heads=4)
    ask_pear_mt(model, [])  # builds the environment, and reads the files once
    seconds: dict[str, list[float]] = {"pear-mt half": [], "mbr-decode": []}
    decoding = []
    ours: list[dict[str, Any]] = []
    theirs: list[tuple[str, NDArray[np.float64]]] = []
    for portion in range(PORTIONS):
        some = lists[portion::PORTIONS]
        before = of_children()
        (answer,) = ask_pear_mt(model, [{"kind": "matrix", "mode": "half", "lists": some, "batch_size": 64}])
        between = of_children()
        ours += our_choices(model, some)
        seconds["pear-mt half"].append(between - before)
        seconds["mbr-decode"].append(of_children() - between)
        alone = ask_worker("benchmarks.speed_strategies", {"model": str(model), "lists": some})
        decoding.append(answer["seconds"] / alone["seconds"])
        for (_, texts), matrix in zip(some, answer["matrices"], strict=True):
            expected = np.array(matrix).sum(axis=1) / (len(texts) - 1)
            theirs.append((texts[int(expected.argmax())], expected))
        print(
            f"  portion {portion + 1}: " + ", ".join(f"{name} {values[-1]:.1f} s" for name, values in seconds.items())
        )
    ordered = [item for portion in range(PORTIONS) for item in lists[portion::PORTIONS]]
    ratios = [a / b for a, b in zip(seconds["pear-mt half"], seconds["mbr-decode"], strict=True)]
    passes = np.array([decision["passes"] for decision in ours])
    unique = np.array([decision["unique"] for decision in ours])
    print(
        f"{len(lists)} lists of 100 samples, {unique.mean():.0f} distinct on average; {passes.mean():.0f} passes "
        f"per list against 4950"
    )
    headline(f"pear-mt over ours, whole process: {spread(ratios)}; target {TARGET} from {ENOUGH} lists on")
    headline(f"pear-mt over ours, decoding alone: {spread(decoding)}")
    quoted |= {**spread_values("whole", ratios), **spread_values("decoding", decoding)}
    quoted |= {"passes": float(passes.mean()), "distinct": float(unique.mean())}
    embed, golden = Embedder(), references(TATOEBA, "test")
    regrets, judged = [], []
    for (source, texts), mine, (chosen, expected) in zip(ordered, ours, theirs, strict=True):
        of_mine = expected[texts.index(mine["text"])]
        regrets.append((expected.max() - of_mine) / max(expected.max() - expected.mean(), 1e-12))
        scores = agreement([mine["text"], chosen], golden[source], embed)
        judged.append((scores.chrf[0] - scores.chrf[1], scores.cosine[0] - scores.cosine[1]))
    same = np.mean([mine["text"] == chosen for mine, (chosen, _) in zip(ours, theirs, strict=True)])
    quoted["same"] = 100 * float(same)
    print(f"  same choice in {same:.1%}; regret under pear-mt's half matrix {np.mean(regrets):.2%}")
    for name, digits, differences in (
        ("chrF", 2, [chrf for chrf, _ in judged]),
        ("cosine", 4, [cosine for _, cosine in judged]),
    ):
        mean, low, high = interval(np.array(differences, np.float64))
        quoted |= {name: mean, f"{name}.low": low, f"{name}.high": high}
        print(f"  {name} of ours minus theirs {mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]")
    return float(np.median(ratios if len(lists) >= ENOUGH else decoding)) >= TARGET


def worker() -> None:
    from mbr import decode, get_utility

    request = json.load(sys.stdin)
    utility = get_utility("pear", model=request["model"], device="cpu", threads=1)
    spent = [0.0]
    score = utility.score_pairs  # type: ignore[attr-defined]

    def timed(triples: Any) -> Any:
        began = time.process_time()
        scores = score(triples)
        spent[0] += time.process_time() - began
        return scores

    list(decode([("warm up", ["a", "b", "c"])], utility))
    utility.score_pairs = timed  # type: ignore[attr-defined]
    before = peak_memory(reset=True)
    began = time.process_time()
    decisions = list(decode([(source, texts) for source, texts in request["lists"]], utility))
    total = time.process_time() - began
    answer = {
        "passes": sum(decision.passes for decision in decisions),
        "regret": float(np.mean([d.estimated_regret for d in decisions if d.estimated_regret is not None])),
        "seconds": total,
        "outside": total - spent[0],
        "memory": peak_memory() - before,
    }
    print(json.dumps(answer))


def peak_memory(*, reset: bool = False) -> float:
    """Peak resident memory of this process in MiB; Linux only. `reset` starts the peak anew."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def outside_the_model(repeats: int) -> bool:
    model = WORK / "speed-strategies-12x384"
    if not model.exists():
        write_random_released(model, layers=12, hidden=384, heads=12, attention_gain=0.1)
    lists = candidate_lists(100, 2, duplicates=False)
    runs = [ask_worker("benchmarks.speed_strategies", {"model": str(model), "lists": lists}) for _ in range(repeats)]
    shares = [run["outside"] / run["seconds"] for run in runs]
    headline(
        f"12 layers x 384, random weights, {len(lists)} lists of 100: {runs[0]['passes'] / len(lists):.0f} passes per "
        f"list, {np.median([run['seconds'] for run in runs]):.1f} s, outside the model {np.median(shares):.2%} of it "
        f"({min(shares):.2%} to {max(shares):.2%}); target below 5 %"
    )
    return float(np.median(shares)) < 0.05


def a_thousand(repeats: int) -> None:
    lists = samples([parts(TATOEBA)["test"][3], parts(TATOEBA)["test"][4]], 4000)
    print("\nthe bundled PEAR, the first distinct samples of two sources; medians of", repeats)
    for size in (100, 300, 1000):
        some = [(source, list(dict.fromkeys(texts))[:size]) for source, texts in lists]
        assert all(len(texts) == size for _, texts in some), "too few distinct samples; draw more of them"
        runs = [
            ask_worker("benchmarks.speed_strategies", {"model": str(SHIPPED / DEFAULT), "lists": some})
            for _ in range(repeats)
        ]
        seconds = float(np.median([run["seconds"] for run in runs]))
        outside = float(np.median([run["outside"] for run in runs]))
        peak = float(np.median([run["memory"] for run in runs]))
        print(
            f"  {size:5} candidates: {runs[0]['passes'] / 2:6.0f} passes per list of {size * (size - 1) // 2} pairs, "
            f"expected regret {runs[0]['regret']:.2%}, {seconds / 2:6.2f} s per list, "
            f"outside the model {outside / 2:.2f} s, {peak:.0f} MiB above the loaded model"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--lists", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("pear-mt", "outside", "thousand"))
    add_keep_option(parser)
    options = parser.parse_args()
    if options.worker:
        worker()
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    reached = []
    quoted: dict[str, float] = {}
    if options.only in (None, "outside"):
        reached.append(outside_the_model(options.repeats))
    if options.only in (None, "thousand"):
        a_thousand(options.repeats)
    if options.only in (None, "pear-mt"):
        reached.append(against_pear_mt(options.lists, quoted))
    if options.keep:
        keep("speed_strategies", quoted)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
