"""What each part of PEAR's training is worth, at small scale: the loss, the flip term, the first stage.

Table 3 of the PEAR paper compares the Huber loss with MSE; here the flip term and the first stage are taken out, too.
Every variant starts from the same weights and takes the same number of steps on MQM of WMT21 news and TED
(English-German); the variant with two stages spends half of its steps before that on direct assessments of MLQE-PE,
where the post-edit is the second candidate with 100 points. All are measured on WMT23 en-de in both orders: SPA,
acc_eq* and PDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.held_out import Judged
from benchmarks.support.places import DATA
from mbr.metaeval import Gold, Scores, measure
from mbr.metaeval.postedits import read_post_edits
from pear.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pear.data import Group, Judgment, average_raters, group, read_judgments, split
from pear.training.loop import train
from pear.training.recipe import Kind, Recipe

MQM = [DATA / "wmt-mqm" / name for name in ("en-de-mqm.2021.csv", "en-de-mqm.2021-ted.csv")]
ASSESSMENTS = DATA / "mlqe-pe" / "direct-assessments-train-en-de-train.tar.gz"
POST_EDITS = DATA / "mlqe-pe" / "post-editing-train-en-de-train.tar.gz"
BEST_ASSESSMENT = 100.0

STATISTICS = ("spa", "acc_eq", "pdp")
USUAL = "Huber, flip, one stage"
DRAWS = 300


@dataclass(frozen=True)
class Variant:
    """Changes to the usual recipe, and whether direct assessments come first."""

    changes: Mapping[str, Any]
    two_stages: bool = False


VARIANTS = {
    USUAL: Variant({}),
    "MSE": Variant({"loss": "mse"}),
    "no flip term": Variant({"flip": 0.0}),
    "two stages": Variant({}, two_stages=True),
}


def ablated(
    name: str,
    seed: int,
    steps: int,
    settings: Mapping[str, Any],
    lessons: Mapping[str, list[Group]],
    work: Path,
    first_weights: Callable[[Kind, int], Checkpoint],
) -> Checkpoint:
    """A PEAR of a variant and seed, trained once and kept."""
    folder = work / f"ablation-{'-'.join(name.lower().replace(',', '').split())}-{seed}-{steps}"
    if not (folder / "model").exists():
        print(f"{name}, seed {seed} ...", flush=True)
        variant = VARIANTS[name]
        last = steps - steps // 2 if variant.two_stages else steps
        recipe = Recipe(seed=seed, steps=last, every=last, **{**settings, **variant.changes})
        checkpoint = first_weights("pear", seed)
        if variant.two_stages:
            first = replace(recipe, steps=steps // 2, every=steps // 2, learn_scale=False)
            checkpoint = train(first, checkpoint, lessons["assessed"], lessons["development"], folder / "first")
        checkpoint = train(recipe, checkpoint, lessons["mqm"], lessons["development"], folder / "last")
        save_checkpoint(checkpoint, folder / "model")
    return load_checkpoint(folder / "model")


def human_lessons(dev_share: float) -> dict[str, list[Group]]:
    """Groups with MQM, some of them for development, and groups with direct assessments."""
    rows = average_raters(row for file in MQM for row in read_judgments(file))
    learned, development = split(group(rows), dev_share, seed=1)
    return {"mqm": learned, "development": development, "assessed": group(assessed())}


def assessed() -> Iterator[Judgment]:
    """Direct assessments, with the post-edit of each translation beside it, both tokenised as the post-edits are."""
    edits = read_post_edits(POST_EDITS)
    items = {
        (_letters(source), _letters(before)): (source, before, after)
        for source, before, after in zip(edits.sources, edits.before, edits.after, strict=True)
    }
    for row in read_judgments(ASSESSMENTS, "da"):
        texts = items.get((_letters(row.source), _letters(row.translation)))
        if texts is not None and texts[1] != texts[2]:
            source, before, after = texts
            yield Judgment(source, before, row.score, segment=row.segment)
            yield Judgment(source, after, BEST_ASSESSMENT, segment=row.segment)


def agreement(predicted: Sequence[Any], items: Sequence[Judged]) -> tuple[Gold, Scores]:
    """Human scores [systems, segments] and differences [systems, systems, segments] of segments with all systems."""
    systems = max((item.systems or [] for item in items), key=len)
    whole = [place for place, item in enumerate(items) if item.systems == systems]
    gold = np.stack([items[place].scores for place in whole], axis=1)
    return Gold(gold), Scores.pairwise("PEAR", np.stack([predicted[place] for place in whole], axis=2))


def report(predicted: Mapping[str, Sequence[Any]], items: Sequence[Judged]) -> dict[str, Any]:
    """Print and return the statistics of each variant and seed, and how each variant differs from the usual one."""
    rows: dict[str, Any] = {}
    seeds = sorted({name.partition("#")[2] for name in predicted})
    print(f"\nAblation, WMT23 en-de, {len(items)} segments, both orders:", flush=True)
    for name in VARIANTS:
        of_seeds = [_measured(*agreement(predicted[f"{name}#{seed}"], items)) for seed in seeds]
        rows[name] = {
            "seeds": of_seeds,
            "mean": {key: _mean([values[key] for values in of_seeds]) for key in STATISTICS},
        }
        cells = "  ".join(f"{key} {value:.3f}" for key, value in rows[name]["mean"].items())
        if name != USUAL:
            rows[name]["difference"] = _differences(predicted, items, name, seeds)
            gains = ((key, *values) for key, values in rows[name]["difference"].items())
            cells += "  minus usual: " + ", ".join(
                f"{k} {d:+.3f} [{low:+.3f}, {high:+.3f}]" for k, d, low, high in gains
            )
        print(f"  {name:24} {cells}", flush=True)
    return {"rows": rows, "segments": len(items), "seeds": seeds}


def _differences(
    predicted: Mapping[str, Sequence[Any]], items: Sequence[Judged], name: str, seeds: Sequence[str]
) -> dict[str, tuple[float, float, float]]:
    """Mean difference over seeds to the usual variant, with 95 % intervals over segments drawn with replacement."""
    pairs = [[agreement(predicted[f"{each}#{seed}"], items) for each in (name, USUAL)] for seed in seeds]
    segments = pairs[0][0][0].scores.shape[1]

    def differences(places: Any) -> dict[str, float]:
        measured = [[_measured(gold, scores, places) for gold, scores in pair] for pair in pairs]
        return {key: _mean([one[key] - usual[key] for one, usual in measured]) for key in STATISTICS}

    random = np.random.default_rng(1)
    observed = differences(np.arange(segments))
    drawn = [differences(random.integers(0, segments, segments)) for _ in range(DRAWS)]
    bounds = {key: np.quantile([values[key] for values in drawn], [0.025, 0.975]) for key in STATISTICS}
    return {key: (observed[key], float(bounds[key][0]), float(bounds[key][1])) for key in STATISTICS}


def _measured(gold: Gold, scores: Scores, places: Any = None) -> dict[str, float]:
    if places is not None:
        gold, scores = Gold(gold.scores[:, places]), scores.columns(places)
    values = measure(gold, scores, STATISTICS)
    return {key: float(values[key] or 0.0) for key in STATISTICS}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _letters(text: str) -> str:
    return "".join(text.split())
