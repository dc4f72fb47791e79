"""Whether a model hub can be reached: asked before anything is downloaded, briefly, and of the first connection only.

The hub's own client retries for half a minute and prints each attempt. A machine without a network, and a person with a
misspelled name, get their answer at once; a slow network still has all the time it needs for the download itself.
`HF_HUB_ETAG_TIMEOUT`, which the client knows too, allows more seconds for the first connection.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from candidates.common.errors import ModelError

SECONDS = 2.0
REMEMBERED = 60.0  # seconds for which a silent hub is not asked again
ENDPOINT = "https://huggingface.co"

_answered: set[tuple[str, int]] = set()
_silent: dict[tuple[str, int], float] = {}  # when it was asked


def endpoint() -> str:
    """The address of the hub."""
    return (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def offline() -> bool:
    """Whether the environment forbids to ask a hub."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)


def hub_answers() -> bool:
    """Whether the hub, or the proxy in front of it, takes a connection. A yes is remembered, a no for a minute."""
    address = _address()
    if address in _answered:
        return True
    if time.monotonic() - _silent.get(address, -REMEMBERED) < REMEMBERED:
        return False
    # In a thread, because looking up a name cannot be given a time limit.
    thread = threading.Thread(target=_connect, args=(address, _seconds()), daemon=True)
    thread.start()
    thread.join(_seconds())
    if address not in _answered:
        _silent[address] = time.monotonic()
    return address in _answered


def cached(repository: str, file: str = "config.json") -> bool:
    """Whether this file of a hub model is in the local cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(repository, file), str)
    except HFValidationError:
        return False


def unreachable(name: str, instead: str, *, forbidden: bool = False, released: bool = False) -> ModelError:
    """The error for a name that is no folder, while the hub, where it would be looked up, gives no answer.

    Args:
        name: as the user gave it, with what it stands for.
        instead: what works without a network.
        forbidden: whether the run is offline on purpose.
        released: whether it is the name of a model that is known to be on the hub.
    """
    why = (
        "this run is offline (--offline or HF_HUB_OFFLINE)"
        if forbidden
        else f"the hub cannot be reached ({endpoint()} does not answer)"
    )
    kind = "a released model on the hub;" if released else "no such folder; taken for the name of a model on the hub,"
    check = "the network" if released else "the spelling and the network"
    return ModelError(
        f"{name}: {kind} it is not in the local cache, and {why}. Check {check}, or give the path of a local folder; "
        f"without a network this works: {instead}"
    )


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Without the lines that the hub's client logs for each attempt; the error at the end has what happened."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _address() -> tuple[str, int]:
    from urllib.request import getproxies, proxy_bypass  # here, because it is slow to import

    target = urlsplit(endpoint())
    proxies = {} if proxy_bypass(target.hostname or "") else getproxies()
    if proxy := proxies.get(target.scheme) or proxies.get("all"):
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return target.hostname or "", target.port or {"http": 80, "socks5": 1080}.get(target.scheme, 443)


def _connect(address: tuple[str, int], seconds: float) -> None:
    try:
        with socket.create_connection(address, timeout=seconds):
            _answered.add(address)
    except (OSError, ValueError, OverflowError):  # no such host, refused, too slow; or no address at all
        pass


def _seconds() -> float:
    try:
        return max(float(os.environ.get("HF_HUB_ETAG_TIMEOUT", SECONDS)), 0.1)
    except ValueError:
        return SECONDS
