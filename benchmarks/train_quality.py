"""How well trained metrics rank candidates: PEAR, its single-candidate baseline and sentinels, on unseen lists.

    python -m benchmarks.train_quality            # three seeds of each kind, then the tables
    python -m benchmarks.train_quality --ablation --seeds 2 --steps 48 --wmt23-every 20 --threads 1

Proves what comparing pairs is worth against scoring single candidates at equal training, and how both rank beside
baselines that know no translation. Every kind starts from the bundled translation models (`pear.runtime.reader`) and
sees the same lists for the same number of steps; only input and target differ. The bundled PEAR, trained longer, is in
the tables too, and so are baselines without training: random numbers, the candidate's length, the translation model's
own log-probability.
Statistics against the agreement with the references (Tatoeba) and MQM (WMT23): acc_eq*, segment-wise Pearson, PDP, and
the regret of choosing by them, a share of best minus mean. Intervals are 95 % of a paired bootstrap over segments, of
each seed and of the mean over seeds. `--ablation` compares ways to train PEAR instead: Huber and MSE, with
and without the flip term, one stage and two (`benchmarks.support.ablation`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.support.ablation import VARIANTS, ablated, human_lessons, report
from benchmarks.support.held_out import TRUNCATING, Judged, tatoeba_lists, wmt23_lists
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.train_bundled_pear import SOURCES, first_weights, judged, lessons_folder, make_lessons
from mbr.utilities.chrf import ChrF
from pear.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pear.data import Group, split
from pear.engine import Engine
from pear.shipped import DEFAULT, SHIPPED
from pear.training.loop import train
from pear.training.recipe import KINDS, Kind, Recipe
from pear.training.statistics import Pairs, acc_eq, pdp, segment_pearson

TRAINED: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind != "resume")
SETTINGS: dict[str, Any] = {
    "encoder_rate": 1e-3,
    "head_rate": 1e-3,
    "batch_tokens": 4096,
    "pairs_per_source": 8,
    "dev_share": 0.01,
    "dev_lists": 40,
    "select": "pdp",
    "optimizer": "muon",
}
ABLATION: dict[str, Any] = {
    **SETTINGS,
    "encoder_rate": 3e-4,
    "batch_tokens": 2048,
    "pairs_per_source": 4,
    "dev_lists": 15,
    "optimizer": "adamw",
}
Prediction = list[Any]  # scores [n] or an antisymmetric matrix [n, n] for each segment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=WORK / "quality")
    parser.add_argument("--lessons", type=Path, default=WORK / "pear-en-de", help="lists of train_bundled_pear")
    parser.add_argument("--kinds", nargs="+", choices=TRAINED, default=TRAINED, help="what to train; default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--lists", type=int, default=300, help="held-out Tatoeba lists")
    parser.add_argument("--candidates", type=int, default=12, help="candidates per list")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--wmt23-every", type=int, default=1, metavar="N", help="take every Nth scored WMT23 segment")
    parser.add_argument("--train-only", action="store_true")
    parser.add_argument("--ablation", action="store_true", help="loss, flip term and stages of PEAR, on human scores")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.ablation:
        ablation(options)
        return
    lessons = lessons_folder(options.lessons, SOURCES)
    if not (lessons / "lessons.jsonl").exists():
        make_lessons(TATOEBA, lessons, SOURCES, threads=options.threads)
    learned = split(judged(lessons / "lessons.jsonl"), SETTINGS["dev_share"], seed=1)
    models: dict[tuple[str, int], Checkpoint] = {}
    for seed in range(1, options.seeds + 1):
        for kind in options.kinds:
            models[kind, seed] = trained(kind, seed, learned, options)
    if options.train_only:
        return
    models["pear", 0] = load_checkpoint(SHIPPED / DEFAULT)
    held_out = tatoeba_lists(options.lists, options.candidates, work=options.work)
    results = {"tatoeba": table("Tatoeba, held-out lists", held_out, everything(models, held_out))}
    segments = wmt23_lists()[:: options.wmt23_every]
    # All pairs of twelve long outputs take long, so only the bundled PEAR scores them.
    scored = everything({key: model for key, model in models.items() if "pear" not in key[0] or not key[1]}, segments)
    results["wmt23"] = table("WMT23 en-de, 12 systems", segments, scored)
    kept = [[k for k, name in enumerate(item.systems or []) if name not in TRUNCATING] for item in segments]
    whole = [item.only(places) for item, places in zip(segments, kept, strict=True)]
    less = {
        name: [only(part, places) for part, places in zip(values, kept, strict=True)] for name, values in scored.items()
    }
    results["wmt23 without truncating"] = table("WMT23 en-de, 9 systems that do not truncate", whole, less)
    (options.work / "train_quality.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def ablation(options: argparse.Namespace) -> None:
    """Train every variant with every seed and measure all of them on the same WMT23 segments."""
    options.work.mkdir(parents=True, exist_ok=True)
    lessons_of_people = human_lessons(0.03)
    models = {
        f"{name}#{seed}": ablated(name, seed, options.steps, ABLATION, lessons_of_people, options.work, first_weights)
        for seed in range(1, options.seeds + 1)
        for name in VARIANTS
    }
    if options.train_only:
        return
    segments = wmt23_lists(every=options.wmt23_every)
    results = report({name: predictions(model, segments)["both"] for name, model in models.items()}, segments)
    (options.work / "ablation.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def trained(kind: Kind, seed: int, learned: tuple[list[Group], list[Group]], options: argparse.Namespace) -> Checkpoint:
    """A model of a kind and a seed, trained once and kept."""
    folder = options.work / lessons_folder(options.lessons, SOURCES).name / f"{kind}-{seed}-{options.steps}"
    if not (folder / "model").exists():
        print(f"{kind}, seed {seed} ...", flush=True)
        recipe = Recipe(kind=kind, seed=seed, steps=options.steps, every=options.steps, **SETTINGS)
        save_checkpoint(train(recipe, first_weights(kind, seed), *learned, folder), folder / "model")
    return load_checkpoint(folder / "model", kind=kind)


def everything(models: dict[tuple[str, int], Checkpoint], items: Sequence[Judged]) -> dict[str, Prediction]:
    """Predictions of each model, and of baselines without one; "name#seed" where there are several seeds."""
    predicted: dict[str, Prediction] = {"random": [random_scores(item) for item in items]}
    predicted["candidate length"] = [lengths(item) for item in items]
    if items[0].systems:  # on the other lists chrF is half of what is to be predicted
        predicted["chrF with the reference"] = [
            ChrF().matrix(item.source, item.texts, [item.reference])[:, 0].astype(np.float64) for item in items
        ]
    if items[0].logprobs:
        predicted["translation model's log-probability"] = [logprobs(item) for item in items]
    for (name, seed), checkpoint in models.items():
        for order, prediction in predictions(checkpoint, items).items():
            shown = {"one": ", one order", "both": ", both orders"}.get(order, "")
            predicted[f"bundled PEAR{shown}" if not seed else f"{name}{shown}#{seed}"] = prediction
    return predicted


def table(title: str, items: Sequence[Judged], scored: dict[str, Prediction]) -> dict[str, Any]:
    """Print and return the statistics of everything that scored these lists."""
    gold = [item.scores for item in items]
    rows: dict[str, list[dict[str, float]]] = {}
    for name, prediction in scored.items():
        rows.setdefault(name.partition("#")[0], []).append(statistics(prediction, gold))
    print(f"\n{title}: {len(items)} segments", flush=True)
    for name, values in rows.items():
        cells = "  ".join(f"{key} {np.mean([v[key] for v in values]):.3f}" for key in values[0])
        seeds = ", ".join(f"{value['pdp']:.3f}" for value in values)
        print(f"  {name:38} {cells}" + (f"  (PDP of the seeds: {seeds})" if len(values) > 1 else ""))
    pairs = {
        f"seed {seed}": (scored[name], scored[f"single#{seed}"])
        for name in scored
        for kind, _, seed in [name.partition("#")]
        if kind == "pear, both orders" and f"single#{seed}" in scored
    }
    differences = {label: compare([pair], gold) for label, pair in pairs.items()}
    if pairs:
        differences["all seeds"] = compare([*pairs.values()], gold)
    for label, gains in differences.items():
        text = ", ".join(f"{key} {d[0]:+.3f} [{d[1]:+.3f}, {d[2]:+.3f}]" for key, d in gains.items())
        print(f"  PEAR (both) minus single, {label}: {text}")
    return {"rows": rows, "pear minus single": differences, "segments": len(items)}


def only(prediction: Any, places: list[int]) -> Any:
    """The part of a prediction for some of the candidates."""
    return prediction[np.ix_(places, places)] if prediction.ndim == 2 else prediction[places]


def predictions(checkpoint: Checkpoint, items: Sequence[Judged]) -> dict[str, Prediction]:
    """Predictions of a model for each list: matrices in one order (upper triangle) and both, or scores."""
    kind = checkpoint.network.kind
    shown = [row for item in items for row in inputs_of(kind, item)]
    with Engine(checkpoint.network, checkpoint.tokenizer, device="cpu") as engine:
        scores = engine.score(shown)
    predicted: dict[str, Prediction] = {"both": [], "one": []} if kind == "pear" else {"single": []}
    start = 0
    for item in items:
        size = len(item.texts)
        count = size * (size - 1) if kind == "pear" else size
        part = scores[start : start + count].astype(np.float64)
        start += count
        if kind != "pear":
            predicted["single"].append(part)
            continue
        square = np.zeros((size, size))
        square[~np.eye(size, dtype=bool)] = part
        upper = np.triu(square, 1)
        predicted["one"].append(upper - upper.T)
        predicted["both"].append((square - square.T) / 2)
    return predicted


def inputs_of(kind: str, item: Judged) -> list[tuple[str, ...]]:
    if kind == "pear":
        return [(item.source, a, b) for i, a in enumerate(item.texts) for j, b in enumerate(item.texts) if i != j]
    one_text = {"sentinel-src": item.source, "sentinel-ref": item.reference}
    source = item.source if kind == "single" else ""
    return [(source, one_text.get(kind, text)) for text in item.texts]


def statistics(predicted: Prediction, gold: Sequence[Any]) -> dict[str, float]:
    pairs = Pairs.of(predicted, gold)
    return {
        "acc_eq*": acc_eq(pairs)[0],
        "segment Pearson": segment_pearson(predicted, gold),
        "pdp": pdp(pairs),
        "regret": regret(predicted, gold),
    }


def regret(predicted: Prediction, gold: Sequence[Any]) -> float:
    """What choosing by the predictions loses, a share of best minus mean over all segments together."""
    lost = gained = 0.0
    for part, scores in zip(predicted, gold, strict=True):
        judged = np.asarray(scores, np.float64)
        expected = part.sum(axis=1) if part.ndim == 2 else part
        lost += judged.max() - judged[int(expected.argmax())]
        gained += judged.max() - judged.mean()
    return lost / gained if gained else 0.0


def compare(
    pairs: Sequence[tuple[Prediction, Prediction]], gold: Sequence[Any], draws: int = 300
) -> dict[str, tuple[float, float, float]]:
    """Mean differences of the statistics over pairs of predictions, with intervals from drawing segments."""

    def difference(places: Sequence[int]) -> dict[str, float]:
        drawn = [gold[k] for k in places]
        ours, theirs = (
            [statistics([prediction[k] for k in places], drawn) for prediction in side]
            for side in zip(*pairs, strict=True)
        )
        return {key: float(np.mean([a[key] - b[key] for a, b in zip(ours, theirs, strict=True)])) for key in ours[0]}

    rng = np.random.default_rng(1)
    whole = difference(range(len(gold)))
    drawn = [difference(rng.integers(0, len(gold), len(gold)).tolist()) for _ in range(draws)]
    bounds = {key: np.quantile([values[key] for values in drawn], [0.025, 0.975]) for key in whole}
    return {key: (value, float(bounds[key][0]), float(bounds[key][1])) for key, value in whole.items()}


def random_scores(item: Judged) -> Any:
    seed = int.from_bytes(item.source.encode()[:8].ljust(8), "big")
    return np.random.default_rng(seed).normal(size=len(item.texts))


def lengths(item: Judged) -> Any:
    return np.array([len(text) for text in item.texts], np.float64)


def logprobs(item: Judged) -> Any:
    return np.array(item.logprobs, np.float64)


if __name__ == "__main__":
    main()
