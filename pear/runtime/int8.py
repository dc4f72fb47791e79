"""Linear layers in int8: weights with a scale per output, inputs with a scale per token, sums in 32-bit integers.

A layer of a loaded network is replaced by one that multiplies in integers (oneDNN, which is part of torch). The scale
of a token is computed as it comes (dynamic quantisation), so nothing is calibrated; and because sums of integers are
exact, a token has the same result whatever else its batch holds. Everything between the linear layers stays in float32.

    quantise(network.encoder)      # in place; the float32 weights of its linear layers are released
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

LEVELS = 127  # of a sign; -128 is left out, so that both signs have the same scale
TINY = 1e-12  # keeps a row of zeros from dividing by zero
ATTENTION = ("query", "key", "value")  # layers of an attention, which all read the same input
ROWS = 512  # tokens at a time: what lies between integers and result stays in the processor's cache


@dataclass(frozen=True)
class Affine:
    """A matrix [out, in] and a bias [out] that are multiplied with as those of a linear layer are."""

    weight: Tensor
    bias: Tensor


@runtime_checkable
class OwnProducts(Protocol):
    """A module that multiplies by weights of its own, such as an embedding, beside its linear layers."""

    def quantise_own(self) -> None:
        """Compute these products in int8 from now on; the weights stay for other uses."""


class Int8Linear(nn.Module):
    """A linear layer, made from one in floating point, or from several with the same input, side by side."""

    weight: Tensor
    scales: Tensor
    bias: Tensor

    def __init__(self, *layers: nn.Linear | Affine) -> None:
        super().__init__()
        self.in_features = layers[0].weight.shape[1]
        self.out_features = sum(layer.weight.shape[0] for layer in layers)
        levels, scales = rounded(torch.cat([layer.weight.detach().float() for layer in layers]))
        self.register_buffer("weight", levels, persistent=False)  # [out, in], int8
        self.register_buffer("scales", scales[:, 0].contiguous(), persistent=False)  # [out]
        self.register_buffer("bias", torch.cat([_bias(layer) for layer in layers]), persistent=False)  # [out]

    def forward(self, values: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features], in the precision of the input."""
        rows = values.reshape(-1, self.in_features).float()  # [tokens, in_features]
        result = torch.empty(len(rows), self.out_features)
        for some, place in zip(rows.split(ROWS), result.split(ROWS), strict=True):
            levels, scales = rounded(some)
            sums = torch._int_mm(levels, self.weight.t())  # [tokens, out_features], int32
            torch.addcmul(self.bias, sums.float().mul_(scales), self.scales, out=place)
        return result.to(values.dtype).view(*values.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def quantise(module: nn.Module) -> None:
    """Replace every linear layer inside a module, in place; query, key and value of an attention become one."""
    if isinstance(module, OwnProducts):
        module.quantise_own()
    children = dict(module.named_children())
    attention = [children.get(name) for name in ATTENTION]
    if all(type(layer) is nn.Linear for layer in attention):
        for name, share in zip(ATTENTION, shares(cast(list[nn.Linear], attention)), strict=True):
            setattr(module, name, share)
    for name, child in children.items():
        if name in ATTENTION and type(getattr(module, name)) is Share:
            continue
        if type(child) is nn.Linear:
            setattr(module, name, Int8Linear(child))
        else:
            quantise(child)


class Share(nn.Module):
    """One of several layers with the same input, computed together when the first of them is called.

    The results of the others wait, in this thread, until they are called with the very same tensor; with another one,
    all are computed again.
    """

    def __init__(self, joint: Int8Linear, sizes: list[int], number: int, waiting: _Waiting) -> None:
        super().__init__()
        self.joint = joint
        self._sizes, self._number, self._waiting = sizes, number, waiting

    def forward(self, values: Tensor) -> Tensor:
        waiting = self._waiting
        if waiting.values is not values or self._number not in waiting.results:
            waiting.values = values
            waiting.results = dict(enumerate(self.joint(values).split(self._sizes, dim=-1)))
        result = waiting.results.pop(self._number)
        if not waiting.results:
            waiting.values = None
        return result


class _Waiting(threading.local):
    """Results of an input that were not asked for yet, by the number of the layer."""

    values: Tensor | None = None

    def __init__(self) -> None:
        self.results: dict[int, Tensor] = {}


def shares(layers: list[nn.Linear]) -> list[Share]:
    """The same layers, computed together."""
    joint, sizes, waiting = Int8Linear(*layers), [layer.out_features for layer in layers], _Waiting()
    return [Share(joint, sizes, number, waiting) for number in range(len(layers))]


def rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [n, size] as int8 levels [n, size], and the scale [n, 1] of each: a row is about levels * scale."""
    largest = torch.maximum(rows.amax(dim=1, keepdim=True), rows.amin(dim=1, keepdim=True).neg_())
    scales = largest.clamp_min_(TINY).div_(LEVELS)
    return (rows * scales.reciprocal()).round_().to(torch.int8), scales


@functools.cache
def has_int8() -> bool:
    """Whether torch multiplies int8 exactly here: on processors without VNNI, sums of large products may saturate."""
    layer = nn.Linear(64, 16, bias=False)
    with torch.inference_mode():
        layer.weight.fill_(1.0)
        signs = torch.ones(4, 64) * torch.tensor([[1.0], [-1.0], [0.5], [0.0]])
        try:
            return bool((Int8Linear(layer)(signs) - 64 * signs[:, :1]).abs().max() < 1e-3)
        except (RuntimeError, AttributeError, NotImplementedError):  # a torch without this operator
            return False


def _bias(layer: nn.Linear | Affine) -> Tensor:
    return torch.zeros(layer.weight.shape[0]) if layer.bias is None else layer.bias.detach().float()
