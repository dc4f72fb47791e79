"""What can go wrong, as a small tree: each kind of failure has one type and one exit code.

A message has what was found, what was expected, and what to do now. The packages `pear` and `mbr` raise
the same types, so a caller (or a shell script reading exit codes) learns one vocabulary.
"""

OUT_OF_MEMORY = "out of memory; use fewer or shorter texts, a smaller model or a larger machine"


class MbrError(Exception):
    """Base of every error this project raises on purpose."""

    exit_code = 1


class UsageError(MbrError, ValueError):
    """The request itself makes no sense: options that exclude each other, an unknown name."""

    exit_code = 2


class InputError(MbrError, ValueError):
    """The data is not what it should be: a missing file, bad UTF-8, a list without candidates."""

    exit_code = 3


class ModelError(MbrError):
    """A model cannot be found, loaded or trusted, or it returned a score that is not a number."""

    exit_code = 4


class ResourceError(MbrError):
    """Memory, disk or a budget ran out."""

    exit_code = 5


class EnvironmentProblem(MbrError, ImportError):
    """The installation is broken: a foreign package owns our modules, or a library is missing."""

    exit_code = 6


def install_extra(extra: str) -> str:
    """How to install an extra of this package, for messages."""
    return f"install the extra {extra}: pip install '.[{extra}]' in a clone of mbr-decode"
