"""How good the choices of the bundled models are: the default recipe and its parts, against the beam's best.

    python -m benchmarks.bundled_choice --part held-out --sources 500       # while building
    python -m benchmarks.bundled_choice --part test                         # for the report, once
    python -m benchmarks.bundled_choice --part multi30k                     # image captions, other text

Proves that `mbr-decode --nbest 100`, as it comes, chooses better translations than the beam, what each part of its
recipe adds, and what PEAR alone does. Sources are of a part that no model and no weight was fitted on; candidates are
the bundled translation model's 100-best. Choices are judged against the references by chrF and by the similarity of
sentence embeddings, means over sentences, and by BLEU; differences from the beam's best, and of the recipe from the one
without PEAR, come with 95 % intervals of a paired bootstrap. PEAR and the weights of the recipe were fitted to chrF and
the same embeddings (on other sources), so BLEU is the only independent judge. The row of the single-candidate model
needs `python -m benchmarks.train_bundled_pear --kind single`, which trains it as PEAR was.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.support import multi30k
from benchmarks.support.choosing import BEAM, COLUMNS, Choice, Chooser, Row, Table
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.quotes import add_keep_option, keep
from benchmarks.support.tatoeba import candidate_lists, parts, references
from benchmarks.train_bundled_pear import SOURCES, lessons_folder
from candidates.generation import Settings
from candidates.training.split import Part, read_pairs
from mbr.recipe import Recipe, read_recipe

MULTI30K = "multi30k"
WITHOUT = "the recipe without PEAR"
PARTS: dict[str, Part] = {"development": "unseen", "held-out": "unseen", "test": "test"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", default="held-out", choices=(*PARTS, MULTI30K))
    parser.add_argument("--sources", type=int, default=2000)
    parser.add_argument("--recipe", default="en-de", help="the recipe to take apart")
    parser.add_argument("--others", nargs="+", default=[], metavar="NAME=FILE", help="other recipes, a row for each")
    parser.add_argument("--pear", type=Path, help="another PEAR, to compare alone with the bundled one")
    parser.add_argument("--alone", type=int, default=1000, help="sources for the rows of PEAR without terms")
    parser.add_argument("--work", type=Path, default=WORK / "choice")
    parser.add_argument("--threads", type=int, default=2)
    add_keep_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    sources, golden = sources_and_references(options.part, options.sources)
    file = options.work / f"{options.part}-{options.sources}.jsonl"
    lists = candidate_lists(file, sources, Settings(nbest=100))
    table = Table(lists, [golden[item.source] for item in lists])
    with Chooser(options.work / "scores.sqlite", options.threads) as chooser:
        recipe = read_recipe(options.recipe)
        for name, choose in ways_of_choosing(table, recipe, single_model(), chooser).items():
            table.row(name, choose)
        for name, _, file in (other.partition("=") for other in options.others):
            table.row(name, partial(chooser.choose, lists, read_recipe(file)))
        gains = table.gains(recipe_name(recipe), WITHOUT)
        words = [
            f"{title} {gains[key][0]:+.{digits}f} [{gains[key][1]:+.{digits}f}, {gains[key][2]:+.{digits}f}]"
            for key, digits, title in COLUMNS
        ]
        print(f"the recipe over the one without PEAR: {', '.join(words)}")
        alone = Table(lists[: options.alone], [golden[item.source] for item in lists[: options.alone]])
        alone.row(BEAM, lambda: np.zeros(len(alone.lists), np.int64))
        for model in ("en-de", *([str(options.pear)] if options.pear else [])):
            pear = Recipe("pear", {"model": model}, weights="uniform")
            alone.row(f"PEAR alone ({model})", partial(chooser.choose, alone.lists, pear))
    new = of_new_references(table, golden, [BEAM, recipe_name(recipe), WITHOUT])
    if options.keep:
        values = quoted_values([*table.rows, *alone.rows[1:]])
        values |= {f"new.{key}": value for key, value in quoted_values(new.rows).items()}
        values |= {"sources": len(lists), "alone.sources": len(alone.lists), "new.sources": len(new.lists)}
        for key, gain in gains.items():
            values |= dict(
                zip((f"over-without-pear.{key}.{part}" for part in ("gain", "low", "high")), gain, strict=True)
            )
        keep("bundled_choice", values, "" if options.part == "test" else options.part)
    rows = [asdict(row) for part in (table, alone, new) for row in part.rows]
    (options.work / f"{options.part}-{options.sources}.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def of_new_references(table: Table, golden: dict[str, list[str]], names: Sequence[str]) -> Table:
    """The same choices for the sources whose references no model has read: some stand beside other sources, too."""
    learnt = {target for _, target in read_pairs(TATOEBA, "train")}
    places = [k for k, item in enumerate(table.lists) if not learnt.intersection(golden[item.source])]
    lists = [table.lists[k] for k in places]
    print("\nwithout sources that have a reference which the translation models learnt from beside another source")
    new = Table(lists, [golden[item.source] for item in lists])
    for name in names:
        new.row(name, partial(table.picks[name].__getitem__, places))
    return new


def single_model() -> Path | None:
    """The folder of the single-candidate model that was trained as the bundled PEAR was, if it is there."""
    folder = lessons_folder(WORK / "pear-en-de", SOURCES) / "model-single-1"
    if folder.exists():
        return folder
    print("no row of a single-candidate model: train_bundled_pear --kind single has not been run")
    return None


def sources_and_references(part: str, count: int) -> tuple[list[str], dict[str, list[str]]]:
    """The first sources of a part, and the translations of each."""
    if part == MULTI30K:
        sources = multi30k.texts("test", "en", count)
        return sources, {source: [text] for source, text in zip(sources, multi30k.texts("test", "de"), strict=False)}
    return parts(TATOEBA)[part][:count], references(TATOEBA, PARTS[part])


def quoted_values(rows: Sequence[Row]) -> dict[str, float]:
    """What pages quote: of each way of choosing and judge the value, the gain over the beam and its interval."""
    short = {BEAM: "beam", WITHOUT: "without-pear"}
    values: dict[str, float] = {}
    for row in rows:
        plain = "recipe" if row.name.startswith("recipe ") else re.sub(r"[^\w-]+", "-", row.name.lower()).strip("-")
        name = short.get(row.name, plain)
        for judge, (value, gain, low, high) in row.values.items():
            key = f"{name}.{judge}"
            values |= {key: value, f"{key}.gain": gain, f"{key}.low": low, f"{key}.high": high}
        values |= {f"{name}.same": 100 * row.same, f"{name}.regret": row.regret}
    return values


def ways_of_choosing(
    table: Table, recipe: Recipe, single: Path | None, chooser: Chooser
) -> dict[str, Callable[[], Choice]]:
    """Name -> a function that picks one candidate of each list."""
    lists, by_recipe = table.lists, chooser.choose
    without = replace(recipe, utility="none", options={}, strategy=None, strategy_options={})
    ways: dict[str, Callable[[], Choice]] = {
        BEAM: lambda: np.zeros(len(lists), np.int64),
        recipe_name(recipe): lambda: by_recipe(lists, recipe),
        WITHOUT: lambda: by_recipe(lists, without),
    }
    for term in recipe.terms:
        fewer = tuple(other for other in recipe.terms if other != term)
        ways[f"without PEAR and `{term.name}`"] = partial(by_recipe, lists, replace(without, terms=fewer))
        ways[f"`{term.name}` alone"] = partial(by_recipe, lists, replace(without, terms=(replace(term, weight=1.0),)))
    ways["chrF-MBR"] = lambda: by_recipe(lists, Recipe("chrf", weights="uniform"))
    ways["embedding-MBR"] = lambda: np.array([int((own @ own.sum(axis=0)).argmax()) for own in table.vectors])
    if single is not None:
        ways["single-candidate model"] = lambda: by_recipe(lists, Recipe("single", {"model": str(single)}))
    ways["oracle of chrF"] = lambda: np.array([int(a.chrf.argmax()) for a in table.agreements])
    ways["a random candidate"] = lambda: np.array(
        [np.random.default_rng(k).integers(len(item)) for k, item in enumerate(lists)]
    )
    return ways


def recipe_name(recipe: Recipe) -> str:
    """As a row of the table shows it."""
    return "recipe `" + " + ".join([recipe.utility, *(f"{term.weight:g} {term.name}" for term in recipe.terms)]) + "`"


if __name__ == "__main__":
    main()
