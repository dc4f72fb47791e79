"""An encoder that has read source and translation together, by hidden words and wrong words of either side.

The encoder of a translation model reads one language at a time. Here it reads `<s> source </s></s> target </s>`, some
tokens of either side are hidden, and it predicts them from what is left of both (Conneau and Lample 2019): to fill a
gap in the German it must look up the English word, which is what a metric of adequacy needs. Runs of tokens are hidden
rather than single ones, so that the rest of a word does not give it away. Other words are exchanged for words of other
sentences or with their neighbours, and it classifies each token as the original one or not (Clark et al. 2020). A
checkpoint holds everything, so a run that was stopped continues as if it had not been.

    encoder, tokenizer = start_from_translator(folder, layers=4)
    pretrain(encoder, tokenizer, pairs, development_pairs, Path("work/joint"), JointRecipe())
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
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
    replaced: float = 0.1  # share of whole words that become words of other sentences
    swapped: float = 0.05  # share of whole words that change places with the next one
    detection: float = 5.0  # weight of finding them, beside naming hidden tokens
    matrix_rate: float = 2e-3
    other_rate: float = 1e-3
    warm_up: int = 100
    cool_down: float = 0.3
    seed: int = 1

    def rate(self, step: int) -> float:
        """Share of the peak learning rate at a step."""
        falling = (self.steps - step) / (self.steps * self.cool_down)
        return max(0.0, min(1.0, (step + 1) / self.warm_up, falling))

    def cooling(self, step: int) -> bool:
        """Whether the rate has begun to fall."""
        return step >= self.steps * (1 - self.cool_down)


class Reader(nn.Module):
    """The encoder, a layer that names hidden tokens by the encoder's embeddings, and one that finds wrong tokens."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        width = encoder.config.hidden_size
        self.encoder = encoder
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))
        self.detector = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, ids: Tensor, attention: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [hidden tokens, vocabulary] at the places [hidden tokens, 2], and of being wrong [pairs, tokens]."""
        states = self.encoder(input_ids=ids, attention_mask=attention).last_hidden_state
        asked = self.transform(states[places[:, 0], places[:, 1]])
        table = self.encoder.embeddings.word_embeddings.weight
        names = functional.linear(asked, table / table.shape[1] ** 0.5, self.bias)
        return names, self.detector(states).squeeze(-1)


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
    began, losses = time.monotonic(), []
    for batch, seed in run.remaining(pairs):
        losses.append(run.learn(batch, seed))
        if run.step % every == 0 or run.step == recipe.steps:
            line = {
                "step": run.step,
                "epoch": run.epoch,
                "train_loss": round(sum(losses) / len(losses), 4),
                **run.measure(measured),
                "steps_per_second": round(every / (time.monotonic() - began), 3),
            }
            with (work / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")
            run.save()
            began, losses = time.monotonic(), []
    encoder.eval()


class _Run:
    """Weights, optimizers and place in the data of one training."""

    def __init__(self, encoder: Any, tokenizer: Any, checkpoint: Path, recipe: JointRecipe) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.checkpoint = checkpoint
        self.model = Reader(encoder)
        self._layout = Layout.of(tokenizer, encoder.config)
        self._store = TokenStore(tokenizer, limit=10**12)
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self._begins_word = np.array([piece.startswith("▁") and len(piece) > 1 for piece in pieces])
        self._ends_word = self._begins_word | np.array([not any(map(str.isalnum, piece)) for piece in pieces])
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

    def learn(self, batch: Batch, seed: str) -> float:
        """One step; returns its loss."""
        self.model.train()
        result = self._read(batch, seed)
        loss = result.naming + self.recipe.detection * result.detection
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, peak in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * self.recipe.rate(self.step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return float(loss.item())

    def measure(self, batches: Sequence[Batch]) -> dict[str, float]:
        """On pairs that are not learnt from: losses, hidden tokens named, wrong ones found, false alarms (shares)."""
        self.model.eval()
        with torch.no_grad():
            results = [self._read(batch, f"development {place}") for place, batch in enumerate(batches)]
        hidden, wrong, sound = (sum(getattr(r, name) for r in results) for name in ("hidden", "wrong", "sound"))
        seen = wrong + sound
        return {
            "dev_naming": round(sum(r.naming.item() * r.hidden for r in results) / hidden, 4),
            "dev_named": round(sum(r.named for r in results) / hidden, 4),
            "dev_detection": round(sum(r.detection.item() * (r.wrong + r.sound) for r in results) / seen, 4),
            "dev_found": round(sum(r.found for r in results) / wrong, 4),
            "dev_false_alarms": round(sum(r.false_alarms for r in results) / sound, 4),
        }

    def _read(self, batch: Batch, seed: str) -> _Reading:
        rng = np.random.default_rng(list(seed.encode()))
        content = np.asarray(batch.spans.any(axis=1))
        places = hidden_places(content, self.recipe, rng)
        ids = self._with_wrong_words(batch, places, rng)
        wrong = torch.from_numpy(ids != batch.ids)
        asked = content.copy()
        asked[places[:, 0], places[:, 1]] = False
        golden = torch.from_numpy(batch.ids[places[:, 0], places[:, 1]])
        ids[places[:, 0], places[:, 1]] = HIDDEN_TOKEN
        with torch.autocast("cpu", torch.bfloat16):
            names, doubts = self.model(
                torch.from_numpy(ids), torch.from_numpy(batch.attention).long(), torch.from_numpy(places)
            )
        labels, doubt = wrong[torch.from_numpy(asked)], doubts[torch.from_numpy(asked)].float()
        return _Reading(
            naming=functional.cross_entropy(names.float(), golden),
            detection=functional.binary_cross_entropy_with_logits(doubt, labels.float()),
            hidden=len(places),
            named=int((names.argmax(dim=-1) == golden).sum()),
            wrong=int(labels.sum()),
            found=int((doubt > 0)[labels].sum()),
            sound=int((~labels).sum()),
            false_alarms=int((doubt > 0)[~labels].sum()),
        )

    def _with_wrong_words(self, batch: Batch, hidden: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """The ids with some words of one token exchanged, for words of the same side elsewhere or with the next one."""
        ids = batch.ids.copy()
        content = np.asarray(batch.spans.any(axis=1))
        whole = content & self._begins_word[ids] & np.roll(self._ends_word[ids] | ~content, -1, axis=1)
        whole[hidden[:, 0], hidden[:, 1]] = False
        first = whole & np.roll(whole, -1, axis=1) & (rng.random(ids.shape) < self.recipe.swapped)
        first[:, 1:] &= ~first[:, :-1]
        rows, columns = np.nonzero(first)
        ids[rows, columns], ids[rows, columns + 1] = batch.ids[rows, columns + 1], batch.ids[rows, columns]
        for side in range(batch.spans.shape[1]):
            of_side = whole & batch.spans[:, side]
            chosen = of_side & (ids == batch.ids) & (rng.random(ids.shape) < self.recipe.replaced)
            ids[chosen] = rng.choice(batch.ids[of_side], int(chosen.sum())) if chosen.any() else []
        return ids

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
        """Continue from the checkpoint; the number of steps may change until the rate falls."""
        state: dict[str, Any] = torch.load(self.checkpoint, weights_only=True)
        before, step = JointRecipe(**state["recipe"]), state["place"][0]
        early = not before.cooling(step) and not self.recipe.cooling(step)
        if (replace(before, steps=self.recipe.steps) if early else before) != self.recipe:
            raise UsageError(f"{self.checkpoint} comes from another recipe: {state['recipe']}; train in another folder")
        self.model.load_state_dict(state["model"])
        for (optimizer, _), saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.epoch, self.place = state["place"]
        torch.set_rng_state(state["random"])


@dataclass(frozen=True)
class _Reading:
    """Losses of a batch, per token, and counts of tokens."""

    naming: Tensor
    detection: Tensor
    hidden: int
    named: int
    wrong: int
    found: int
    sound: int
    false_alarms: int


def hidden_places(content: NDArray[np.bool_], recipe: JointRecipe, rng: np.random.Generator) -> NDArray[np.int64]:
    """(row, column) of the tokens to hide [hidden tokens, 2]: runs of content tokens, at least one in each pair."""
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
