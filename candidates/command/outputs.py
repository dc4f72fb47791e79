"""The one check of a command's outputs, before it reads or loads anything.

    check_outputs({"output": "best.txt", "matrix": None}, inputs=["lists.jsonl"], force=True)

Each name is resolved and checked by `candidates.common.text.check_output`; so are the files that a run keeps beside it.
Without a first output the results go to standard output, which must then be open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from candidates.command.config import config_path
from candidates.command.journal import beside, partial_path, progress_path, seconds_between_commits
from candidates.command.streams import check_standard_output
from candidates.common.errors import UsageError
from candidates.common.text import check_output


def check_outputs(
    outputs: Mapping[str, str | None],
    *,
    inputs: Iterable[str | None] = (),
    config: str | None = None,
    force: bool = False,
    journaled: bool = False,
    resume: bool = False,
    others: Mapping[str, str] | None = None,
) -> None:
    """Refuse outputs that cannot be written, that clash with each other, or that are inputs.

    Args:
        outputs: names by option, None where it was left out; the first is the one that standard output stands in for.
        inputs: files and folders that the command reads; `-` is standard input.
        config: the file of options, which may be the one that a run leaves beside its output.
        force: existing files may be overwritten.
        journaled: the files are written by a `Journal`, with its partial and progress files beside them.
        resume: an interrupted run is continued, so existing files are the journal's business.
        others: suffixes of more files beside the first output, and what they hold.

    Raises:
        UsageError: one of them is refused.
    """
    first = next(iter(outputs))
    files = {option: _file(option, name) for option, name in outputs.items() if name is not None}
    if first not in files:
        check_standard_output()
    if journaled:
        seconds_between_commits()
        resume = resume or (bool(files) and progress_path(next(iter(files.values()))).exists())
    inputs = list(inputs)
    targets = {
        option: check_output(path, force=force or resume, inputs=[*inputs, config]) for option, path in files.items()
    }
    if len(set(targets.values())) < len(targets):
        raise UsageError(f"{' and '.join(f'--{option}' for option in targets)} name the same file; give each its own")
    companions = _companions(first, files, others or {}, journaled=journaled)
    for path, (option, role) in companions.items():
        target = check_output(path, force=True, inputs=inputs)
        for other in (other for other in targets if targets[other] == target):
            raise UsageError(f"--{other} names the file beside --{option} that holds {role}; give another name")


def input_models(*names: str | None) -> Sequence[str]:
    """Those names of models that are local: files, and folders given with a slash (other names may be of a hub)."""
    return [name for name in names if name and (Path(name).is_file() or "/" in name)]


def _file(option: str, name: str) -> Path:
    if name in ("", "-"):
        raise UsageError(
            f"--{option} {name!r}: expected the name of a file; without --output results go to standard output"
        )
    return Path(name)


def _companions(
    first: str, files: Mapping[str, Path], others: Mapping[str, str], *, journaled: bool
) -> dict[Path, tuple[str, str]]:
    """The files that a run keeps beside its outputs: option and role by path."""
    companions = {}
    if first in files:
        companions[config_path(files[first])] = (first, "the options")
        companions |= {beside(files[first], suffix): (first, role) for suffix, role in others.items()}
    if journaled and files:
        option, path = next(iter(files.items()))
        companions[progress_path(path)] = (option, "the progress of a run")
        companions |= {partial_path(path): (option, "unfinished output") for option, path in files.items()}
    return companions
