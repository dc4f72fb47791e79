"""What the terms of the shipped recipe add to each candidate."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr.decide import ReferenceWeights
from mbr.recipe import read_recipe
from mbr.terms import Term, get_term

RECIPE = read_recipe("en-de")


def recipe_weights() -> dict[str, float]:
    """The weights of all terms of the shipped recipe."""
    return {term.name: term.weight for term in RECIPE.terms}


def recipe_values(item: CandidateList) -> dict[str, NDArray[np.float64]]:
    """The values [N] of all its terms, without their weights."""
    known = {}
    for spec in RECIPE.terms:
        (values,) = _loaded(spec.name).values([item], ReferenceWeights("uniform"))
        if isinstance(values, MbrError):
            raise values
        known[spec.name] = values
    return known


@cache
def _loaded(name: str) -> Term:
    """A term of the recipe, which stays loaded."""
    return get_term(name, **next(term.options for term in RECIPE.terms if term.name == name))


def weight_of(name: str) -> float:
    """The weight of a term in the shipped recipe."""
    return next(term.weight for term in RECIPE.terms if term.name == name)


def term_values(item: CandidateList, name: str = "logprob") -> NDArray[np.float64]:
    """A term's value of each candidate [N], without its weight."""
    with get_term(name) as term:
        (values,) = term.values([item], ReferenceWeights("uniform"))
    if isinstance(values, MbrError):
        raise values
    return values
