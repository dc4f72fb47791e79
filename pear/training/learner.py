"""What learns: a network with a layer for numbers of words beside it, its losses and its optimizers."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor, nn
from torch.nn import functional

from candidates.common.errors import ModelError, UsageError
from pear.model import PearNetwork
from pear.runtime.precision import has_bf16
from pear.training.batches import TrainingBatch
from pear.training.recipe import Recipe
from pear.training.translation_memory import keep_translations


class Learner(nn.Module):
    """The network, and a layer for numbers of words that training may use and the metric does not.

    While `frozen`, only the head learns.
    """

    def __init__(self, network: PearNetwork, channels: int) -> None:
        super().__init__()
        self.network = network
        self.frozen = False
        self.words = nn.Linear(network.encoder.config.hidden_size, channels) if channels else None

    @classmethod
    def of(cls, recipe: Recipe, network: PearNetwork, channels: int) -> Learner:
        """The learner of a recipe: gradient checkpointing and the scale of the scores set as it asks.

        Raises:
            ModelError: the network is of another kind than the recipe.
            UsageError: gradient checkpointing of an encoder that cannot do it.
        """
        if network.kind != recipe.kind:
            raise ModelError(
                f"the network is a {network.kind}, the recipe wants a {recipe.kind}; begin with a network of that kind"
            )
        if recipe.gradient_checkpointing:
            if not hasattr(network.encoder, "gradient_checkpointing_enable"):
                raise UsageError("gradient_checkpointing is for encoders of transformers, which this model has not")
            network.encoder.supports_gradient_checkpointing = True  # XLM-R XL before transformers 5 does not say so
            # The older way, still the default of some versions, does not work with DDP and FSDP.
            network.encoder.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        keep_translations(network.encoder)
        scale = getattr(network.head, "_alpha_raw", None)
        if scale is not None:
            scale.requires_grad_(recipe.learn_scale)
        return cls(network, channels)

    def forward(self, batch: TrainingBatch) -> tuple[Tensor, Tensor | None]:
        """Scores [rows], and predictions [words, channels] where the batch has word targets."""
        with torch.no_grad() if self.frozen else contextlib.nullcontext():
            hidden = self.network.encode(*self.network.inputs(batch.ids, batch.attention.long(), batch.spans))
        scores = self.network.score(hidden, batch.spans)
        if self.words is None:
            return scores, None
        if batch.word_places is None:  # every weight must take part, or processes wait for each other
            return scores + 0 * sum(weight.sum() for weight in self.words.parameters()), None
        rows, columns = batch.word_places.T
        return scores, self.words(hidden[rows, columns].float())


def losses(recipe: Recipe, scores: Tensor, words: Tensor | None, batch: TrainingBatch) -> dict[str, Tensor]:
    """Sums over the batch by name: `loss` of the differences, `flip`, and `words` where the batch has word targets."""
    count = len(batch.targets)
    if recipe.loss == "huber":
        main = functional.huber_loss(scores[:count], batch.targets, delta=recipe.huber_delta, reduction="sum")
    else:
        main = functional.mse_loss(scores[:count], batch.targets, reduction="sum")
    flip = (scores[:count] + scores[count:]).square().sum() if batch.flipped else scores.new_zeros(())
    parts = {"loss": main, "flip": flip}
    if words is not None and batch.word_targets is not None:
        parts["words"] = functional.mse_loss(words, batch.word_targets, reduction="mean") * count
    return parts


def weighted(recipe: Recipe, parts: dict[str, Tensor]) -> Tensor:
    """The objective: the sum of the losses by the weights of the recipe."""
    loss = parts["loss"] + recipe.flip * parts["flip"]
    return loss + recipe.word_weight * parts["words"] if "words" in parts else loss


def make_optimizers(recipe: Recipe, learner: Learner) -> list[torch.optim.Optimizer]:
    """AdamW with one rate for the encoder and one for the rest; or Muon for the inner matrices of the encoder."""
    encoder = [(name, weight) for name, weight in learner.network.encoder.named_parameters() if weight.requires_grad]
    inner = {name for name, weight in encoder if weight.dim() == 2 and "embeddings" not in name}
    muon = [weight for name, weight in encoder if recipe.optimizer == "muon" and name in inner]
    slow = [weight for name, weight in encoder if not (recipe.optimizer == "muon" and name in inner)]
    encoder_ids = {id(weight) for weight in learner.network.encoder.parameters()}
    fast = [weight for weight in learner.parameters() if id(weight) not in encoder_ids]
    # FSDP divides all weights but single numbers, and the two sorts do not mix in a group.
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

    half = recipe.dtype != "float32" and has_bf16(muon[0].device)
    precision = torch.bfloat16 if half else torch.float32
    orthogonal = Muon(muon, lr=recipe.encoder_rate, decay=recipe.weight_decay, precision=precision)
    for group in orthogonal.param_groups:
        group["peak"] = recipe.encoder_rate
    return [adamw, orthogonal]
