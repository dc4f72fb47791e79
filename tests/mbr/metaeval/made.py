"""A tiny test set in mt-metrics-eval's layout, whose numbers can be checked by hand."""

from __future__ import annotations

from pathlib import Path

SOURCES = ["A dog.", "Two cats sleep.", "It rains.", "Nobody saw it."]
OUTPUTS = {
    "good": ["Ein Hund.", "Zwei Katzen schlafen.", "Es regnet.", "Niemand sah es."],
    "mid": ["Ein Hund.", "Zwei Katzen schläft.", "Es regnet.", "Niemand sieht."],
    "poor": ["Hund", "Zwei", "Regen", "Nichts"],
    "refA": ["Ein Hund.", "Zwei Katzen schlafen.", "Es regnet.", "Niemand hat es gesehen."],
    "refB": ["Ein Hund!", "Zwei Katzen ruhen.", "Es regnet gerade.", "Keiner sah es."],
}
# Segment 3 was not annotated.
HUMAN = {
    "good": ["0.0", "-0.0", "None", "-1.0"],
    "mid": ["0.0", "-1.0", "None", "-5.0"],
    "poor": ["-5.0", "-6.0", "None", "-25.0"],
    "refA": ["0.0", "0.0", "None", "0.0"],
    "refB": ["0.0", "-2.0", "None", "0.0"],
}
METRICS = {
    "close-refA": {"good": [4, 5, 5, 3], "mid": [4, 4, 5, 2], "poor": [1, 2, 3, 1], "refB": [3, 3, 3, 3]},
    "close-refB": {"good": [1, 1, 1, 1], "mid": [4, 4, 5, 2], "poor": [1, 2, 3, 1], "refA": [3, 3, 3, 3]},
    "blind-src": {"good": [1, 2, 3, 4], "mid": [2, 1, 4, 3], "poor": [3, 4, 1, 2]},
    "partial-src": {"good": [1, 2, 3, 4], "mid": [2, 1, 4, 3]},
    "holes-src": {"good": [1, "None", 3, 4], "mid": [2, 1, 4, 3], "poor": [3, 4, 1, 2]},
}


def write_set(root: Path, name: str = "wmt99", lp: str = "en-de") -> Path:
    """Writes the set below a root folder and returns the root."""
    folder = root / name
    for part in ("sources", "references", "human-scores", f"metric-scores/{lp}", f"system-outputs/{lp}"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "sources" / f"{lp}.txt").write_text("\n".join(SOURCES) + "\n")
    for system, texts in OUTPUTS.items():
        (folder / "system-outputs" / lp / f"{system}.txt").write_text("\n".join(texts) + "\n")
        if system.startswith("ref"):
            (folder / "references" / f"{lp}.{system}.txt").write_text("\n".join(texts) + "\n")
    write_scores(folder / "human-scores" / f"{lp}.mqm.seg.score", HUMAN)
    write_scores(folder / "human-scores" / f"{lp}.esa.seg.score", {**HUMAN, "mid": ["1.0", "2.0", "3.0", "4.0"]})
    for metric, scores in METRICS.items():
        write_scores(folder / "metric-scores" / lp / f"{metric}.seg.score", scores)
    whole = folder / "metric-scores" / lp / "whole-refA.sys.score"
    whole.write_text("good\t3.0\nmid\t2.0\npoor\t1.0\nrefB\tNone\n")
    return root


def write_scores(path: Path, scores: dict[str, list[str]] | dict[str, list[int]] | dict[str, list[object]]) -> Path:
    path.write_text("".join(f"{system}\t{score}\n" for system, found in scores.items() for score in found))
    return path


def write_ratings(path: Path) -> Path:
    """Google's MQM table: three systems, four segments, three raters."""
    marks = (("Fluency/Grammar", "Minor"), ("Accuracy/Mistranslation", "Major"), ("No-error", "No-error"))
    rows = [
        f"{system}\td\t{segment}\trater{rater}\ts\tt\t{category}\t{severity}\n"
        for number, system in enumerate("abc")
        for segment in range(1, 5)
        for rater in range(3)
        for category, severity in [marks[(number + segment * rater) % 3]]
    ]
    path.write_text("system\tdoc\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n" + "".join(rows))
    return path
