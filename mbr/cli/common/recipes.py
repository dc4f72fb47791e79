"""Options that become a recipe, the same in mbr-decode and mbr-compare."""

from __future__ import annotations

import argparse
from typing import Any

from mbr.strategies import STRATEGIES
from mbr.weights import SELF_RULES, WEIGHTS


def add_rule_options(parser: argparse.ArgumentParser, decision: Any) -> None:
    """Strategy with its numbers, weights of pseudo-references, self rule, seed."""
    decision.add_argument(
        "--strategy",
        metavar="NAME[:KEY=VALUE]",
        help=f"which pairs to score: {', '.join(STRATEGIES.built_in)}, or a plug-in's, with options (race:tolerance="
        "0.05:budget=500); default: race for pear, rerank for utilities without reference, else full",
    )
    decision.add_argument(
        "--tolerance",
        type=float,
        metavar="SHARE",
        help="race: stop when the expected regret is below this share of best minus mean; prune: drop candidates with "
        "at most this probability of being the best (default: 0.01)",
    )
    decision.add_argument(
        "--budget",
        type=int,
        metavar="PASSES",
        help="pairs to score per list: exactly with halving (default: 10 per candidate), at most with race (default: "
        "20 per candidate) and prune (default: all)",
    )
    add_reference_options(decision)


def add_reference_options(group: Any) -> None:
    """What candidates count as pseudo-references, and the seed."""
    group.add_argument(
        "--weights",
        choices=WEIGHTS,
        help="weights of the candidates as pseudo-references (default: the recipe's; uniform for a beam, else count)",
    )
    group.add_argument(
        "--self",
        dest="self_rule",
        choices=SELF_RULES,
        help="whether a candidate counts as its own pseudo-reference (default: exclude)",
    )
    group.add_argument("--seed", type=int, help="seed of everything random (default: 1)")
