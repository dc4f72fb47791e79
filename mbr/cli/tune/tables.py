"""The result of mbr-tune as text: the recipe with its header, and tables of gains and weights."""

from __future__ import annotations

import textwrap

from mbr.cli.common.layout import WIDTH, side_by_side
from mbr.recipe import recipe_yaml
from mbr.tune.gains import OBJECTIVE, Gain
from mbr.tune.validation import FOLDS
from mbr.tune.values import FIRST, TUNED, Tuned


def recipe_text(tuned: Tuned) -> str:
    """The recipe as YAML; comments above it say what it was tuned on and what it gains."""
    comments = [
        tuned.signature,
        f"Tuned by mbr-tune to {tuned.objective} on {tuned.lists:,} lists of {tuned.candidates:,} candidates.",
        *(
            f"Gain in {label} over the first candidate, by cross-validation: {_gain(tuned.gain_in(label), digits)}."
            for label, digits in _shown(tuned)
        ),
    ]
    return "".join(f"# {line}\n" for line in comments) + recipe_yaml(tuned.recipe)


def report_text(tuned: Tuned, width: int = WIDTH) -> str:
    """Ways to choose by every judge, then the weights."""
    columns = [_score_column(tuned, label, digits) for label, digits in _shown(tuned)]
    rows = side_by_side(["", *(row.label for row in tuned.rows)], columns, width)
    weights = side_by_side(
        ["", *(weight.name for weight in tuned.weights)],
        [
            ["standard units", *(f"{weight.standard:.2f}" for weight in tuned.weights)],
            ["weight", *(f"{weight.weight:g}" for weight in tuned.weights)],
            ["without it, objective", *(_loss(weight.worth) for weight in tuned.weights)],
        ],
        width,
    )
    return "\n".join([rows, *_filled(_legend(tuned), width), weights, *_filled([_reading(tuned)], width)])


def _shown(tuned: Tuned) -> list[tuple[str, int]]:
    """Columns with their decimals; the objective where it is not the same as its only judge."""
    alone = len(tuned.digits) > 1 and "+" not in tuned.objective.removesuffix("++")
    return [(label, digits) for label, digits in tuned.digits.items() if label != OBJECTIVE or not alone]


def _score_column(tuned: Tuned, label: str, digits: int) -> list[str]:
    scores = [f"{row.scores[label]:.{digits}f}" for row in tuned.rows]
    gains = ["" if row.label == FIRST else "  " + _gain(row.gains[label], digits) for row in tuned.rows]
    wide = max(map(len, gains))
    return [label, *(score + gain.ljust(wide) for score, gain in zip(scores, gains, strict=True))]


def _gain(gain: Gain, digits: int) -> str:
    return f"{gain.difference:+.{digits}f} [{gain.low:+.{digits}f}, {gain.high:+.{digits}f}]"


def _loss(gain: Gain) -> str:
    return f"{-gain.difference:+.3f} [{-gain.high:+.3f}, {-gain.low:+.3f}]"


def _legend(tuned: Tuned) -> list[str]:
    over = []
    if tuned.over_baseline:
        shown = (f"{label} {_gain(tuned.over_baseline[label], digits)}" for label, digits in _shown(tuned))
        over = [f"{TUNED} over the recipe before: {'; '.join(shown)}"]
    return [
        f"differences from the {FIRST}, higher is better, with 95 % intervals ({tuned.draws:,} bootstrap draws, seed "
        f"{tuned.seed}); {TUNED} and its parts by cross-validation: weights tuned on {FOLDS - 1} of {FOLDS} folds "
        "choose on the other",
        *over,
    ]


def _reading(tuned: Tuned) -> str:
    """The standard units in words."""
    first, second, *_ = sorted(tuned.weights, key=lambda weight: -abs(weight.standard))
    if not second.standard:
        return f"{first.name} alone decides"
    ratio = abs(first.standard / second.standard)
    return f"a standard deviation of {first.name} within a list counts {ratio:.1f} times one of {second.name}"


def _filled(entries: list[str], width: int) -> list[str]:
    return [textwrap.fill(entry, width, subsequent_indent="  ", break_on_hyphens=False) + "\n" for entry in entries]
