"""`auto`: the fastest precision whose scores agree with float32, decided once for a checkpoint and remembered.

At load, a model scores fixed probe pairs in float32 and in each precision that its device computes faster, the fastest
first, and takes the first that agrees (`pear.runtime.precision.MOST_ERROR`). Where lists are at hand before anything
is written, the first of them is checked as well: the choice must lose at most `MOST_REGRET` by float32, else the next
slower precision is tried. The float32 weights are kept until the first score that is not part of a check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pear.runtime.devices import sharing_weights
from pear.runtime.precision import MOST_REGRET, Agreement, Floats, Verdict, Verdicts, faster_precisions, regret

if TYPE_CHECKING:
    from pear.runtime.runner import Runner

Score = Callable[[], Floats]


class PrecisionChoice:
    """The choice for one runner, which computes in float32 until `decide` is called.

    `agreements` are those of the precisions tried in this process; none where the verdict was remembered.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._exact: Any = runner.network
        self._checking = False
        self._listed = False
        self.agreements: list[Agreement] = []

    @property
    def wants_list(self) -> bool:
        """Whether a list may still change the precision."""
        return self._exact is not None and not self._listed and self._runner.precision != "float32"

    def decide(self, model: str, preferences: Score, *, never: tuple[str, ...] = ()) -> None:
        """Choose the precision.

        Args:
            model: a name that tells checkpoints apart, by which the verdict is remembered.
            preferences: scores of the probe pairs in the present precision: how much better the first text of each is.
            never: precisions that the model cannot run in.
        """
        device = str(self._runner.device)
        self._preferences = preferences
        self._verdicts = Verdicts(model, device)
        self._candidates = [dtype for dtype in faster_precisions(device) if dtype not in never]
        verdict = self._verdicts.recall()
        if verdict is not None and verdict.dtype in ("float32", *self._candidates):
            self._listed = verdict.listed
            self._use(verdict.dtype)
        elif self._candidates:
            self._try_all(self._candidates)
            self._verdicts.remember(Verdict(self._runner.precision))

    def check_list(self, expected: Score) -> None:
        """Check on a list that the choice is kept; `expected` are its candidates' scores in the present precision."""
        if not self.wants_list:
            return
        fast, chosen = self._scored(expected), self._runner.precision
        self._use("float32")
        exact = self._scored(expected)
        if regret(exact, fast) <= MOST_REGRET:
            self._use(chosen)
        else:
            slower = self._candidates[self._candidates.index(chosen) + 1 :]
            self._try_all(slower, lambda: regret(exact, self._scored(expected)) <= MOST_REGRET)
        self._listed = True
        self._verdicts.remember(Verdict(self._runner.precision, listed=True))

    def notes(self) -> list[str]:
        """What the user should know of a check that was made in this process."""
        return [str(agreement) for agreement in self.agreements]

    def release(self) -> None:
        """Let go of the float32 weights, unless a check is under way."""
        if not self._checking:
            self._exact = None

    def _try_all(self, candidates: list[str], also: Callable[[], bool] = lambda: True) -> None:
        """Use the first of these precisions that agrees with float32 on the probes and passes `also`; else float32."""
        self._use("float32")
        exact = self._scored(self._preferences) if candidates else None
        for dtype in candidates:
            self._use(dtype)
            assert exact is not None
            agreement = Agreement.between(exact, self._scored(self._preferences), dtype)
            self.agreements.append(agreement)
            if agreement.fine and also():
                return
        self._use("float32")

    def _use(self, dtype: str) -> None:
        if dtype != self._runner.precision:
            self._runner.use(self._exact if dtype == "float32" else sharing_weights(self._exact), dtype)

    def _scored(self, score: Score) -> Floats:
        """Scores that belong to a check: they do not count as work of the runner, nor release the float32 weights."""
        done = self._runner.tokens, self._runner.padding
        self._checking = True
        try:
            return score()
        finally:
            self._checking = False
            self._runner.tokens, self._runner.padding = done
