"""The checkpoint and the engine that the options of a command describe."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console
from candidates.command.model_options import RUNNING, model_options
from pear.runtime.hub import check_found, locate

if TYPE_CHECKING:
    from pear.checkpoint import Checkpoint
    from pear.engine import Engine


def kind_of(options: argparse.Namespace) -> str:
    """The kind of the model, from its configuration alone, so that input is checked before weights load."""
    hub = {"cache_dir": options.cache_dir, "local_files_only": options.offline}
    path, _ = locate(options.model, revision=options.revision, **hub)
    try:
        return str(json.loads((path / "config.json").read_text(encoding="utf-8"))["pear"]["kind"])
    except (OSError, ValueError, LookupError, TypeError):  # the released layout, or an error that loading will explain
        return "pear"


def open_checkpoint(options: argparse.Namespace, *, allow_pickle: bool = False, kind: str = "pear") -> Checkpoint:
    where: dict[str, Any] = {
        "revision": options.revision,
        "cache_dir": options.cache_dir,
        "local_files_only": options.offline,
    }
    check_found(options.model, **where)
    from pear.checkpoint import load_checkpoint

    return load_checkpoint(
        options.model,
        encoder=options.encoder,
        **where,
        allow_pickle=allow_pickle,
        kind=kind,
    )


def open_engine(options: argparse.Namespace, console: Console, kind: str = "pear") -> Engine:
    """The engine that the options describe. Logs how far the precision that `auto` tried agrees with float32."""
    from pear.engine import Engine
    from pear.runtime.devices import limit_threads

    running = model_options(options, RUNNING)
    limit_threads(running.get("threads", 0))  # while the weights are read, too
    checkpoint = open_checkpoint(options, kind=kind)
    engine = Engine(checkpoint.network, checkpoint.tokenizer, **running, name=checkpoint.name)
    if engine.runner.choice is not None:
        for note in engine.runner.choice.notes():
            console.info(note)
    return engine
