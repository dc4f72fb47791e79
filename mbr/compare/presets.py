"""Experiments by name: settings and judges that go together."""

from __future__ import annotations

from dataclasses import dataclass

from candidates.common.errors import UsageError


@dataclass(frozen=True)
class Preset:
    """Words as on the command line. `models`: the default checkpoints by name of utility or judge."""

    summary: str
    utilities: tuple[str, ...]
    judges: tuple[str, ...]
    nbest: int
    models: dict[str, str]


PRESETS = {
    "pear-table2": Preset(
        summary="table 2 of the PEAR paper: PEAR full and half, COMET and BLEURT-20 on 100-best lists, judged by "
        "XCOMET-XL, CometKiwi-XL and MetricX-24-Hybrid-XL",
        utilities=(
            "pear,strategy=full,label=PEAR (full)",
            "pear,strategy=half,label=PEAR (sym.)",
            "comet,label=COMET",
            "bleurt,label=BLEURT-20",
        ),
        judges=("xcomet", "cometkiwi", "metricx"),
        nbest=100,
        models={
            "pear": "pear",
            "comet": "wmt22-comet-da",
            "bleurt": "bleurt-20",
            "xcomet": "xcomet-xl",
            "cometkiwi": "wmt23-cometkiwi-da-xl",
            "metricx": "metricx-24-hybrid-xl",
        },
    ),
    "pear-judge": Preset(
        summary="figure 1 of the PEAR paper on choices: chrF, BLEU and TER as utilities, judged by PEAR against the "
        "first row and against the references, and by chrF",
        utilities=("chrf", "bleu", "ter"),
        judges=("pear", "pear-ref", "chrf"),
        nbest=100,
        models={},  # that of the languages: bundled or released
    ),
}


def get_preset(name: str) -> Preset:
    if name not in PRESETS:
        raise UsageError(f"preset {name!r} is unknown; expected one of {', '.join(PRESETS)}")
    return PRESETS[name]
