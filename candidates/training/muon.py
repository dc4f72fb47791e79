"""Muon: momentum made orthogonal, for the matrices inside a Transformer (Jordan et al., 2024).

torch has it too, but always multiplies in bfloat16, which CPUs without the instructions emulate slowly; here the
precision is an option.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

# The quintic of the Newton-Schulz iteration: pushes all singular values to about one in five rounds.
_QUINTIC = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """For two-dimensional weights; `lr` is on AdamW's scale, since updates get AdamW's usual size of 0.2 per weight."""

    def __init__(
        self,
        params: Iterable[torch.Tensor],
        lr: float,
        momentum: float = 0.95,
        decay: float = 0.0,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})
        self._precision = precision

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update of all weights, those of one shape together."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[torch.Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for (rows, columns), weights in shapes.items():
                directions = []
                for weight in weights:
                    buffer = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                    buffer.lerp_(weight.grad, 1 - group["momentum"])
                    directions.append(weight.grad.lerp(buffer, group["momentum"]))
                updates = orthogonal(torch.stack(directions).to(self._precision)).float()
                scale = group["lr"] * 0.2 * max(rows, columns) ** 0.5
                for weight, update in zip(weights, updates, strict=True):
                    weight.mul_(1 - group["lr"] * group["decay"]).sub_(update, alpha=scale)


def orthogonal(matrices: torch.Tensor, rounds: int = 5) -> torch.Tensor:
    """The nearest matrices [count, rows, columns] with singular values near one."""
    a, b, c = _QUINTIC
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x
