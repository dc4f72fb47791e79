"""The settings and judges that the options of mbr-compare describe, and what those left out stand for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from candidates.errors import UsageError
from mbr.cli.resolve import BUNDLED_PRIOR
from mbr.compare.presets import get_preset
from mbr.compare.settings import Setting, parse_settings
from mbr.evaluate.judges import JudgeSpec, judge_names, parse_judges
from mbr.utilities import utility_names, utility_options

if TYPE_CHECKING:
    from mbr.cli.compare_input import Given


def settings_of(options: argparse.Namespace) -> list[Setting]:
    """Those of the preset, then those that are named; a preset alone needs no others."""
    from mbr.cli.compare import DEFAULT_UTILITIES

    preset = None if options.preset is None else get_preset(options.preset)
    named = options.utility or ([] if preset else list(DEFAULT_UTILITIES))
    settings = parse_settings([*(preset.utilities if preset else ()), *named], options.strategy or ())
    models = _models(options)
    return [
        replace(setting, options={**setting.options, "model": models[setting.utility]})
        if setting.utility in models and not setting.options.get("model")
        else setting
        for setting in settings
    ]


def judges_of(options: argparse.Namespace) -> list[JudgeSpec]:
    from mbr.cli.compare import DEFAULT_JUDGES

    preset = None if options.preset is None else get_preset(options.preset)
    words = [*(preset.judges if preset else ()), *(options.judge or ([] if preset else DEFAULT_JUDGES))]
    models = _models(options)
    return [
        replace(spec, model=models[spec.name.removesuffix("-qe")])
        if spec.model is None and spec.name.removesuffix("-qe") in models
        else spec
        for spec in parse_judges(words)
    ]


def with_defaults(settings: Sequence[Setting], given: Given) -> list[Setting]:
    """As mbr-decode does it: the bundled PEAR where it fits, with the prior that goes with the bundled translator."""
    found = []
    for setting in settings:
        if setting.utility == "pear" and not setting.options.keys() & {"model", "revision", "encoder"}:
            if not given.bundled_pear_fits:
                setting = replace(setting, options={**setting.options, "model": "pear"})
            elif setting.prior is None and given.by_bundled_beam:
                setting = replace(setting, prior=BUNDLED_PRIOR)
        found.append(setting)
    return found


def _models(options: argparse.Namespace) -> dict[str, str]:
    """Models by the name of a utility or judge: the preset's, and those given."""
    models = {} if options.preset is None else dict(get_preset(options.preset).models)
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
    return models | given
