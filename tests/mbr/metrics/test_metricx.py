"""MetricX against its definition, spelled out with plain transformers: one row at a time, all of the vocabulary."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import ModelError, UsageError
from tests.mbr.metrics.damage import assert_refused, change_config, drop_weight

ROWS = [
    ("A dog.", "Ein Hund.", "Der Hund."),
    ("The sky.", "天地玄黃，宇宙洪荒。日月盈昃", "いろはにほへと ちりぬるを"),
    ("", "", "Der Hund."),
    ("Bread.", "Sie  kaufte\tBrot 🙂, zwei Eier ", " Sie kaufte Brot\nund Milch."),
    ("Long.", "Съешь же ещё этих мягких булок. " * 100, "Tom sagte mir, dass er kommt."),
    ("A dog.", "Ein Hund.", "Zwölf Boxkämpfer jagen Viktor. " * 100),
    ("Tom.", "Tom told me that he wanted to meet my parents.", "Tom said he would like to see my parents."),
    ("Empty.", "Ein Hund.", ""),
]
CUT = [False, False, False, False, True, True, False, False]
CUT_WITHOUT = [False, False, False, False, True, False, False, False]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.random_metrics import write_random_metricx

    return write_random_metricx(tmp_path_factory.mktemp("metricx") / "metricx")


@pytest.fixture(scope="module")
def metricx(folder: Path) -> Any:
    return load(folder)


def load(folder: Path, **options: Any) -> Any:
    return get("metricx", folder, **options)


def get(name: str, folder: Path, **options: Any) -> Any:
    from mbr.metrics import get_metric

    return get_metric(name, model=folder, device="cpu", **options)


def without_references(rows: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    return [(source, hypothesis) for source, hypothesis, _ in rows]


def plain(folder: Path, rows: list[Any]) -> np.ndarray:
    """Scores [rows] from all logits [rows, vocabulary] of the first step, without clamping."""
    import torch
    from transformers import AutoTokenizer, MT5Config, MT5ForConditionalGeneration

    written = json.loads((folder / "config.json").read_text())
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    model = MT5ForConditionalGeneration(MT5Config.from_dict(written)).eval()
    model.lm_head = torch.nn.Linear(written["d_model"], written["vocab_size"], bias=False)
    tied = written["tie_word_embeddings"]
    output = state["shared.weight"] * written["d_model"] ** -0.5 if tied else state["lm_head.weight"]
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        state[name] = state["shared.weight"]
    model.load_state_dict({**state, "lm_head.weight": output})
    model.config.tie_word_embeddings = False  # transformers 4 would scale once more
    tokenizer = AutoTokenizer.from_pretrained(folder)
    scores = []
    for source, hypothesis, *reference in rows:
        text = "source: " + source + " candidate: " + hypothesis
        if reference:
            text += " reference: " + reference[0]
        ids = tokenizer(text, max_length=1536, truncation=True)["input_ids"]
        assert ids.pop() == 1
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([[0]])).logits
        scores.append(float(logits[0, 0, 250089]))
    return np.array(scores)


@pytest.mark.parametrize("tied", [False, True])
def test_scores_are_those_of_the_definition(folder: Path, tmp_path: Path, tied: bool) -> None:
    from tests.support.random_metrics import write_random_metricx

    root = write_random_metricx(tmp_path / "tied", tied=True) if tied else folder
    rows = ROWS[:4] if tied else ROWS
    expected = plain(root, [*rows, *without_references(rows)])
    assert (expected > 0).all()
    assert (expected < 25).all()
    assert np.ptp(expected) > 1
    with load(root) as metric:
        scores = np.concatenate([metric.score(rows), metric.score(without_references(rows))])
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_scores_stay_between_0_and_25(folder: Path, tmp_path: Path) -> None:
    import torch

    root = tmp_path / "wide"
    shutil.copytree(folder, root)
    state = torch.load(root / "pytorch_model.bin", weights_only=True)
    row = state["lm_head.weight"][250089].clone()
    for factor, score in ((10.0, 25.0), (-1.0, 0.0)):
        state["lm_head.weight"][250089] = factor * row
        torch.save(state, root / "pytorch_model.bin")
        assert load(root).score(ROWS[:1]).tolist() == [score]


def test_order_and_batch_size_change_nothing(folder: Path, metricx: Any) -> None:
    order = np.random.default_rng(0).permutation(len(ROWS))
    expected = metricx.score(ROWS)[order]
    with load(folder, batch_tokens=1600) as other:
        np.testing.assert_allclose(other.score([ROWS[i] for i in order]), expected, atol=1e-5)


def test_each_prompt_is_computed_once(folder: Path) -> None:
    with load(folder) as metric:
        seen: list[int] = []
        metric._runner.network.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
        rows = [("A.", "x", "y"), ("B.", "x", "y"), ("A.", "x", "y"), ("A.", "y", "x")]
        scores = metric.score(rows)
        assert sum(seen) == 3
        assert scores[0] == scores[2]
        assert len(set(scores.tolist())) == 3
        assert metric.tokens(rows) == metric.tokens(rows[1:])
        assert metric.score([]).shape == metric.truncated([]).shape == (0,)


def test_prompts_that_do_not_fit_are_told_before_any_is_scored(folder: Path) -> None:
    with load(folder) as metric:
        assert metric.truncated(ROWS).tolist() == CUT
        assert metric.truncated(without_references(ROWS)).tolist() == CUT_WITHOUT


def test_a_prompt_fits_with_its_end_token(folder: Path, metricx: Any) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [("", " ".join(["x"] * count)) for count in range(700, 800)]
    lengths = [len(tokenizer(f"source:  candidate: {hypothesis}")["input_ids"]) for _, hypothesis in rows]
    assert min(lengths) <= 1536 < max(lengths)
    assert metricx.truncated(rows).tolist() == [length > 1536 for length in lengths]


TEXTS = [
    "source: A dog candidate: Ein Hund.",
    "  two  spaces   here ",
    "",
    " ",
    "\t tab\nline \u2028 separator \u00a0 \u3000",
    "日本語テキスト。 Ａｆｕｌｌ ｗｉｄｔｈ ①②",
    "emoji 🐶👍🏽 👩‍👩‍👧 e\u0301 \u200b\ufeff ﬁ",
    "x  </s>  y <pad><unk> ▁under▁score",
    "a" * 300,
    "نص عربى",
]


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_those_of_transformers(folder: Path, text: str) -> None:
    from transformers import AutoTokenizer

    from mbr.metrics.mt5 import Pieces

    assert Pieces(folder)([text])["input_ids"] == [AutoTokenizer.from_pretrained(folder)(text)["input_ids"]]


def test_states_are_those_of_transformers(folder: Path) -> None:
    import torch
    from transformers import MT5Config, MT5Model

    from mbr.metrics.metricx_network import load_metricx

    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        state[name] = state["shared.weight"]
    state.pop("lm_head.weight")
    library = MT5Model(MT5Config.from_dict(json.loads((folder / "config.json").read_text()))).eval()
    library.load_state_dict(state)
    ids = torch.randint(3, 600, (3, 300), generator=torch.Generator().manual_seed(1))
    attention = (torch.arange(300) < torch.tensor([[300], [7], [130]])).long()
    ours = load_metricx("metricx", "", {"model": str(folder)}).network.encoder
    with torch.inference_mode():
        expected = library(input_ids=ids, attention_mask=attention, decoder_input_ids=torch.zeros_like(ids[:, :1]))
        np.testing.assert_allclose(ours(ids, attention), expected.last_hidden_state[:, 0], atol=1e-5)


def test_bf16_is_near_float32(folder: Path, metricx: Any) -> None:
    import torch

    with load(folder, dtype="bf16") as metric:
        assert metric._runner.network.encoder.shared.weight.dtype == torch.bfloat16
        np.testing.assert_allclose(metric.score(ROWS), metricx.score(ROWS), atol=0.3)


def test_fp16_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="fp16.*use bf16"):
        load(folder, dtype="fp16")


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("safetensors", [False, True])
def test_all_formats_of_weights_give_the_same_model(
    tmp_path: Path, metricx: Any, shards: int, safetensors: bool
) -> None:
    from tests.support.random_metrics import write_random_metricx

    root = write_random_metricx(tmp_path / "metricx", shards=shards, safetensors=safetensors)
    with load(root) as metric:
        assert metric.settings() == metricx.settings()


def test_weights_in_bf16_files_are_read(folder: Path, metricx: Any, tmp_path: Path) -> None:
    import torch

    root = tmp_path / "bf16"
    shutil.copytree(folder, root)
    state = torch.load(root / "pytorch_model.bin", weights_only=True)
    torch.save({name: weight.bfloat16() for name, weight in state.items()}, root / "pytorch_model.bin")
    with load(root) as metric:
        assert metric.settings()["model"] != metricx.settings()["model"]
        np.testing.assert_allclose(metric.score(ROWS), metricx.score(ROWS), atol=0.3)


def test_the_tokenizer_may_be_elsewhere(folder: Path, metricx: Any, tmp_path: Path) -> None:
    from tests.support.random_metrics import write_mt5_tokenizer

    model, tokenizer = tmp_path / "metricx", tmp_path / "mt5"
    shutil.copytree(folder, model)
    for name in ("spiece.model", "tokenizer_config.json", "special_tokens_map.json"):
        (model / name).unlink()
    with pytest.raises(ModelError, match="google/mt5-xl.*not in the local cache.*--encoder FOLDER"):
        load(model, offline=True)
    write_mt5_tokenizer(tokenizer)
    (tokenizer / "config.json").unlink()
    assert load(model, encoder=tokenizer, offline=True).settings() == metricx.settings()


def test_a_tokenizer_of_another_kind_is_refused(folder: Path, tmp_path: Path) -> None:
    from tests.support.random_pear import write_tokenizer

    write_tokenizer(tmp_path / "xlm-roberta")
    with pytest.raises(ModelError, match="not the tokenizer of an mT5"):
        load(folder, encoder=tmp_path / "xlm-roberta")


def damage_output(root: Path) -> None:
    drop_weight(root, "lm_head.weight")


def damage_input(root: Path) -> None:
    drop_weight(root, "shared.weight")


def damage_decoder(root: Path) -> None:
    drop_weight(root, "decoder.block.1.layer.1.EncDecAttention.k.weight")


def damage_layers(root: Path) -> None:
    change_config(root, num_layers=1, num_decoder_layers=1)


def damage_kind(root: Path) -> None:
    change_config(root, model_type="t5")


def damage_architecture(root: Path) -> None:
    change_config(root, architectures=["MT5ForConditionalGeneration"])


def damage_activation(root: Path) -> None:
    change_config(root, feed_forward_proj="a-b-c")


def damage_shards(root: Path) -> None:
    (root / "pytorch_model.bin").unlink()
    index = {"weight_map": {"shared.weight": "pytorch_model-00001-of-00002.bin"}}
    (root / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def damage_index(root: Path) -> None:
    (root / "pytorch_model.bin").unlink()
    (root / "model.safetensors.index.json").write_text('{"weight_map": {"shared.weight": "../model.safetensors"}}')


def damage_file(root: Path) -> None:
    (root / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_output, "lm_head.weight is missing"),
        (damage_input, "shared.weight is missing"),
        (damage_decoder, "1 weight is missing, e.g. encoder.decoder.block.1.layer.1.EncDecAttention.k.weight"),
        (damage_layers, "weights have no place in this network"),
        (damage_kind, "a model of type t5 .* expected MetricX, that is mt5"),
        (damage_architecture, r"type mt5 \(MT5ForConditionalGeneration\); expected MetricX"),
        (damage_activation, "cannot build mT5 from this configuration"),
        (damage_shards, "names pytorch_model-00001-of-00002.bin, which is missing; fetch the model again"),
        (damage_index, "not a file of this folder"),
        (damage_file, "model.safetensors is broken, fetch it again"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_checkpoint_is_an_error_that_says_why(folder: Path, tmp_path: Path, damage: Any, message: str) -> None:
    assert_refused(load, folder, tmp_path / "metricx", damage, message)


def test_a_small_vocabulary_has_no_score(tmp_path: Path) -> None:
    from tests.support.random_metrics import write_random_metricx

    with pytest.raises(ModelError, match="has no entry 250089"):
        load(write_random_metricx(tmp_path / "small", vocabulary=1000))


# From the network of Google's program for MetricX-23 (metricx23/models.py, transformers 4.30.2) with the weights of
# `folder`: `python -m benchmarks.parity_libraries metricx-23 --clone metricx`.
# Prompts that end in a space (an empty reference or source) are left out: that version makes a token of it, later
# ones and sentencepiece itself do not.
GOOGLE_23 = {
    "metricx-23": {0: 7.318889, 1: 6.757218, 2: 7.189616, 3: 5.100222, 4: 9.723383, 5: 8.574933, 6: 6.931484},
    "metricx-23-qe": {0: 5.970006, 1: 5.02901, 3: 6.451303, 4: 9.723383, 5: 5.970006, 6: 6.562806, 7: 4.779795},
}


@pytest.mark.parametrize("name", GOOGLE_23)
def test_metricx_23_scores_as_in_googles_program(name: str, folder: Path) -> None:
    rows = ROWS if name == "metricx-23" else without_references(ROWS)
    with get(name, folder) as metric:
        np.testing.assert_allclose(metric.score(rows)[list(GOOGLE_23[name])], list(GOOGLE_23[name].values()), atol=1e-4)
        assert metric.truncated(rows).tolist() == (CUT if name == "metricx-23" else CUT_WITHOUT)
        assert metric.lower_is_better
        assert metric.settings()["trunc"] == 1024


def test_metricx_23_with_references_does_not_read_the_source(folder: Path) -> None:
    with get("metricx-23", folder) as metric:
        scores = metric.score([("A dog.", "Ein Hund.", "Der Hund."), ("Other.", "Ein Hund.", "Der Hund.")])
        assert scores[0] == scores[1]
        assert not metric.reads_source
        with pytest.raises(UsageError, match=r"metricx-23 takes rows of \(source, hypothesis, reference\)"):
            metric.score(without_references(ROWS))
    with get("metricx-23-qe", folder) as metric, pytest.raises(UsageError, match="metricx-23-qe takes rows of"):
        metric.score(ROWS)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("metricx-23-xl-v2p0", "metricx-23"),
        ("metricx-23-qe-xl-v2p0", "metricx-23-qe"),
        ("MetricX-24-hybrid-xl-v2p6", "metricx"),
    ],
)
def test_a_model_that_reads_another_input_is_refused(folder: Path, tmp_path: Path, name: str, other: str) -> None:
    root = tmp_path / name
    shutil.copytree(folder, root)
    for metric in ("metricx", "metricx-23", "metricx-23-qe"):
        if metric == other:
            get(metric, root).close()
        else:
            with pytest.raises(ModelError, match=f"by its name it is a model of {other}; use {other}"):
                get(metric, root)


def test_rows_of_two_kinds_do_not_mix(metricx: Any) -> None:
    with pytest.raises(UsageError, match="metricx takes rows of"):
        metricx.score([ROWS[0], ROWS[0][:2]])


def test_the_classes_are_known_without_heavy_libraries() -> None:
    code = (
        "import sys; import mbr.metrics.bleurt, mbr.metrics.metricx; "
        "print(sorted({'torch', 'transformers', 'sentencepiece'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
