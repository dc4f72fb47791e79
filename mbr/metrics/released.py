"""Released metrics by short name: where they are, at which revision, under which licence, and what they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from candidates.errors import UsageError
from pear.hub import locate

NON_COMMERCIAL = "CC BY-NC-SA 4.0"


@dataclass(frozen=True)
class Release:
    """A repository on the hub. `revision` is the commit its scores are known by; None where it could not be pinned."""

    repository: str
    metric: str
    licence: str
    revision: str | None = None
    gated: bool = False
    tokenizer: str | None = None  # where it is not in the repository itself


RELEASES = {
    "wmt22-comet-da": Release("Unbabel/wmt22-comet-da", "comet", "Apache-2.0"),
}


@dataclass(frozen=True)
class Found:
    """The files of a model, and what is known of them. `name` tells releases apart."""

    path: Path
    local: bool
    name: str
    licence: str | None  # of the weights, as far as it is known
    certain: bool  # whether these are the released weights, or local ones that may be

    def note(self) -> str | None:
        """The licence, where it does not allow all uses."""
        if self.licence != NON_COMMERCIAL:
            return None
        whose = f"the weights of {self.name}" if self.certain else f"if {self.name} holds released weights, these"
        return f"{whose} are under {self.licence}: not for commercial use"


def find_model(
    model: str | Path,
    metric: str,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    offline: bool = False,
) -> Found:
    """The files of a model given as a folder, a file, a short name or a hub repository; fetched if need be."""
    release = RELEASES.get(str(model)) or next((r for r in RELEASES.values() if r.repository == str(model)), None)
    if release is not None and release.metric != metric and not Path(model).exists():
        raise UsageError(f"{release.repository} is a model of {release.metric}, not of {metric}")
    wanted = release.repository if release and not Path(model).exists() else model
    pinned = revision or (release.revision if release else None)
    path, local = locate(
        wanted, revision=None if Path(model).exists() else pinned, cache_dir=cache_dir, local_files_only=offline
    )
    if local:
        if revision is not None:
            raise UsageError(f"a revision belongs to a hub model; {path} is a local path")
        usual = next((r.licence for r in RELEASES.values() if r.metric == metric), None)
        return Found(path, True, path.resolve().name, usual, certain=False)
    return Found(path, False, f"{wanted}@{path.name[:12]}", release.licence if release else None, certain=True)
