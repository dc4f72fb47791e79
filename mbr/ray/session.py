"""The connection to Ray: start or join a cluster, make actors of what it has room for, and leave nothing behind.

Ray prints to standard output whatever its settings, replaces signal handlers, and sets the number of threads by itself;
this module keeps that away from the rest. Importing it does not import Ray.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from candidates.common.closing import Closing
from candidates.common.errors import EnvironmentProblem, install_extra

LOCAL = "local"
ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class ClusterOptions:
    """Where to run and with what: `address` is `local`, `auto`, or that of a cluster; per worker `cpus` and `gpus`."""

    address: str = LOCAL
    workers: int | None = None  # as many as there is room for
    cpus: float = 1
    gpus: float = 0
    patience: float = 300.0  # seconds without any worker
    runtime_env: dict[str, Any] | None = None


class Session(Closing):
    """An open connection. `workers` is how many actors to start; closing it ends them, and a local cluster."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self._actors: list[Any] = []
        self._ray = _imported()
        _check_answers(options.address)
        with _our_signals():
            try:
                self._ray.init(
                    address=options.address,  # `local` starts a cluster even where another one runs on this machine
                    num_cpus=self._local_cpus(),
                    include_dashboard=False if options.address == LOCAL else None,
                    runtime_env=options.runtime_env,
                    log_to_driver=False,
                    logging_level="error",
                )
            except (ConnectionError, RuntimeError, ValueError) as exc:
                raise EnvironmentProblem(_no_cluster(options.address, exc)) from exc
        self.workers = options.workers or self._room()

    def actor(self, kind: type, *arguments: Any) -> Any:
        """Ask for an actor of a class; it starts when there is room for it."""
        remote = self._ray.remote(kind).options(
            num_cpus=self.options.cpus, num_gpus=self.options.gpus, max_restarts=0, max_concurrency=1
        )
        actor = remote.remote(*arguments)
        self._actors.append(actor)
        return actor

    def is_death(self, error: BaseException) -> bool:
        """Whether an error means that a worker or its node is gone."""
        exceptions = self._ray.exceptions
        lost = (exceptions.RayActorError, exceptions.ObjectLostError, exceptions.NodeDiedError)
        return isinstance(error, (*lost, exceptions.OutOfMemoryError, exceptions.WorkerCrashedError))

    def kill(self, actor: Any) -> None:
        self._actors.remove(actor)
        with suppress(Exception):  # it may be gone already
            self._ray.kill(actor)

    def why_no_worker(self) -> str:
        """Why no worker was ready within the patience, in words."""
        options, has = self.options, self._ray.cluster_resources()
        needs = f"{options.cpus:g} CPUs" + (f" and {options.gpus:g} GPUs" if options.gpus else "")
        return (
            f"no worker was ready for {options.patience:g} seconds: each needs {needs}, and the cluster has "
            f"{has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs in all; ask for less (--ray-cpus, --ray-gpus), "
            "free some, or wait longer (--ray-patience)"
        )

    def close(self) -> None:
        for actor in list(self._actors):
            self.kill(actor)
        with _our_signals():
            self._ray.shutdown()

    def _local_cpus(self) -> int | None:
        """A local cluster gets the CPUs that the workers asked for need."""
        if self.options.address != LOCAL:
            return None
        return max(len(os.sched_getaffinity(0)), round((self.options.workers or 0) * self.options.cpus))

    def _room(self) -> int:
        has = self._ray.cluster_resources()
        each = [("CPU", self.options.cpus), ("GPU", self.options.gpus)]
        return max(1, min(int(has.get(name, 0) // count) for name, count in each if count))


def _imported() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as exc:
        raise EnvironmentProblem(f"--ray needs the package ray; {install_extra('ray')}") from exc
    import ray.exceptions

    return ray


def _check_answers(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if "://" in address:
        raise EnvironmentProblem(
            f"--ray {address}: expected HOST:PORT of the cluster's head; run mbr-decode on a node of it"
        )
    if not host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError, OverflowError) as exc:
        raise EnvironmentProblem(_no_cluster(address, exc)) from exc


def _no_cluster(address: str, why: Exception) -> str:
    return (
        f"no Ray cluster at {address!r}: {why}; start one (ray start --head), or give --ray without an address for one "
        "on this machine"
    )


@contextmanager
def _our_signals() -> Iterator[None]:
    """Ray replaces signal handlers; ours come back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
