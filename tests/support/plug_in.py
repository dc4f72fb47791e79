"""A plug-in as pip would leave it: a module, and a dist-info folder with its entry points beside it."""

from __future__ import annotations

from pathlib import Path


def write_plug_in(folder: Path, name: str, code: str, group: str, target: str) -> None:
    """Put the module `name`.py into `folder`, and register `target` under `name`. `folder` goes on PYTHONPATH."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n", encoding="utf-8")
