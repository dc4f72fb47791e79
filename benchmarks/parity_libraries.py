"""Do the tests of BERTScore and MetricX-23 expect what the genuine programs compute?

    python -m benchmarks.parity_libraries bertscore
    python -m benchmarks.parity_libraries metricx-23 --clone metricx     # a clone of google-research/metricx

Proves that the numbers in these tests are those of the programs: scores the rows of the tests with them, one row at a
time, with the tiny random models of the tests, prints the scores and the largest difference from the pinned ones, and
exits with 1 if one differs by more than 1e-4. Each needs an environment of its own: bert-score 0.3.13 with transformers
4.57.6; for MetricX-23 transformers 4.30.2 with protobuf below 3.21. Before 0.3.13, bert-score puts no space before the
first word for RoBERTa where transformers is recent, which changes its scores by up to 0.03. GitHub was out of reach
when the part of MetricX-23 was last run: it was compared with the same network written anew after
`metricx23/models.py`, not with a clone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pprint import pprint
from typing import Any

from benchmarks.support.headlines import headline

TOLERANCE = 1e-4
LAYER = 2
METRICX_23_TOKENS = 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metric", choices=("bertscore", "metricx-23"))
    parser.add_argument("--clone", type=Path, help="of google-research/metricx, for metricx-23")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.metric == "bertscore":
            worst = bertscore(Path(folder))
        elif options.clone is None:
            parser.error("metricx-23 needs --clone FOLDER, a clone of https://github.com/google-research/metricx")
        else:
            worst = metricx_23(Path(folder), options.clone)
    headline(f"largest difference of pinned numbers of {options.metric}: {worst:.1e}, tolerance {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


def bertscore(folder: Path) -> float:
    """Precision, recall and F1 of every encoder and variant of the test."""
    from bert_score import BERTScorer
    from bert_score.utils import model2layers

    from tests.mbr.metrics.test_bertscore import BASELINE, IDF, LIBRARY, ROWS
    from tests.support.random_metrics import write_random_encoder

    baseline = folder / "baseline.tsv"
    baseline.write_text(BASELINE, encoding="utf-8")
    worst = 0.0
    for (model_type, variant), pinned in LIBRARY.items():
        encoder = folder / model_type
        if not encoder.exists():
            write_random_encoder(encoder, model_type)
        model2layers[str(encoder)] = LAYER
        scorer = BERTScorer(
            model_type=str(encoder),
            num_layers=LAYER,
            batch_size=1,
            device="cpu",
            idf=variant == "idf",
            idf_sents=IDF.splitlines() if variant == "idf" else None,
            rescale_with_baseline=variant == "baseline",
            baseline_path=str(baseline) if variant == "baseline" else None,
            lang="de",
        )
        scores = [[float(part) for part in scorer.score([hypothesis], [ref])] for _, hypothesis, ref in ROWS]
        columns = dict(zip(("precision", "recall", "f1"), zip(*scores, strict=True), strict=True))
        worst = max(worst, compared(f"{model_type}, {variant}", columns, pinned))
    return worst


def metricx_23(folder: Path, clone: Path) -> float:
    """Scores with and without reference, tokenised as `metricx23/predict.py` does."""
    import torch
    from transformers import AutoTokenizer

    from tests.mbr.metrics.test_metricx import GOOGLE_23, ROWS
    from tests.support.random_metrics import write_random_metricx

    sys.path.insert(0, str(clone))
    from metricx23.models import MT5ForRegression

    root = write_random_metricx(folder / "metricx")
    tokenizer = AutoTokenizer.from_pretrained(root)
    model = MT5ForRegression.from_pretrained(root).eval()

    def score(prompt: str) -> float:
        ids = tokenizer(prompt, max_length=METRICX_23_TOKENS, truncation=True)["input_ids"][:-1]  # without </s>
        with torch.no_grad():
            tokens = torch.tensor([ids])
            return float(model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).predictions)

    prompts: dict[str, Callable[[str, str, str], str]] = {
        "metricx-23": lambda source, hypothesis, ref: f"candidate: {hypothesis} reference: {ref}",
        "metricx-23-qe": lambda source, hypothesis, ref: f"candidate: {hypothesis} source: {source}",
    }
    worst = 0.0
    for name, pinned in GOOGLE_23.items():
        scores = [score(prompts[name](*ROWS[place])) for place in pinned]
        worst = max(worst, compared(name, {"score": scores}, {"score": list(pinned.values())}))
    return worst


def compared(
    name: str, computed: Mapping[str, Sequence[float]], pinned: Mapping[str, Sequence[float]], digits: int = 6
) -> float:
    """Print what was computed, and return the largest difference from the pinned numbers."""
    print(f"{name}:")
    rounded: dict[str, Any] = {key: [round(value, digits) for value in values] for key, values in computed.items()}
    pprint(rounded, sort_dicts=False, width=120)
    return max(abs(a - b) for key in pinned for a, b in zip(computed[key], pinned[key], strict=True))


if __name__ == "__main__":
    sys.exit(main())
