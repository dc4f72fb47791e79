"""Terms by name: evidence on single candidates that is added to the expected utility.

Ours, those of installed plug-ins (entry points of the group `mbr_decode.terms`), and every utility: as a term a quality
is taken as it is, a comparison as its expected utility against the list.

>>> get_term("length").summary
'words of the candidate'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from candidates.common.errors import UsageError
from candidates.common.plugins import LazyTable, check_options, option_names
from mbr.terms.base import Term, Values
from mbr.utilities import UTILITIES, Utility, get_utility, utility_class

__all__ = ["TERMS", "Term", "Values", "check_term_options", "get_term", "term_family", "term_names", "term_options"]

TERMS = LazyTable(
    "term",
    {
        "logprob": "mbr.terms.logprob:LogProbability",
        "reverse": "mbr.terms.reverse:Reverse",
        "length": "mbr.terms.length:Length",
        "coverage": "mbr.terms.coverage:Coverage",
        "coverage-back": "mbr.terms.coverage:CoverageBack",
        "glossary": "mbr.terms.glossary:Glossary",
    },
    group="mbr_decode.terms",
)


def term_names() -> list[str]:
    """All names that `get_term` knows: terms proper first, then the utilities."""
    return list(dict.fromkeys([*TERMS, *(name for name in UTILITIES if name != "none")]))


def get_term(name: str, **options: Any) -> Term:
    """A ready term. An option that it does not take, or lacks, raises UsageError."""
    check_term_options(name, options)
    if name in TERMS:
        return _class(name)(**options)
    from mbr.terms.of_utility import OfUtility

    return OfUtility(get_utility(name, **options))


def term_options(name: str) -> list[str]:
    """The options that a term takes."""
    return option_names(_maker(name))


def check_term_options(name: str, options: Iterable[str], elsewhere: Iterable[str] = (), part: str = "term") -> None:
    """Raise UsageError for options that a term does not take, and for missing ones that have no default.

    `elsewhere` names options that may still be given in another way; `part` is the word for the term in messages.
    """
    check_options(f"{part} {name!r}", _maker(name), options, elsewhere)


def term_family(name: str) -> str:
    """Judges of this family flatter what the term chose."""
    return _class(name).family if name in TERMS else utility_class(name).family


def _maker(name: str) -> type[Term] | type[Utility]:
    """The class that a term's options go to."""
    if name in TERMS:
        return _class(name)
    if name in UTILITIES and name != "none":
        return utility_class(name)
    raise UsageError(f"term {name!r} is unknown; expected one of {', '.join(term_names())}")


def _class(name: str) -> type[Term]:
    return cast(type[Term], TERMS.load(name, Term))
