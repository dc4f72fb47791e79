"""An encoder that has read source and translation together, by masked words of either side.

The encoder of a translation model reads one language at a time. Here it reads `<s> source </s></s> target </s>`, some
tokens of either side are hidden, and it predicts them from what is left of both (Conneau and Lample 2019): to fill a
gap in the German it must look up the English word, which is what a metric of adequacy needs. Runs of tokens are hidden
rather than single ones, so that the rest of a word does not give it away. A checkpoint holds everything, so a run that
was stopped continues as if it had not been.

    encoder, tokenizer = start_from_translator(folder, layers=4)
    pretrain(encoder, tokenizer, pairs, development_pairs, Path("work/joint"), JointRecipe())
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from candidates.common.errors import UsageError
from candidates.common.text import atomic_output
from candidates.training.muon import Muon
from pear.runtime.token_store import TokenStore
from pear.serialize import Batch, Layout, lay_out, share_budget

HIDDEN_TOKEN = 4  # `<unused>` of pear.training.translator.tokenizer_of_pieces
Pair = tuple[str, str]


@dataclass(frozen=True)
class JointRecipe:
    """What decides the outcome of the pretraining."""

    steps: int = 3000
    batch_tokens: int = 4096
    hidden: float = 0.25  # share of content tokens
    run: float = 2.0  # mean number of tokens hidden together
    matrix_rate: float = 2e-3
    other_rate: float = 1e-3
    warm_up: int = 100
    cool_down: float = 0.3
    seed: int = 1

    def rate(self, step: int) -> float:
        """Share of the peak learning rate at a step."""
        falling = (self.steps - step) / (self.steps * self.cool_down)
        return max(0.0, min(1.0, (step + 1) / self.warm_up, falling))


class Filler(nn.Module):
    """The encoder with a layer that names the hidden tokens, by the encoder's own embeddings."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        width = encoder.config.hidden_size
        self.encoder = encoder
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def forward(self, ids: Tensor, attention: Tensor, places: Tensor) -> Tensor:
        """Logits [hidden tokens, vocabulary] at places [hidden tokens, 2] of ids [pairs, tokens]."""
        states = self.encoder(input_ids=ids, attention_mask=attention).last_hidden_state
        asked = self.transform(states[places[:, 0], places[:, 1]])
        table = self.encoder.embeddings.word_embeddings.weight
        return functional.linear(asked, table / table.shape[1] ** 0.5, self.bias)


def pretrain(
    encoder: Any,
    tokenizer: Any,
    pairs: Sequence[Pair],
    dev: Sequence[Pair],
    work: Path,
    recipe: JointRecipe,
    *,
    every: int = 100,
) -> None:
    """Train the encoder in place, or continue to, with checkpoint and log in `work`."""
    work.mkdir(parents=True, exist_ok=True)
    run = _Run(encoder, tokenizer, work / "checkpoint.pt", recipe)
    measured = run.batches(dev, "development")
    began, total, count = time.monotonic(), 0.0, 0
    for batch, seed in run.remaining(pairs):
        loss, hidden = run.learn(batch, seed)
        total, count = total + loss * hidden, count + hidden
        if run.step % every == 0 or run.step == recipe.steps:
            line = {
                "step": run.step,
                "epoch": run.epoch,
                "train_loss": round(total / count, 4),
                **run.measure(measured),
                "steps_per_second": round(every / (time.monotonic() - began), 3),
            }
            with (work / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")
            run.save()
            began, total, count = time.monotonic(), 0.0, 0
    encoder.eval()


class _Run:
    """Weights, optimizers and place in the data of one training."""

    def __init__(self, encoder: Any, tokenizer: Any, checkpoint: Path, recipe: JointRecipe) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.checkpoint = checkpoint
        self.model = Filler(encoder)
        self._layout = Layout.of(tokenizer, encoder.config)
        self._store = TokenStore(tokenizer, limit=10**12)
        matrices = [
            weight
            for name, weight in self.model.named_parameters()
            if weight.dim() == 2 and "embeddings" not in name and weight.shape[0] != encoder.config.vocab_size
        ]
        chosen = {id(weight) for weight in matrices}
        others = [weight for weight in self.model.parameters() if id(weight) not in chosen]
        self.optimizers: list[tuple[torch.optim.Optimizer, float]] = [
            (Muon(matrices, lr=recipe.matrix_rate, decay=0.05, precision=torch.bfloat16), recipe.matrix_rate),
            (torch.optim.AdamW(others, lr=recipe.other_rate, betas=(0.9, 0.98), weight_decay=0.0), recipe.other_rate),
        ]
        self.step = self.epoch = self.place = 0
        if checkpoint.exists():
            self._load()

    def remaining(self, pairs: Sequence[Pair]) -> Iterator[tuple[Batch, str]]:
        """The batches still to learn from, each with the seed of what is hidden."""
        while self.step < self.recipe.steps:
            epoch = self.batches(pairs, f"{self.recipe.seed} {self.epoch}")
            for batch in epoch[self.place :]:
                self.place += 1
                yield batch, f"{self.recipe.seed} {self.epoch} {self.place}"
                if self.step == self.recipe.steps:
                    return
            self.epoch, self.place = self.epoch + 1, 0

    def batches(self, pairs: Sequence[Pair], seed: str) -> list[Batch]:
        """Pairs of about one length together, in an order drawn by the seed."""
        draw = random.Random(seed)
        numbers = self._store.number([text for pair in pairs for text in pair]).reshape(-1, 2)
        granted = share_budget(self._store.lengths[numbers], self._layout.budget(2))
        lengths = granted.sum(axis=1) + self._layout.specials(2)
        keys = np.array([length + 2 * draw.random() for length in lengths.tolist()])
        groups: list[list[int]] = []
        longest = 0
        for row in np.argsort(keys).tolist():
            longest = max(longest, int(lengths[row]))
            if not groups or (len(groups[-1]) + 1) * longest > self.recipe.batch_tokens:
                groups.append([])
                longest = int(lengths[row])
            groups[-1].append(row)
        draw.shuffle(groups)
        return [lay_out(self._layout, self._store, numbers[rows], granted[rows]) for rows in groups]

    def learn(self, batch: Batch, seed: str) -> tuple[float, int]:
        """One step; returns the loss per hidden token and their number."""
        self.model.train()
        loss, count, _ = self._loss(batch, seed)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, peak in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * self.recipe.rate(self.step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return loss.item(), count

    def measure(self, batches: Sequence[Batch]) -> dict[str, float]:
        """Loss and share of hidden tokens that are named right, on pairs that are not learnt from."""
        self.model.eval()
        with torch.no_grad():
            results = [self._loss(batch, f"development {place}") for place, batch in enumerate(batches)]
        count = sum(hidden for _, hidden, _ in results)
        return {
            "dev_loss": round(sum(loss.item() * hidden for loss, hidden, _ in results) / count, 4),
            "dev_right": round(sum(right for _, _, right in results) / count, 4),
        }

    def _loss(self, batch: Batch, seed: str) -> tuple[Tensor, int, int]:
        places = hidden_places(batch, self.recipe, seed)
        ids = batch.ids.copy()
        golden = torch.from_numpy(ids[places[:, 0], places[:, 1]])
        ids[places[:, 0], places[:, 1]] = HIDDEN_TOKEN
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(
                torch.from_numpy(ids), torch.from_numpy(batch.attention).long(), torch.from_numpy(places)
            )
        right = int((logits.argmax(dim=-1) == golden).sum())
        return functional.cross_entropy(logits.float(), golden), len(places), right

    def save(self) -> None:
        state = {
            "recipe": asdict(self.recipe),
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer, _ in self.optimizers],
            "place": (self.step, self.epoch, self.place),
            "random": torch.get_rng_state(),
        }
        with atomic_output(self.checkpoint, force=True) as temporary:
            torch.save(state, temporary)

    def _load(self) -> None:
        state: dict[str, Any] = torch.load(self.checkpoint, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise UsageError(f"{self.checkpoint} comes from another recipe: {state['recipe']}; train in another folder")
        self.model.load_state_dict(state["model"])
        for (optimizer, _), saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.epoch, self.place = state["place"]
        torch.set_rng_state(state["random"])


def hidden_places(batch: Batch, recipe: JointRecipe, seed: str) -> NDArray[np.int64]:
    """(row, column) of the tokens to hide [hidden tokens, 2]: runs of content tokens, at least one in each pair."""
    rng = np.random.default_rng(list(seed.encode()))
    content: NDArray[np.bool_] = np.asarray(batch.spans.any(axis=1))  # [pairs, tokens]
    chance = recipe.hidden / recipe.run
    hidden = content & (rng.random(content.shape) < chance)
    going = hidden.copy()
    while going.any():  # each run continues to the next token with a fixed probability
        going = np.roll(going, 1, axis=1) & content & (rng.random(content.shape) < 1 - 1 / recipe.run)
        going[:, 0] = False
        hidden |= going
    bare = np.flatnonzero(~hidden.any(axis=1) & content.any(axis=1))
    hidden[bare, np.where(content[bare], rng.random(content[bare].shape), -1).argmax(axis=1)] = True
    return np.argwhere(hidden)
