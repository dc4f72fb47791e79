"""Which utility and strategy for the bundled translator, and at what cost: mbr-compare on Tatoeba's test part.

    python -m benchmarks.compare                  # 500 sources, 100-best; about two hours, on one thread
    python -m benchmarks.compare --quick          # 40 sources, no half matrices: a few minutes
    python -m benchmarks.compare --draw docs/quality-cost.svg       # the picture, from what a run has kept

Makes a table of the beam's best, chrF-MBR, embedding-MBR, the bundled PEAR (half a matrix, race) and the
oracle, on sentences that neither bundled model has seen, judged by BLEU, chrF, TER and sentence embeddings. It runs the
command that it prints; lists, scores and judgements are kept under benchmarks/work/compare, so that a stopped run
continues, and a second one takes a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.candidates import spread
from benchmarks.support.cost_figure import draw
from benchmarks.support.headlines import headline
from benchmarks.support.places import TATOEBA, WORK
from candidates.training.split import read_pairs

FOLDER = WORK / "compare"
SETTINGS = [
    "pear,strategy=race",
    "pear,strategy=half",
    "pear,strategy=race,add=logprob:0,label=pear race alone",
    "pear,strategy=half,add=logprob:0,label=pear half alone",
    "chrf",
    "embedding",
]
QUICK = ["pear,strategy=race", "pear,strategy=race,add=logprob:0,label=pear race alone", "chrf", "embedding"]
JUDGES = ["bleu", "chrf", "ter", "embedding"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 sources and no half matrices")
    parser.add_argument("--sources", type=int, help="sources of the test part (default: 500)")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg", help="only draw what was kept (docs/quality-cost.svg)")
    options = parser.parse_args()
    if options.draw:
        report = FOLDER / f"report-{options.sources or 500}" / "report.json"
        options.draw.write_text(draw(json.loads(report.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    if not TATOEBA.is_file():
        raise SystemExit(f"{TATOEBA} is not there; set MBR_DATA to the folder that holds tatoeba/")
    count = options.sources or (40 if options.quick else 500)
    sources, references = write_texts(count)
    command = [
        "mbr-compare",
        *("--sources", str(sources), "--references", str(references), "--nbest", "100", "--threads", "1"),
        *("--utility", *(QUICK if options.quick else SETTINGS), "--judge", *JUDGES),
        *(
            "--title",
            f"The bundled models on {count} Tatoeba sentences",
            "-o",
            str(FOLDER / f"report-{count}"),
            "--force",
        ),
    ]
    print(f"$ {' '.join(shown(word) for word in command)}\n", flush=True)
    program = Path(sys.executable).with_name(command[0])
    environment = {**os.environ, "MBR_CACHE": str(FOLDER / "cache")}
    code = subprocess.run([program, *command[1:]], env=environment, check=False).returncode
    if not code:
        print_headlines(FOLDER / f"report-{count}" / "report.json")
    raise SystemExit(code)


def print_headlines(report: Path) -> None:
    """Cost and quality of the settings, compared with the first of them, the default of mbr-decode."""
    rows = {row["label"]: row for row in json.loads(report.read_text(encoding="utf-8"))["rows"]}
    base, first = rows["beam best"], rows["pear race"]
    for label, row in rows.items():
        if row["cost_ratio"] is not None and row is not first:
            headline(f"{label} over pear race, CPU seconds: {row['cost_ratio']:.3g}")
    chrf = {label: row["scores"]["chrf"]["score"] for label, row in rows.items()}
    headline(f"chrF: beam best {chrf['beam best']:.1f}, pear race {chrf['pear race']:.1f}, chrf-MBR {chrf['chrf']:.1f}")
    worse = [label for label, row in rows.items() if row is not base and _lower(row)]
    headline(f"below the beam's best by every judge, beyond chance: {', '.join(worse) or 'none'}")


def _lower(row: dict[str, Any]) -> bool:
    return all(
        score["significant"] and (score["difference"] > 0) == (judge == "ter") for judge, score in row["scores"].items()
    )


def write_texts(count: int) -> tuple[Path, Path]:
    """Files of `count` sources of the test part, spread evenly over it, and of the first translation of each."""
    translations: dict[str, str] = {}
    for source, target in read_pairs(TATOEBA, "test"):
        translations.setdefault(source, target)
    some = spread(list(translations), count)
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = FOLDER / f"en-{count}.txt", FOLDER / f"de-{count}.txt"
    for file, lines in zip(files, (some, [translations[source] for source in some]), strict=True):
        file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return files


def shown(word: str) -> str:
    """A word of the command as typed in a shell, without the folders of this machine."""
    word = word.replace(f"{WORK.parent.parent}{os.sep}", "")
    return f'"{word}"' if " " in word else word


if __name__ == "__main__":
    main()
