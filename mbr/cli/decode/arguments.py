"""The command line of mbr-decode: which options there are, and what --help says of them.

Which of them go together, and what those left out stand for, is settled in `resolve.py`.
"""

from __future__ import annotations

from candidates.command.console import Parser, add_message_options
from candidates.formats import INPUT_FORMATS
from candidates.options import add_generation_options
from mbr.cli.decode.resolve import BUNDLED_PRIOR

QUICK_START = """\
quick start:
  echo "Tom told me that he wanted to meet my parents." | mbr-decode --nbest 100
  mbr-decode --utility pear --model FOLDER --candidates lists.jsonl -o best.txt
  mbr-decode --utility pear --candidates nbest.txt --sources source.txt --nbest 100 --format jsonl"""


def parser() -> Parser:
    p = Parser(
        "mbr-decode",
        "Choose the best of many translations by minimum Bayes risk: of each candidate list, or of what a translation "
        "model makes of each line of text.",
        QUICK_START,
    )

    g = p.add_argument_group("input")
    g.add_argument(
        "--candidates", metavar="FILE", help="candidate lists; - is standard input; without it, text is translated"
    )
    g.add_argument("--input-format", choices=INPUT_FORMATS, help="default: by the file's name")
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
        help="candidates per source: to make of a text (default: 100); lines per source (lines), else the first N of "
        "each list (default: all)",
    )

    g = p.add_argument_group("decision")
    g.add_argument(
        "--utility",
        metavar="NAME",
        help="what compares candidates; see --list-utilities; several with weights are added: chrf:1+pear:2 "
        "(default: pear)",
    )
    g.add_argument(
        "--strategy",
        choices=("full", "both", "half", "balanced", "halving", "race", "prune", "aggregate", "rerank"),
        help="which pairs to score (default: race for pear, rerank for utilities without reference, else full)",
    )
    g.add_argument(
        "--tolerance",
        type=float,
        metavar="SHARE",
        help="race: stop when the regret to expect is below this share of best minus mean; prune: drop candidates with "
        "no more than this chance (default: 0.01)",
    )
    g.add_argument(
        "--budget",
        type=int,
        metavar="PASSES",
        help="pairs to score per list: exactly with halving (default: 10 per candidate), at most with race (default: "
        "20 per candidate) and prune (default: all)",
    )
    g.add_argument(
        "--budget-total",
        type=int,
        metavar="PASSES",
        help="race, prune: pairs to score in all, spent where the regret to expect is largest; all lists are read "
        "first, and nothing is written before the end",
    )
    g.add_argument(
        "--prefilter",
        metavar="NAME:K",
        help="first keep the best K of each list by a cheap utility (chrf:30) or by log-probability (logprob:50)",
    )
    g.add_argument("--filter", metavar="NAME", help="the same in two words, with --keep: --filter cometkiwi --keep 30")
    g.add_argument("--keep", type=int, metavar="K", help="how many candidates --filter keeps")
    g.add_argument(
        "--prefilter-model", "--filter-model", metavar="MODEL", help="of the prefilter, if it needs one (cometkiwi:30)"
    )
    g.add_argument(
        "--prior",
        type=float,
        metavar="W",
        help="add W times the log-probability per word that the candidates come with (default: 0; with both bundled "
        f"models and a beam: {BUNDLED_PRIOR:g})",
    )
    g.add_argument(
        "--weights",
        choices=("count", "uniform", "logprob"),
        help="of a candidate as pseudo-reference (default: uniform for a beam made here, else count)",
    )
    g.add_argument(
        "--self",
        dest="self_rule",
        choices=("exclude", "include"),
        default="exclude",
        help="whether a candidate counts as its own pseudo-reference",
    )
    g.add_argument("--seed", type=int, default=1, help="of everything random")

    g = p.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--format", choices=("text", "tsv", "jsonl"), default="text", help="of the output")
    g.add_argument("--top", type=int, default=1, metavar="K", help="best K candidates per source")
    g.add_argument("--matrix", metavar="FILE.npz", help="also keep the utility matrices")
    g.add_argument("--save-candidates", metavar="FILE", help="also keep the candidate lists made of a text")
    g.add_argument("--force", action="store_true", help="overwrite existing files, forget an interrupted run")
    g.add_argument("--resume", action="store_true", help="go on with an interrupted run (needs -o)")
    g.add_argument(
        "--on-error",
        choices=("stop", "skip", "fallback"),
        default="stop",
        help="a segment that cannot be decided: stop; skip (empty line, error in JSONL); fallback (first candidate)",
    )

    add_generation_options(p, short_names=False)

    g = p.add_argument_group("utility")
    g.add_argument("--model", help="checkpoint: a folder, a .ckpt file, or a hub name")
    g.add_argument(
        "--member-model",
        action="append",
        metavar="NAME=MODEL",
        help="checkpoint of a member of an ensemble; as often as need be",
    )
    g.add_argument("--revision", help="hub revision of the model (default: the one its scores are known by)")
    g.add_argument("--encoder", metavar="FOLDER", help="configuration and tokenizer of a released checkpoint's encoder")
    g.add_argument("--cache-dir", metavar="FOLDER", help="of downloaded models")
    g.add_argument("--offline", action="store_true", help="use the local cache only")
    g.add_argument("--device", help="auto, cpu, cuda, mps, or several: cuda:0,cuda:1 (default: auto)")
    g.add_argument("--dtype", choices=("float32", "bf16", "fp16"), help="of the encoder (default: float32)")
    g.add_argument("--backend", choices=("torch", "ct2"), help="torch, or CTranslate2 on the CPU (default: torch)")
    g.add_argument("--compute-type", choices=("float32", "int8"), help="of the ct2 back-end (default: int8)")
    g.add_argument("--batch-tokens", type=int, metavar="N", help="padded tokens a batch (default: by device and model)")
    g.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all)")
    g.add_argument("--tokenize", metavar="NAME", help="sacrebleu tokenizer for bleu (default: 13a)")
    g.add_argument("--add-resume", metavar="MODEL", help="add RESUME to the utility: a checkpoint of kind resume")
    g.add_argument(
        "--resume-weight",
        type=float,
        metavar="W",
        help="times RESUME, from -1 to 1, is added (default: 0.2, for utilities from 0 to 1; 20 for chrf and bleu)",
    )

    g = p.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags are stronger")
    g.add_argument("--dry-run", action="store_true", help="print pairs, tokens, time, memory and signature, then stop")
    g.add_argument("--list-utilities", action="store_true", help="print what --utility takes, then stop")
    add_message_options(p)
    return p
