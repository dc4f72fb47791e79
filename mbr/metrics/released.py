"""Released metrics by short name: where they are, at which revision, under which licence, and of which metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from candidates.common.errors import ModelError, UsageError
from pear.runtime.hub import ENCODER_WEIGHTS, check_found, locate, root_of
from pear.runtime.stamps import MOST_FILES, Stamp, stamp_file

NON_COMMERCIAL = "CC BY-NC-SA 4.0"
UNKNOWN = "see its hub page"
UNSTATED = "none stated with these files; Google's BLEURT is Apache-2.0"


@dataclass(frozen=True)
class Release:
    """A repository on the hub. `revision` is the commit that was verified; None where it could not be pinned."""

    repository: str
    metric: str
    licence: str
    revision: str | None = None
    tokenizer: str | None = None  # where it is not in the repository itself


RELEASES = {
    "wmt22-comet-da": Release(
        "Unbabel/wmt22-comet-da", "comet", "Apache-2.0", "2760a223ac957f30acfb18c8aa649b01cf1d75f2"
    ),
    "wmt20-comet-da": Release("Unbabel/wmt20-comet-da", "comet", "Apache-2.0"),
    "wmt20-comet-qe-da": Release(
        "Unbabel/wmt20-comet-qe-da", "comet-qe", "Apache-2.0", "2e7ffc84fb67d99cf92506611766463bb9230cfb"
    ),
    "unite-mup": Release("Unbabel/unite-mup", "unite", UNKNOWN),
    "wmt22-unite-da": Release("Unbabel/wmt22-unite-da", "unite", UNKNOWN),
    "cometinho": Release(
        "Unbabel/eamt22-cometinho-da", "comet", "Apache-2.0", "761e0dd230dbbeb7556bacf05c5ff8656ac424e1"
    ),
    "wmt22-cometkiwi-da": Release(
        "Unbabel/wmt22-cometkiwi-da", "cometkiwi", NON_COMMERCIAL, "1ad785194e391eebc6c53e2d0776cada8f83179a"
    ),
    "wmt23-cometkiwi-da-xl": Release(
        "Unbabel/wmt23-cometkiwi-da-xl", "cometkiwi", NON_COMMERCIAL, "33858b2239a139d497d9c74952c88b89a8c06213"
    ),
    "wmt23-cometkiwi-da-xxl": Release("Unbabel/wmt23-cometkiwi-da-xxl", "cometkiwi", NON_COMMERCIAL),
    "xcomet-xl": Release("Unbabel/XCOMET-XL", "xcomet", NON_COMMERCIAL, "6a123c5e8e6dccab25e5fcffa3c8b417abadb462"),
    "xcomet-xxl": Release("Unbabel/XCOMET-XXL", "xcomet", NON_COMMERCIAL, "873bac1b1c461e410c4a6e379f6790d3d1c7c214"),
    "xcomet-lite": Release("myyycroft/XCOMET-lite", "xcomet", UNKNOWN),
    "bleurt-20": Release("lucadiliello/BLEURT-20", "bleurt", UNSTATED, "e22b9eb071dcb939da9fff08b20a7e746c72a830"),
    "bleurt-20-d12": Release(
        "lucadiliello/BLEURT-20-D12", "bleurt", UNSTATED, "90ce39a8ceb3b9a046a7788f0005572301c3fe67"
    ),
    "bleurt-20-d6": Release("lucadiliello/BLEURT-20-D6", "bleurt", UNSTATED),
    "bleurt-20-d3": Release("lucadiliello/BLEURT-20-D3", "bleurt", UNSTATED),
    "metricx-24-hybrid-large": Release(
        "google/metricx-24-hybrid-large-v2p6",
        "metricx",
        "Apache-2.0",
        "51e875ba5c525c81627cfd135ee10f43c87dce00",
        tokenizer="google/mt5-large",
    ),
    "metricx-24-hybrid-xl": Release(
        "google/metricx-24-hybrid-xl-v2p6",
        "metricx",
        "Apache-2.0",
        "f6e7f99a655582f28cb998dd3e6ca86b4217430d",
        tokenizer="google/mt5-xl",
    ),
    "metricx-24-hybrid-xxl": Release(
        "google/metricx-24-hybrid-xxl-v2p6",
        "metricx",
        "Apache-2.0",
        "0ff238ccb517eb0b2998dd6d299528b040c5caec",
        tokenizer="google/mt5-xxl",
    ),
    "metricx-23-xl": Release("google/metricx-23-xl-v2p0", "metricx-23", "Apache-2.0", tokenizer="google/mt5-xl"),
    "metricx-23-large": Release(
        "google/metricx-23-large-v2p0", "metricx-23", "Apache-2.0", tokenizer="google/mt5-large"
    ),
    "metricx-23-xxl": Release("google/metricx-23-xxl-v2p0", "metricx-23", "Apache-2.0", tokenizer="google/mt5-xxl"),
    "metricx-23-qe-xl": Release(
        "google/metricx-23-qe-xl-v2p0", "metricx-23-qe", "Apache-2.0", tokenizer="google/mt5-xl"
    ),
    "metricx-23-qe-large": Release(
        "google/metricx-23-qe-large-v2p0", "metricx-23-qe", "Apache-2.0", tokenizer="google/mt5-large"
    ),
    "metricx-23-qe-xxl": Release(
        "google/metricx-23-qe-xxl-v2p0", "metricx-23-qe", "Apache-2.0", tokenizer="google/mt5-xxl"
    ),
    "bert-base-multilingual-cased": Release("google-bert/bert-base-multilingual-cased", "bertscore", "Apache-2.0"),
    "roberta-large": Release("FacebookAI/roberta-large", "bertscore", "MIT"),
    "xlm-roberta-large": Release("FacebookAI/xlm-roberta-large", "bertscore", "MIT"),
    "deberta-xlarge-mnli": Release("microsoft/deberta-xlarge-mnli", "bertscore", "MIT"),
}


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model, with its name and licence. `name` identifies the release."""

    path: Path
    local: bool
    name: str
    licence: str | None  # of the weights; None where it is unknown
    certain: bool  # whether these are the released weights, or local ones that may be
    stamp: Stamp  # from before they are read

    def full_name(self, network: Any, tokenizer: Any, settings: str, options: Mapping[str, Any]) -> str:
        """A name that identifies the model; of local files, or with another encoder, by a fingerprint."""
        from pear.runtime.encoders import fingerprint

        if not self.local and not options.get("encoder"):
            return self.name
        return f"{self.name}@{fingerprint(network, tokenizer, settings, stamp=self.stamp)}"

    def note(self) -> str | None:
        """The licence, where it does not allow all uses."""
        if self.licence != NON_COMMERCIAL:
            return None
        whose = f"the weights of {self.name}" if self.certain else f"if {self.name} holds released weights, these"
        return f"{whose} are under {self.licence}: not for commercial use"


def find_model(model: str | Path, metric: str, options: Mapping[str, Any]) -> ModelFiles:
    """The files of a model; from the hub they are downloaded if necessary.

    Args:
        model: a folder, a file, a short name or a hub repository.
        metric: to which the model must belong.
        options: `revision`, `cache_dir` and `offline` of `ModelOptions` are used.
    """
    repository, release, where = _place_of(model, metric, options)
    path, local = locate(repository, **where)
    usual = next((r.licence for r in RELEASES.values() if r.metric == metric), None)
    if local:
        if options.get("revision") is not None:
            raise UsageError(f"a revision belongs to a hub model; {path} is a local path")
        if not path.exists():
            raise ModelError(f"{path} does not exist; expected a folder or file of a {metric} model, or a hub name")
        stamp = Stamp.of(path if path.is_dir() else root_of(path))
        return ModelFiles(path, True, path.resolve().name, usual, certain=False, stamp=stamp)
    name = f"{repository}@{path.name[:12]}"
    licence = release.licence if release else usual
    return ModelFiles(path, False, name, licence, certain=release is not None, stamp=Stamp.of(path))


def check_model_found(model: str | Path, metric: str, options: Mapping[str, Any]) -> None:
    """Refuse what `find_model` will not find because nothing can be downloaded now; downloads nothing."""
    repository, _, where = _place_of(model, metric, options)
    check_found(repository, **where)


def _place_of(
    model: str | Path, metric: str, options: Mapping[str, Any]
) -> tuple[str | Path, Release | None, dict[str, Any]]:
    """The path or repository of a model, its release if it is one, and where to look for it."""
    release = RELEASES.get(str(model)) or next((r for r in RELEASES.values() if r.repository == str(model)), None)
    exists = Path(model).exists()
    if release is not None and release.metric != metric and not exists:
        raise UsageError(f"{release.repository} is a model of {release.metric}, not of {metric}")
    pinned = options.get("revision") or (release.revision if release else None)
    where = {
        "revision": None if exists else pinned,
        "cache_dir": options.get("cache_dir"),
        "local_files_only": options.get("offline", False),
        # Repositories of encoders hold their weights for other libraries, too.
        "files": ENCODER_WEIGHTS if metric == "bertscore" else None,
    }
    return (release.repository if release and not exists else model), release, where


def stamp_files(model: str | Path, metric: str, options: Mapping[str, Any]) -> str | None:
    """Names, sizes, times and inodes of all files of a model, and the options that change its settings."""
    located = find_model(model, metric, options)
    root = located.path if located.path.is_dir() else located.path.parent
    root = root.parent if root.name == "checkpoints" else root
    places = [root, root / "checkpoints", root / "encoder", options.get("encoder"), _named_encoder(root)]
    folders = [Path(place) for place in places if place and Path(place).is_dir()]
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()]
    if len(files) > MOST_FILES:
        return None
    stamps = [f"{file.resolve()} {stamp_file(file)}" for file in files]
    changing = [str(options.get(key)) for key in ("dtype", "encoder", "backend")]
    return "\n".join([located.name, *changing, *stamps])


def _named_encoder(root: Path) -> str | None:
    """The folder that `hparams.yaml` names for the encoder, if it is one."""
    try:
        settings = yaml.safe_load((root / "hparams.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    named = settings.get("pretrained_model") if isinstance(settings, dict) else None
    return named if isinstance(named, str) and Path(named).is_dir() else None
