"""The options of the command `pear`: those of pear-mt 1.1.1."""

from __future__ import annotations

import argparse
from pathlib import Path

from candidates.command.console import Parser

QUICK_START = """\
quick start:
  pear score --input pairs.tsv --model en-de --output scored.tsv     # columns src, mt_0, mt_1 -> pear_score
  pear score --input refs.tsv --model en-de --mode reference --both  # columns src, mt, ref: both orders
  pear mbr --input nbest.jsonl --model en-de --utility full          # {"src": ..., "hypotheses": [...]} per line
  pear mbr --input nbest.jsonl --output selected.jsonl               # the released PEAR: downloads 2.3 GB

Takes what the command of pear-mt 1.1.1 takes and writes what it writes; an existing output is overwritten.
pear-score and mbr-decode do more, faster."""


def parser(prog: str = "pear") -> Parser:
    p = Parser(prog, "PEAR with the options of pear-mt.", QUICK_START)
    commands = p.add_subparsers(dest="command", required=True, metavar="score|mbr", parser_class=Parser)
    text = "Score the rows of a TSV: src, mt_0, mt_1, or src, mt, ref."
    score = commands.add_parser("score", help=text, description=text, epilog=QUICK_START)
    _add_model(score)
    _add_files(score, "TSV with a header; cells may be quoted", "INPUT with the suffix .pear.tsv")
    score.add_argument("--mode", choices=("pairwise", "reference"), default="pairwise", help="which columns to compare")
    score.add_argument("--both", action="store_true", help="score both orders: columns pear_forward, pear_reverse")
    _add_running(score)
    text = "Choose from the hypotheses of each line of a JSONL file."
    mbr = commands.add_parser("mbr", help=text, description=text, epilog=QUICK_START)
    _add_model(mbr)
    _add_files(mbr, "JSONL with src and hypotheses", "INPUT with the suffix .pear-mbr.jsonl")
    mbr.add_argument("--utility", choices=("full", "half"), default="half", help="both orders of every pair, or one")
    _add_running(mbr)
    return p


def _add_model(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("model")
    g.add_argument("--model", default="pear", help="pear, pear-xl, a hub name, a .ckpt file or a folder")
    g.add_argument("--hf-model", metavar="NAME", help="a hub name")
    g.add_argument("--checkpoint", type=Path, metavar="FILE", help="a .ckpt file")
    g.add_argument("--cache-dir", type=Path, metavar="FOLDER", help="of downloaded models")
    g.add_argument("--local-files-only", action="store_true", help="use the local cache only")
    g.add_argument("--revision", help="hub revision of the model")
    g.add_argument("--encoder-revision", metavar="REVISION", help="hub revision of its encoder")


def _add_files(p: argparse.ArgumentParser, content: str, default: str) -> None:
    g = p.add_argument_group("input and output")
    g.add_argument("--input", type=Path, required=True, metavar="FILE", help=content)
    g.add_argument("--output", type=Path, metavar="FILE", help=f"default: {default}")


def _add_running(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("running")
    g.add_argument("--batch-size", type=int, default=8, metavar="N", help="pairs per batch, at full length")
    g.add_argument("--gpus", type=_gpus, default="auto", help="auto (an accelerator, if there is one), 0 (CPU) or 1")


def _gpus(value: str) -> int | str:
    if value not in ("auto", "0", "1"):
        raise argparse.ArgumentTypeError(f"found {value!r}; expected auto, 0 or 1")
    return value if value == "auto" else int(value)
