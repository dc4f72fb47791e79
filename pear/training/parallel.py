"""One process or several: what the training loop needs from either.

Start the same command under torchrun and every process takes a share of each step's batches:

    torchrun --nproc-per-node 2 $(which pear-train) --data judgments.jsonl -o model --accumulate 8

| mode | class | weights |
| --- | --- | --- |
| none | `Alone` | one process |
| ddp | `Replicated` | whole in every process (DistributedDataParallel) |
| fsdp | `Sharded` | divided among the processes (FSDP2), for encoders too large for one device |

Both ways average gradients over the processes; the loop multiplies its loss by their number to get the sum.
Checkpoints hold whole weights, so that a run may continue with another number of processes, or in another mode.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from candidates.common.errors import UsageError

MODES = ("auto", "none", "ddp", "fsdp")

Item = TypeVar("Item")
State = dict[str, Any]


class Alone:
    """A single process; also the plain meaning of every method, which the other two override."""

    sharded = False

    def __init__(self, device: str = "cpu", rank: int = 0, size: int = 1) -> None:
        self.device, self.rank, self.size = device, rank, size

    @property
    def leads(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> list[tuple[Item, bool]]:
        """This process's share of the items, as many as every other's; False marks padding."""
        rounds = -(-len(items) // self.size)
        mine = [(item, True) for item in items[self.rank :: self.size]]
        return mine + [(items[0], False)] * (rounds - len(mine))

    def wrap(self, learner: nn.Module, *, freezes: bool) -> Any:
        """Move to the device and make ready to learn; `freezes` if some weights will sit out some steps."""
        return learner.to(self.device)

    def no_sync(self, wrapped: Any) -> AbstractContextManager[Any]:
        """Gradients of all but the last batch of a step stay where they are."""
        return contextlib.nullcontext()

    def clip(self, wrapped: Any, norm: float) -> float:
        """Scale the gradients down to a norm; returns the norm they had, over all processes."""
        return float(torch.nn.utils.clip_grad_norm_(wrapped.parameters(), norm))

    def total(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the processes."""
        return values

    def state(self, learner: nn.Module) -> State:
        """All weights, whole; only the leader uses them."""
        return dict(learner.state_dict())

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> State:
        return dict(optimizer.state_dict())

    def load(self, learner: nn.Module, state: State) -> None:
        learner.load_state_dict(state)

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: State) -> None:
        optimizer.load_state_dict(state)

    def plain(self, learner: Any) -> Any:
        """A network to give whole weights to, as `best_network` does."""
        return learner.network

    def wait(self) -> None:
        """Until all processes are here."""


class Replicated(Alone):
    """Every process has the whole network; gradients meet during the last backward pass of a step."""

    def wrap(self, learner: nn.Module, *, freezes: bool) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        # Without device_ids inputs are taken as they are: the loop has moved its batch.
        return DistributedDataParallel(
            learner.to(self.device),
            gradient_as_bucket_view=True,
            find_unused_parameters=freezes,
        )

    def no_sync(self, wrapped: Any) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = wrapped.no_sync()
        return context

    def total(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        together = torch.from_numpy(values).to(self.device)
        torch.distributed.all_reduce(together)
        summed: NDArray[np.float64] = together.cpu().numpy()
        return summed

    def wait(self) -> None:
        torch.distributed.barrier()


class Sharded(Replicated):
    """Weights, gradients and optimizer state are divided by rows; layers come together only while they are used.

    A weight without rows (the scale of the scores) stays whole in every process. Gradients meet after every batch:
    to keep them until the last one, each process would need room for all.
    """

    sharded = True

    def wrap(self, learner: nn.Module, *, freezes: bool) -> Any:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        self._plain = _without_weights(learner.network)
        mesh = init_device_mesh(torch.device(self.device).type, (self.size,))
        whole = {weight for weight in learner.parameters() if not weight.dim()}
        stacks = [module for module in learner.network.encoder.modules() if isinstance(module, nn.ModuleList)]
        # Where nothing learns, a process may go without a layer (`pear.training.translation_memory`) that others wait
        # to put together.
        for layer in max(stacks, key=_learnable, default=()):
            fully_shard(layer, mesh=mesh)
        fully_shard(learner, mesh=mesh, ignored_params=whole)
        return learner.to(self.device)  # what is not divided

    def no_sync(self, wrapped: Any) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def clip(self, wrapped: Any, norm: float) -> float:
        gradients = [weight.grad for weight in wrapped.parameters() if weight.grad is not None]
        whole = [gradient for gradient in gradients if not _is_divided(gradient)]
        for gradient in whole:
            torch.distributed.all_reduce(gradient)
            gradient /= self.size
        parts = [gradient.to_local() for gradient in gradients if _is_divided(gradient)]
        square = torch.zeros((), device=self.device)
        for part in parts:
            square += part.float().square().sum()
        torch.distributed.all_reduce(square)
        for gradient in whole:
            square += gradient.float().square()
        before = float(square.sqrt())
        for gradient in [*parts, *whole] if before > norm else ():
            gradient *= norm / (before + 1e-6)
        return before

    def state(self, learner: nn.Module) -> State:
        return {name: self._gathered(value) for name, value in learner.state_dict().items()}

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> State:
        state = optimizer.state_dict()
        gathered = {
            number: {name: self._gathered(value) for name, value in values.items()}
            for number, values in state["state"].items()
        }
        return {**state, "state": gathered}

    def load(self, learner: nn.Module, state: State) -> None:
        like = learner.state_dict()
        learner.load_state_dict({name: _divided(value, like.get(name)) for name, value in state.items()})

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: State) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        divided = {
            number: {name: _divided(value, weights[number]) for name, value in values.items()}
            for number, values in state["state"].items()
        }
        optimizer.load_state_dict({**state, "state": divided})

    def plain(self, learner: Any) -> Any:
        return self._plain

    def _gathered(self, value: Any) -> Any:
        """The whole of a divided tensor, on the CPU of the leader; a tensor at a time, to save memory."""
        if _is_divided(value):
            value = value.full_tensor()
        return value.cpu() if self.leads and isinstance(value, torch.Tensor) else None


Parallel = Alone


@contextlib.contextmanager
def open_parallel(mode: str = "auto", device: str = "cpu") -> Iterator[Parallel]:
    """The values of torchrun's environment; with several processes on CUDA, each has its own device.

    `auto` is `ddp` under torchrun, else `none`.
    """
    if mode not in MODES:
        raise UsageError(f"parallel mode {mode!r} is unknown; expected one of {', '.join(MODES)}")
    started = _environment(os.environ)
    if mode == "auto":
        mode = "ddp" if started and started[1] > 1 else "none"
    if mode == "none":
        if started and started[1] > 1:
            raise UsageError(
                f"torchrun started {started[1]} processes, which would all write the same files; use ddp or fsdp, "
                "or start without torchrun"
            )
        yield Alone(device)
        return
    if started is None:
        raise UsageError(
            f"parallel mode {mode} needs processes, and none were started; put torchrun --nproc-per-node N before "
            "the command"
        )
    rank, size, local = started
    kind = torch.device(device).type
    if kind not in ("cpu", "cuda"):
        raise UsageError(f"parallel mode {mode} runs on cpu and cuda, not on {kind}")
    if kind == "cuda":
        if local >= torch.cuda.device_count():
            raise UsageError(
                f"process {local} of this machine has no device of its own: {torch.cuda.device_count()} are here; "
                "start fewer processes (--nproc-per-node)"
            )
        torch.cuda.set_device(local)
        device = f"cuda:{local}"
    torch.distributed.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=timedelta(minutes=30))
    try:
        yield (Sharded if mode == "fsdp" else Replicated)(device, rank, size)
    finally:
        torch.distributed.destroy_process_group()


def _environment(variables: Mapping[str, str]) -> tuple[int, int, int] | None:
    """(RANK, WORLD_SIZE, LOCAL_RANK) where torchrun has set them."""
    if "RANK" not in variables or "WORLD_SIZE" not in variables:
        return None
    try:
        rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
        local = int(variables.get("LOCAL_RANK", rank))
        if not (0 <= rank < size and local >= 0):
            raise ValueError(f"rank {rank} (local {local}) of {size} processes")
        return rank, size, local
    except ValueError as exc:
        raise UsageError(
            f"RANK, WORLD_SIZE or LOCAL_RANK in the environment is out of range or not a number: {exc}"
        ) from exc


def _without_weights(network: nn.Module) -> nn.Module:
    """A copy that has everything but the numbers of its weights."""
    empty = {
        id(weight): nn.Parameter(torch.empty_like(weight, device="meta"), weight.requires_grad)
        for weight in network.parameters()
    }
    return copy.deepcopy(network, empty)


def _learnable(module: nn.Module) -> int:
    """Numbers that learn."""
    return sum(weight.numel() for weight in module.parameters() if weight.requires_grad)


def _is_divided(value: Any) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def _divided(value: Any, like: Any) -> Any:
    """This process's part of a whole tensor, divided as another one is, if that one is."""
    from torch.distributed.tensor import distribute_tensor

    if not _is_divided(like) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
