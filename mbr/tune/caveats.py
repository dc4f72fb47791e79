"""What a reader of a tuned recipe must know: gains within chance, few lists, judges that flatter."""

from __future__ import annotations

from collections.abc import Iterator

from mbr.evaluate.judges import judge_specs
from mbr.terms import term_family
from mbr.tune.gains import OBJECTIVE
from mbr.tune.objective import parse_objective
from mbr.tune.values import Tuned

FEW_LISTS = 100
SIGNED = ("length",)  # terms whose weight may well be negative


def caveats(tuned: Tuned) -> Iterator[str]:
    """Warnings, each one sentence."""
    if tuned.lists < FEW_LISTS:
        yield f"{tuned.lists} lists are few: weights and gains vary much; expected {FEW_LISTS} or more"
    if tuned.gain.within_chance:
        yield (
            f"the gain over the first candidate is within chance ({between(tuned, OBJECTIVE)} in the objective): "
            "nothing shows that this recipe is better than none; use more lists or other terms"
        )
    before = tuned.over_baseline.get(OBJECTIVE)
    if before is not None and before.within_chance:
        interval = f"{before.low:+.3f} to {before.high:+.3f}"
        yield f"the gain over the recipe before is within chance ({interval} in the objective)"
    yield from _families(tuned)
    for weight in tuned.weights:
        if weight.weight == 0:
            yield f"{weight.name} earned no weight and is left out of the recipe"
        elif weight.weight < 0 and weight.name not in SIGNED:
            yield f"{weight.name} has a negative weight: candidates that it rates higher were judged worse"


def between(tuned: Tuned, column: str) -> str:
    """The interval of the gain over the first candidate."""
    gain = tuned.gain_in(column)
    return f"{gain.low:+.3f} to {gain.high:+.3f}"


def _families(tuned: Tuned) -> Iterator[str]:
    for spec in judge_specs([spec for spec, _ in parse_objective(tuned.objective)]):
        same = [weight.name for weight in tuned.weights if weight.weight and term_family(weight.name) == spec.family]
        if same:
            yield (
                f"the judge {spec.label} is of the same family as {' and '.join(same)} ({spec.family}), so it "
                "overrates what they choose; look at a judge of another family, too (--judge)"
            )
