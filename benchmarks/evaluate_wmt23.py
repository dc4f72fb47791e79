"""Does mbr-evaluate give sacrebleu's numbers on the real WMT23 outputs, and what does it cost?

    python -m benchmarks.evaluate_wmt23
    python -m benchmarks.evaluate_wmt23 --judges chrf bleu chrf++ --lp he-en

Proves that the corpus scores of `mbr-evaluate` are sacrebleu's to the last bit, with an empty cache and again with a
full one. All systems of a language pair of WMT23 (../shared/data or $MBR_DATA), judged as a user does it; sacrebleu's
TER takes minutes for a system of paragraphs, so for TER a few systems are compared (--ter-systems). CPU seconds of
whole processes: all judges with the default draws and trials; chrF and BLEU for the same scores and draws as the
`sacrebleu` command with its paired bootstrap (1,000 draws, no trials, no cache), both programs in turn; and TER of all
systems (--ter).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.support.headlines import headline, spread
from benchmarks.support.places import WMT23
from benchmarks.support.quotes import add_keep_option, keep, spread_values

REFERENCES = {"en-de": "refA", "he-en": "refB"}


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def corpus_scores(judge: str, outputs: dict[str, Path], reference: list[str]) -> dict[str, float]:
    from sacrebleu.metrics import BLEU, CHRF, TER

    metric: Any = {"bleu": BLEU(), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER()}[judge]
    return {name: metric.corpus_score(lines(file), [reference]).score for name, file in outputs.items()}


def timed(command: list[str], cache: str) -> tuple[str, float]:
    """The output of a command, and its CPU seconds."""
    before = cpu_seconds()
    environment = {**os.environ, "MBR_CACHE": cache, "SACREBLEU_SEED": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout, cpu_seconds() - before


def cpu_seconds() -> float:
    """CPU seconds of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lp", choices=sorted(REFERENCES), default="en-de")
    parser.add_argument("--judges", nargs="+", default=["chrf", "chrf++", "bleu"], help="lexical judges")
    parser.add_argument("--repeats", type=int, default=3, help="runs of both programs for the same scores and draws")
    parser.add_argument("--ter", action="store_true", help="also the time of TER for all systems, below a minute")
    parser.add_argument("--ter-systems", type=int, default=2, metavar="N", help="systems to compare TER of")
    add_keep_option(parser)
    options = parser.parse_args()
    reference = WMT23 / "references" / f"{options.lp}.{REFERENCES[options.lp]}.txt"
    folder = WMT23 / "system-outputs" / options.lp
    texts = ["--sources", WMT23 / "sources" / f"{options.lp}.txt", "--references", reference, "--systems", folder]
    tool = Path(sys.executable).with_name("mbr-evaluate")
    with tempfile.TemporaryDirectory() as cache:
        command = [str(tool), *map(str, texts), "--judge", *options.judges, "--format", "json", "--quiet"]
        baseline = sorted(file.stem for file in folder.glob("*.txt") if file.read_bytes() != reference.read_bytes())[0]
        command += ["--baseline", baseline]
        first, seconds = timed(command, cache)
        again, less = timed(command, cache)
        report = json.loads(first)
        outputs = {name: folder / f"{name}.txt" for name in report["systems"]}
        plain = Path(sys.executable).with_name("sacrebleu")
        files = [str(outputs[baseline]), *(str(file) for name, file in outputs.items() if name != baseline)]
        peer = [str(plain), str(reference), "-i", *files, "-m", "chrf", "bleu", "--paired-bs", "--format", "text"]
        shared = [str(tool), *map(str, texts), "--baseline", baseline, "--quiet", "--no-cache", "--trials", "0"]
        both = []
        for _ in range(options.repeats):
            ours = timed([*shared, "--judge", "chrf", "bleu"], cache)[1]
            both.append((ours, timed(peer, cache)[1]))
        ter = timed([*shared, "--judge", "ter"], cache)[1] if options.ter else None
    right = judged = 0
    for judge in report["judges"]:
        compared = dict(list(outputs.items())[: options.ter_systems] if judge["name"] == "ter" else outputs)
        expected = corpus_scores(judge["name"], compared, lines(reference))
        same = sum(judge["scores"][name]["score"] == score for name, score in expected.items())
        right, judged = right + same, judged + len(compared)
        equal = f"{same} of {len(compared)} systems"
        print(
            f"{judge['name']:<8} the same float as sacrebleu's corpus score: {equal}  {judge['identity']}", flush=True
        )
    print(
        f"{options.lp}, {len(outputs)} systems, {report['segments']} segments, {' '.join(options.judges)}: "
        f"{seconds:.1f} CPU s, {less:.1f} from the cache (the same output: {again == first})"
    )
    headline(f"the same float as sacrebleu: {right} of {judged} corpus scores")
    ratios = [theirs / ours for ours, theirs in both]
    headline(f"sacrebleu's CPU time over ours, chrF and BLEU, the same draws, no cache: {spread(ratios)}; target 1")
    values = {"same": right, "scores": judged, "seconds": seconds, "cached": less, **spread_values("sacrebleu", ratios)}
    if ter is not None:
        headline(f"TER of {len(outputs)} systems: {ter:.1f} CPU s; target below 60")
        values["ter"] = ter
    if options.keep:
        keep("evaluate_wmt23", values)
    fast = statistics.median(ratios) >= 1 and (ter is None or ter < 60)
    return 0 if again == first and right == judged and fast else 1


if __name__ == "__main__":
    sys.exit(main())
