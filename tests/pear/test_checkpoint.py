from __future__ import annotations

import argparse
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from candidates.common.errors import InputError, ModelError
from pear.checkpoint import load_checkpoint, save_checkpoint, save_released
from pear.engine import Engine
from pear.model import HeadConfig
from pear.runtime.encoders import fingerprint
from pear.runtime.probes import PROBES
from tests.support.random_pear import random_checkpoint


def scores(checkpoint: Any) -> Any:
    return Engine(checkpoint.network, checkpoint.tokenizer, device="cpu").score(PROBES)


@pytest.fixture
def broken(released: Path, tmp_path: Path) -> Path:
    """A copy of the released checkpoint, to be broken."""
    root = tmp_path / "broken"
    shutil.copytree(released, root)
    return root


def rewrite(root: Path, change: Any) -> Path:
    file = root / "checkpoints" / "model.ckpt"
    content = torch.load(file, weights_only=True)
    change(content)
    torch.save(content, file)
    return root


@pytest.mark.parametrize(
    "shape",
    [
        {"model_type": "xlm-roberta"},
        {"model_type": "xlm-roberta-xl"},
        {"model_type": "bert"},
        {"head": HeadConfig((16,), layer_norm_before_head=True, learn_score_scale=False, score_alpha=3.0)},
        {"head": HeadConfig((16, 8), activations="Tanh", final_activation="tanh")},
    ],
    ids=["xlm-r", "xl", "bert", "norm-before-head", "tanh"],
)
def test_both_layouts_give_the_same_scores_back(tmp_path: Path, shape: dict[str, Any]) -> None:
    checkpoint = random_checkpoint(tmp_path / "scratch", layers=1, hidden=16, heads=2, **shape)
    save_checkpoint(checkpoint, tmp_path / "ours")
    save_released(checkpoint, tmp_path / "released")
    expected = scores(checkpoint)
    assert np.std(expected) > 1e-3
    assert np.array_equal(scores(load_checkpoint(tmp_path / "ours")), expected)
    assert np.array_equal(scores(load_checkpoint(tmp_path / "released", strict=True)), expected)
    assert sorted(p.name for p in (tmp_path / "ours").iterdir() if "token" not in p.name)[:2] == [
        "README.md",
        "config.json",
    ]


@pytest.mark.parametrize("name", ["", "checkpoints/model.ckpt", "checkpoints"])
def test_a_released_checkpoint_may_be_named_by_folder_or_file(released: Path, name: str) -> None:
    checkpoint = load_checkpoint(released / name)
    assert checkpoint.name.split("@")[0] in ("xlm-roberta", "checkpoints")


def test_the_name_tells_checkpoints_apart(tmp_path: Path) -> None:
    names = set()
    for seed in (1, 2):
        folder = tmp_path / str(seed) / "pear"
        save_checkpoint(random_checkpoint(tmp_path / "s", layers=1, hidden=16, heads=2, seed=seed), folder)
        names.add(load_checkpoint(folder).name)
    assert len(names) == 2


def test_a_moved_checkpoint_finds_the_encoder_beside_it(released: Path, tmp_path: Path) -> None:
    shutil.copytree(released, tmp_path / "moved")
    rewrite(tmp_path / "moved", lambda c: c["hyper_parameters"].update(pretrained_model="/gone/encoder"))
    load_checkpoint(tmp_path / "moved")


def test_a_missing_encoder_folder_asks_for_one(broken: Path, released: Path) -> None:
    rewrite(broken, lambda c: c["hyper_parameters"].update(pretrained_model="/gone/encoder"))
    shutil.rmtree(broken / "encoder")
    with pytest.raises(ModelError, match="--encoder FOLDER"):
        load_checkpoint(broken)
    load_checkpoint(broken, encoder=released / "encoder")


def test_an_encoder_on_the_hub_while_offline_says_so(broken: Path) -> None:
    rewrite(broken, lambda c: c["hyper_parameters"].update(pretrained_model="microsoft/infoxlm-large"))
    load_checkpoint(broken, local_files_only=True)  # it is there, beside the checkpoint
    (broken / "encoder").rename(broken / "elsewhere")
    with pytest.raises(ModelError, match="infoxlm-large.*offline.*--encoder FOLDER"):
        load_checkpoint(broken, local_files_only=True)


def test_a_malicious_pickle_is_refused_and_not_run(broken: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "pwned",))

    rewrite(broken, lambda c: c.update(callbacks=Evil()))
    with pytest.raises(ModelError, match=r"refused.*--allow-pickle"):
        load_checkpoint(broken)
    assert not (tmp_path / "pwned").exists()


def test_a_bare_pickle_is_refused_and_not_run(broken: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (eval, (f"open({str(tmp_path / 'pwned')!r}, 'w')",))

    (broken / "checkpoints" / "model.ckpt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ModelError, match="refused|cannot be read"):
        load_checkpoint(broken)
    assert not (tmp_path / "pwned").exists()


def test_python_objects_in_yaml_are_refused_and_not_built(broken: Path, tmp_path: Path) -> None:
    target = tmp_path / "pwned"
    (broken / "hparams.yaml").write_text(f"x: !!python/object/apply:os.system ['touch {target}']\n")
    with pytest.raises(ModelError, match="not plain YAML"):
        load_checkpoint(broken)
    assert not target.exists()


def test_containers_of_a_lightning_run_are_harmless(broken: Path) -> None:
    def as_namespace(content: dict[str, Any]) -> None:
        content["hyper_parameters"] = argparse.Namespace(**content["hyper_parameters"])

    load_checkpoint(rewrite(broken, as_namespace))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda c: c["state_dict"].pop("span_proj.0.weight"),
            "1 weight is missing, e.g. head.span_proj.0.weight",
        ),
        (lambda c: c["state_dict"].update({"span_proj.0.weight": torch.zeros(2, 2)}), "do not fit"),
        (lambda c: c.pop("state_dict"), "no state_dict"),
        (lambda c: c["hyper_parameters"].update(encoder_model="GPT"), "encoder_model 'GPT' is unknown"),
        (
            lambda c: c["hyper_parameters"].update(encoder_model="XLM-RoBERTa-XL"),
            "but the checkpoint has xlm-roberta-xl",
        ),
        (lambda c: c["hyper_parameters"].update(blend="mean"), "blend is 'mean'"),
    ],
)
def test_checkpoints_that_do_not_fit_are_refused(broken: Path, change: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        load_checkpoint(rewrite(broken, change))


def test_strict_loading_refuses_weights_without_a_place(broken: Path) -> None:
    rewrite(broken, lambda c: c["state_dict"].update({"encoder.model.pooler.dense.weight": torch.zeros(2, 2)}))
    load_checkpoint(broken)
    with pytest.raises(ModelError, match="1 weight has no place in this network"):
        load_checkpoint(broken, strict=True)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda f: (f / "config.json").write_text("{"), "not valid JSON"),
        (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "no `pear` section"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 100), "cannot be read as safetensors"),
        (lambda f: (f / "model.safetensors").unlink(), "cannot be read as safetensors"),
        (lambda f: (f / "config.json").unlink(), "is not a PEAR checkpoint"),
    ],
)
def test_broken_folders_are_refused(ours: Path, tmp_path: Path, prepare: Any, words: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(ours, folder)
    prepare(folder)
    with pytest.raises(ModelError, match=words):
        load_checkpoint(folder)


def test_a_newer_format_asks_for_an_update(ours: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(ours, folder)
    config = json.loads((folder / "config.json").read_text())
    config["pear"]["format"] = 99
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="update mbr-decode"):
        load_checkpoint(folder)


def test_a_truncated_file_is_a_model_error(broken: Path) -> None:
    file = broken / "checkpoints" / "model.ckpt"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot be read as a torch checkpoint"):
        load_checkpoint(broken)


def test_the_released_layout_has_no_encoder_over_translation_models(tmp_path: Path) -> None:
    words = r"en-de@.* translation-reader; .* has only .*xlm-roberta; keep our layout"
    with pytest.raises(ModelError, match=words):
        save_released(load_checkpoint("en-de"), tmp_path / "released")
    assert not (tmp_path / "released").exists()


def test_an_existing_folder_is_not_overwritten(checkpoint: Any, ours: Path) -> None:
    with pytest.raises(InputError, match="not an empty folder"):
        save_checkpoint(checkpoint, ours)


def test_a_revision_of_a_local_path_makes_no_sense(ours: Path) -> None:
    with pytest.raises(ModelError, match="belongs to a hub model"):
        load_checkpoint(ours, revision="main")


def test_code_beside_a_checkpoint_is_never_run(ours: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(ours, folder)
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "unheard-of"
    config["auto_map"] = {"AutoConfig": "conf.Evil", "AutoModel": "conf.Evil"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "conf.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')\nclass Evil: pass\n")
    with pytest.raises(ModelError, match="cannot build the encoder|broken"):
        load_checkpoint(folder)
    assert not (tmp_path / "pwned").exists()


def test_a_checkpoint_without_its_vocabulary_is_refused(ours: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(ours, folder, ignore=shutil.ignore_patterns("tokenizer.json", "*.model"))
    with pytest.raises(ModelError, match="tokenizer"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "settings",
    [{"hidden_sizes": "abc"}, {"hidden_sizes": [-1]}, {"dropout": "x"}, {"activations": 5}, {"score_alpha": "x"}],
)
def test_nonsense_in_the_hyper_parameters_is_a_model_error(broken: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        load_checkpoint(rewrite(broken, lambda c: c["hyper_parameters"].update(settings)))


def test_a_released_folder_may_hold_other_files(broken: Path) -> None:
    (broken / "config.json").write_text("{}")
    load_checkpoint(broken)


def test_every_weight_and_the_tokenizer_are_in_the_name(checkpoint: Any, released: Path) -> None:
    before = fingerprint(checkpoint.network, checkpoint.tokenizer)
    weight = next(checkpoint.network.encoder.parameters())
    with torch.no_grad():
        weight[-1, -1] += 1
        try:
            assert fingerprint(checkpoint.network, checkpoint.tokenizer) != before
        finally:
            weight[-1, -1] -= 1
    assert fingerprint(checkpoint.network, lambda texts: {"input_ids": [[0]] * len(texts)}) != before
