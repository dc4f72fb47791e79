"""The settings and judges that the options of mbr-compare describe, and what those left out stand for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from candidates.common.errors import UsageError
from mbr.cli.decode.resolve import BUNDLED_PRIOR
from mbr.compare.presets import Preset, get_preset
from mbr.compare.settings import Setting, parse_settings
from mbr.evaluate.judges import QE, JudgeSpec, judge_names, parse_judges
from mbr.prefilter import parse_prefilter
from mbr.utilities import is_ensemble, utility_names, utility_options
from mbr.utilities.ensemble import parse_ensemble

if TYPE_CHECKING:
    from mbr.cli.compare.input import Given

DEFAULT_UTILITIES = ("pear", "chrf")
DEFAULT_JUDGES = ("chrf", "bleu", "ter")


def settings_of(options: argparse.Namespace) -> list[Setting]:
    """Those of the preset, then those that are named; a preset alone needs no others."""
    preset = _preset(options)
    named = options.utility or ([] if preset else list(DEFAULT_UTILITIES))
    settings = parse_settings([*(preset.utilities if preset else ()), *named], options.strategy or ())
    return [_with_models(setting, _models(options)) for setting in settings]


def judges_of(options: argparse.Namespace) -> list[JudgeSpec]:
    preset = _preset(options)
    words = [*(preset.judges if preset else ()), *(options.judge or ([] if preset else DEFAULT_JUDGES))]
    models = _models(options)
    return [
        spec if spec.model is not None else replace(spec, model=_model_of(spec.name, models))
        for spec in parse_judges(words)
    ]


def oracle_of(options: argparse.Namespace) -> str | None:
    """The judge that finds the best candidates, as a word with its model; None where no such row is wanted."""
    if options.oracle == "none":
        return None
    model = None if "=" in options.oracle else _model_of(options.oracle, _models(options))
    return str(options.oracle) if model is None else f"{options.oracle}={model}"


def nbest_of(options: argparse.Namespace) -> int | None:
    preset = _preset(options)
    return options.nbest or (preset.nbest if preset else None)


def with_defaults(settings: Sequence[Setting], given: Given) -> list[Setting]:
    """As mbr-decode does it: the bundled PEAR where it fits, with the prior that goes with the bundled translator."""
    found = []
    for setting in settings:
        if setting.utility == "pear" and not setting.options.keys() & {"model", "revision", "encoder"}:
            if not given.bundled_pear:
                setting = replace(setting, options={**setting.options, "model": "pear"})
            elif setting.prior is None and given.by_bundled_beam:
                setting = replace(setting, prior=BUNDLED_PRIOR)
        found.append(setting)
    return found


def _with_models(setting: Setting, models: dict[str, str]) -> Setting:
    """The setting with the models that were named once for all: its own, its members', its first stage's."""
    options: dict[str, Any] = dict(setting.options)
    if is_ensemble(setting.utility):
        members = {name: model for name in parse_ensemble(setting.utility) if (model := _model_of(name, models))}
        options |= {"models": members} if members else {}
    elif model := _model_of(setting.utility, models):
        options.setdefault("model", model)
    prefilter_model = setting.prefilter_model
    if setting.prefilter is not None and prefilter_model is None:
        prefilter_model = _model_of(parse_prefilter(setting.prefilter)[0], models)
    return replace(setting, options=options, prefilter_model=prefilter_model)


def _model_of(name: str, models: dict[str, str]) -> str | None:
    """Of a utility or judge; with or without references it is the same model."""
    return models.get(name) or models.get(name.removesuffix(QE))


def _models(options: argparse.Namespace) -> dict[str, str]:
    """Models by the name of a utility or judge: the preset's, and those given."""
    preset = _preset(options)
    given: dict[str, str] = {}
    for word in options.model or ():
        name, equals, model = word.partition("=")
        if not (name and equals and model):
            raise UsageError(f"--model {word!r}: expected NAME=MODEL, such as pear=FOLDER")
        takes = name in utility_names() and "model" in utility_options(name)
        if not takes and (name not in judge_names() or JudgeSpec(name).lexical):
            raise UsageError(f"--model {word!r}: there is no utility or judge {name!r} that takes a model")
        if name in given:
            raise UsageError(f"--model names {name!r} twice")
        given[name] = model
    return (preset.models if preset else {}) | given


def _preset(options: argparse.Namespace) -> Preset | None:
    return None if options.preset is None else get_preset(options.preset)
