"""`auto`: the fastest precision whose scores agree with float32, decided once for a checkpoint and remembered.

At load, a model scores fixed probe pairs in float32 and in each precision that its device has instructions for. The
ones that agree (`pear.runtime.precision.MOST_ERROR`) are timed, and the fastest is taken: which one that is depends
on the model's width and on the processor. Where lists are at hand before anything is written, the first of them is
checked as well: the choice must lose at most `MOST_REGRET` by float32, else the other precisions are tried. The
float32 weights are kept until the first score that is not part of a check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pear.runtime.devices import sharing_weights
from pear.runtime.precision import MOST_REGRET, Agreement, Floats, Verdict, Verdicts, faster_precisions, regret
from pear.runtime.probes import PROBES, Triple, scattered_pairs

if TYPE_CHECKING:
    from pear.runtime.runner import Runner

Score = Callable[[], Floats]
Preferences = Callable[[Sequence[Triple]], Floats]

ROUNDS = 5  # of scoring what is timed; the fastest counts
ENOUGH = 0.5  # CPU seconds; a precision that has taken more is not timed again
LONG = 1.0  # CPU seconds of the probes in float32 from which on a model is timed by these alone
TIE = 0.95  # a precision with a larger error must take less than this share of the time of another


class PrecisionChoice:
    """The choice for one runner, which computes in float32 until `decide` is called.

    `agreements` are of the precisions tried in this process; none where the verdict was remembered. `seconds` are
    CPU seconds of the precisions that agree, where there was more than one to choose from.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._exact: Any = runner.network
        self._checking = False
        self._listed = False
        self.agreements: list[Agreement] = []
        self.seconds: dict[str, float] = {}

    @property
    def wants_list(self) -> bool:
        """Whether a list may still change the precision."""
        return self._exact is not None and not self._listed and self._runner.precision != "float32"

    def decide(self, model: str, preferences: Preferences, *, never: tuple[str, ...] = ()) -> None:
        """Choose the precision.

        Args:
            model: a name that tells checkpoints apart, by which the verdict is remembered.
            preferences: how much better the first of two translations is, of pairs in the present precision.
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
            others = [dtype for dtype in self._candidates if dtype != chosen]
            self._try_all(others, lambda: regret(exact, self._scored(expected)) <= MOST_REGRET)
        self._listed = True
        self._verdicts.remember(Verdict(self._runner.precision, listed=True))

    def notes(self) -> list[str]:
        """What the user should know of a check that was made in this process."""
        times = ", ".join(f"{dtype} {seconds:.3f} s" for dtype, seconds in self.seconds.items())
        chosen = f"{self._runner.precision} is taken; CPU time of the same pairs: {times}"
        return [*map(str, self.agreements), *([chosen] if len(self.seconds) > 1 else [])]

    def release(self) -> None:
        """Let go of the float32 weights, unless a check is under way."""
        if not self._checking:
            self._exact = None

    def _try_all(self, candidates: list[str], also: Callable[[], bool] = lambda: True) -> None:
        """Use the fastest of these precisions that agree with float32 on the probes and pass `also`; else float32."""
        self._use("float32")
        probes = partial(self._preferences, PROBES)
        began = time.thread_time()
        exact = self._scored(probes) if candidates else None
        slow = time.thread_time() - began > LONG
        errors: dict[str, float] = {}
        self.seconds = {}
        for dtype in candidates:
            self._use(dtype)
            began = time.thread_time()
            fast = self._scored(probes)
            took = time.thread_time() - began
            assert exact is not None
            agreement = Agreement.between(exact, fast, dtype)
            self.agreements.append(agreement)
            if agreement.fine and also():
                errors[dtype] = agreement.error
                if len(candidates) > 1:  # of a large model, the time of the probes is long enough
                    self.seconds[dtype] = took if slow else self._time()
        self._use(fastest(self.seconds, errors) if self.seconds else next(iter(errors), "float32"))

    def _time(self) -> float:
        """CPU seconds of this thread for some pairs in the present precision, the fewest of some rounds."""
        rounds: list[float] = []
        pairs = scattered_pairs()
        while len(rounds) < ROUNDS and sum(rounds) < ENOUGH:
            began = time.thread_time()
            self._scored(partial(self._preferences, pairs))
            rounds.append(time.thread_time() - began)
        return min(rounds)

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


def fastest(seconds: dict[str, float], errors: dict[str, float]) -> str:
    """The precision that takes the least time; of several that hardly differ, the one with the least error."""
    least = min(seconds.values())
    return min((dtype for dtype in seconds if seconds[dtype] * TIE <= least), key=lambda dtype: errors[dtype])
