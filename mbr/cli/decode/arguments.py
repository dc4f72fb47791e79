"""The command line of mbr-decode: its options and their help texts.

`checks.py` has which of them go together; the recipe has their defaults.
"""

from __future__ import annotations

import argparse

from candidates.command.console import Parser, add_message_options
from candidates.command.model_options import add_model_options
from candidates.command.streams import add_line_option
from candidates.formats import INPUT_FORMATS
from candidates.options import add_generation_options, file_option
from mbr.cli.common.recipes import add_rule_options
from mbr.terms import TERMS

QUICK_START = """\
quick start:
  echo "Tom told me that he wanted to meet my parents." | mbr-decode --nbest 100
  mbr-decode --candidates lists.jsonl -o best.txt
  mbr-decode --utility chrf --candidates nbest.txt --sources src.txt --nbest 100 --format jsonl
  mbr-decode --utility pear --model pear --candidates lists.jsonl  # the released PEAR: downloads 2.3 GB"""


def parser() -> Parser:
    p = Parser(
        "mbr-decode",
        "Choose the best of many translations by minimum Bayes risk: from each candidate list, or from the candidates "
        "that a translation model generates for each line of text.",
        QUICK_START,
        file_option=file_option,
        failed="some segments failed (--on-error skip or fallback)",
    )
    _add_input(p)
    _add_decision(p)
    _add_terms(p)
    _add_output(p)
    add_generation_options(p, short_names=False)
    g = add_model_options(p, "models")
    g.add_argument("--tokenize", metavar="NAME", help="sacrebleu tokenizer for bleu (default: 13a)")
    g = p.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags override it")
    g.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="ID",
        help="print for people why a candidate won, of the list with this id or number (default: the first), then stop",
    )
    g.add_argument("--dry-run", action="store_true", help="print pairs, tokens, time, memory and signature, then stop")
    g.add_argument("--print-recipe", action="store_true", help="print the recipe as YAML for --recipe, then stop")
    g.add_argument("--list-utilities", action="store_true", help="print the names for --utility and --add, then stop")
    _add_cluster(p)
    add_message_options(p)
    return p


def _add_input(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("input")
    g.add_argument(
        "--candidates", metavar="FILE", help="candidate lists; - is standard input; without it, text is translated"
    )
    g.add_argument("--input-format", choices=INPUT_FORMATS, help="format of the lists (default: by the file's name)")
    g.add_argument(
        "--sources",
        metavar="FILE",
        help="the text to translate (default: standard input); or the sources of lists in lines, moses or fairseq",
    )
    g.add_argument("--logprobs", metavar="FILE", help="a log-probability per line of a lines file, as mbrs writes them")
    g.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="candidates per source: to generate from text (default: 100); lines per source (lines), else the first N "
        "of each list (default: all)",
    )


def _add_decision(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("decision")
    recipe = g.add_argument(
        "--recipe",
        metavar="FILE|NAME",
        help="how to choose, as --print-recipe prints it; the options below override it (default: the recipe that "
        "ships with the translation model that made the lists, else the utility's defaults)",
    )
    recipe.takes_mapping = True  # type: ignore[attr-defined]  # in a --config file
    g.add_argument(
        "--utility",
        metavar="NAME",
        help="metric that compares candidates; see --list-utilities (default: the recipe's, else pear)",
    )
    g.add_argument(
        "--option",
        action="append",
        metavar="KEY=VALUE",
        help="an option of the utility that has no flag here, such as a plug-in's; repeatable",
    )
    add_rule_options(p, g)
    g.add_argument(
        "--budget-total",
        type=int,
        metavar="PASSES",
        help="race, prune: pairs to score in total, spent where the expected regret is largest; all lists "
        "are read first, and nothing is written before the end",
    )
    g.add_argument(
        "--prefilter",
        metavar="NAME:K",
        help="first keep the best K of each list by a cheap utility (chrf:30) or by a term (logprob:50)",
    )
    g.add_argument(
        "--require",
        metavar="NAME[,NAME...]",
        help="guards: drop candidates that break a rule before anything is scored: placeholders, tags, numbers, urls, "
        "language, length, repetition, not-copied, glossary, a plug-in's; production for the ones that are nearly "
        "always right; none takes out those of the recipe; with options as language:to=de",
    )
    g.add_argument(
        "--glossary",
        metavar="FILE.tsv",
        help="terms that translations must use (docs/guards.md): required, or preferred with --add glossary=WEIGHT",
    )
    g.add_argument("--filter", metavar="NAME", help="the same as two options: --filter cometkiwi --keep 30")
    g.add_argument("--keep", type=int, metavar="K", help="how many candidates --filter keeps")
    g.add_argument(
        "--prefilter-model",
        "--filter-model",
        metavar="MODEL",
        help="model of the prefilter, if it needs one (cometkiwi:30)",
    )


def _add_terms(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("terms: evidence on single candidates, added to the expected utility")
    g.add_argument(
        "--add",
        action="append",
        metavar="NAME=WEIGHT[,KEY=VALUE]",
        help=f"{', '.join(TERMS.built_in)} (docs/terms.md), a plug-in's, or any utility (chrf: agreement with the "
        "list; cometkiwi: quality); options of the term follow the weight; a weight of 0 removes it; repeatable",
    )
    g.add_argument(
        "--add-model", action="append", metavar="NAME=MODEL", help="model of a term that needs one; repeatable"
    )


def _add_output(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("output")
    g.add_argument(
        "-o", "--output", metavar="FILE", help="output file (default: standard output); written whole or not at all"
    )
    g.add_argument("--format", choices=("text", "tsv", "jsonl"), default="text", help="output format")
    g.add_argument("--top", type=int, default=1, metavar="K", help="best K candidates per source")
    g.add_argument("--matrix", metavar="FILE.npz", help="also keep the utility matrices")
    g.add_argument(
        "--route",
        metavar="CONDITION",
        help="also write the decisions that meet it to --route-output, such as 'margin<0.1 or guard'; it has numbers "
        "(margin, estimated_regret, score, terms by name), flags (tie, guard, truncated, error, ...), and, or, not",
    )
    g.add_argument("--route-output", metavar="FILE.jsonl", help="the file of --route, for those who check translations")
    g.add_argument("--report", metavar="FILE.json", help="also write versions, counts, flags and times of the run")
    g.add_argument("--price-per-hour", type=float, metavar="X", help="of this machine; the report has what it cost")
    g.add_argument("--save-candidates", metavar="FILE", help="also keep the candidate lists generated from text")
    add_line_option(g)
    g.add_argument("--force", action="store_true", help="overwrite existing files, discard an interrupted run")
    g.add_argument("--resume", action="store_true", help="continue an interrupted run (needs -o)")
    g.add_argument(
        "--on-error",
        choices=("stop", "skip", "fallback"),
        default="stop",
        help="a segment that cannot be decided: stop; skip (empty line, error in JSONL); fallback (first candidate)",
    )


def _add_cluster(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("many machines (--ray: the extra `ray`)")
    g.add_argument(
        "--shard", metavar="I/N", help="decide every N-th part of the input, from the I-th on; see mbr-merge"
    )
    g.add_argument(
        "--ray",
        nargs="?",
        const="local",
        metavar="ADDRESS",
        help="decide on a Ray cluster: `auto`, its address, or nothing for one on this machine",
    )
    g.add_argument("--ray-workers", type=int, metavar="N", help="workers (default: as many as there is room for)")
    g.add_argument("--ray-cpus", type=int, metavar="N", help="CPUs per worker, and its --threads (default: 1)")
    g.add_argument(
        "--ray-gpus", type=float, metavar="N", help="GPUs per worker (default: 1 with --device cuda, else 0)"
    )
    g.add_argument("--ray-patience", type=float, metavar="S", help="seconds to wait for a worker (default: 300)")
    g.add_argument(
        "--ray-runtime-env", metavar="FILE.yaml", help="Ray's runtime environment, for nodes without the package"
    )
