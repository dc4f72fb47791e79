"""Guard against foreign owners of our modules.

The PyPI distributions `pear-mt` and `mbr` install modules called `pear` and `mbr` too. Installed beside ours they
overwrite it file by file, silently. This check reads the names of the installed distributions and turns the
silence into an error that explains how to repair the installation. It lives here because no other distribution installs
`candidates`.
"""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from candidates.common.errors import EnvironmentProblem

OURS = "mbr-decode"
RIVALS = {"pear": "pear-mt", "mbr": "mbr"}
# A file that our module has and the rival's has not.
LANDMARKS = {"pear": "engine.py", "mbr": "pipeline.py"}

_only_looking = False


def check_owners() -> None:
    """Raise when one of our modules is not, or not only, ours."""
    if not _only_looking:
        for module in RIVALS:
            problem = owner_problem(module)
            if problem:
                raise EnvironmentProblem(problem)


def owner_problem(module: str) -> str | None:
    """What is wrong with the ownership of a module, and how to repair it; None where all is well."""
    spec = find_spec(module)
    folder = Path(str(spec.origin)).parent if spec and spec.origin else Path()
    rival = RIVALS[module]
    if not (folder / LANDMARKS[module]).is_file():
        return f"the module {module!r} at {folder} is not the one of {OURS} but another's. {_repair(rival)}"
    try:
        installed = metadata.distribution(rival)
    except metadata.PackageNotFoundError:
        return None
    if Path(str(installed.locate_file(module))).resolve() == folder.resolve():
        return f"the module {module!r} at {folder} has two owners, {OURS} and {rival}. {_repair(rival)}"
    return None


def only_look() -> None:
    """Let a broken installation be imported, for the command that examines it."""
    global _only_looking
    _only_looking = True


def _repair(rival: str) -> str:
    return (
        f"Keep one of them in this environment: pip uninstall -y {rival} && "
        f"pip install --force-reinstall --no-deps {OURS} (in a clone: . instead of {OURS})"
    )
