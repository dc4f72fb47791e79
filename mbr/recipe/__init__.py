"""How a choice is made, as one value: read, printed, planned for some lists; `mbr.opening` makes a decoder of it."""

from mbr.recipe.files import read_recipe, recipe_from, recipe_mapping, recipe_yaml, shipped_recipes
from mbr.recipe.plan import Changes, plan, plan_for
from mbr.recipe.value import RUNTIME_OPTIONS, GuardSpec, PrefilterSpec, Recipe, TermSpec, parse_guards

__all__ = [
    "RUNTIME_OPTIONS",
    "Changes",
    "GuardSpec",
    "PrefilterSpec",
    "Recipe",
    "TermSpec",
    "parse_guards",
    "plan",
    "plan_for",
    "read_recipe",
    "recipe_from",
    "recipe_mapping",
    "recipe_yaml",
    "shipped_recipes",
]
