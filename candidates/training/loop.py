"""Trains a small translation model on one machine without a GPU: pairs in, a CTranslate2 folder out.

The learning rate rises, stays, and falls linearly to zero over the last steps; label smoothing and the sampling of
segmentations end where the fall begins, so that the final probabilities are those of the data. A checkpoint holds
everything (weights, optimizers, random state, place in the data): a run that was killed continues as if nothing had
happened.

    recipe = Recipe(steps=12000)
    train(recipe, read_pairs(file, "train"), read_pairs(file, "dev"), Path("work"))
"""

from __future__ import annotations

import io
import json
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import sentencepiece
import torch
from torch.nn import functional

from candidates.common.errors import InputError, UsageError
from candidates.common.text import atomic_output
from candidates.training.ct2_weights import fill_translator
from candidates.training.muon import Muon
from candidates.training.network import Sizes, Translator

Pair = tuple[list[int], list[int]]
BOS, EOS, PAD = 1, 2, 3


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a training run learns."""

    steps: int
    cool_down: float = 0.3
    warm_up: int = 100
    batch_tokens: int = 2048
    matrix_rate: float = 4e-3
    other_rate: float = 4e-3
    weight_decay: float = 0.05
    smoothing: float = 0.1
    vocabulary: int = 6000
    width: int = 256
    encoder_layers: int = 4
    decoder_layers: int = 2
    dropout: float = 0.1
    longest: int = 100
    seed: int = 1
    # A CTranslate2 folder of this package whose weights and vocabulary the training starts from.
    start: str = ""
    # Subword regularisation (Kudo 2018): segmentations are sampled anew each epoch; 0 takes the best one.
    sampling: float = 0.0
    precision: Literal["float32", "bf16"] = "float32"

    def rate(self, step: int) -> float:
        """Share of the peak learning rate at a step."""
        falling = (self.steps - step) / (self.steps * self.cool_down)
        return max(0.0, min(1.0, (step + 1) / self.warm_up, falling))

    def cooling(self, step: int) -> bool:
        """Whether the fall has begun."""
        return step >= self.steps * (1 - self.cool_down)


def train(
    recipe: Recipe, pairs: Iterable[tuple[str, str]], dev: Iterable[tuple[str, str]], work: Path, *, every: int = 100
) -> Translator:
    """Train, or continue to train, in the folder `work` (tokenizer, checkpoint, log); returns the final model."""
    work.mkdir(parents=True, exist_ok=True)
    texts = list(pairs)
    if not texts:
        raise InputError("no sentence pairs to learn from")
    if recipe.start and not (work / "sentencepiece.model").exists():
        shutil.copyfile(Path(recipe.start, "sentencepiece.model"), work / "sentencepiece.model")
    tokenizer = _tokenizer(recipe, texts, work / "sentencepiece.model")
    corpus = _Corpus(recipe, tokenizer, texts)
    dev_data = list(_encoded(tokenizer.encode, dev, recipe.longest))
    if not corpus.best or not dev_data:
        raise InputError(f"no pairs of at most {recipe.longest} tokens to learn from, or none to measure with")
    dev_batches = batches(dev_data, recipe.batch_tokens, seed="dev")
    run = _Run(recipe, tokenizer.get_piece_size(), work / "checkpoint.pt")
    torch.manual_seed(recipe.seed)
    run.load()
    began, tokens, total = time.monotonic(), 0, 0.0
    for source, target in run.remaining(corpus):
        loss, count = run.learn(source, target)
        tokens, total = tokens + count, total + loss * count
        if run.step % every == 0 or run.step == recipe.steps:
            line = {
                "step": run.step,
                "epoch": run.epoch,
                "train_loss": round(total / tokens, 4),
                "dev_loss": round(run.loss_on(dev_batches), 4),
                "rate": round(recipe.rate(run.step), 4),
                "tokens_per_second": round(tokens / (time.monotonic() - began)),
            }
            with (work / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")
            run.save()
            began, tokens, total = time.monotonic(), 0, 0.0
    run.model.eval()
    return run.model


def batches(pairs: list[Pair], batch_tokens: int, seed: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Shuffled batches of one source length each, targets padded: [batch, source tokens], [batch, target tokens]."""
    draw = random.Random(seed)
    by_length: dict[int, list[tuple[float, Pair]]] = {}
    for pair in pairs:
        by_length.setdefault(len(pair[0]), []).append((len(pair[1]) + 2 * draw.random(), pair))
    groups: list[list[Pair]] = []
    for _, keyed in sorted(by_length.items()):
        keyed.sort(key=lambda entry: entry[0])
        group: list[Pair] = []
        longest = 0
        for _, pair in keyed:
            longest = max(longest, len(pair[1]))
            if group and (len(group) + 1) * longest > batch_tokens:
                groups.append(group)
                group, longest = [], len(pair[1])
            group.append(pair)
        groups.append(group)
    draw.shuffle(groups)
    return [(torch.tensor([source for source, _ in group]), _padded([t for _, t in group])) for group in groups]


class _Run:
    """Model, optimizers and place in the data of a training run."""

    def __init__(self, recipe: Recipe, vocabulary: int, checkpoint: Path) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.checkpoint = checkpoint
        self.model = Translator(
            Sizes(
                vocabulary,
                width=recipe.width,
                feed_forward=4 * recipe.width,
                heads=recipe.width // 64,
                encoder_layers=recipe.encoder_layers,
                decoder_layers=recipe.decoder_layers,
                dropout=recipe.dropout,
            )
        )
        if recipe.start and not checkpoint.exists():
            fill_translator(self.model, Path(recipe.start))
        self._dtype = torch.bfloat16 if recipe.precision == "bf16" else torch.float32
        inner = [w for name, w in self.model.named_parameters() if w.dim() == 2 and not name.startswith("embedding")]
        matrices = {id(weight) for weight in inner}
        others = [weight for weight in self.model.parameters() if id(weight) not in matrices]
        self.optimizers: list[tuple[torch.optim.Optimizer, float]] = [
            (
                Muon(inner, lr=recipe.matrix_rate, decay=recipe.weight_decay, precision=self._dtype),
                recipe.matrix_rate,
            ),
            (torch.optim.AdamW(others, lr=recipe.other_rate, betas=(0.9, 0.98), weight_decay=0.0), recipe.other_rate),
        ]
        self.step = 0
        self.epoch = 0
        self.place = 0

    def remaining(self, corpus: _Corpus) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The batches still to learn from, epoch after epoch."""
        while self.step < self.recipe.steps:
            data = corpus.of_epoch(self.epoch, first_step=self.step - self.place)
            epoch = batches(data, self.recipe.batch_tokens, seed=f"{self.recipe.seed} {self.epoch}")
            for batch in epoch[self.place :]:
                self.place += 1
                yield batch
                if self.step == self.recipe.steps:
                    return
            self.epoch, self.place = self.epoch + 1, 0

    def learn(self, source: torch.Tensor, target: torch.Tensor) -> tuple[float, int]:
        """One step; returns its loss per token and its number of tokens."""
        self.model.train()
        smoothing = 0.0 if self.recipe.cooling(self.step) else self.recipe.smoothing
        loss, count = self._loss(source, target, smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, peak in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * self.recipe.rate(self.step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return loss.item(), count

    @torch.no_grad()
    def loss_on(self, dev: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
        """Mean negative log-probability per target token."""
        self.model.eval()
        results = [self._loss(source, target, 0.0) for source, target in dev]
        total: float = sum(loss.item() * count for loss, count in results)
        return total / sum(count for _, count in results)

    def _loss(self, source: torch.Tensor, target: torch.Tensor, smoothing: float) -> tuple[torch.Tensor, int]:
        gold = target[:, 1:]
        keep = gold != PAD
        with torch.autocast("cpu", self._dtype, enabled=self._dtype != torch.float32):
            logits = self.model(source, target[:, :-1], keep)  # [kept tokens, vocabulary]
        return functional.cross_entropy(logits.float(), gold[keep], label_smoothing=smoothing), int(keep.sum())

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

    def load(self) -> None:
        if not self.checkpoint.exists():
            return
        state: dict[str, Any] = torch.load(self.checkpoint, weights_only=True)
        self._check_recipe(Recipe(**state["recipe"]), state["place"][0])
        self.model.load_state_dict(state["model"])
        for (optimizer, _), saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.epoch, self.place = state["place"]
        torch.set_rng_state(state["random"])

    def _check_recipe(self, before: Recipe, step: int) -> None:
        """Raise UsageError if the recipe changed; the number of steps may change until the learning rate falls."""
        early = not before.cooling(step) and not self.recipe.cooling(step)
        after = replace(before, steps=self.recipe.steps, cool_down=self.recipe.cool_down) if early else before
        if after != self.recipe:
            raise UsageError(
                f"{self.checkpoint} comes from another recipe: {before}; continue with it, or train in another folder"
            )


def _tokenizer(recipe: Recipe, texts: list[tuple[str, str]], file: Path) -> Any:
    if not file.exists():
        learn_pieces([text for pair in texts for text in pair], recipe.vocabulary, file)
    return sentencepiece.SentencePieceProcessor(model_file=str(file))


def learn_pieces(texts: Iterable[str], vocabulary: int, file: Path) -> None:
    """Learn a unigram vocabulary of at most `vocabulary` pieces, with bytes for characters that are not in it."""
    model = io.BytesIO()  # with a file name as target, its folder would be stored in the model
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=vocabulary,
        hard_vocab_limit=False,
        model_type="unigram",
        byte_fallback=True,
        character_coverage=0.9995,
        unk_id=0,
        bos_id=BOS,
        eos_id=EOS,
        pad_id=PAD,
        num_threads=1,
        minloglevel=2,
    )
    with atomic_output(file) as stream:
        stream.write(model.getvalue())


class _Corpus:
    """The training pairs as ids: their best segmentation, or another sample of segmentations for each epoch."""

    def __init__(self, recipe: Recipe, tokenizer: Any, texts: list[tuple[str, str]]) -> None:
        self._recipe = recipe
        self._tokenizer = tokenizer
        self._texts = texts
        self.best = list(_encoded(tokenizer.encode, texts, recipe.longest))

    def of_epoch(self, epoch: int, first_step: int) -> list[Pair]:
        """The same for the same epoch, so that a run can continue in the middle of it."""
        if not self._recipe.sampling or self._recipe.cooling(first_step):
            return self.best
        sample = partial(self._tokenizer.encode, enable_sampling=True, nbest_size=-1, alpha=self._recipe.sampling)
        sentencepiece.set_random_generator_seed(self._recipe.seed * 100_003 + epoch)
        # sentencepiece reads the seed when a thread draws its first number, and never again.
        with ThreadPoolExecutor(1) as fresh_thread:
            return fresh_thread.submit(lambda: list(_encoded(sample, self._texts, self._recipe.longest))).result()


def _encoded(encode: Callable[[str], list[int]], pairs: Iterable[tuple[str, str]], longest: int) -> Iterator[Pair]:
    for source, target in pairs:
        pair = [*encode(source), EOS], [BOS, *encode(target), EOS]
        if max(map(len, pair)) <= longest:
            yield pair


def _padded(rows: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
