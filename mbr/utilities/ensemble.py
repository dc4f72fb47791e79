"""Several utilities together: the weighted sum of their matrices, each on the scale of its own list.

Utilities speak on different scales (chrF to 100, PEAR around 0), so each is divided by the spread of what it says of
the list: the standard deviation over candidates of their mean utility, so that with equal weights each has an equal say
in the decision. Only the scale matters, a shift changes no decision; the sum of antisymmetric utilities stays
antisymmetric. All pairs of every member are needed for that, so members are scored in full.

    with Ensemble({get_utility("chrf"): 1.0, get_utility("pear"): 2.0}) as utility:
        mbr.rerank("A dog.", ["Ein Hund.", "Der Hund."], utility)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError, UsageError
from mbr.utilities.base import MatrixUtility, PairUtility, QualityUtility, Utility

# A member that sees no difference between the candidates has no say; a difference as small as this is rounding.
NO_SPREAD = 1e-7


class Ensemble(MatrixUtility):
    """Members with their weights. Closing it closes them."""

    name = "ensemble"
    summary = "weighted sum of standardised utilities"
    needs = "what its members need"

    def __init__(self, members: Mapping[Utility, float]) -> None:
        if len(members) < 2:
            raise UsageError("an ensemble needs two utilities or more, such as chrf:1+pear:2")
        for member, weight in members.items():
            _check_weight(member.name, weight)
        self.members = dict(members)
        self.name = "+".join(member.name for member in members)
        if all(member.relation == "antisymmetric" for member in members):
            self.relation = "antisymmetric"  # type: ignore[misc]  # of this one, not of all ensembles

    def settings(self) -> dict[str, object]:
        settings: dict[str, object] = {"ensemble": "+".join(f"{weight:g}" for weight in self.members.values())}
        seen: Counter[str] = Counter()
        for member in self.members:
            seen[member.name] += 1
            called = member.name + (str(seen[member.name]) if seen[member.name] > 1 else "")
            settings |= {f"{called}-{key}": value for key, value in member.settings().items()}
        return settings

    def notes(self) -> list[str]:
        return [f"{member.name}: {note}" for member in self.members for note in member.notes()]

    def truncates(self, source: str, texts: Sequence[str]) -> bool:
        return any(member.truncates(source, texts) for member in self.members)

    def prepare(self, lists: Sequence[tuple[str, Sequence[str]]]) -> None:
        for member in self.members:
            if isinstance(member, MatrixUtility):
                member.prepare(lists)

    def matrix(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float32]:
        total = np.zeros((len(hypotheses), len(references)))
        for member, weight in self.members.items():
            values = self._values(member, source, hypotheses, references)
            if not np.isfinite(values).all():
                # Whoever asks says so, and makes no decision of it.
                return np.full(total.shape, np.nan, np.float32)
            spread = float(values.mean(axis=1).std())
            if spread > NO_SPREAD * max(float(np.abs(values).max()), 1e-30):
                total += weight / spread * values
        return total.astype(np.float32)

    def cost(self, source: str, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
        costs = []
        for member in self.members:
            if isinstance(member, MatrixUtility):
                costs.append(member.cost(source, hypotheses, references))
            elif isinstance(member, QualityUtility):
                costs.append(member.cost([(source, text) for text in hypotheses]))
            else:
                triples = [(source, hypothesis, reference) for hypothesis in hypotheses for reference in references]
                costs.append(cast(PairUtility, member).cost(triples))
        known = {key for cost in costs for key in cost}
        return {key: sum(cost.get(key, 0) for cost in costs) for key in known}

    @property
    def on_gpu(self) -> bool:
        return any(member.on_gpu for member in self.members)

    def close(self) -> None:
        for member in self.members:
            member.close()

    def _values(
        self, member: Utility, source: str, hypotheses: Sequence[str], references: Sequence[str]
    ) -> NDArray[np.float64]:
        """All utilities [hypotheses, references] of one member."""
        member.progress = self.progress
        shape = (len(hypotheses), len(references))
        if isinstance(member, MatrixUtility):
            values = np.asarray(member.matrix(source, hypotheses, references), np.float64)
        elif isinstance(member, QualityUtility):
            each = np.asarray(member.score_each([(source, text) for text in hypotheses]), np.float64)
            values = np.repeat(each[:, None], shape[1], axis=1)
        else:
            # Nobody is better than itself: the diagonal of a difference is zero without asking.
            known = np.zeros(shape, np.bool_)
            if member.relation == "antisymmetric" and references is hypotheses:
                np.fill_diagonal(known, True)
            values = np.zeros(shape)
            asked = [(source, hypotheses[i], references[j]) for i, j in np.argwhere(~known)]
            values[~known] = cast(PairUtility, member).score_pairs(asked)
        if values.shape != shape:
            raise ModelError(f"utility {member.name!r} returned a matrix {values.shape}; expected {shape}")
        return values


def _check_weight(name: str, weight: float) -> None:
    if not (math.isfinite(weight) and weight > 0):
        raise UsageError(f"the weight of {name} in an ensemble must be a positive number, not {weight:g}")


def parse_ensemble(text: str) -> dict[str, float]:
    """`chrf:1+pear:2` -> the members and their weights, 1 where none is given."""
    members: dict[str, float] = {}
    for part in _parts(text):
        name, _, weight = part.partition(":")
        if not name and len(_parts(text)) > 1:
            raise UsageError(f"ensemble {text!r}: a name is missing; expected NAME:WEIGHT+NAME:WEIGHT")
        try:
            members[name] = float(weight) if weight else 1.0
        except ValueError as exc:
            raise UsageError(f"ensemble {text!r}: {weight!r} is no weight; expected NAME:WEIGHT+NAME:WEIGHT") from exc
        _check_weight(name, members[name])
    if len(members) < len(_parts(text)):
        raise UsageError(f"ensemble {text!r} names a utility twice")
    return members


def _parts(text: str) -> list[str]:
    """What stands between single plus signs; the two of chrf++ belong to its name."""
    return [part.replace("\0", "++") for part in text.replace("++", "\0").split("+")]
