"""One step of training: batches in, changed weights out. With several processes each takes its share of the batches.

Gradients are summed over the processes, so their number does not change what is learned.
"""

from __future__ import annotations

import contextlib
import math
import time

import numpy as np
import torch

from pear.training.batches import Batcher
from pear.training.learner import Learner, losses, make_optimizers, weighted
from pear.training.parallel import Parallel
from pear.training.plan import Step
from pear.training.precision import autocast_of
from pear.training.recipe import Recipe


class Optimisation:
    """The learner as `parallel` wraps it, its optimizers, and sums of the losses since the last measurement."""

    def __init__(self, recipe: Recipe, learner: Learner, batcher: Batcher, parallel: Parallel) -> None:
        self._recipe, self._learner, self._batcher, self._parallel = recipe, learner, batcher, parallel
        self._device = torch.device(parallel.device)
        self.wrapped = parallel.wrap(learner, freezes=recipe.freeze_encoder > 0)
        torch.manual_seed(recipe.seed + parallel.rank)
        self.optimizers = make_optimizers(recipe, learner)
        self._autocast = autocast_of(self._device, recipe.dtype)
        self.norm = 0.0
        self.start_sums()

    def start_sums(self) -> None:
        """Count losses, examples and tokens from here on."""
        names = ("loss", "flip", "words") if self._learner.words is not None else ("loss", "flip")
        self._losses = dict.fromkeys(names, 0.0)
        self._examples = 0
        self._tokens = 0
        self._began = time.monotonic()

    def add_gradients(self, step: Step, *, freeze_encoder: bool) -> float:
        """The gradient of the mean loss over all examples of a step, clipped; returns the norm it had."""
        self.wrapped.train()
        self._learner.frozen = freeze_encoder
        total = sum(len(rows) for rows, _ in step)
        share = self._parallel.share(step)
        for number, ((rows, flipped), counts) in enumerate(share):
            batch = self._batcher.lay_out(rows, flipped=flipped).to(self._device)
            last = number == len(share) - 1
            with contextlib.nullcontext() if last else self._parallel.no_sync(self.wrapped):
                with self._autocast():
                    scores, words = self.wrapped(batch)
                parts = losses(self._recipe, scores.float(), words, batch)
                loss = weighted(self._recipe, parts) / total
                # Processes average their gradients; the sum is wanted.
                (loss * self._parallel.size * counts).backward()
            if counts:
                for name, value in parts.items():
                    self._losses[name] += float(value.detach())
                self._tokens += int(batch.attention.sum())
        self._examples += total
        self.norm = self._parallel.clip(self.wrapped, self._recipe.clip or math.inf)
        return self.norm

    def update(self, rate: float) -> None:
        """Change the weights by the gradients, with this share of the peak learning rates."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def loss_of_this_process(self) -> float:
        """The mean loss, estimated from this process's share: for a progress bar."""
        return self._losses["loss"] * self._parallel.size / max(self._examples, 1)

    def means(self) -> tuple[dict[str, float], float]:
        """Mean losses by name and tokens per second, over all processes, since `start_sums`."""
        speed = self._tokens / self.seconds()
        sums = self._parallel.total(np.array([speed, *self._losses.values()]))
        means = (sums[1:] / max(self._examples, 1)).tolist()
        return dict(zip(self._losses, means, strict=True)), float(sums[0])

    def seconds(self) -> float:
        """Time since `start_sums`."""
        return max(time.monotonic() - self._began, 1e-9)
