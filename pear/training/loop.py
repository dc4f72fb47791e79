"""One stage of training: groups of judged translations in, the best network by a development statistic out.

A plain loop: `plan` orders the batches, `optimisation` learns from them, `evaluation` measures, `work_folder` keeps.
Everything random follows from the seed and the epoch, and a checkpoint holds the rest (weights, optimizers, random
state, place in the data, best result): a killed run is continued as if it had not been interrupted. Dropout is the
exception: every process draws its own, and a checkpoint keeps the leader's draws only, so that with dropout only a run
of one process is continued to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from candidates.common.errors import ModelError, UsageError
from pear.checkpoint import Checkpoint
from pear.data import Group
from pear.model import PearNetwork
from pear.serialize import Layout
from pear.training.batches import Batcher
from pear.training.evaluation import Development
from pear.training.examples import check_examples, check_scores, word_channels
from pear.training.learner import Learner
from pear.training.optimisation import Optimisation
from pear.training.parallel import Alone, Parallel
from pear.training.plan import Place, Plan, Step
from pear.training.recipe import Recipe
from pear.training.translation_memory import forget_translations
from pear.training.work_folder import WorkFolder, data_digest


def train(
    recipe: Recipe,
    start: Checkpoint,
    groups: Sequence[Group],
    dev: Sequence[Group],
    work: Path,
    *,
    device: str = "cpu",
    parallel: Parallel | None = None,
    progress: bool = False,
    say: Callable[[str], None] = lambda message: None,
) -> Checkpoint:
    """Train in the folder `work` (checkpoint, best weights, log), or continue the run it holds.

    Args:
        recipe: settings of this stage; those of an interrupted run must be the same.
        start: the network to begin with, whose weights are changed, and its tokenizer.
        groups: judged translations to learn from.
        dev: judged translations to measure with; without any the last weights are the best.
        parallel: the processes that share the work; comes with its own device.
        say: receives messages for the user.

    Returns:
        The model with the best weights by `recipe.select`, on the CPU.

    Raises:
        InputError: the data do not suit the recipe.
        UsageError: the folder holds another run, or the processes do not suit the recipe.
        ModelError: the network is of another kind, training has diverged, or a file of the folder is damaged.
    """
    check_examples(recipe, groups)
    check_scores(recipe.kind, dev)
    run = TrainingRun(recipe, start, groups, dev, work, parallel or Alone(device))
    run.resume(say)
    with _bar(run, progress and run.parallel.leads) as bar:
        for step in run.remaining():
            run.learn(step)
            bar.update(1)
            bar.set_postfix({"loss": round(run.optimisation.loss_of_this_process(), 4)})
            if run.place.step % recipe.every == 0 or run.finished:
                run.measure_and_save()
    return replace(start, network=run.best_network())


class TrainingRun:
    """Learner, plan, development lists and folder of one stage, and its place in the data."""

    def __init__(
        self,
        recipe: Recipe,
        start: Checkpoint,
        groups: Sequence[Group],
        dev: Sequence[Group],
        work: Path,
        parallel: Parallel,
    ) -> None:
        self.recipe, self.parallel = recipe, parallel
        _check_processes(recipe, parallel)
        self.folder = WorkFolder(work)
        if parallel.leads:
            work.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(recipe.seed)
        channels = word_channels(groups) if recipe.word_weight > 0 else 0
        self.learner = Learner.of(recipe, start.network, channels)
        self.batcher = Batcher(
            start.tokenizer,
            Layout.of(start.tokenizer, start.network.encoder.config),
            recipe.batch_tokens,
            use_words=channels > 0,
        )
        self.optimisation = Optimisation(recipe, self.learner, self.batcher, parallel)
        self.development = Development(recipe, dev)
        self.plan = Plan(recipe, groups, self.batcher)
        self.place = Place()
        self._data = data_digest(groups, self.development.groups)

    @property
    def finished(self) -> bool:
        """All steps are done, or the development statistic has not risen for `patience` measurements."""
        patience = self.recipe.patience
        stale = patience is not None and self.place.step - self.place.best_step >= patience * self.recipe.every
        return stale or self.place.step >= self.plan.steps

    def remaining(self) -> Iterator[Step]:
        """The batches of each step still to be learned from, epoch after epoch."""
        while not self.finished:
            yield self.plan.take(self.place)

    def learn(self, step: Step) -> None:
        """One step: the gradient of the mean loss over all examples of its batches, and a change of the weights."""
        norm = self.optimisation.add_gradients(step, freeze_encoder=self.plan.freezes_encoder(self.place))
        if not math.isfinite(norm):
            raise self._diverged(f"the gradient of step {self.place.step + 1} has norm {norm}")
        self.optimisation.update(self.recipe.rate(self.place.step, self.plan.steps))
        self.place.step += 1

    def measure(self) -> dict[str, float]:
        """The development statistics by name; none without development lists."""
        if not self.development.groups:
            return {}
        scores = self.development.scores(self.optimisation.wrapped, self.batcher, self.parallel)
        if not np.isfinite(scores).all():
            raise self._diverged(f"after step {self.place.step} scores of the development lists are not finite")
        return self.development.statistics(scores)

    def measure_and_save(self) -> None:
        """Write a line of the log, the best weights if these are the best, and a checkpoint."""
        losses, speed = self.optimisation.means()
        if not all(math.isfinite(value) for value in (speed, *losses.values())):
            raise self._diverged(f"the mean loss up to step {self.place.step} is {losses['loss']}")
        statistics = self.measure()
        value = statistics.get(self.recipe.select, float(self.place.step))
        better = value > self.place.best
        if better:
            self.place.best, self.place.best_step = value, self.place.step
        self.place.seconds += self.optimisation.seconds()
        weights = self.parallel.state(self.learner)
        if self.parallel.leads:
            self.folder.append_to_log(self._log_line(losses, statistics, speed, better))
            if better:
                self.folder.write_best(weights)
        self.save(weights)
        self.optimisation.start_sums()

    def _log_line(
        self, losses: dict[str, float], statistics: dict[str, float], speed: float, better: bool
    ) -> dict[str, Any]:
        scale = getattr(self.learner.network.head, "scale", 1.0)
        return {
            "step": self.place.step,
            "epoch": self.place.epoch,
            **{name: round(mean, 5) for name, mean in losses.items()},
            **{f"dev_{name}": round(value, 5) for name, value in statistics.items()},
            "scale": round(float(torch.as_tensor(scale).detach()), 5),
            "gradient": round(self.optimisation.norm, 5),
            "rate": round(self.recipe.rate(self.place.step, self.plan.steps), 5),
            "tokens_per_second": round(speed),
            "seconds": round(self.place.seconds, 1),
            "best": better,
        }

    def best_network(self) -> PearNetwork:
        """The network with the weights that did best on the development lists, or the last ones without any."""
        self.parallel.wait()
        weights = self.folder.read_best()
        network: PearNetwork = self.parallel.plain(self.learner)
        own = {name.removeprefix("network."): w for name, w in weights.items() if name.startswith("network.")}
        network.load_state_dict(own, assign=True)
        forget_translations(network.encoder)
        network.cpu().eval()
        return network

    def save(self, weights: dict[str, Any]) -> None:
        """Write a checkpoint with these weights of the learner."""
        optimizers = [self.parallel.optimizer_state(optimizer) for optimizer in self.optimisation.optimizers]
        if self.parallel.leads:
            device = torch.device(self.parallel.device)
            self.folder.write_checkpoint(
                {
                    "recipe": asdict(self.recipe),
                    "steps": self.plan.steps,
                    "data": self._data,
                    "learner": weights,
                    "optimizers": optimizers,
                    "place": asdict(self.place),
                    "random": torch.get_rng_state(),
                    "random_cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
                }
            )
        self.parallel.wait()

    def resume(self, say: Callable[[str], None]) -> None:
        """Continue from the folder's checkpoint, if it has one and it is of this run."""
        self.parallel.wait()
        content = self.folder.read_checkpoint()
        if content is not None:
            self.folder.check_same_run(content, self.recipe, self._data, self.plan.steps)
            self._load(content)
            self.place = Place(**content["place"])
            self.plan.enter(self.place.epoch)
            self._set_random(content)
        steps = self.parallel.total(np.array([float(self.place.step)]))
        if steps[0] != self.place.step * self.parallel.size:
            raise UsageError(
                f"{self.folder.checkpoint} is not the same for all processes; give a folder that all machines share"
            )
        if self.parallel.leads:
            self.folder.cut_log(self.place.step, say)

    def _load(self, content: dict[str, Any]) -> None:
        try:
            self.parallel.load(self.learner, content["learner"])
            for optimizer, state in zip(self.optimisation.optimizers, content["optimizers"], strict=True):
                self.parallel.load_optimizer(optimizer, state)
        except (RuntimeError, ValueError) as exc:
            raise UsageError(
                f"{self.folder.checkpoint} holds another network than this run begins with: {exc}; begin with the same "
                "model, or train in another folder"
            ) from exc

    def _set_random(self, content: dict[str, Any]) -> None:
        if not self.parallel.leads:  # a checkpoint has the leader's draws, the others get new ones
            torch.manual_seed(self.recipe.seed + self.parallel.rank + 1_000_003 * self.place.step)
            return
        torch.set_rng_state(content["random"])
        device = torch.device(self.parallel.device)
        if device.type == "cuda" and content["random_cuda"] is not None:
            torch.cuda.set_rng_state(content["random_cuda"], device)

    def _diverged(self, finding: str) -> ModelError:
        step = self.place.best_step
        kept = f"the best weights so far, of step {step}, are" if step else "no weights are"
        return ModelError(
            f"{finding}: training has diverged; {kept} in {self.folder.path}; lower encoder_rate and head_rate, raise "
            "warm_up, set clip or dtype float32, and train in another folder"
        )


def _check_processes(recipe: Recipe, parallel: Parallel) -> None:
    if recipe.accumulate < parallel.size:
        raise UsageError(
            f"a step has {recipe.accumulate} batches (accumulate) for {parallel.size} processes, so some would have "
            f"nothing to do; set accumulate to {parallel.size} or a multiple, or start fewer processes"
        )
    if recipe.optimizer == "muon" and parallel.sharded:
        raise UsageError("optimizer muon needs whole matrices, which fsdp divides; use adamw, or parallel mode ddp")


def _bar(run: TrainingRun, shown: bool) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=run.plan.steps, initial=run.place.step, unit="step", disable=not shown, leave=False, desc="training"
    )
