"""Where a named model lives: a local path, or a repository on the Hugging Face hub at a pinned revision.

Only files are located here, nothing is loaded. "Not in the cache while offline", "gated or no access", "no such
model" and "the hub cannot be reached" are four different messages, because they have four different cures.
"""

from __future__ import annotations

from pathlib import Path

from candidates.common.errors import ModelError
from candidates.common.hub import hub_answers, offline, quiet_hub, unreachable
from pear.shipped import DEFAULT, shipped_models

OFFLINE = f"--model {DEFAULT} (bundled, English-German) or --utility chrf and --judge chrf, which need no model"

ALIASES = {
    "pear": "Prosho/pear",
    "pear-xl": "Prosho/pear-xl",
    "xlm-roberta-large": "FacebookAI/xlm-roberta-large",  # its old name, which COMET's checkpoints still use
}

REVISIONS = {
    "Prosho/pear": "3cc8b7894f6542fde430cc2a9f96a82fa6a679ff",
    "Prosho/pear-xl": "1f3b730fca2e223642270749310bb429b4ce5c0a",
    "microsoft/infoxlm-large": "d616d637f0720deda963cebbfc630657d2b7d3ae",
    "facebook/xlm-roberta-xl": "aa5d120255845efeebc9b7f42822a1dd0f9ece9d",
    "facebook/xlm-roberta-xxl": "03e0fb540c3c9afd4bdda0072e7cb82d2eafd060",
    "FacebookAI/xlm-roberta-large": "c23d21b0620b635a76227c604d44e43a9f0ee389",
    "google/mt5-large": "50b7223e98fcd124b0cabb1ec81bc6324c7df107",
    "google/mt5-xl": "63fc6450d80515b48e026b69ef2fbbd426433e84",
    "google/mt5-xxl": "e07c395916dfbc315d4e5e48b4a54a1e8821b5c0",
    "sentence-transformers/LaBSE": "836121a0533e5664b21c7aacc5d22951f2b8b25b",
}

# An encoder repository holds weights in several formats; its configuration and tokenizer are all we take.
ENCODER_FILES = ["config.json", "tokenizer*", "special_tokens_map.json", "*.model", "vocab*", "merges.txt"]
# To train from an encoder its weights are needed too.
ENCODER_WEIGHTS = [*ENCODER_FILES, "*.safetensors*", "pytorch_model*"]


def root_of(file: Path) -> Path:
    """`<root>/checkpoints/model.ckpt` -> `<root>`; a bare file is its folder's."""
    folder = file.resolve().parent
    return folder.parent if folder.name == "checkpoints" else folder


def locate(
    model: str | Path,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    files: list[str] | None = None,
) -> tuple[Path, bool]:
    """The path of a model's files, and whether it was named by it; the others are fetched from the hub.

    Of a hub repository, files that match `files` are fetched; None is all.
    """
    # As with translators: a folder that has the name of a bundled model is ./name.
    path = shipped_models().get(str(model), Path(model).expanduser())
    if path.exists() or str(model).startswith((".", "/", "~")) or path.suffix == ".ckpt":
        if revision is not None:
            raise ModelError(f"a revision belongs to a hub model; {path} is a local path")
        return path, True
    folder = fetch(str(model), revision=revision, cache_dir=cache_dir, local_files_only=local_files_only, files=files)
    return folder, False


def check_found(
    model: str | Path,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    files: list[str] | None = None,
) -> None:
    """Refuse a name that `locate` will not find because nothing can be downloaded now. Fast, and downloads nothing.

    For calling before torch is imported, so that a wrong name is answered at once.
    """
    if str(model) in shipped_models() or Path(model).expanduser().exists():
        return
    if local_files_only or offline() or not hub_answers():
        locate(model, revision=revision, cache_dir=cache_dir, local_files_only=local_files_only, files=files)


def fetch(
    repository: str,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    files: list[str] | None = None,
) -> Path:
    """The folder of a hub repository in the local cache, downloaded if need be and allowed."""
    from huggingface_hub import constants, errors, snapshot_download
    from huggingface_hub.utils import validate_repo_id

    name, repository = repository, ALIASES.get(repository, repository)
    revision = revision or REVISIONS.get(repository)
    asked = f"{repository}@{revision}" if revision else repository
    forbidden = local_files_only or bool(constants.HF_HUB_OFFLINE)
    try:
        validate_repo_id(repository)
        with quiet_hub():
            return Path(
                snapshot_download(
                    repository,
                    revision=revision,
                    cache_dir=cache_dir,
                    local_files_only=forbidden or not hub_answers(),
                    allow_patterns=files,
                )
            )
    except errors.GatedRepoError as exc:
        raise ModelError(
            f"{asked} is gated: accept its terms on its hub page, then log in (hf auth login) and run again"
        ) from exc
    except errors.RevisionNotFoundError as exc:
        raise ModelError(f"{repository} has no revision {revision!r}; check the name or leave it out") from exc
    except errors.RepositoryNotFoundError as exc:
        raise ModelError(
            f"no such model: {asked} is neither a local path nor a hub repository you can see; check the "
            "spelling, or log in (hf auth login) if it is private"
        ) from exc
    except errors.HFValidationError as exc:
        raise ModelError(
            f"no such model: {repository!r} is neither an existing local path nor the name of a hub repository "
            "(owner/name)"
        ) from exc
    except errors.LocalEntryNotFoundError as exc:
        named = asked if name == repository else f"{name} ({asked})"
        raise unreachable(named, OFFLINE, forbidden=forbidden, released=name in ALIASES or _pinned(revision)) from exc
    except errors.HfHubHTTPError as exc:
        raise ModelError(f"the hub refused {asked}: {exc}") from exc
    except OSError as exc:
        raise ModelError(f"{asked} could not be fetched: {exc}") from exc


def _pinned(revision: str | None) -> bool:
    """Whether a revision is a commit, as those of the releases we know."""
    return revision is not None and len(revision) == 40
