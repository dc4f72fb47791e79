"""BERTScore: each token of one text is matched with the most similar token of the other (Zhang et al. 2020).

Precision is the mean similarity of the hypothesis' tokens to the reference, recall that of the reference's tokens to
the hypothesis; the score is their harmonic mean. Any encoder of transformers will do; nothing is trained. N candidates
need N encoder passes, and all pairs products of their token vectors. The source is not read.

    with BertScore(model="bert-base-multilingual-cased") as bertscore:
        bertscore.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import UsageError
from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions

if TYPE_CHECKING:
    import torch

MEASURES = ("precision", "recall", "f1")
PORTION = 1000  # rows whose token vectors are held at once


class BertScoreOptions(ModelOptions, total=False):
    """Those of all networks, and four of its own."""

    layer: int | None  # whose output is compared; None is the layer that bert-score takes for this encoder
    idf: str | Path | None  # a file of sentences: tokens that many of them hold weigh less
    baseline: str | Path | None  # a file of bert-score's baselines, to rescale scores
    measure: str  # f1, precision or recall


class TokenVectors(NamedTuple):
    """A text's tokens, special ones included: unit vectors [tokens, hidden] and weights [tokens] that add up to 1.

    A text without content has weights of 0, and all its scores are 0.
    """

    vectors: torch.Tensor
    weights: torch.Tensor


class BertScore(NeuralMetric):
    """An encoder by folder or name. Options: `BertScoreOptions`."""

    name = "bertscore"
    default = "bert-base-multilingual-cased"
    summary = "BERTScore: similarity of the tokens of hypothesis and reference, by any encoder"
    family = "bertscore"
    needs = "an encoder with its weights (--model); else bert-base-multilingual-cased from the hub"
    reads_source = False

    def __init__(self, **options: Unpack[BertScoreOptions]) -> None:
        from mbr.metrics.bertscore_network import load_bertscore, read_baseline
        from pear.runtime.runner import Runner, running
        from pear.runtime.token_store import TokenStore

        self._measure = str(options.get("measure", "f1"))
        if self._measure not in MEASURES:
            raise UsageError(f"measure {self._measure!r} is unknown; expected one of {', '.join(MEASURES)}")
        checkpoint = load_bertscore(self.default, options.get("layer"), options)
        self._layer = checkpoint.layer
        file = options.get("baseline")
        self._baseline = None if file is None else read_baseline(Path(file), checkpoint.layer)
        tokenizer = checkpoint.tokenizer
        self._start, self._end, self._padding = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        self._space = " " if checkpoint.spaced else ""
        self._store = TokenStore(tokenizer)
        runner = Runner(checkpoint.network, hidden=checkpoint.hidden, **running(options))
        self._hold(checkpoint.name, checkpoint.files, runner, checkpoint.max_tokens)
        sentences = options.get("idf")
        self._idf = None if sentences is None else _Frequencies(sentences, self._contents)

    @classmethod
    def stamp(cls, options: Mapping[str, Any]) -> str | None:
        from pear.runtime.stamps import stamp_file

        files = [str(stamp_file(Path(options[key]))) for key in ("idf", "baseline") if options.get(key)]
        stamp = super().stamp(options)
        own = [f"{key}={options.get(key)}" for key in ("layer", "measure", "idf", "baseline")]
        return None if stamp is None else "\n".join([stamp, *own, *files])

    def settings(self) -> dict[str, object]:
        return {
            **super().settings(),
            "layer": self._layer,
            "measure": self._measure,
            "idf": None if self._idf is None else self._idf.name,
            "baseline": None if self._baseline is None else ",".join(f"{value:g}" for value in self._baseline),
        }

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        pairs = self._pairs(rows)
        distinct = list(dict.fromkeys(pairs))
        scores: dict[tuple[str, str], float] = {}
        for left in range(0, len(distinct), PORTION):
            portion = distinct[left : left + PORTION]
            texts = list(dict.fromkeys(text for pair in portion for text in pair))
            vectors = dict(zip(texts, self.embed(texts, progress=progress), strict=True))
            scores |= {(h, r): float(self.matrix([vectors[h]], [vectors[r]])[0, 0]) for h, r in portion}
        return np.array([scores[pair] for pair in pairs], np.float32)

    def embed(self, texts: Sequence[str], *, progress: bool = False) -> list[TokenVectors]:
        """Token vectors of each text, on the first device; each distinct text is encoded once."""
        import torch

        from pear.runtime.runner import padded

        distinct = list(dict.fromkeys(texts))
        contents = self._contents(distinct)
        encoded: list[TokenVectors | None] = [None] * len(distinct)

        def work(network: Any, device: torch.device, rows: NDArray[np.int64]) -> None:
            sequences = [np.concatenate([[self._start], contents[row], [self._end]]) for row in rows]
            ids, attention = padded(sequences, self._padding, device)
            states = torch.nn.functional.normalize(network(ids, attention.long()), dim=2).to(self._runner.device)
            for place, row in enumerate(rows):
                own = states[place, : len(sequences[place])].clone()
                encoded[row] = TokenVectors(own, torch.from_numpy(self._weights(contents[row])).to(own))

        self._runner.run(np.array([len(content) + 2 for content in contents]), work, label=_label(progress))
        places = {text: vectors for text, vectors in zip(distinct, encoded, strict=True) if vectors is not None}
        return [places[text] for text in texts]

    def matrix(self, hypotheses: Sequence[TokenVectors], references: Sequence[TokenVectors]) -> NDArray[np.float32]:
        """Scores [hypotheses, references] of all pairs."""
        import torch

        with torch.inference_mode():
            precision = _matched(hypotheses, references).cpu().numpy()
            same = hypotheses is references
            recall = precision.T if same else _matched(references, hypotheses).cpu().numpy().T
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total != 0)
        scores = {"precision": precision, "recall": recall, "f1": f1}[self._measure]
        if self._baseline is not None:
            floor = np.float32(self._baseline[MEASURES.index(self._measure)])
            scores = (scores - floor) / (1 - floor)
        return np.asarray(scores, np.float32)

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        lengths = [self._lengths(pair) for pair in self._pairs(rows)]
        return np.array([bool((own > self._max_tokens - 2).any()) for own in lengths], np.bool_)

    def tokens(self, rows: Sequence[Row]) -> int:
        texts = list(dict.fromkeys(text for pair in self._pairs(rows) for text in pair))
        return int(np.minimum(self._lengths(texts) + 2, self._max_tokens).sum())

    def _pairs(self, rows: Sequence[Row]) -> list[tuple[str, str]]:
        if rows:
            self.texts_per_row(rows)
        return [(hypothesis, reference) for _, hypothesis, reference in rows]

    def _prepared(self, texts: Sequence[str]) -> list[str]:
        """Without outer white space; some vocabularies have the space before a word in its piece."""
        stripped = (text.strip() for text in texts)
        return [self._space + text if text else text for text in stripped]

    def _lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        numbers = self._store.number(self._prepared(texts))  # first: it replaces the store's arrays
        return self._store.lengths[numbers]

    def _contents(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Token ids of each text without special ones, as many as fit."""
        numbers = self._store.number(self._prepared(texts))
        begins, lengths = self._store.offsets[numbers], np.minimum(self._store.lengths[numbers], self._max_tokens - 2)
        return [
            self._store.tokens[begin : begin + length].copy() for begin, length in zip(begins, lengths, strict=True)
        ]

    def _weights(self, content: NDArray[np.int64]) -> NDArray[np.float32]:
        """Weights [tokens + 2] of a text's tokens: special ones count nothing."""
        own = np.ones(len(content)) if self._idf is None else self._idf.weights(content)
        total = own.sum()
        return np.concatenate([[0.0], own / total if total else own, [0.0]]).astype(np.float32)


class _Frequencies:
    """In how many of a file's sentences each token occurs."""

    def __init__(self, file: str | Path, contents: Any) -> None:
        from collections import Counter

        from candidates.common.text import lines

        sentences = [line for _, line in lines(file)]
        if not sentences:
            raise UsageError(f"{file} is empty; expected sentences to count tokens in (idf)")
        self._count = len(sentences)
        self._sentences = Counter(
            token
            for left in range(0, self._count, PORTION)
            for content in contents(sentences[left : left + PORTION])
            for token in set(content.tolist())
        )
        self.name = f"{Path(file).name}@{self._digest()}"

    def weights(self, content: NDArray[np.int64]) -> NDArray[np.float64]:
        sentences = np.array([self._sentences[token] for token in content.tolist()], np.float64)
        return np.log((self._count + 1) / (sentences + 1))

    def _digest(self) -> str:
        from hashlib import blake2b

        return blake2b(repr((self._count, sorted(self._sentences.items()))).encode(), digest_size=6).hexdigest()


def _matched(left: Sequence[TokenVectors], right: Sequence[TokenVectors]) -> torch.Tensor:
    """For all pairs [left, right] the weighted mean over the left text's tokens of their greatest similarity."""
    import torch

    lengths = torch.tensor([len(text.vectors) for text in right])
    vectors = torch.nn.utils.rnn.pad_sequence([text.vectors for text in right], batch_first=True)
    longest, flat = vectors.shape[1], vectors.flatten(0, 1).T.contiguous()  # [hidden, right x tokens]
    padding = (torch.arange(longest) >= lengths[:, None]).to(vectors.device)  # [right, tokens]
    content = torch.stack([text.weights.sum() > 0 for text in right])
    rows = []
    for text in left:
        similar = (text.vectors @ flat).reshape(-1, len(right), longest)  # [tokens, right, tokens of the right]
        greatest = similar.masked_fill(padding, -torch.inf).amax(dim=2)
        rows.append((text.weights @ greatest) * content)
    return torch.stack(rows)


def _label(progress: bool) -> str | None:
    return "BERTScore" if progress else None
