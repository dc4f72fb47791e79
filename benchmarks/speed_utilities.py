"""How fast are our utilities against those of mbrs 0.1.8, and do both choose the same?

    python -m benchmarks.speed_utilities
    python -m benchmarks.speed_utilities --quick           # exact COMET, chrF, BLEU and TER on a few lists
    python -m benchmarks.speed_utilities --only "chrf exact" --lists 5 --repeats 2
    python -m benchmarks.speed_utilities --only memory

Proves that exact decoding makes the choices of mbrs, exact ties aside, for a fraction of its cost. Lists of 100 German
samples of the bundled translation model for everyday English sentences, one set with 30 % duplicates and one without
any; COMET with random weights (12 layers x 384, COMET-22's head). The same lists and the same checkpoint on both sides,
the candidates as pseudo-references, each its own included. CPU seconds of decoding on one thread, those of helper
processes included, loading not, after a warm-up; portions in turn (ours, theirs, ours, theirs ...), so that a noisy
machine affects both alike. mbrs runs with its fastest settings (see support/peer_mbrs.py). Ratios are medians of the
portions with their range. Rows of `aggregate` also show how often either side chooses what our exact decoding chooses;
with BLEU the two differ on purpose (see `bleu_score` in mbr/utilities/bleu.py). `memory`: peak memory of COMET for a
list of 1,000 distinct candidates, in a fresh process. Prints a table; all numbers go to
benchmarks/work/speed_utilities.json.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.support.headlines import headline, spread
from benchmarks.support.peers import ask_mbrs, ask_worker
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.quotes import add_keep_option, keep, spread_values

FOLDER = WORK / "speed-utilities"
OUTPUT = WORK / "speed_utilities.json"
CHECKPOINT: dict[str, Any] = {
    "layers": 12,
    "hidden": 384,
    "heads": 12,
    "hidden_sizes": (3072, 1024),
    "attention_gain": 0.1,
}
CANDIDATES = 100
DISTINCT = 70  # of them, in the lists with duplicates
WORDS = range(6, 10)  # of a source; the checkpoint's small vocabulary makes 27 tokens of a translation
MANY = 1000
MEMORY_TARGET = 2000.0  # MB


@dataclass(frozen=True)
class Row:
    """One comparison: a utility of ours and a metric of mbrs, on a number of lists."""

    utility: str
    lists: int
    decoder: str = "exact"
    duplicates: bool = True
    options: dict[str, Any] = field(default_factory=dict)  # of our `decode`

    @property
    def request(self) -> dict[str, Any]:
        strategy = "full" if self.decoder == "exact" else "aggregate"
        return {"utility": self.utility, "options": {"strategy": strategy, **self.options}}


ROWS = {
    "comet exact": Row("comet", 3),
    "comet exact, no duplicates": Row("comet", 3, duplicates=False),
    "comet aggregate": Row("comet", 3, "aggregate"),
    "chrf exact": Row("chrf", 30),
    "chrf aggregate": Row("chrf", 30, "aggregate"),
    "bleu exact": Row("bleu", 5),
    "bleu aggregate": Row("bleu", 30, "aggregate"),
    "ter exact": Row("ter", 5),
}
QUICK = {"comet exact": 1, "chrf exact": 10, "bleu exact": 2, "ter exact": 2}  # lists of these rows


def candidate_lists(count: int, *, duplicates: bool) -> list[dict[str, Any]]:
    """The first `count` lists of 100, after one to warm up with; those with duplicates repeat 30 of 70 texts."""
    draw = random.Random(7)
    lists = []
    for source, texts in samples(max(1 + count, 31), CANDIDATES, 400, WORDS)[: 1 + count]:
        if duplicates:
            texts = texts[:DISTINCT]
            texts = texts + draw.choices(texts, k=CANDIDATES - DISTINCT)
            draw.shuffle(texts)
        lists.append({"source": source, "candidates": texts})
    return lists


def samples(count: int, distinct: int, drawn: int, words: range) -> list[tuple[str, list[str]]]:
    """Held-out sources with their first `distinct` different samples, of `drawn`; sources with fewer are left out."""
    file = FOLDER / f"samples-{count}x{distinct}.json"
    if not file.exists():
        from benchmarks.support.tatoeba import parts
        from candidates.generation import Settings, open_generator
        from candidates.lists import CandidateList

        sources = [source for source in parts(TATOEBA)["held-out"] if len(source.split()) in words]
        drawn_lists: list[tuple[str, list[str]]] = []
        with open_generator(Settings(nbest=drawn, method="sample", top_k=10), device="cpu") as generator:
            for source in sources:  # one by one: a batch would generate many more than are needed
                (item,) = generator.generate([source])
                if isinstance(item, CandidateList) and len(item.texts) >= distinct:
                    drawn_lists.append((item.source, list(item.texts[:distinct])))
                if len(drawn_lists) == count:
                    break
        FOLDER.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(drawn_lists), encoding="utf-8")
    return [(source, texts) for source, texts in json.loads(file.read_text(encoding="utf-8"))]


def checkpoint() -> Path:
    root = FOLDER / "comet-12x384"
    if not (root / "hparams.yaml").exists():
        from tests.support.random_comet import write_random_comet

        write_random_comet(root, **CHECKPOINT)
    return root


def ask_ours(request: dict[str, Any], lists: list[dict[str, Any]]) -> dict[str, Any]:
    options = dict(request["options"])
    if request["utility"] == "comet":
        options |= {"model": str(checkpoint()), "device": "cpu", "threads": 1}
    payload = {**request, "options": options, "lists": lists[1:], "warm_up": few(lists[0])}
    return ask_worker("benchmarks.speed_utilities", payload)


def ask_theirs(row: Row, lists: list[dict[str, Any]]) -> dict[str, Any]:
    job = {"metric": row.utility, "decoder": row.decoder, "lists": lists[1:], "warm_up": few(lists[0])}
    if row.utility == "comet":
        job["checkpoint"] = str(checkpoint())
    return ask_mbrs([job])[0]


def few(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "candidates": item["candidates"][:10]}


def worker() -> None:
    """Decode the lists of a request, after its list to warm up with, and print choices, seconds and memory."""
    from mbr import decode, get_utility

    request = json.load(sys.stdin)
    options = request["options"]
    strategy = options.pop("strategy")
    utility = get_utility(request["utility"], **options)

    def decide(items: list[dict[str, Any]]) -> list[str]:
        pairs = [(item["source"], item["candidates"]) for item in items]
        decisions = decode(pairs, utility, strategy=strategy, self_rule="include", weights="count")
        return [decision.text for decision in decisions]

    decide([request["warm_up"]])
    held = memory_now()
    began = cpu_seconds()
    choices = decide(request["lists"])
    seconds = cpu_seconds() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"choices": choices, "seconds": seconds, "peak": peak, "above": peak - held}))


def cpu_seconds() -> float:
    """CPU seconds of this process and of the helpers it waited for."""
    usages = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def memory_now() -> float:
    """Resident memory of this process in MB; Linux only."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def measure(name: str, count: int | None, repeats: int) -> dict[str, Any]:
    """One row of the table: seconds per list on both sides, portion by portion, and how often both choose the same."""
    row = ROWS[name]
    lists = candidate_lists(count or row.lists, duplicates=row.duplicates)
    ours, theirs = [], []
    for _ in range(repeats):
        mine = ask_ours(row.request, lists)
        other = ask_theirs(row, lists)
        ours.append(mine["seconds"] / (len(lists) - 1))
        theirs.append(statistics.mean(decision["seconds"] for decision in other["decisions"]))
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    different, ties = [], 0
    for item, choice, decision in zip(lists[1:], mine["choices"], other["decisions"], strict=True):
        if choice != decision["text"]:
            # By how much mbrs itself scores its choice higher; 0 for a tie, where ours takes the earlier candidate.
            best, of_ours = decision["expected"][decision["index"]], item["candidates"].index(choice)
            gap = abs(best - decision["expected"][of_ours])
            if gap > 0:
                different.append(gap)
            else:
                ties += 1
    exact: list[int] = []
    if row.decoder == "aggregate":
        best = ask_ours({**row.request, "options": {"strategy": "full"}}, lists)["choices"]
        both = (mine["choices"], [decision["text"] for decision in other["decisions"]])
        exact = [sum(a == b for a, b in zip(choices, best, strict=True)) for choices in both]
    return {
        "lists": len(lists) - 1,
        "candidates": CANDIDATES,
        "distinct": statistics.mean(len(set(item["candidates"])) for item in lists[1:]),
        "ours": ours,
        "mbrs": theirs,
        "ratios": ratios,
        "different_choices": different,
        "ties": ties,
        "as_exact": exact,
    }


def line(name: str, result: dict[str, Any]) -> str:
    ours, theirs, ratios = (result[key] for key in ("ours", "mbrs", "ratios"))
    same = result["lists"] - len(result["different_choices"])
    gap = max(result["different_choices"], default=0.0)
    return (
        f"{name:<28}{statistics.median(ours):>11.4f}{statistics.median(theirs):>11.4f}"
        f"  {spread(ratios):<22}{same:>4} of {result['lists']}"
        + (f", largest gap by mbrs {gap:.2g}" if result["different_choices"] else "")
        + (f", {result['ties']} of them exact ties broken otherwise" if result["ties"] else "")
        + ("; the exact choice: ours {}, mbrs {}".format(*result["as_exact"]) if result["as_exact"] else "")
    )


def quoted_values(name: str, result: dict[str, Any]) -> dict[str, float]:
    """What pages quote of a row: seconds per list on both sides, and the ratio with its range."""
    key = name.replace(",", "").replace(" ", "-")
    seconds = {f"{key}.ours": statistics.median(result["ours"]), f"{key}.mbrs": statistics.median(result["mbrs"])}
    return {**spread_values(key, result["ratios"]), **seconds}


def memory() -> dict[str, Any]:
    """COMET on a list of 1,000 distinct candidates."""
    ((source, texts),) = samples(1, MANY, 3000, range(12, 16))
    warm_up = {"source": source, "candidates": texts[:10]}
    answer = ask_ours(ROWS["comet exact"].request, [warm_up, {"source": source, "candidates": texts}])
    return {"candidates": MANY, **{key: answer[key] for key in ("seconds", "peak", "above")}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", choices=(*ROWS, "memory"), action="append", help="this row; may be repeated")
    which.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}, on a few lists; nothing is kept")
    parser.add_argument("--lists", type=int, help="lists of each row instead of its own number, 30 at most")
    parser.add_argument("--repeats", type=int, default=3, help="portions of each side")
    add_keep_option(parser)
    options = parser.parse_args()
    if options.worker:
        worker()
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen = options.only or (list(QUICK) if options.quick else [*ROWS, "memory"])
    results = json.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.exists() else {}
    fine = True
    rows = [name for name in chosen if name in ROWS]
    if rows:
        print(f"{'CPU s per list, one thread':<28}{'mbr-decode':>11}{'mbrs':>11}  {'ratio':<22}same choice")
    for name in rows:
        results[name] = result = measure(name, QUICK[name] if options.quick else options.lists, options.repeats)
        print(line(name, result), flush=True)
        fine &= ROWS[name].decoder != "exact" or not result["different_choices"]
    if "memory" in chosen:
        results["memory"] = result = memory()
        headline(
            f"COMET, {MANY} distinct candidates: {result['peak']:.0f} MB at most, {result['above']:.0f} MB above the "
            f"loaded model, {result['seconds']:.0f} CPU s; target below {MEMORY_TARGET:.0f} MB"
        )
        fine &= result["peak"] < MEMORY_TARGET
    for name in rows:
        headline(f"{name}: mbrs over ours {spread(results[name]['ratios'])}")
    if options.keep:
        keep("speed_utilities", {k: v for name in rows for k, v in quoted_values(name, results[name]).items()})
    if not options.quick:
        OUTPUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
