"""The documentation as tests read it."""

from __future__ import annotations

import re

from tests.conftest import ROOT

SAMPLE = ROOT / "benchmarks" / "sample" / "en-de.jsonl"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, kind: str) -> list[str]:
    """What stands between the fences of a kind."""
    return re.findall(rf"```{kind}(?: title=[^\n]*)?\n(.*?)```", text, re.DOTALL)
