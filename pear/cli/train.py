"""pear-train: human judgments -> a metric. PEAR, its single-candidate baseline, RESUME, sentinels."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from candidates.command.console import Console, Parser, add_message_options, going_on
from candidates.command.model_options import HUB, add_model_options
from candidates.command.numbers import check_numbers
from candidates.command.streams import check_standard_output
from candidates.common.errors import UsageError
from candidates.common.text import check_output
from pear.training.recipe import RESUME_METRIC, Recipe

if TYPE_CHECKING:
    from pear.training.origin import Origin
    from pear.training.run import Job, Sources

QUICK_START = """\
quick start:
  pear-train --data mqm.csv --from en-de -o my-pear           # start from the bundled PEAR
  pear-train --data mqm.csv --layers 4 --hidden 256 -o small  # from scratch, vocabulary included
  pear-train --data mqm.csv --kind resume --score-range -25 0 --from-encoder xlmr-folder -o my-resume
  pear-train --data mqm.csv --pretrain-data da.csv --from-encoder microsoft/infoxlm-large -o large  # downloads 2.2 GB
  torchrun --nproc-per-node 4 $(which pear-train) run.yaml    # four GPUs; --parallel fsdp for XL

run.yaml holds the same options without hyphens in front (data: [a.csv, b.csv]); flags are stronger."""

# Help of each setting of the recipe; the rest of its option follows from its type.
RECIPE_HELP = {
    "kind": "what is trained",
    "pairs_per_source": "pairs drawn of each source, anew every epoch",
    "references_as": "take the reference as one more candidate with this score",
    "dev_share": "of the sources, held out to measure with (without --dev-data)",
    "absolute_share": "batches of single candidates mixed in, as a share of the pairs",
    "word_weight": "of the loss on numbers of words, where the data have them",
    "loss": "of the differences",
    "huber_delta": "where the Huber loss turns linear",
    "flip": "weight of (delta_ab + delta_ba)^2; 0 shows each pair in one order only",
    "learn_scale": "learn the scale of the scores, in the last stage",
    "optimizer": "muon is for small models trained from scratch",
    "encoder_rate": "learning rate of the encoder",
    "head_rate": "learning rate of the head",
    "weight_decay": "of AdamW",
    "clip": "largest norm of a gradient; 0 for none",
    "warm_up": "share of the steps in which the rate rises",
    "schedule": "of the learning rate after that: falling to zero, or level",
    "freeze_encoder": "share of the first epoch in which only the head learns",
    "batch_tokens": "padded tokens per batch",
    "accumulate": "batches per step, shared among the processes",
    "epochs": "passes over the data",
    "steps": "end after N steps, whatever the epochs",
    "select": "development statistic that chooses the best weights",
    "every": "steps between measurements and checkpoints",
    "patience": "stop after N measurements without progress",
    "dev_lists": "sources measured with, at most",
    "dev_candidates": "candidates of each of them, at most",
    "seed": "of everything random",
    "dtype": "bf16 where the device has it (auto), or as named",
    "gradient_checkpointing": "less memory for more time",
}

SENTINELS = ("sentinel-cand", "sentinel-src", "sentinel-ref")
# Settings that have no meaning for some kinds.
USELESS = {
    **dict.fromkeys(("flip", "pairs_per_source", "references_as", "absolute_share"), ("single", "resume", *SENTINELS)),
    **dict.fromkeys(("loss", "huber_delta"), ("resume",)),
    "word_weight": ("resume", "sentinel-src", "sentinel-ref"),
}
RESUME_METRIC_DEFAULTS = {name: f"; resume: {value}" for name, value in RESUME_METRIC.items()}


def parser() -> Parser:
    p = Parser("pear-train", "Train a metric from human judgments.", QUICK_START)
    p.add_argument("run", nargs="?", metavar="RUN.yaml", help="options from a file; flags are stronger")
    p.add_argument("-o", "--output", metavar="FOLDER", help="of the trained model; must not exist")
    p.add_argument("--resume", action="store_true", help="continue an interrupted run")

    g = p.add_argument_group("data (docs/training.md lists the formats)")
    g.add_argument("--data", nargs="+", metavar="FILE", help="judgments to learn from")
    g.add_argument("--dev-data", nargs="+", metavar="FILE", help="judgments to measure with")
    g.add_argument("--pretrain-data", nargs="+", metavar="FILE", help="judgments of a first stage, scale frozen")
    g.add_argument(
        "--data-format", metavar="NAME", help="csv, mqm, sxs, mt-metrics-eval, da, jsonl, gemba (default: guessed)"
    )
    g.add_argument("--lp", help="language pair, where the files do not say (en-de)")
    g.add_argument("--human", help="human scores of an mt-metrics-eval folder (mqm)")
    g.add_argument("--score", metavar="COLUMN", help="which of several scores of a file")
    g.add_argument(
        "--score-range", nargs=2, type=float, metavar=("WORST", "BEST"), help="map scores to 0..1 (RESUME needs it)"
    )
    g.add_argument("--statistics-only", action="store_true", help="print statistics of the data, then stop")

    g = p.add_argument_group("first weights (one of them, or sizes for a model from scratch)")
    g.add_argument("--from", dest="from_model", metavar="MODEL", help="a trained model: folder, .ckpt file, hub name")
    g.add_argument("--from-encoder", metavar="ENCODER", help="a pretrained encoder: folder or hub name")
    g.add_argument(
        "--from-translator",
        nargs="+",
        metavar="FOLDER",
        help="the encoder of a CTranslate2 model of this package; with a second folder, the model of the other "
        "direction: both models whole, under new layers; pear-mt cannot load such a metric",
    )
    g.add_argument(
        "--layers",
        type=int,
        metavar="N",
        help="from scratch (default: 4), kept of a translator's encoder, or new over two translators (default: 2)",
    )
    g.add_argument("--hidden", type=int, metavar="N", help="from scratch (default: 256)")
    g.add_argument("--heads", type=int, metavar="N", help="from scratch (default: 4)")
    g.add_argument(
        "--vocabulary", type=int, metavar="N", help="from scratch: pieces learned from the texts (default: 8000)"
    )
    g.add_argument(
        "--hidden-sizes", nargs="+", type=int, metavar="N", help="of a fresh head (default: as in the papers)"
    )
    g.add_argument(
        "--architecture",
        choices=("unified", "comet"),
        help="of RESUME: texts encoded together, or each alone as in COMET (default: unified)",
    )
    add_model_options(p, "hub (of the first weights)", ("revision", *HUB))

    _add_recipe(p.add_argument_group("recipe"))

    g = add_model_options(p, "run", ("threads",))
    g.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")
    g.add_argument("--parallel", choices=("auto", "ddp", "fsdp"), default="auto", help="under torchrun (auto: ddp)")
    g.add_argument("--half", action="store_true", help="write weights in float16, or in int8 where that loses nothing")
    add_message_options(p)
    return p


def _add_recipe(group: Any) -> None:
    """One option for every setting of a recipe."""
    types = get_type_hints(Recipe)
    for setting in fields(Recipe):
        kind = types[setting.name]
        default = None if setting.default is MISSING else setting.default
        name = "--" + setting.name.replace("_", "-")
        shown = f" (default: {default}{RESUME_METRIC_DEFAULTS.get(setting.name, '')})" if default is not None else ""
        words: dict[str, Any] = {"help": RECIPE_HELP[setting.name] + shown, "default": None}
        if kind is bool:
            words["action"] = argparse.BooleanOptionalAction
        elif get_origin(kind) is not None and isinstance(get_args(kind)[0], str):
            words["choices"] = get_args(kind)
        else:
            inner = [option for option in get_args(kind) if option is not type(None)]
            words |= {"type": inner[0] if inner else kind, "metavar": "N" if (inner or [kind])[0] is int else "X"}
        group.add_argument(name, **words)


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.config import with_run_file

    words = list(sys.argv[1:] if argv is None else argv)
    p = parser()
    options = p.parse_args(words)
    if options.run is not None and not options.run.endswith((".yaml", ".yml")):
        run = shlex.quote(options.run)
        raise UsageError(f"{run} is not a file of options (.yaml); did you mean --data {run}?")
    options = p.parse_args(with_run_file(p, words, options.run))
    console = Console("pear-train", quiet=options.quiet, log_format=options.log_format)
    if not options.data:
        raise UsageError("no judgments to learn from; give --data FILE")
    if options.statistics_only:
        check_standard_output()
        return _statistics(_sources(options), _recipe(options))
    if not options.output:
        raise UsageError("-o FOLDER is needed: where the trained model goes")
    check_numbers(options, positive=("threads",))
    _output(options)
    _recipe(options), _origin(options)  # refuse wrong settings before anything heavy is imported
    _check_found(options)
    return _train(options, console, shlex.join(["pear-train", *words]))


def _train(options: argparse.Namespace, console: Console, command: str) -> int:
    from pear.runtime.devices import limit_threads, resolve_devices
    from pear.training.parallel import open_parallel
    from pear.training.run import run

    job = _job(options, command)
    limit_threads(options.threads or 0)
    device = resolve_devices(options.device)[0]
    advice = "run the same command with --resume to continue from the last checkpoint"
    with going_on(lambda: advice if job.work.exists() else None), open_parallel(options.parallel, device) as parallel:
        if not parallel.leads:
            console.quiet = True
        run(
            job,
            device=parallel.device or device,
            parallel=parallel,
            resume=options.resume,
            progress=console.shows_progress,
            say=console.info,
        )
    console.info(f"wrote {job.output}: README.md is its card, loss.svg its losses; checkpoints stay in {job.work}")
    return 0


def _statistics(sources: Sources, recipe: Recipe) -> int:
    from pear.data import sample_pairs
    from pear.data.statistics import describe

    groups = sources.read([*sources.pretrain, *sources.files])
    pairs = sample_pairs(
        groups, per_source=recipe.pairs_per_source, seed=recipe.seed, references_as=recipe.references_as
    )
    print(describe(groups, pairs), end="")
    return 0


def _job(options: argparse.Namespace, command: str) -> Job:
    from pear.training.run import Job

    return Job(_recipe(options), _origin(options), _sources(options), _output(options), command, options.half)


def _output(options: argparse.Namespace) -> Path:
    """The folder to write, checked before anything heavy is imported; a link is followed."""
    output = Path(options.output)
    inputs = [*options.data, *(options.dev_data or ()), *(options.pretrain_data or ()), options.from_model, options.run]
    target = check_output(output, folder=True, inputs=inputs)
    return target if output.is_symlink() else output


def _recipe(options: argparse.Namespace) -> Recipe:
    """The settings on the command line; the others as in the paper of this kind."""
    named = {setting.name: getattr(options, setting.name) for setting in fields(Recipe)}
    settings = {name: value for name, value in named.items() if value is not None}
    kind = settings.get("kind", Recipe.kind)
    useless = [name for name in settings if kind in USELESS.get(name, ())]
    if useless:
        raise UsageError(f"--{useless[0].replace('_', '-')} has no meaning for --kind {kind}; leave it out")
    return Recipe.from_dict({**(RESUME_METRIC if kind == "resume" else {}), **settings})


def _origin(options: argparse.Namespace) -> Origin:
    from pear.training.origin import Origin

    if options.architecture is not None and options.kind != "resume":
        raise UsageError(f"--architecture has no meaning for --kind {options.kind or Recipe.kind}; leave it out")
    sizes = {name: getattr(options, name) for name in ("layers", "hidden", "heads", "vocabulary")}
    return Origin(
        model=options.from_model,
        encoder=options.from_encoder,
        translators=tuple(options.from_translator) if options.from_translator else None,
        revision=options.revision,
        cache_dir=options.cache_dir,
        offline=options.offline,
        hidden_sizes=tuple(options.hidden_sizes) if options.hidden_sizes else None,
        architecture=options.architecture,
        **{name: value for name, value in sizes.items() if value is not None},
    )


def _check_found(options: argparse.Namespace) -> None:
    """Refuse first weights that cannot be found now, before anything heavy is imported."""
    from pear.runtime.hub import check_found

    where = {"revision": options.revision, "cache_dir": options.cache_dir, "local_files_only": options.offline}
    for model in (options.from_model, options.from_encoder):
        if model is not None:
            check_found(model, **where)


def _sources(options: argparse.Namespace) -> Sources:
    from pear.training.run import Sources

    where = {name: getattr(options, name) for name in ("lp", "human", "score") if getattr(options, name) is not None}
    span = tuple(options.score_range) if options.score_range else None
    if span is not None and not (span[0] < span[1] and math.isfinite(span[1] - span[0])):
        raise UsageError(f"--score-range {span[0]} {span[1]}: expected two numbers, the worst score first and lower")
    return Sources(
        tuple(options.data),
        tuple(options.dev_data or ()),
        tuple(options.pretrain_data or ()),
        options.data_format,
        where,
        span,
    )
