"""Run under torchrun by test_parallel.py: the same small trainings as one process does, their results to a folder.

torchrun --nproc-per-node 2 tests/pear/training/processes.py FOLDER
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from candidates.common.errors import MbrError
from pear.checkpoint import Checkpoint
from pear.data import Group, Judgment, group
from pear.model import HeadConfig, build_network
from pear.training.loop import train
from pear.training.parallel import Parallel, Sharded, open_parallel
from pear.training.recipe import Recipe
from tests.support.random_pear import CORPUS, random_checkpoint

HEAD = HeadConfig(hidden_sizes=(16,))
RECIPE = Recipe(
    batch_tokens=300, encoder_rate=1e-3, head_rate=1e-2, every=1000, steps=5, accumulate=2, dtype="float32", warm_up=0.0
)
# What is learned must not depend on the number of processes: with frozen weights, words, several sorts of batches.
RUNS: dict[str, tuple[str, str, Recipe]] = {
    "ddp": ("xlm-roberta", "ddp", RECIPE),
    "ddp-frozen": ("xlm-roberta", "ddp", replace(RECIPE, freeze_encoder=0.3, word_weight=0.5, absolute_share=0.5)),
    "fsdp-xl": ("xlm-roberta-xl", "fsdp", replace(RECIPE, gradient_checkpointing=True)),
    "fsdp-frozen": ("xlm-roberta-xl", "fsdp", replace(RECIPE, freeze_encoder=0.3, word_weight=0.5, accumulate=3)),
}


def judged(count: int, *, seed: int, candidates: int = 3, words: bool = False) -> list[Group]:
    """Random translations of random sources with random scores."""
    draw = random.Random(seed)
    known = " ".join(CORPUS).split()
    rows = []
    for number in range(count):
        source = f"{number} " + " ".join(draw.choices(known, k=4))
        for k in range(candidates):
            text = " ".join(draw.choices(known, k=draw.choice([1, 3, 6])))
            marks = tuple((float(len(word) > 4), draw.random()) for word in text.split()) if words else None
            score = draw.choice([-5.0, -2.5, -1.0, 0.0])
            rows.append(Judgment(source, f"{text} {k}", score, "en-de", reference=f"{text}.", words=_one_more(marks)))
    return group(rows)


def _one_more(marks: tuple[tuple[float, ...], ...] | None) -> tuple[tuple[float, ...], ...] | None:
    return None if marks is None else (*marks, (0.0, 0.0))


def tiny(scratch: Path, *, model_type: str = "xlm-roberta", kind: str = "pear", dropout: float = 0.0) -> Checkpoint:
    """A small random model; the same for the same arguments."""
    layers = 4 if model_type == "xlm-roberta-xl" else 2
    found = random_checkpoint(scratch, model_type=model_type, layers=layers, hidden=32, heads=2, head=HEAD)
    if kind != "pear":
        torch.manual_seed(2)
        found.network = build_network(kind, found.network.encoder, HEAD)
    for module in found.network.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        if hasattr(module, "dropout_prob"):  # attention, in some versions of transformers
            module.dropout_prob = dropout
    return found


def trained(name: str, folder: Path, parallel: Parallel | None) -> dict[str, Any]:
    """Weights after a run of the table above."""
    model_type, _, recipe = RUNS[name]
    groups = judged(30, seed=3, words=recipe.word_weight > 0)
    start = tiny(folder / f"tokenizer-{parallel.rank if parallel else 0}", model_type=model_type)
    result = train(recipe, start, groups, judged(3, seed=4), folder / name, parallel=parallel)
    return dict(result.network.state_dict())


def _main(folder: Path) -> None:
    torch.set_num_threads(1)
    with open_parallel("ddp") as replicated:
        for mode, parallel in (
            ("ddp", replicated),
            ("fsdp", Sharded(replicated.device, replicated.rank, replicated.size)),
        ):
            for name, (_, wanted, _) in RUNS.items():
                if wanted == mode:
                    weights = trained(name, folder, parallel)
                    torch.save(weights, folder / f"{name}-{parallel.rank}.pt")
            _continue(mode, folder, parallel)
            _refuse(mode, folder, parallel)


def _continue(mode: str, folder: Path, parallel: Parallel) -> None:
    """Go on with a run that one process began (the folder holds its checkpoint); then a second stage."""
    start = tiny(folder / f"tokenizer-{parallel.rank}")
    recipe = replace(RECIPE, every=2, steps=4)
    result = train(recipe, start, judged(30, seed=3), [], folder / f"continued-{mode}", parallel=parallel)
    if parallel.leads:
        torch.save(result.network.state_dict(), folder / f"continued-{mode}.pt")
    result = train(
        replace(recipe, steps=2), result, judged(30, seed=3), [], folder / f"second-{mode}", parallel=parallel
    )
    if parallel.leads:
        torch.save(result.network.state_dict(), folder / f"second-{mode}.pt")


def _refuse(mode: str, folder: Path, parallel: Parallel) -> None:
    """What cannot be done in parallel is said, by every process."""
    start = tiny(folder / f"tokenizer-{parallel.rank}")
    for name, recipe in (("few", replace(RECIPE, accumulate=1)), ("muon", replace(RECIPE, optimizer="muon", steps=1))):
        said = ""
        try:
            train(recipe, start, judged(9, seed=3), [], folder / f"refused-{mode}-{name}", parallel=parallel)
        except MbrError as exc:
            said = str(exc)
        (folder / f"refused-{mode}-{name}-{parallel.rank}").write_text(said)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
