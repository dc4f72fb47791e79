"""Guard against foreign owners of our modules.

The PyPI distributions `pear-mt` and `mbr` install modules called `pear` and `mbr` too. Installed beside ours they
overwrite it file by file, silently. This check costs a look at the installed distributions' names and turns the
silence into an error that says how to repair the installation.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from candidates.errors import EnvironmentProblem

OURS = "mbr-decode"
RIVALS = {"pear": "pear-mt", "mbr": "mbr"}


def check_owner(module: str, folder: str | Path) -> None:
    """Raise when the rival distribution of `module` is installed into the very folder we run from."""
    rival = RIVALS[module]
    try:
        installed = metadata.distribution(rival)
    except metadata.PackageNotFoundError:
        return
    theirs = Path(str(installed.locate_file(module)))
    if theirs.resolve() == Path(folder).resolve():
        raise EnvironmentProblem(f"the module {module!r} has two owners, {OURS} and {rival}. " + repair(rival))


def repair(rival: str) -> str:
    return (
        f"Keep one of them in this environment: pip uninstall -y {rival} && "
        f"pip install --force-reinstall --no-deps {OURS}"
    )
