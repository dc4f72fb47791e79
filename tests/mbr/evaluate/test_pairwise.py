"""PEAR as a judge: the means of pear-score, antisymmetric, one comparison per system and segment; signs in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import UsageError
from mbr.cache.judgements import Cache
from mbr.evaluate import evaluate, parse_judges
from mbr.metrics import get_metric
from mbr.metrics.pear import Pear
from tests.conftest import Run
from tests.mbr.evaluate.made import ALL, FAST, REFERENCES, SOURCES, SYSTEMS, read

pytestmark = pytest.mark.one_world

QUICK: dict[str, Any] = {"draws": 0, "trials": 0, "options": {"device": "cpu"}}


def judged(word: str, baseline: str | None = "poor", systems: Any = SYSTEMS, **changed: Any) -> Any:
    request = {**QUICK, "sources": SOURCES, "references": [REFERENCES], "baseline": baseline, **changed}
    (result,) = evaluate(systems, [word], **request).judges
    assert result.error is None, result.error
    return result


def write_table(path: Path, columns: dict[str, list[str]]) -> Path:
    rows = ["\t".join(columns), *("\t".join(cells) for cells in zip(*columns.values(), strict=True))]
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return path


def counted_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each call of the engine from now on."""
    from pear.engine import Engine

    passes: list[int] = []
    score = Engine.score

    def counted(self: Engine, rows: Any, **options: Any) -> Any:
        passes.append(len(rows))
        return score(self, rows, **options)

    monkeypatch.setattr(Engine, "score", counted)
    return passes


@pytest.mark.parametrize("which", ["bundled", "released"])
def test_scores_on_wmt23_are_the_means_of_pear_score(
    which: str, wmt23: Path, released: Path, warm: Run, tmp_path: Path
) -> None:
    model = "en-de" if which == "bundled" else str(released)
    texts = {"src": read(wmt23 / "sources/en-de.txt"), "ref": read(wmt23 / "references/en-de.refA.txt")}
    texts |= {name: read(wmt23 / f"system-outputs/en-de/{name}.txt") for name in ("ONLINE-B", "GPT4-5shot", "AIRC")}
    places = [place for place, source in enumerate(texts["src"]) if len(source) < 120][:12]
    some = {name: [column[place].replace("\t", " ") for place in places] for name, column in texts.items()}
    systems = {name: some[name] for name in ("ONLINE-B", "GPT4-5shot", "AIRC")}
    table = write_table(tmp_path / "outputs.tsv", some)
    for judge, anchor in (("pear", "ONLINE-B"), ("pear-ref", "ref")):
        scored = warm(
            "pear-score", table, "--model", model, "--device", "cpu", "--both", "--means",
            "--systems", *(name for name in systems if name != anchor), "--anchor", anchor,
        )  # fmt: skip
        assert scored.returncode == 0, scored.stderr
        means = {cells[0]: float(cells[1]) for cells in map(str.split, scored.stdout.splitlines()[1:])}
        texts_of = {"sources": some["src"], "references": [some["ref"]]}
        result = judged(f"{judge}={model}", "ONLINE-B", systems, **texts_of)
        for name, mean in means.items():
            assert result.scores[name].score == pytest.approx(mean, abs=1e-5)
            assert result.segments[name].mean() == result.scores[name].score
        if judge == "pear":
            assert result.scores["ONLINE-B"].score == 0.0
            assert not result.segments["ONLINE-B"].any()


@pytest.mark.parametrize("keeps", [True, False])
def test_swapping_baseline_and_system_flips_every_sign_exactly(keeps: bool, ours: Path, tmp_path: Path) -> None:
    two = {name: SYSTEMS[name] for name in ("good", "poor")}
    with Cache(tmp_path / "cache.sqlite") as cache:
        kept = {"cache": cache if keeps else None, "draws": 50, "trials": 50}
        one = judged(f"pear={ours}", "poor", two, **kept)
        other = judged(f"pear={ours}", "good", dict(reversed(two.items())), **kept)
    assert one.segments["good"].tolist() == (-other.segments["poor"]).tolist()
    assert one.scores["good"].score == -other.scores["poor"].score != 0
    assert one.scores["good"].low == -other.scores["poor"].high
    assert one.scores["good"].p_randomisation == other.scores["poor"].p_randomisation
    assert (one.better_than, other.better_than) == ("poor", "good")


def test_signs_flip_exactly_beside_a_third_system_and_without_a_cache(ours: Path) -> None:
    """Batches must not depend on the other systems: rounding depends on what is padded together."""
    random = np.random.default_rng(1)
    words = ["the", "a", "dog", "cat", "house", "sees", "runs", "into", "under", "green", "old", "very"]
    texts = [[" ".join(random.choice(words, random.integers(2, 30))) for _ in range(80)] for _ in range(4)]
    sources, *outputs = texts
    outputs[2][::9] = outputs[0][::9]  # some outputs of two systems are the same
    systems = dict(zip(("a", "b", "c"), outputs, strict=True))
    request = {"sources": sources, "references": None}
    results = {name: judged(f"pear={ours}", name, systems, **request) for name in systems}
    for name, other in (("a", "b"), ("a", "c"), ("b", "c")):
        assert results[name].segments[other].tolist() == (-results[other].segments[name]).tolist()
        assert results[name].scores[other].score == -results[other].scores[name].score != 0


def test_the_signature_names_what_outputs_are_compared_with(ours: Path) -> None:
    for word, against in (("pear", "baseline"), ("pear-ref", "reference")):
        identity = judged(f"{word}={ours}").identity
        assert "|input:source+hypothesis+anchor|" in identity
        assert identity.endswith(f"|against:{against}")


def test_one_order_is_half_the_passes_and_not_antisymmetric(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = counted_passes(monkeypatch)
    two = {name: SYSTEMS[name] for name in ("good", "poor")}
    both, forward = judged(f"pear={ours}", systems=two), judged(f"pear={ours},mode=single", systems=two)
    backward = judged(f"pear={ours},mode=single", "good", two)
    # Five segments in which the two differ: the baseline itself costs nothing.
    assert passes == [10, 5, 5]
    halves = (forward.segments["good"] - backward.segments["poor"]) / 2
    assert both.segments["good"] == pytest.approx(halves, abs=1e-5)
    assert forward.segments["good"] != pytest.approx(-backward.segments["poor"], abs=1e-3)


def test_passes_grow_with_systems_and_a_second_run_needs_no_model(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = counted_passes(monkeypatch)
    with Cache(tmp_path / "cache.sqlite") as cache:
        first = judged(f"pear={ours}", "good", cache=cache)
        # Two systems against the third in both orders, never against each other; equal outputs cost nothing.
        equal = sum(a == b for name in ("poor", "middle") for a, b in zip(SYSTEMS["good"], SYSTEMS[name], strict=True))
        assert sum(passes) == 2 * (2 * len(SOURCES) - equal)
        monkeypatch.setattr(Pear, "__init__", lambda *words, **options: pytest.fail("a model was loaded"))
        again = judged(f"pear={ours}", "good", cache=cache)
        swapped = judged(f"pear={ours}", "poor", {k: SYSTEMS[k] for k in ("good", "poor")}, cache=cache)
    assert again.segments["poor"].tolist() == first.segments["poor"].tolist()
    assert swapped.segments["good"].tolist() == (-first.segments["poor"]).tolist()


def test_the_metric_is_half_of_the_difference_of_both_orders(ours: Path, engine: Any) -> None:
    rows = [("A dog.", "Ein Hund.", "Eine Katze."), ("A dog.", "Ein Hund.", "Ein Hund.")]
    with get_metric("pear", model=str(ours), device="cpu") as metric:
        scores = metric.score(rows)
        assert metric.truncated([*rows, ("A dog. " * 200, "Hund", "Katze")]).tolist() == [False, False, True]
    forward, backward = engine.score([rows[0], ("A dog.", "Eine Katze.", "Ein Hund.")])
    assert scores == pytest.approx([(forward - backward) / 2, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("word", "changed", "message"),
    [
        ("pear", {"baseline": None}, "compares every system with a baseline; name one"),
        ("pear", {"sources": None}, "pear needs the sources"),
        ("pear-ref", {"references": None}, "pear-ref needs references"),
        ("pear=x,mode=half", {}, "mode=half is no option of pear; pear and pear-ref have mode=single"),
        ("comet=x,mode=single", {}, "no option of comet"),
        ("pear=", {}, "no model behind"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(word: str, changed: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        judged(word, **changed)


def test_without_a_model_the_languages_choose_and_too_little_evidence_fails() -> None:
    (spec,) = parse_judges(["pear"])
    assert spec.for_texts(zip(SOURCES, zip(*SYSTEMS.values(), strict=True), strict=True)).model == "en-de"
    with pytest.raises(UsageError, match="languages cannot be seen from the texts; name one: pear=en-de"):
        spec.for_texts([("1", ["2"])])


def test_the_table_says_in_words_what_signs_mean(warm: Run, tmp_path: Path, files: Path) -> None:
    words = ("mbr-evaluate", *ALL, *FAST, "--baseline", "mid", "--judge", "pear=en-de", "pear-ref=en-de", "chrf")
    shown = warm(*words, "--segments", "segments.jsonl")
    assert shown.returncode == 0, shown.stderr
    head, _, *rows = shown.stdout.splitlines()[:5]
    assert "pear: better than mid by" in head
    assert "pear-ref: better than the reference by" in head
    cells = {row.split()[0]: row.split() for row in rows}
    assert cells["mid"][2] == "+0.0000"
    assert {cells[name][1][0] for name in ("good", "poor")} <= {"+", "-"}
    assert "pear: + is better than mid, - is worse; mean over segments" in shown.stdout
    assert "judging with the bundled en-de PEAR" in shown.stderr
    record = json.loads(warm(*words, "--format", "json").stdout)
    assert [judge["better_than"] for judge in record["judges"]] == ["mid", "the reference", None]
    segments = [json.loads(line) for line in (tmp_path / "segments.jsonl").read_text().splitlines()]
    good = [line["scores"]["pear"] for line in segments if line["system"] == "good"]
    assert np.mean(good) == pytest.approx(record["judges"][0]["scores"]["good"]["score"], abs=1e-9)
    assert record["judges"][0]["scores"]["good"]["difference"] == pytest.approx(np.mean(good), abs=1e-9)
