"""One stage of training: groups of judged translations in, the best network by a development statistic out.

A plain loop. Everything random follows from the seed and the epoch, and a checkpoint holds the rest (weights,
optimizers, random state, place in the data, best result so far): a run that was killed goes on as if it had not
been. With several processes each takes its share of the batches of a step, and gradients are summed, so the number
of processes does not change what is learned. Dropout is the exception: every process draws its own, and a checkpoint
keeps the leader's draws only, so that with dropout only a run of one process goes on to the bit.
"""

from __future__ import annotations

import contextlib
import json
import math
import pickle
import random
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from candidates.common.errors import InputError, ModelError, UsageError
from candidates.common.text import atomic_output
from pear.checkpoint import Checkpoint
from pear.data import Group
from pear.model import PearNetwork
from pear.serialize import Layout
from pear.training.batches import Batcher, TrainingBatch
from pear.training.examples import (
    Example,
    as_prediction,
    check_examples,
    check_scores,
    examples,
    inputs,
    word_channels,
)
from pear.training.parallel import Alone, Parallel
from pear.training.precision import autocast_of
from pear.training.recipe import Recipe
from pear.training.statistics import Pairs, acc_eq, pdp, segment_pearson

CHECKPOINT = "checkpoint.pt"
BEST = "best.pt"
LOG = "log.jsonl"


@dataclass
class Place:
    """Where a run is, and the best it has seen."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float = -math.inf
    best_step: int = 0
    seconds: float = 0.0


class Learner(nn.Module):
    """The network, and beside it a layer for numbers of words that training may use and the metric does not."""

    def __init__(self, network: PearNetwork, channels: int) -> None:
        super().__init__()
        self.network = network
        self.frozen = False
        self.words = nn.Linear(network.encoder.config.hidden_size, channels) if channels else None

    def forward(self, batch: TrainingBatch) -> tuple[Tensor, Tensor | None]:
        """Scores [rows], and predictions [words, channels] where the batch has word targets."""
        with torch.no_grad() if self.frozen else contextlib.nullcontext():
            hidden = self.network.encode(batch.ids, batch.attention.long())
        scores = self.network.score(hidden, batch.spans)
        if self.words is None:
            return scores, None
        if batch.word_places is None:  # every weight must take part, or processes wait for each other
            return scores + 0 * sum(weight.sum() for weight in self.words.parameters()), None
        rows, columns = batch.word_places.T
        return scores, self.words(hidden[rows, columns].float())


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
) -> Checkpoint:
    """Train, or go on training, in the folder `work` (checkpoint, best weights, log); returns the best model.

    `parallel` comes with its own device.
    """
    check_examples(recipe, groups)
    check_scores(recipe.kind, dev)
    run = _Run(recipe, start, groups, dev, work, parallel or Alone(device))
    run.resume()
    with _bar(run, progress and run.parallel.leads) as bar:
        for batches in run.remaining():
            run.learn(batches)
            bar.update(1)
            bar.set_postfix(run.shown())
            if run.place.step % recipe.every == 0 or run.finished:
                run.measure_and_save()
    return replace(start, network=run.best_network())


def losses(recipe: Recipe, scores: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
    """Sums over the batch of the loss of differences, and of the flip term."""
    count = len(batch.targets)
    if recipe.loss == "huber":
        main = functional.huber_loss(scores[:count], batch.targets, delta=recipe.huber_delta, reduction="sum")
    else:
        main = functional.mse_loss(scores[:count], batch.targets, reduction="sum")
    flip = (scores[:count] + scores[count:]).square().sum() if batch.flipped else scores.new_zeros(())
    return main, flip


@torch.no_grad()
def predict(
    learner: nn.Module, batcher: Batcher, texts: Sequence[tuple[str, ...]], parallel: Parallel
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Scores [rows] of rows of texts, in order; each process scores its share, and all get all."""
    rows = [Example(row, float(number)) for number, row in enumerate(texts)]
    scores = np.zeros(len(rows))
    for planned, counts in parallel.share(batcher.plan(rows, flipped=False, seed="0")):
        batch = batcher.lay_out(planned, flipped=False).to(torch.device(parallel.device))
        found, _ = learner(batch)
        if counts:
            scores[[int(row.target) for row in planned]] = found.float().cpu().numpy()
    return parallel.total(scores)


class _Run:
    """Network, optimizers and place in the data of one stage."""

    def __init__(
        self,
        recipe: Recipe,
        start: Checkpoint,
        groups: Sequence[Group],
        dev: Sequence[Group],
        work: Path,
        parallel: Parallel,
    ) -> None:
        self.recipe, self.groups, self.work, self.parallel = recipe, groups, work, parallel
        self.device = torch.device(parallel.device)
        _check_processes(recipe, parallel)
        if parallel.leads:
            work.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(recipe.seed)
        channels = word_channels(groups) if recipe.word_weight > 0 else 0
        network = start.network
        if network.kind != recipe.kind:
            raise ModelError(f"the network is a {network.kind}, the recipe wants a {recipe.kind}")
        if recipe.gradient_checkpointing:
            network.encoder.supports_gradient_checkpointing = True  # XLM-R XL before transformers 5 does not say so
            # The older way, still the default of some versions, does not go with DDP and FSDP.
            network.encoder.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        scale = getattr(network.head, "_alpha_raw", None)
        if scale is not None:
            scale.requires_grad_(recipe.learn_scale)
        self.learner = Learner(network, channels)
        self.wrapped = parallel.wrap(self.learner, freezes=recipe.freeze_encoder > 0)
        torch.manual_seed(recipe.seed + parallel.rank)
        self.optimizers = _optimizers(recipe, self.learner)
        self.batcher = Batcher(
            start.tokenizer,
            Layout.of(start.tokenizer, network.encoder.config),
            recipe.batch_tokens,
            use_words=channels > 0,
        )
        self.autocast = autocast_of(self.device, recipe.dtype)
        told = [group for group in dev if len({c.score for c in group.candidates}) > 1]
        random.Random(recipe.seed).shuffle(told)  # files come sorted, by language pair for instance
        self.dev = told[: recipe.dev_lists]
        self.place = Place()
        self._data = _data_digest(groups, self.dev)
        self._losses = dict.fromkeys(("loss", "flip", "words") if channels else ("loss", "flip"), 0.0)
        self._counts = 0
        self._tokens = 0
        self._norm = 0.0
        self._began = time.monotonic()
        self._plan = self._plan_of(0)
        self.steps = recipe.steps or max(1, round(recipe.epochs * self._steps_in(self._plan)))

    @property
    def finished(self) -> bool:
        """All steps are done, or the development statistic has not risen for too long."""
        patience = self.recipe.patience
        stale = patience is not None and self.place.step - self.place.best_step >= patience * self.recipe.every
        return stale or self.place.step >= self.steps

    def _plan_of(self, epoch: int) -> list[tuple[list[Example], bool]]:
        """The batches of an epoch: examples, and whether they are shown in both orders."""
        planned: list[tuple[list[Example], bool]] = []
        for rows in examples(self.recipe, self.groups, epoch):
            flipped = self.recipe.kind == "pear" and self.recipe.flip > 0 and len(rows[0].texts) == 3
            seed = f"{self.recipe.seed} {epoch} {len(rows[0].texts)}"
            planned += [(batch, flipped) for batch in self.batcher.plan(rows, flipped=flipped, seed=seed)]
        if not planned:
            raise InputError("nothing to learn from: no source has two judged translations")
        order = np.random.default_rng([self.recipe.seed, epoch]).permutation(len(planned))
        return [planned[k] for k in order]

    def _steps_in(self, plan: list[Any]) -> int:
        return math.ceil(len(plan) / self.recipe.accumulate)

    def remaining(self) -> Iterator[list[tuple[list[Example], bool]]]:
        """The batches of each step still to be learned from, epoch after epoch."""
        while not self.finished:
            if self.place.batch == len(self._plan):
                self.place.epoch, self.place.batch = self.place.epoch + 1, 0
                self._plan = self._plan_of(self.place.epoch)
            step = self._plan[self.place.batch : self.place.batch + self.recipe.accumulate]
            self.place.batch += len(step)
            yield step

    def learn(self, step: list[tuple[list[Example], bool]]) -> None:
        """One step: the gradient of the mean loss over all examples of its batches."""
        self.wrapped.train()
        share = self.recipe.rate(self.place.step, self.steps)
        total = sum(len(rows) for rows, _ in step)
        share_frozen = self.recipe.freeze_encoder * len(self._plan)
        self.learner.frozen = self.place.epoch == 0 and self.place.batch <= share_frozen
        mine = self.parallel.share(step)
        for number, ((rows, flipped), counts) in enumerate(mine):
            batch = self.batcher.lay_out(rows, flipped=flipped).to(self.device)
            last = number == len(mine) - 1
            with contextlib.nullcontext() if last else self.parallel.no_sync(self.wrapped):
                loss = self._loss(batch, total, counts=counts)
                # Processes average their gradients; the sum is wanted.
                (loss * self.parallel.size * counts).backward()
            self._tokens += int(batch.attention.sum()) * counts
        self._norm = self.parallel.clip(self.wrapped, self.recipe.clip or math.inf)
        if not math.isfinite(self._norm):
            raise self._broken(f"the gradient of step {self.place.step + 1} has norm {self._norm}")
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * share
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.place.step += 1
        self._counts += total

    def _broken(self, found: str) -> ModelError:
        kept = f"the best weights so far, of step {self.place.best_step}, are" if self.place.best_step else "nothing is"
        return ModelError(
            f"{found}: training has diverged; {kept} in {self.work}; lower encoder_rate and head_rate, raise warm_up, "
            "set clip or dtype float32, and train in another folder"
        )

    def _loss(self, batch: TrainingBatch, total: int, *, counts: bool) -> Tensor:
        with self.autocast():
            scores, words = self.wrapped(batch)
        main, flip = losses(self.recipe, scores.float(), batch)
        parts = {"loss": main, "flip": flip}
        loss = main + self.recipe.flip * flip
        if words is not None and batch.word_targets is not None:
            parts["words"] = functional.mse_loss(words, batch.word_targets, reduction="mean") * len(batch.targets)
            loss = loss + self.recipe.word_weight * parts["words"]
        if counts:
            for name, value in parts.items():
                self._losses[name] += float(value.detach())
        return loss / total

    def shown(self) -> dict[str, Any]:
        """For the progress bar, from this process's share."""
        return {"loss": round(self._losses["loss"] * self.parallel.size / max(self._counts, 1), 4)}

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        """The development statistics, over at most so many candidates of each list."""
        if not self.dev:
            return {}
        self.wrapped.eval()
        kind = self.recipe.kind
        asked, judged = [], []
        for group in self.dev:
            some = group.candidates[: self.recipe.dev_candidates]
            asked.append(inputs(kind, group, [item.translation for item in some]))
            judged.append([item.score for item in some])
        scores = predict(self.wrapped, self.batcher, [row for rows in asked for row in rows], self.parallel)
        if not np.isfinite(scores).all():
            raise self._broken(f"after step {self.place.step} scores of the development lists are not finite")
        ends = np.cumsum([len(rows) for rows in asked])
        parts = np.split(scores, ends[:-1])
        found = [as_prediction(kind, part, len(gold)) for part, gold in zip(parts, judged, strict=True)]
        pairs = Pairs.of(found, judged)
        return {
            "acc_eq": acc_eq(pairs)[0],
            "pdp": pdp(pairs),
            "segment_pearson": segment_pearson(found, judged),
        }

    def measure_and_save(self) -> None:
        """A line of the log; the best weights if these are; a checkpoint."""
        speed = self._tokens / max(time.monotonic() - self._began, 1e-9)
        sums = self.parallel.total(np.array([speed, *self._losses.values()]))
        means = dict(zip(self._losses, sums[1:] / max(self._counts, 1), strict=True))
        if not np.isfinite(sums).all():
            raise self._broken(f"the mean loss up to step {self.place.step} is {means['loss']}")
        found = self.measure()
        value = found.get(self.recipe.select, float(self.place.step))
        better = value > self.place.best
        if better:
            self.place.best, self.place.best_step = value, self.place.step
        self.place.seconds += time.monotonic() - self._began
        network = self.parallel.state(self.learner)
        if self.parallel.leads:
            scale = getattr(self.learner.network.head, "scale", 1.0)
            line = {
                "step": self.place.step,
                "epoch": self.place.epoch,
                **{name: round(float(mean), 5) for name, mean in means.items()},
                **{f"dev_{name}": round(value, 5) for name, value in found.items()},
                "scale": round(float(torch.as_tensor(scale).detach()), 5),
                "gradient": round(self._norm, 5),
                "rate": round(self.recipe.rate(self.place.step, self.steps), 5),
                "tokens_per_second": round(sums[0]),
                "seconds": round(self.place.seconds, 1),
                "best": better,
            }
            with (self.work / LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")
            if better:
                with atomic_output(self.work / BEST, force=True) as stream:
                    torch.save(network, stream)
        self._save(network)
        self._losses, self._counts, self._tokens = dict.fromkeys(self._losses, 0.0), 0, 0
        self._began = time.monotonic()

    def best_network(self) -> PearNetwork:
        """The network with the weights that did best on the development lists (or the last ones, without any)."""
        self.parallel.wait()
        state = _read(self.work / BEST)
        network: PearNetwork = self.parallel.plain(self.learner)
        own = {k.removeprefix("network."): v for k, v in state.items() if k.startswith("network.")}
        network.load_state_dict(own, assign=True)
        network.cpu().eval()
        return network

    def _save(self, state: dict[str, Any]) -> None:
        optimizers = [self.parallel.optimizer_state(optimizer) for optimizer in self.optimizers]
        if self.parallel.leads:
            content = {
                "recipe": asdict(self.recipe),
                "steps": self.steps,
                "data": self._data,
                "learner": state,
                "optimizers": optimizers,
                "place": asdict(self.place),
                "random": torch.get_rng_state(),
                "random_cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            }
            with atomic_output(self.work / CHECKPOINT, force=True) as stream:
                torch.save(content, stream)
        self.parallel.wait()

    def resume(self) -> None:
        """Go on from the folder's checkpoint, if it has one and it is of this run."""
        self.parallel.wait()
        file = self.work / CHECKPOINT
        if file.exists():
            content = _read(file)
            self._check_same(file, content)
            try:
                self.parallel.load(self.learner, content["learner"])
                for optimizer, state in zip(self.optimizers, content["optimizers"], strict=True):
                    self.parallel.load_optimizer(optimizer, state)
            except (RuntimeError, ValueError) as exc:
                raise UsageError(
                    f"{file} holds another network than this run begins with: {exc}; begin with the same model, or "
                    "train in another folder"
                ) from exc
            self.place = Place(**content["place"])
            self._plan = self._plan_of(self.place.epoch)
            self._set_random(content)
        steps = self.parallel.total(np.array([float(self.place.step)]))
        if steps[0] != self.place.step * self.parallel.size:
            raise UsageError(f"{file} is not the same for all processes; give a folder that all machines share")
        if self.parallel.leads:
            self._cut_log()

    def _check_same(self, file: Path, content: dict[str, Any]) -> None:
        recipe = asdict(self.recipe)
        before = content["recipe"]
        names = dict.fromkeys([*before, *recipe])
        changed = [
            f"{name} was {before.get(name)!r}, is {recipe.get(name)!r}"
            for name in names
            if before.get(name) != recipe.get(name)
        ]
        if content["data"] != self._data:
            changed.append("the data are not the same")
        if not changed and content["steps"] != self.steps:
            changed.append(f"the data make {self.steps} steps, not {content['steps']}")
        if changed:
            raise UsageError(
                f"{file} comes from another run ({'; '.join(changed)}); go on with the same settings and data, or "
                "train in another folder"
            )

    def _set_random(self, content: dict[str, Any]) -> None:
        if not self.parallel.leads:  # the leader's draws are known, the others get new ones
            torch.manual_seed(self.recipe.seed + self.parallel.rank + 1_000_003 * self.place.step)
            return
        torch.set_rng_state(content["random"])
        if self.device.type == "cuda" and content["random_cuda"] is not None:
            torch.cuda.set_rng_state(content["random_cuda"], self.device)

    def _cut_log(self) -> None:
        """Drop lines that a killed run wrote after its last checkpoint: their steps are to come again."""
        file = self.work / LOG
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= self.place.step]
        if kept != lines:
            with atomic_output(file, force=True) as stream:
                stream.write("".join(kept).encode())


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as exc:
        reason = str(exc).partition("\n")[0]
        raise ModelError(
            f"{file}: cannot be read as a file of a training run: {reason}; put back a copy, or delete the folder and "
            "train anew"
        ) from exc
    return content


def _check_processes(recipe: Recipe, parallel: Parallel) -> None:
    if recipe.accumulate < parallel.size:
        raise UsageError(
            f"a step has {recipe.accumulate} batches (accumulate) for {parallel.size} processes, so some would have "
            f"nothing to do; set accumulate to {parallel.size} or a multiple, or start fewer processes"
        )
    if recipe.optimizer == "muon" and parallel.sharded:
        raise UsageError("optimizer muon needs whole matrices, which fsdp divides; use adamw, or parallel mode ddp")


def _data_digest(*data: Sequence[Group]) -> str:
    """Tells data sets apart, so that a run does not go on with another."""
    digest = blake2b(digest_size=8)
    for groups in data:
        digest.update(f"{len(groups)}\n".encode())
        for item in groups:
            digest.update(repr(item).encode())
    return digest.hexdigest()


def _optimizers(recipe: Recipe, learner: Learner) -> list[torch.optim.Optimizer]:
    """AdamW with a rate for the encoder and one for the rest; or Muon for the encoder's inner matrices."""
    encoder = list(learner.network.encoder.named_parameters())
    inner = {name for name, weight in encoder if weight.dim() == 2 and "embeddings" not in name}
    muon = [weight for name, weight in encoder if recipe.optimizer == "muon" and name in inner]
    slow = [weight for name, weight in encoder if not (recipe.optimizer == "muon" and name in inner)]
    known = {id(weight) for _, weight in encoder}
    fast = [weight for weight in learner.parameters() if id(weight) not in known]
    # FSDP divides all but single numbers, and the two sorts do not mix in a group.
    groups = [
        (slow, recipe.encoder_rate),
        ([weight for weight in fast if weight.dim()], recipe.head_rate),
        ([weight for weight in fast if not weight.dim()], recipe.head_rate),
    ]
    adamw = torch.optim.AdamW(
        [{"params": weights, "lr": rate, "peak": rate} for weights, rate in groups if weights],
        betas=(0.9, 0.98),
        weight_decay=recipe.weight_decay,
    )
    if not muon:
        return [adamw]
    from candidates.training.muon import Muon

    orthogonal = Muon(muon, lr=recipe.encoder_rate, decay=recipe.weight_decay)
    for group in orthogonal.param_groups:
        group["peak"] = recipe.encoder_rate
    return [adamw, orthogonal]


def _bar(run: _Run, shown: bool) -> Any:
    from tqdm import tqdm

    return tqdm(total=run.steps, initial=run.place.step, unit="step", disable=not shown, leave=False, desc="training")
