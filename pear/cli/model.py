"""The options that choose a checkpoint and how it runs, for the commands that load one."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from candidates.command.console import Console
from candidates.common.errors import UsageError
from pear.runtime.hub import locate

if TYPE_CHECKING:
    from pear.checkpoint import Checkpoint
    from pear.engine import Engine


def add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    g = parser.add_argument_group("checkpoint")
    g.add_argument("--revision", help="hub revision of the model")
    g.add_argument("--encoder", metavar="FOLDER", help="configuration and tokenizer of a released checkpoint's encoder")
    g.add_argument("--cache-dir", metavar="FOLDER", help="of downloaded models")
    g.add_argument("--offline", action="store_true", help="use the local cache only")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    g = parser.add_argument_group("model")
    g.add_argument("--model", default="pear", help="checkpoint: a folder, a .ckpt file, or a hub name")
    g.add_argument("--device", default="auto", help="auto, cpu, cuda, mps, or several: cuda:0,cuda:1")
    g.add_argument("--dtype", choices=("float32", "bf16", "fp16"), default="float32", help="of the encoder")
    g.add_argument("--backend", choices=("torch", "ct2"), default="torch", help="torch, or CTranslate2 on the CPU")
    g.add_argument("--compute-type", choices=("float32", "int8"), help="of the ct2 back-end (default: int8)")
    g.add_argument(
        "--batch-tokens", type=int, metavar="N", help="padded tokens per batch (default: by device and model)"
    )
    g.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all)")
    add_checkpoint_options(parser)


def kind_of(options: argparse.Namespace) -> str:
    """The kind of the model, from its configuration alone, so that input is checked before weights are loaded."""
    hub = {"cache_dir": options.cache_dir, "local_files_only": options.offline}
    path, _ = locate(options.model, revision=options.revision, **hub)
    try:
        return str(json.loads((path / "config.json").read_text(encoding="utf-8"))["pear"]["kind"])
    except (OSError, ValueError, LookupError, TypeError):  # the released layout, or a fault that loading reports
        return "pear"


def open_checkpoint(options: argparse.Namespace, *, allow_pickle: bool = False, kind: str = "pear") -> Checkpoint:
    from pear.checkpoint import load_checkpoint

    return load_checkpoint(
        options.model,
        revision=options.revision,
        encoder=options.encoder,
        cache_dir=options.cache_dir,
        local_files_only=options.offline,
        allow_pickle=allow_pickle,
        kind=kind,
    )


def open_engine(options: argparse.Namespace, console: Console, kind: str = "pear") -> Engine:
    """The engine of these options; its agreement with torch is logged."""
    from pear.engine import Engine
    from pear.runtime.devices import limit_threads

    if options.threads is not None and options.threads < 1:
        raise UsageError(f"--threads {options.threads} is not a positive number")
    limit_threads(options.threads or 0)  # while the weights are read, too
    checkpoint = open_checkpoint(options, kind=kind)
    engine = Engine(
        checkpoint.network,
        checkpoint.tokenizer,
        device=options.device,
        dtype=options.dtype,
        backend=options.backend,
        compute_type=options.compute_type,
        batch_tokens=options.batch_tokens,
        threads=options.threads or 0,
    )
    if engine.agreement:
        console.info(str(engine.agreement))
    return engine
