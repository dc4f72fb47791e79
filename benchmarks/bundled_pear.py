"""Which damage the bundled PEAR detects: damaged references against the intact ones, by kind of damage.

    python -m benchmarks.bundled_pear                 # 1,000 sources of the test part

Proves which kinds of damage it sees, beside what "the longer one is better" would get. Sources are of the test part,
which neither the translation model nor PEAR ever saw. `benchmarks.bundled_choice` measures how well it chooses.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import parts, references
from pear.checkpoint import load_checkpoint
from pear.data.corruptions import diagnose
from pear.engine import Engine
from pear.shipped import DEFAULT, SHIPPED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, default=SHIPPED / DEFAULT)
    parser.add_argument("--sources", type=int, default=1000)
    parser.add_argument("--part", default="test", choices=("test", "development"), help="development: while training")
    parser.add_argument("--work", type=Path, default=WORK / "quality")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    sources = parts(TATOEBA)[options.part][: options.sources]
    golden = references(TATOEBA, "test" if options.part == "test" else "unseen")
    result = diagnosis(options.model, [(source, golden[source][0]) for source in sources])
    (options.work / f"bundled_pear-{options.part}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")


def diagnosis(model: Path, items: list[tuple[str, str]]) -> dict[str, Any]:
    """How often a damaged reference ranks below the intact one, per kind of damage."""
    checkpoint = load_checkpoint(model)
    with Engine(checkpoint.network, checkpoint.tokenizer, device="cpu") as engine:
        ranked = diagnose(lambda triples: engine.score(list(triples)).tolist(), items, seed=1)
    length = diagnose(lambda triples: [float(len(a) - len(b)) for _, a, b in triples], items, seed=1)
    print(f"damaged references ranked below the intact one, {len(items)} sources (in brackets: by length)")
    for kind, row in ranked.items():
        print(f"  {kind:12} {row['below']:6.1%} of {row['count']:5.0f}   ({length[kind]['below']:.1%})")
    return {"pear": ranked, "length": length}


if __name__ == "__main__":
    main()
