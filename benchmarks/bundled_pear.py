"""How good the bundled PEAR is: choices from 100-best lists, and damaged references that it detects.

    python -m benchmarks.bundled_pear                 # 1,000 sources of the test part

Proves that beside the translation model's own log-probability it chooses as well as the beam, that alone it does not,
and which kinds of damage it sees. Sources are of the test part, which neither the translation model nor PEAR ever saw;
candidates are the translation model's 100-best. Each way of choosing is judged against the references by chrF and by
the similarity of sentence embeddings, both against the nearest reference, a mean over sentences. Differences from the
beam's own best, and from what log-probability alone would choose, come with 95 % intervals of a paired bootstrap. PEAR
was trained on scores of the same embeddings (on other sources), so chrF is the independent judge.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch
from numpy.typing import NDArray

from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.shipped_terms import term_values, weight_of
from benchmarks.support.tatoeba import lists, parts, read, references
from benchmarks.support.teacher import Agreement, Embedder
from candidates.generation import Settings
from candidates.lists import Candidate, CandidateList
from mbr import decode
from mbr.utilities.chrf import ChrF
from pear.checkpoint import load_checkpoint
from pear.data.corruptions import diagnose
from pear.engine import Engine
from pear.shipped import DEFAULT, SHIPPED

Choice = NDArray[np.int64]
BEAM, LIKELY = "beam's own best", "log-probability per word"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, default=SHIPPED / DEFAULT)
    parser.add_argument("--single", type=Path, help="folder of a single-candidate model to rerank with")
    parser.add_argument("--sources", type=int, default=1000)
    parser.add_argument("--budget", type=int, default=300, help="passes per list, strategy halving")
    parser.add_argument("--alone", type=int, default=300, help="sources to try PEAR without terms on")
    parser.add_argument("--logprob", type=float, default=weight_of("logprob"), help="weight of the term logprob")
    parser.add_argument("--part", default="test", choices=("test", "development"), help="development: while training")
    parser.add_argument("--work", type=Path, default=WORK / "quality")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-diagnosis", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    sources = parts(TATOEBA)[options.part][: options.sources]
    golden = references(TATOEBA, "test" if options.part == "test" else "unseen")
    file = options.work / f"{options.part}-{options.sources}.jsonl"
    items = list(read(lists(file, sources, Settings(nbest=100))))
    result: dict[str, Any] = {"sources": len(items), "choices": choices(items, golden, options)}
    if not options.no_diagnosis:
        result["diagnosis"] = diagnosis(options.model, [(source, golden[source][0]) for source in sources])
    (options.work / f"bundled_pear-{options.part}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")


def choices(items: list[dict[str, Any]], golden: dict[str, list[str]], options: argparse.Namespace) -> dict[str, Any]:
    """Every way of choosing, judged."""
    embed = Embedder()
    texts = [[candidate["text"] for candidate in item["candidates"]] for item in items]
    vectors = [embed(of) for of in texts]
    judged = [
        Agreement(ChrF().matrix("", of, right).max(axis=1), (own @ embed(right).T).max(axis=1))
        for of, own, right in zip(texts, vectors, (golden[item["source"]] for item in items), strict=True)
    ]
    rows: dict[str, Any] = {}
    scores: dict[str, dict[str, NDArray[np.float64]]] = {}
    print(f"{len(items)} sources, {np.mean([len(of) for of in texts]):.1f} candidates each")
    for name, choose in ways_of_choosing(items, texts, vectors, judged, options).items():
        began = time.process_time()
        picks = choose()
        seconds = time.process_time() - began
        # Some ways are tried on the first sources only.
        scores[name] = {
            "chrf": np.array([a.chrf[k] for a, k in zip(judged, picks, strict=False)], np.float64),
            "cosine": np.array([a.cosine[k] for a, k in zip(judged, picks, strict=False)], np.float64),
        }
        outputs = [of[k] for of, k in zip(texts, picks, strict=False)]
        right = [golden[item["source"]][0] for item in items[: len(picks)]]
        bleu = sacrebleu.corpus_bleu(outputs, [right]).score
        row = {"sources": len(picks), "bleu": bleu, "same as beam": float((picks == 0).mean()), "cpu seconds": seconds}
        for key, values in scores[name].items():
            row[key] = [float(values.mean()), *interval(values - scores[BEAM][key][: len(picks)])]
            if LIKELY in scores:
                row[f"{key} against {LIKELY}"] = interval(values - scores[LIKELY][key][: len(picks)])
        rows[name] = row
        print(f"  {name:28} {line_of(name, row)}", flush=True)
    return rows


def ways_of_choosing(
    items: list[dict[str, Any]],
    texts: list[list[str]],
    vectors: list[NDArray[np.float32]],
    judged: list[Agreement],
    options: argparse.Namespace,
) -> dict[str, Callable[[], Choice]]:
    """Name -> a function that picks one candidate of each list, the beam first: the others are compared with it."""
    lists = [
        CandidateList.of(item["source"], [Candidate(c["text"], c["logprob"]) for c in item["candidates"]])
        for item in items
    ]
    pear = {"model": options.model, "strategy": "halving", "budget": options.budget}
    ways: dict[str, Callable[[], Choice]] = {
        BEAM: lambda: np.zeros(len(items), np.int64),
        LIKELY: lambda: np.array([int(term_values(item).argmax()) for item in lists]),
        f"PEAR-MBR, logprob {options.logprob:g}": lambda: by_utility(
            lists, "pear", add={"logprob": options.logprob}, **pear
        ),
        "PEAR's absolute score": lambda: by_score(items, texts, options.model),
        "chrF-MBR": lambda: by_utility(lists, "chrf"),
        "chrF-MBR, by probability": lambda: by_utility(lists, "chrf", weights="logprob"),
        "embedding-MBR": lambda: np.array([int((own @ own.sum(axis=0)).argmax()) for own in vectors]),
        "oracle of chrF": lambda: np.array([int(a.chrf.argmax()) for a in judged]),
        "random": lambda: np.array([np.random.default_rng(k).integers(len(of)) for k, of in enumerate(texts)]),
    }
    if options.single:
        ways["single-candidate reranking"] = lambda: by_score(items, texts, options.single)
    ways["PEAR-MBR, no terms"] = lambda: by_utility(lists[: options.alone], "pear", **pear)
    return ways


def line_of(name: str, row: dict[str, Any]) -> str:
    """The printed results of one way: means with their differences from the beam, PEAR's also from logprob's."""
    cells = "  ".join(
        f"{key} {row[key][0]:.{d}f} ({row[key][1]:+.{d}f} [{row[key][2]:+.{d}f}, {row[key][3]:+.{d}f}])"
        for key, d in (("chrf", 2), ("cosine", 4))
    )
    if name.startswith("PEAR"):
        against = [
            f"{key} {d:+.4f} [{low:+.4f}, {high:+.4f}]"
            for key in ("chrf", "cosine")
            for d, low, high in [row[f"{key} against {LIKELY}"]]
        ]
        cells += f"; against {LIKELY}: " + "  ".join(against)
    return f"{row['sources']:5} {cells}  BLEU {row['bleu']:.1f}  beam's {row['same as beam']:.0%}"


def by_utility(items: list[CandidateList], utility: str, **options: Any) -> Choice:
    decisions = decode(items, utility, **{"weights": "uniform", **options})
    return np.array([decision.ranking[0] for decision in decisions])


def by_score(items: list[dict[str, Any]], texts: list[list[str]], model: Path) -> Choice:
    """The candidate with the best absolute score."""
    checkpoint = load_checkpoint(model, kind=None)
    rows = [(item["source"], text) for item, of in zip(items, texts, strict=True) for text in of]
    with Engine(checkpoint.network, checkpoint.tokenizer, device="cpu") as engine:
        scores = engine.score(rows)
    ends = np.cumsum([len(of) for of in texts])
    return np.array([int(part.argmax()) for part in np.split(scores, ends[:-1])])


def interval(differences: NDArray[np.float64], draws: int = 2000) -> tuple[float, float, float]:
    """Mean, and the 95 % interval of the bootstrap."""
    rng = np.random.default_rng(1)
    means = [differences[rng.integers(0, len(differences), len(differences))].mean() for _ in range(draws)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(differences.mean()), float(low), float(high)


def diagnosis(model: Path, items: list[tuple[str, str]]) -> dict[str, Any]:
    """How often a damaged reference ranks below the intact one, per kind of damage."""
    checkpoint = load_checkpoint(model)
    with Engine(checkpoint.network, checkpoint.tokenizer, device="cpu") as engine:
        ranked = diagnose(lambda triples: engine.score(list(triples)).tolist(), items, seed=1)
    length = diagnose(lambda triples: [float(len(a) - len(b)) for _, a, b in triples], items, seed=1)
    print(f"\ndamaged references ranked below the intact one, {len(items)} sources (in brackets: by length)")
    for kind, row in ranked.items():
        print(f"  {kind:12} {row['below']:6.1%} of {row['count']:5.0f}   ({length[kind]['below']:.1%})")
    return {"pear": ranked, "length": length}


if __name__ == "__main__":
    main()
