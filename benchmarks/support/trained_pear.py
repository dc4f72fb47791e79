"""A PEAR of any size in the released layout, trained for some minutes on real candidate lists.

Weights drawn at random depend so much on the order of a pair that no strategy can save passes, and they round badly. A
comparison of speed with a peer needs a checkpoint that behaves as trained ones do, in the layout that the peer loads:
this one learns, from an XLM-R with first weights and a vocabulary of its own, how candidates of the bundled translation
model agree with the references (chrF) and how probable they are.

    folder = trained_released(layers=12, hidden=384, heads=12)
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import torch

from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import candidate_lists, parts, references
from candidates.generation import Settings
from candidates.lists import CandidateList
from mbr.utilities.chrf import ChrF
from pear.checkpoint import Checkpoint, save_released
from pear.data import Group, Judgment, group, split
from pear.model import HeadConfig, build_network
from pear.training.loop import train
from pear.training.recipe import Recipe
from tests.support.random_pear import encoder_config, train_pieces, write_tokenizer

SOURCES, CANDIDATES = 3000, 16
RECIPE = Recipe(
    optimizer="muon",
    encoder_rate=1e-3,
    head_rate=1e-3,
    flip=0.5,
    steps=240,
    warm_up=0.1,
    pairs_per_source=6,
    batch_tokens=4096,
    dev_share=0.02,
    dev_lists=40,
    select="pdp",
    every=60,
)


def trained_released(*, layers: int, hidden: int, heads: int) -> Path:
    """The folder of the checkpoint; trained once, and a run that was stopped continues."""
    root = WORK / f"trained-pear-{layers}x{hidden}"
    if not root.exists():
        groups = judged()
        start = first_weights(root, groups, layers=layers, hidden=hidden, heads=heads)
        learn_from, measure_with = split(groups, RECIPE.dev_share, seed=1)
        trained = train(RECIPE, start, learn_from, measure_with, root.with_name(f"{root.name}-run"), progress=True)
        save_released(trained, root)
    return root


def judged() -> list[Group]:
    """Lists with one score for each candidate: chrF with the nearest reference and log-probability, both in units of
    their spread within lists."""
    lists = candidate_lists(WORK / "trained-pear.jsonl", parts(TATOEBA)["honest"][:SOURCES], Settings(nbest=CANDIDATES))
    known = references(TATOEBA, "unseen")
    agreements = [ChrF().matrix("", item.texts, known[item.source]).max(axis=1) for item in lists]
    probabilities = [np.array(item.logprobs) / [len(text.split()) + 1 for text in item.texts] for item in lists]
    scores = sum(_in_spreads(values) for values in (agreements, probabilities))
    ends = np.cumsum([len(item) for item in lists])[:-1]
    rows = zip(lists, np.split(scores, ends), strict=True)
    return group([row for item, values in rows for row in _judgments(item, values)])


def _in_spreads(values: list[np.ndarray]) -> np.ndarray:
    centred = np.concatenate([part - part.mean() for part in values])
    return np.asarray(centred / centred.std())


def _judgments(item: CandidateList, scores: np.ndarray) -> list[Judgment]:
    return [Judgment(item.source, text, float(score)) for text, score in zip(item.texts, scores, strict=True)]


def first_weights(root: Path, groups: list[Group], *, layers: int, hidden: int, heads: int) -> Checkpoint:
    """An XLM-R as transformers begins one, with a vocabulary of the lists' own texts."""
    from transformers import AutoModel, AutoTokenizer

    folder = root.with_name(f"{root.name}-vocabulary")
    if not folder.exists():
        texts = chain.from_iterable((row.source, row.translation) for item in groups for row in item.candidates)
        write_tokenizer(folder, train_pieces(sorted(set(texts)), vocab_size=4000))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = encoder_config(
        "xlm-roberta", tokenizer, layers=layers, hidden=hidden, heads=heads, max_tokens=512, type_vocab_size=1
    )
    torch.manual_seed(RECIPE.seed)
    # On a CPU the backward pass of the fused attention is slower than that of plain matrix products.
    encoder = AutoModel.from_config(config, add_pooling_layer=False, attn_implementation="eager")
    return Checkpoint(build_network("pear", encoder, HeadConfig()), tokenizer, root.name)
