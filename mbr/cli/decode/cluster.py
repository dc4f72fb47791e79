"""mbr-decode on a Ray cluster: its options, checked and turned into values of `mbr.ray`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console
from candidates.command.model_options import model_options
from candidates.command.streams import keep_for_data
from candidates.common.errors import InputError, UsageError
from candidates.common.text import yaml_problem
from mbr.cli.decode.records import unfit
from mbr.opening import DecoderPlan
from mbr.recipe import RUNTIME_OPTIONS, Recipe

if TYPE_CHECKING:
    from mbr.ray.runner import ClusterRun
    from mbr.ray.session import ClusterOptions

OPTIONS = ("ray_workers", "ray_cpus", "ray_gpus", "ray_patience", "ray_runtime_env")


def check_cluster(options: argparse.Namespace) -> None:
    """Refuse what does not go together; with --ray, a worker's number of CPUs is its number of threads."""
    if options.ray is None:
        for name in OPTIONS:
            if getattr(options, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} goes with --ray")
        return
    if options.budget_total is not None:
        raise UsageError("--budget-total decides all lists together, in one place; leave it out with --ray")
    for name in OPTIONS[:-1]:
        value = getattr(options, name)
        if value is not None and not 0 < value < 1e6 and not (name == "ray_gpus" and value == 0):
            raise UsageError(f"--{name.replace('_', '-')} {value} is not a positive number")
    if options.line_buffered:
        raise UsageError("--line-buffered answers lines on this machine; leave it out with --ray")
    if options.threads is None:
        options.threads = options.ray_cpus or 1


def cluster_options(options: argparse.Namespace) -> ClusterOptions:
    from mbr.ray.session import ClusterOptions

    on_gpu = (options.device or "").startswith("cuda")
    defaults = ClusterOptions()
    return ClusterOptions(
        address=options.ray,
        workers=options.ray_workers,
        cpus=options.ray_cpus or options.threads,
        gpus=float(on_gpu) if options.ray_gpus is None else options.ray_gpus,
        patience=defaults.patience if options.ray_patience is None else options.ray_patience,
        runtime_env=_runtime_env(options.ray_runtime_env),
    )


def decoder_plan(options: argparse.Namespace, recipe: Recipe) -> DecoderPlan:
    """How the decoder of this run is built, here and on every node."""
    return DecoderPlan(
        recipe,
        runtime=model_options(options, RUNTIME_OPTIONS),
        on_error=options.on_error,
        keep_matrix=options.matrix is not None,
        check=partial(unfit, format=options.format),
    )


@contextmanager
def on_cluster(plan: DecoderPlan, options: argparse.Namespace, console: Console) -> Iterator[ClusterRun | None]:
    """The cluster that decides, if one was asked for; at the end, what each node did is reported, and all ends."""
    if options.ray is None:
        yield None
        return
    from mbr.ray.runner import ClusterRun
    from mbr.ray.session import Session

    keep_for_data()  # Ray prints to standard output
    with Session(cluster_options(options)) as session:
        run = ClusterRun(session, plan, console.warn)
        yield run
        for line in run.summary.lines():
            console.info(line)


def _runtime_env(file: str | None) -> dict[str, Any] | None:
    import yaml

    if file is None:
        return None
    try:
        content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"{file}: cannot be read: {exc.strerror}") from exc
    except (UnicodeDecodeError, yaml.YAMLError) as exc:
        raise InputError(f"{file}: not plain YAML: {yaml_problem(exc)}") from exc
    if not isinstance(content, dict):
        raise InputError(f"{file}: expected a mapping such as `pip: [mbr-decode]` (Ray's runtime environment)")
    return content
