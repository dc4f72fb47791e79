"""The interface of utilities.

A utility measures how good a hypothesis is when another candidate is taken as the reference. There are three kinds: a
`PairUtility` scores (source, hypothesis, pseudo-reference) triples one by one, each a pass of a model; a
`MatrixUtility` computes all pairs of a list at once from statistics or embeddings of the single texts; a
`QualityUtility` needs no reference and rates each candidate by itself. Subclass one of them, give it a name, and
register it (docs/utilities.md) or pass the object itself to `mbr.decode`.

    class Shorter(MatrixUtility):
        name = "shorter"
        def matrix(self, source, hypotheses, references):
            return np.array([[len(r) - len(h) for r in references] for h in hypotheses], np.float32)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from candidates.common.closing import Closing
from candidates.common.errors import UsageError
from mbr.matrix import Relation

if TYPE_CHECKING:
    from pear.runtime.choice import PrecisionChoice

Triple = tuple[str, str, str]


class Work(NamedTuple):
    """What a model has computed since it was loaded, in tokens; padding is not part of `tokens`."""

    tokens: int = 0
    padding: int = 0


class Utility(Closing, ABC):
    """What all utilities share. Options of the constructor are its options on the command line."""

    name: str
    summary: ClassVar[str] = ""
    needs: ClassVar[str] = "nothing"
    relation: ClassVar[Relation] = "none"
    default_strategy: ClassVar[str] = "full"
    # A judge of the same family overrates what this utility chose.
    family: ClassVar[str] = "other"
    # Words of the literature for it: lexical, embedding, referenceless.
    traits: ClassVar[tuple[str, ...]] = ()
    # Whether each score is a request to another machine, which may cost money: --dry-run then sends none.
    remote: ClassVar[bool] = False
    # Options that change what a run may cost, and no score: they are no part of its signature.
    run_options: ClassVar[tuple[str, ...]] = ()

    # Passes that are scored together before decisions are made and committed: enough to fill batches, no more.
    window_passes: int = 16_384
    # Whether to show a progress bar of its own while it scores.
    progress: bool = False

    def settings(self) -> dict[str, object]:
        """Everything about this utility that may change a decision, for the signature."""
        return {}

    def notes(self) -> list[str]:
        """Notes for the user once it is loaded."""
        return []

    def report(self) -> list[tuple[str, dict[str, Any]]]:
        """Sentences about the work of a run, for its summary, each with its numbers by name for logs."""
        return []

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        """Whether texts of this list are longer than the utility's input, and so are cut off."""
        return False

    def work(self) -> Work:
        """What its model has computed so far; nothing where there is no model, or where it does not count."""
        return Work()

    @property
    def on_gpu(self) -> bool:
        """Whether a device other than the CPU computes, so that CPU time is not its cost."""
        return False

    @property
    def precision_choice(self) -> PrecisionChoice | None:
        """What chose the precision of its model, where that was left to dtype `auto`."""
        return None

    @classmethod
    def capabilities(cls) -> tuple[str, ...]:
        pairwise = ("pairwise",) if issubclass(cls, PairUtility) else ()
        antisymmetric = ("antisymmetric",) if cls.relation == "antisymmetric" else ()
        aggregate = ("aggregate",) if cls.aggregates() else ()
        return pairwise + antisymmetric + aggregate + cls.traits

    @classmethod
    def aggregates(cls) -> bool:
        """Whether it can compare a candidate with the mean of all pseudo-references (`MatrixUtility.aggregate`)."""
        return issubclass(cls, MatrixUtility) and cls.aggregate is not MatrixUtility.aggregate


class PairUtility(Utility):
    """Scores pairs one by one; requests of many lists are pooled."""

    @abstractmethod
    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        """Utilities [triples] of (source, hypothesis, pseudo-reference)."""

    def batches(self, triples: Sequence[Triple]) -> list[NDArray[np.intp]] | None:
        """The places of the triples in each batch that `score_pairs` would make of them; None where that is not known.

        Batches scored one by one have the bits of all at once, so that a service can interrupt a long request.
        """
        return None

    def why_missing(self, triple: Triple) -> str:
        """The reason why a score of `score_pairs` is not a number, where the utility knows it; else an empty text."""
        return ""

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        """The cost of scoring these, for --dry-run: `tokens`, and `memory_bytes` of the loaded model."""
        return {}


class MatrixUtility(Utility):
    """Computes all pairs of a list at once."""

    @abstractmethod
    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        """Utilities [hypotheses, references]."""

    def prepare(self, lists: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Receives the (source, candidates) whose matrices are requested next, so that work on them can be pooled."""

    def aggregate(
        self, source: str, texts: Sequence[str], weights: NDArray[np.float64], own_weights: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Scores [texts] against one pseudo-reference, the weighted mean of all: an approximation in linear time.

        `weights` [texts] are those of the pseudo-references, `own_weights` [texts] those of each text in its own mean.
        """
        raise UsageError(f"utility {self.name!r} cannot aggregate its pseudo-references")

    def cost(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
        """The cost of this matrix, for --dry-run: `tokens`, and `memory_bytes` of the loaded model."""
        return {}


class QualityUtility(Utility):
    """Rates each candidate by itself: reranking by quality estimation. Requests of many lists are pooled."""

    default_strategy = "rerank"
    traits = ("referenceless",)

    @abstractmethod
    def score_each(self, rows: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Qualities [rows] of (source, candidate)."""

    def cost(self, rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The cost of scoring these, for --dry-run: `tokens`, and `memory_bytes` of the loaded model."""
        return {}
