"""Do scripts for pear-mt run with our package, and does decoding choose as pear-mt does where texts repeat?

    python -m benchmarks.compat_pear_mt
    python -m benchmarks.compat_pear_mt --tests-only      # without the choices

Proves how many of the tests in the source distribution of pear-mt 1.1.1 pass when `import pear` is ours, with a reason
for each that fails, and how often our decoding chooses what pear-mt chooses from lists with duplicates. The source
distribution comes from the package index; its tests run as they are, in a temporary folder. Two of them need the hub
and are skipped, by pear-mt itself. Choices: lists of 16 samples of the bundled translation model, decided by the
bundled PEAR and by a random one; pear-mt's side is `pear.mbr`, whose matrices are those of pear-mt (parity_pear_mt).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Literal

import pear
from benchmarks.support.headlines import headline
from benchmarks.support.peers import version
from benchmarks.support.places import ROOT, TATOEBA
from benchmarks.support.tatoeba import parts
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from mbr import rerank
from mbr.utilities import get_utility
from pear.shipped import DEFAULT
from tests.support.random_pear import write_random_released

MODES: tuple[Literal["half", "full"], ...] = ("half", "full")

# Why a test of pear-mt fails, by the beginning of its name. One that is not here is a fault of ours.
REASONS = {
    "test_download_model_": "mock",
    "test_load_metric_resolves_hub_model_and_revision": "mock",
    "test_load_metric_explicit_revision_overrides_pin": "mock",
    "test_load_from_checkpoint_suppresses_only_trusted_torch_load_warning[True": "mock",
    "test_public_version_matches_installed_distribution_metadata": "version",
    "test_score_pairwise_rejects_unknown_mode_after_no_reverse_call": "earlier",
}
MEANINGS = {
    "mock": "replaces functions inside pear-mt by mocks and expects our code to call them in the same way",
    "version": "expects pear.__version__ to be that of the distribution pear-mt; it is ours",
    "earlier": "expects an unknown mode to be refused after the first pass; here it is refused before",
}


def fetch_tests(folder: Path) -> Path:
    """The tests of pear-mt, from the package index."""
    package = f"pear-mt=={version('pear-mt')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", package]
    subprocess.run([*command, "-d", str(folder)], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        members = [member for member in content.getmembers() if "/tests/" in member.name]
        content.extractall(folder, members, filter="data")
    (tests,) = folder.glob("*/tests")
    return tests


def run_tests(tests: Path) -> dict[str, str]:
    """The outcome of each test by name: passed, failed or skipped."""
    report = tests.parent / "report.xml"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", tests.name],
        cwd=tests.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        marks = {part.tag for part in case}
        outcome = "skipped" if "skipped" in marks else "failed" if marks & {"failure", "error"} else "passed"
        outcomes[str(case.get("name"))] = outcome
    return outcomes


def compare_tests() -> bool:
    """Print how many tests pass, and why the others fail; whether all that fail have a reason."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_tests(fetch_tests(Path(folder)))
    failed = {name: reason_of(name) for name, outcome in outcomes.items() if outcome == "failed"}
    for name, reason in failed.items():
        print(f"  {reason:<12} {name}")
    for reason, meaning in MEANINGS.items():
        print(f"{reason}: {meaning} ({list(failed.values()).count(reason)} tests)")
    skipped = list(outcomes.values()).count("skipped")
    run = len(outcomes) - skipped
    headline(f"{run - len(failed)} of {run} tests of pear-mt {version('pear-mt')} pass ({skipped} need the hub)")
    return run > 0 and "unexplained" not in failed.values()


def reason_of(name: str) -> str:
    return next((reason for start, reason in REASONS.items() if name.startswith(start)), "unexplained")


def compare_choices(count: int) -> bool:
    """Print how many of our choices from lists with duplicates are those of pear-mt; whether all of `full` are."""
    settings = Settings(nbest=16, method="sample", seed=1)
    with open_generator(settings, device="cpu") as generator:
        generated = list(generator.generate(parts(TATOEBA)["test"][:count]))
    lists = [item for item in generated if isinstance(item, CandidateList)]
    repeated = sum(len(item) < settings.nbest for item in lists)
    print(f"{len(lists)} lists of {settings.nbest} samples, {repeated} with duplicates")
    exact = True
    with tempfile.TemporaryDirectory() as folder:
        write_random_released(Path(folder) / "random")
        for name, model in (("bundled PEAR", str(DEFAULT)), ("random PEAR", str(Path(folder) / "random"))):
            metric = pear.load_metric(model)
            utility = get_utility("pear", model=model, device="cpu")
            for mode in MODES:
                equal = 0
                for item in lists:
                    texts = written_out(item)
                    matrix = pear.pear_utility_matrix(metric, item.source, texts, mode=mode, gpus=0, progress_bar=False)
                    choice = texts[pear.select_mbr_hypothesis(matrix)[0]]
                    equal += rerank(item.source, texts, utility, strategy=mode).text == choice
                headline(f"{name}, {mode}: {equal} of {len(lists)} choices are those of pear-mt")
                exact = exact and (mode == "half" or equal == len(lists))
    return exact


def written_out(item: CandidateList) -> list[str]:
    """The texts of a list with their copies, in the order in which they were drawn."""
    places = {place: text for text, places in zip(item.texts, item.positions, strict=True) for place in places}
    return [places[place] for place in sorted(places)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests-only", action="store_true", help="leave out the choices")
    parser.add_argument("--lists", type=int, default=64, help="lists to choose from")
    options = parser.parse_args()
    holds = compare_tests()
    if not options.tests_only:
        holds = compare_choices(options.lists) and holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
