"""A whole training run: data files in, a model folder with its card, log and loss curve out.

Two stages where there is data for the first: with `pretrain` (direct assessments, say) the scale of the scores is
frozen; then, with the final data (MQM), it is learned. Each stage keeps its checkpoint in a folder beside the output,
so that a killed run is continued in the stage it was in.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from candidates.common.errors import InputError, UsageError
from candidates.common.text import check_output, disk_errors
from pear.checkpoint import Checkpoint, save_checkpoint
from pear.data import Group, Judgment, average_raters, group, guess_format, read_judgments, sample_pairs, split
from pear.data.pairs import source_key
from pear.data.statistics import describe, summary
from pear.training.examples import check_examples, check_scores
from pear.training.loop import train
from pear.training.origin import Origin
from pear.training.parallel import Alone, Parallel
from pear.training.recipe import Recipe
from pear.training.report import card, draw_losses
from pear.training.start import begin
from pear.training.work_folder import WorkFolder

WORK_SUFFIX = ".training"
# Options that only some formats have.
TAKEN_BY = {"score": ("csv", "da"), "human": ("mt-metrics-eval",)}


@dataclass(frozen=True)
class Sources:
    """Files of judgments and how to read them. `score_range` maps (worst, best) to 0..1."""

    files: tuple[str, ...]
    dev: tuple[str, ...] = ()
    pretrain: tuple[str, ...] = ()
    format: str | None = None
    where: dict[str, Any] = field(default_factory=dict)
    score_range: tuple[float, float] | None = None

    def read(self, files: Iterable[str]) -> list[Group]:
        """Groups of translations of one source, raters averaged."""
        rows = [self._scaled(row, file) for file in files for row in self._rows(file)]
        return group(average_raters(rows))

    def _rows(self, file: str) -> Iterable[Judgment]:
        """The judgments of a file; options go only to the formats that take them."""
        format = self.format or guess_format(file)
        options = {name: value for name, value in self.where.items() if format in TAKEN_BY.get(name, (format,))}
        return read_judgments(file, format, **options)

    def _scaled(self, row: Judgment, file: str) -> Judgment:
        if self.score_range is None:
            return row
        worst, best = self.score_range
        if not worst <= row.score <= best:
            raise InputError(
                f"{file}: score {row.score} of {row.translation!r:.60} lies outside the range {worst} to {best} "
                "that was given (--score-range)"
            )
        return replace(row, score=(row.score - worst) / (best - worst))


@dataclass(frozen=True)
class Job:
    """What to train, from what, into which folder."""

    recipe: Recipe
    origin: Origin
    sources: Sources
    output: Path
    command: str = ""
    half: bool = False

    @property
    def work(self) -> Path:
        """Where checkpoints are, beside the output."""
        if not self.output.name:
            raise UsageError(f"{self.output} is no name for a new folder")
        return self.output.with_name(self.output.name + WORK_SUFFIX)


def run(
    job: Job,
    *,
    device: str = "cpu",
    parallel: Parallel | None = None,
    resume: bool = False,
    progress: bool = False,
    say: Callable[[str], None] = lambda message: None,
) -> Checkpoint:
    """Train both stages and write the folder."""
    leads = (parallel or Alone()).leads
    if leads:
        _check_folders(job, resume)
    train_groups, dev_groups = _divided(job.sources, job.recipe)
    pretrain = job.sources.read(job.sources.pretrain) if job.sources.pretrain else []
    checkpoint = begin(job.recipe.kind, job.origin, _texts([*pretrain, *train_groups]), seed=job.recipe.seed)
    stages: list[tuple[str, Recipe, Sequence[Group]]] = [("stage-2", job.recipe, train_groups)]
    if pretrain:
        stages.insert(0, ("stage-1", replace(job.recipe, learn_scale=False), _without(pretrain, dev_groups)))
    for _, recipe, groups in stages:  # before the hours of the first stage
        check_examples(recipe, groups)
    check_scores(job.recipe.kind, dev_groups)
    for name, recipe, groups in stages:
        if leads:
            pairs = sample_pairs(
                groups, per_source=recipe.pairs_per_source, seed=recipe.seed, references_as=recipe.references_as
            )
            say(f"{name}: {len(groups)} sources to learn from, {len(dev_groups)} to measure with")
            say(describe(groups, pairs))
        checkpoint = train(
            recipe,
            checkpoint,
            groups,
            dev_groups,
            job.work / name,
            device=device,
            parallel=parallel,
            progress=progress,
            say=say,
        )
    if leads:
        _publish(job, checkpoint, stages, dev_groups)
    return checkpoint


def _check_folders(job: Job, resume: bool) -> None:
    for folder in (job.output, job.work):
        check_output(folder, folder=True, inputs=(*job.sources.files, *job.sources.dev, *job.sources.pretrain))
    if job.output.exists() and (not job.output.is_dir() or any(job.output.iterdir())):
        raise UsageError(f"{job.output} exists; give the name of a new folder")
    if job.work.exists() and not resume:
        raise UsageError(
            f"{job.work} holds an interrupted run; continue it (--resume), or delete it or give another name"
        )


def _divided(sources: Sources, recipe: Recipe) -> tuple[list[Group], list[Group]]:
    """Groups to learn from and to measure with; none of the latter's sources is among the former."""
    groups = sources.read(sources.files)
    if not sources.dev:
        return split(groups, recipe.dev_share, recipe.seed)
    dev = sources.read(sources.dev)
    kept = _without(groups, dev)
    if not kept:
        raise InputError("every source of the training data is in the development data too")
    return kept, dev


def _without(groups: Sequence[Group], others: Sequence[Group]) -> list[Group]:
    """The groups whose source is not among the others', whatever its case and spaces."""
    held_out = {source_key(item.source) for item in others}
    return [item for item in groups if source_key(item.source) not in held_out]


def _texts(groups: Iterable[Group]) -> Iterable[str]:
    for item in groups:
        yield item.source
        yield from (candidate.translation for candidate in item.candidates)


def _publish(
    job: Job, checkpoint: Checkpoint, stages: list[tuple[str, Recipe, Sequence[Group]]], dev: Sequence[Group]
) -> None:
    """The finished folder appears whole: written beside, then renamed."""
    scratch = job.work / "finished"
    if scratch.exists():
        shutil.rmtree(scratch)
    logs = {name: WorkFolder(job.work / name).read_log() for name, _, _ in stages}
    numbers = {}
    for name, recipe, groups in stages:
        pairs = sample_pairs(
            groups, per_source=recipe.pairs_per_source, seed=recipe.seed, references_as=recipe.references_as
        )
        numbers[name] = summary(groups, pairs)
    facts = {
        "kind": job.recipe.kind,
        "begins_with": job.origin.model
        or job.origin.encoder
        or " and ".join(job.origin.translators or ["random weights"]),
        "data": [Path(file).name for file in (*job.sources.pretrain, *job.sources.files)],
        "dev_data": [Path(file).name for file in job.sources.dev],
        "dev_sources": len(dev),
        "command": job.command,
        "recipe": {name: asdict(recipe) for name, recipe, _ in stages},
        "statistics": numbers,
        "log": logs,
    }
    with disk_errors(scratch):
        save_checkpoint(checkpoint, scratch, card=card(facts), half=job.half)
        content = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
        (scratch / "training.json").write_text(content, encoding="utf-8")
        (scratch / "loss.svg").write_text(draw_losses(logs), encoding="utf-8")
    with disk_errors(job.output):
        if job.output.exists():
            job.output.rmdir()  # empty, as was checked
        scratch.rename(job.output)
