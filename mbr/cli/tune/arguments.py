"""The command line of mbr-tune: its options and their help texts."""

from __future__ import annotations

import argparse

from candidates.command.console import Parser, add_message_options
from candidates.formats import INPUT_FORMATS
from mbr.cli.common.options import add_config_option, add_judge_model_options
from mbr.cli.common.recipes import add_reference_options
from mbr.terms import TERMS

QUICK_START = """\
quick start:
  mbr-tune --candidates dev.jsonl --references dev.txt --utility none --add logprob length coverage -o recipe.yaml
  mbr-tune --candidates dev.jsonl --references dev.txt --add logprob reverse,model=de-en chrf \\
    --objective chrf+embedding --judge bleu -o tuned.yaml
  mbr-tune --parallel parallel.tsv -o table.npz"""


def parser() -> Parser:
    p = Parser(
        "mbr-tune",
        "Learn the weights of a recipe from candidate lists with references, and report by cross-validation what it "
        "gains; or, with --parallel, train the word-translation table of the terms coverage and coverage-back.",
        QUICK_START,
    )
    _add_input(p)
    _add_recipe(p)
    _add_objective(p)
    g = p.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="the recipe (default: standard output), or the table")
    g.add_argument("--report", metavar="FILE.json", help="also write weights and gains for programs")
    g.add_argument("--force", action="store_true", help="overwrite existing files")
    add_judge_model_options(p, "models (utility, terms and judges)", "scores and judgements")
    add_config_option(p)
    add_message_options(p)
    return p


def _add_input(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("input")
    g.add_argument("--candidates", metavar="FILE", help="development lists; - is standard input")
    g.add_argument("--input-format", choices=INPUT_FORMATS, help="default: by the file's name")
    g.add_argument("--sources", metavar="FILE", help="the sources of lists in lines, moses or fairseq")
    g.add_argument("--logprobs", metavar="FILE", help="a log-probability per line of a lines file")
    g.add_argument("--nbest", type=int, metavar="N", help="lines per source (lines), else the first N of each list")
    g.add_argument(
        "--references",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="one file for each set of references (default: those in the lists); the nearest reference counts",
    )
    g.add_argument(
        "--parallel",
        metavar="FILE.tsv",
        help="train a word-translation table from sentence pairs instead: source, tab, translation per line",
    )


def _add_recipe(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("what to weigh")
    g.add_argument(
        "--utility",
        default="pear",
        metavar="NAME",
        help="what compares candidates, as in mbr-decode; none: the terms alone",
    )
    g.add_argument("--model", metavar="MODEL", help="of the utility (default: that of the lists' default recipe)")
    g.add_argument(
        "--add",
        nargs="+",
        action="extend",
        metavar="NAME[,KEY=VALUE]",
        help=f"terms, with their options: {', '.join(TERMS.built_in)} (reverse,model=FOLDER), any utility (chrf)",
    )
    g.add_argument(
        "--add-model", nargs="+", action="extend", metavar="NAME=MODEL", help="model of a term that needs one"
    )
    g.add_argument(
        "--strategy",
        metavar="NAME[:KEY=VALUE]",
        help="which pairs of the development lists to score (default: all; for pear balanced, one order of each)",
    )
    add_reference_options(g)


def _add_objective(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("objective")
    g.add_argument(
        "--objective",
        default="chrf",
        metavar="JUDGE[+JUDGE]",
        help="judge or mix of judges to tune to: chrf+embedding, chrf:0.5+bleu, comet=FOLDER; each in units of its "
        "standard deviation within lists; see mbr-evaluate --list-judges",
    )
    g.add_argument("--judge", nargs="+", action="extend", metavar="NAME[=MODEL]", help="more judges for the report")
    g.add_argument(
        "--baseline",
        metavar="FILE|NAME|none",
        help="recipe to compare with, beside the first candidate (default: the one that mbr-decode would use)",
    )
    g.add_argument("--tokenize", default="13a", metavar="NAME", help="sacrebleu tokenizer for bleu: zh, ja-mecab, ...")
    g.add_argument("--bootstrap", type=int, default=1000, metavar="N", help="draws for intervals")
