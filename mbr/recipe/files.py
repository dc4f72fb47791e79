"""Recipes as YAML, and recipes by name, which ship beside the bundled models.

A file may also say for which lists it is the default (`fits`): by the translation models, with their revisions, and the
methods that made them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError, UsageError
from candidates.common.text import yaml_problem
from candidates.lists import Origin
from mbr.recipe.value import GuardSpec, PrefilterSpec, Recipe, TermSpec, parse_guards
from pear.shipped import SHIPPED

_KEYS = ("utility", "options", "weight", "strategy", "strategy-options", "terms", "weights", "self", "prefilter",
         "guards", "seed", "budget-total", "fits")  # fmt: skip
SEPARATORS = "\x85\u2028\u2029\ufeff"


def read_recipe(name: str | Path) -> Recipe:
    """A recipe by file or name, or written out as `{utility: chrf}`; a file named like a shipped recipe is ./name."""
    if str(name).lstrip().startswith("{"):
        return recipe_from(_parsed(str(name), "--recipe"), "--recipe")
    shipped = shipped_recipes()
    if str(name) in shipped:
        return recipe_from(_read(shipped[str(name)]), str(name))
    path = Path(name).expanduser()
    if not path.exists() and path.suffix not in (".yaml", ".yml") and len(path.parts) == 1:
        raise UsageError(f"recipe {str(name)!r} is unknown; expected a YAML file or one of {', '.join(shipped)}")
    return recipe_from(_read(path), str(path))


def shipped_recipes() -> dict[str, Path]:
    """The recipes beside the bundled models, by name: `en-de` is en-de/recipe.yaml, `en-de-x` en-de/recipe-x.yaml."""
    files = sorted(SHIPPED.glob("*/recipe*.yaml"))
    return {file.parent.name + file.stem.removeprefix("recipe"): file for file in files}


def recipe_for(origin: Origin | None) -> Recipe | None:
    """The shipped recipe for lists of this origin, if there is one."""
    if origin is None:
        return None
    for name, file in shipped_recipes().items():
        content = _read(file)
        fits = content.get("fits") or {}
        if origin.translator in fits.get("translator", ()) and origin.method in fits.get("method", ()):
            return recipe_from(content, name)
    return None


def recipe_yaml(recipe: Recipe) -> str:
    """The recipe as YAML, everything spelled out, for `--recipe` to take back."""
    import yaml

    mapping = recipe_mapping(recipe)
    # PyYAML writes these line separators as they are and reads them back as others.
    unicode = not set(json.dumps(mapping, ensure_ascii=False)) & set(SEPARATORS)
    return str(yaml.safe_dump(mapping, allow_unicode=unicode, sort_keys=False))


def recipe_mapping(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain values for YAML or JSON; `recipe_from` reads it back."""
    complete = recipe.complete()
    content = {
        "utility": complete.utility,
        "options": dict(complete.options) or None,
        "weight": None if complete.weight == 1 else complete.weight,
        "strategy": complete.strategy,
        "strategy-options": dict(complete.strategy_options) or None,
        "terms": {term.name: _term_yaml(term) for term in complete.terms} or None,
        "weights": complete.weights,
        "self": complete.self_rule,
        "prefilter": _prefilter_yaml(complete.prefilter),
        "guards": [_guard_yaml(guard) for guard in complete.guards] or None,
        "seed": complete.seed,
        "budget-total": complete.budget_total,
    }
    return {key: value for key, value in content.items() if value is not None}


def recipe_from(content: Mapping[str, Any], where: str) -> Recipe:
    """The recipe of a mapping as YAML or JSON holds it; `where` stands in error messages."""
    for key in content:
        if key not in _KEYS:
            raise UsageError(f"recipe {where}: {key!r} is unknown; expected {', '.join(_KEYS)}")
    try:
        terms = tuple(_term(name, value) for name, value in _mapping(content, "terms").items())
        strategy_options = {str(k).replace("-", "_"): v for k, v in _mapping(content, "strategy-options").items()}
        return Recipe(
            utility=str(content.get("utility", "pear")),
            options={str(k).replace("-", "_"): v for k, v in _mapping(content, "options").items()},
            weight=float(content.get("weight", 1.0)),
            strategy=content.get("strategy"),
            strategy_options=strategy_options,
            terms=terms,
            weights=content.get("weights", "count"),
            self_rule=content.get("self", "exclude"),
            prefilter=_prefilter(content.get("prefilter")),
            guards=parse_guards(_guards(content.get("guards"))),
            seed=int(content.get("seed", 1)),
            budget_total=content.get("budget-total"),
        )
    except (UsageError, TypeError, ValueError, AttributeError) as exc:
        raise UsageError(f"recipe {where}: {exc}") from exc


def _read(path: Path) -> dict[str, Any]:
    try:
        return _parsed(path.read_text(encoding="utf-8"), str(path))
    except OSError as exc:
        raise InputError(f"{path}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"{path}: not UTF-8: {exc}") from exc


def _parsed(text: str, where: str) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise InputError(f"{where}: not plain YAML: {yaml_problem(exc)}") from exc
    if not isinstance(content, dict):
        raise InputError(f"{where}: not a recipe; expected lines like `utility: pear` (mbr-decode --print-recipe)")
    return content


def _mapping(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, Mapping):
        raise UsageError(f"{key} is {value!r:.60}; expected names with values")
    return value


def _term(name: str, value: Any) -> TermSpec:
    """A weight, or a mapping with a weight and options."""
    if not isinstance(value, Mapping):
        return TermSpec(str(name), float(value))
    options = {str(key).replace("-", "_"): option for key, option in value.items() if key != "weight"}
    return TermSpec(str(name), float(value.get("weight", 1.0)), options)


def _term_yaml(term: TermSpec) -> Any:
    return {"weight": term.weight, **term.options} if term.options else term.weight


def _guards(value: Any) -> Iterator[str | GuardSpec]:
    """Names, or mappings with a name and options."""
    if value is not None and not isinstance(value, list):
        raise UsageError(f"guards is {value!r:.60}; expected a list such as [placeholders, numbers]")
    for guard in value or ():
        if isinstance(guard, Mapping):
            options = {str(key).replace("-", "_"): option for key, option in guard.items() if key != "name"}
            yield GuardSpec(str(guard.get("name", "")), options)
        else:
            yield str(guard)


def _guard_yaml(guard: GuardSpec) -> Any:
    return {"name": guard.name, **guard.options} if guard.options else guard.name


def _prefilter(value: Any) -> PrefilterSpec | None:
    if value is None or isinstance(value, str):
        return None if value is None else PrefilterSpec.parse(value)
    options = {str(key).replace("-", "_"): option for key, option in value.items() if key not in ("name", "keep")}
    return PrefilterSpec.parse(f"{value.get('name', '')}:{value.get('keep', '')}", options)


def _prefilter_yaml(prefilter: PrefilterSpec | None) -> Any:
    if prefilter is None or not prefilter.options:
        return None if prefilter is None else str(prefilter)
    return {"name": prefilter.name, "keep": prefilter.keep, **prefilter.options}
