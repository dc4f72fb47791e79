"""Our tokenizers against those of transformers: the same ids for ordinary and for odd texts."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pear.runtime.encoders import load_tokenizer
from pear.runtime.probes import PROBES
from pear.runtime.tokenization import FastTokenizer
from pear.shipped import SHIPPED
from tests.support.random_pear import CORPUS, write_bert_tokenizer, write_tokenizer

TEXTS = [
    *(text for triple in PROBES for text in triple),
    *CORPUS,
    "",
    " ",
    "  two  spaces, and at the end  ",
    "\ttabs\tand\nlines\r\n",
    "a </s> b <pad> <mask> c <unk> <s> [SEP] [MASK] d[CLS]",
    "ﬁne ½ Ⅷ ｆｕｌｌ　ｗｉｄｔｈ e\u0301 \u00ad soft \u200b zero",
    "😀 emoji 👩‍👩‍👧 and \u2028 separators \x00 \x07",
    "▁ is their space",
    "ÀÉÎ ẞ İstanbul Straße",
    "x" * 300,
]
FOLDERS = ("xlm-roberta", "sentencepiece", "bert", "words", "cased", "bundled")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of XLM-R and BERT with and without `tokenizer.json`, and that of a bundled model."""
    from transformers import AutoTokenizer

    root = tmp_path_factory.mktemp("tokenizers")
    places = {name: root / name for name in FOLDERS[:-1]}
    write_tokenizer(places["xlm-roberta"])
    write_tokenizer(places["sentencepiece"])
    (places["sentencepiece"] / "tokenizer.json").unlink()
    (places["sentencepiece"] / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    for name in ("bert", "words", "cased"):
        write_bert_tokenizer(places[name])
    AutoTokenizer.from_pretrained(places["bert"]).save_pretrained(places["bert"])
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "tokenize_chinese_chars": False}
    (places["cased"] / "tokenizer_config.json").write_text(json.dumps(settings))
    bundled = next(path for path in SHIPPED.iterdir() if (path / "tokenizer.json").is_file())
    return {**places, "bundled": bundled}


def of_transformers(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", FOLDERS)
def test_token_ids_are_those_of_transformers(folders: dict[str, Path], name: str) -> None:
    theirs, ours = of_transformers(folders[name]), load_tokenizer(folders[name])
    assert isinstance(ours, FastTokenizer)
    expected = theirs(TEXTS, verbose=False)["input_ids"]
    for text, own, ids in zip(TEXTS, ours(TEXTS)["input_ids"], expected, strict=True):
        assert own == ids, repr(text)
    for role in ("cls_token", "sep_token", "pad_token", "unk_token", "bos_token", "eos_token", "mask_token"):
        assert getattr(ours, role) == getattr(theirs, role), role
        assert getattr(ours, f"{role}_id") == getattr(theirs, f"{role}_id"), role
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize(
    "options",
    [
        {"add_special_tokens": False},
        {"return_offsets_mapping": True},
        {"return_offsets_mapping": True, "add_special_tokens": False},
        {"truncation": True, "max_length": 6, "return_offsets_mapping": True},
        {"truncation": True, "max_length": 5, "add_special_tokens": False},
    ],
    ids=str,
)
def test_options_mean_what_they_mean_in_transformers(
    folders: dict[str, Path], name: str, options: dict[str, Any]
) -> None:
    theirs, ours = of_transformers(folders[name]), load_tokenizer(folders[name])
    for text in ("Tom told me that he wanted to meet my parents.", "größer", ""):
        expected, own = theirs(text, **options), ours(text, **options)
        assert own["input_ids"] == expected["input_ids"]
        # Of a sentencepiece file transformers 4 makes a tokenizer that counts the space before a word as part of it.
        if "return_offsets_mapping" in options and name != "sentencepiece":
            assert own["offset_mapping"] == [tuple(pair) for pair in expected["offset_mapping"]]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_saved_tokenizer_is_read_by_transformers_and_by_us(
    folders: dict[str, Path], name: str, tmp_path: Path
) -> None:
    ours = load_tokenizer(folders[name])
    ours.save_pretrained(tmp_path)
    expected = ours(TEXTS)["input_ids"]
    assert load_tokenizer(tmp_path)(TEXTS)["input_ids"] == expected
    assert of_transformers(tmp_path)(TEXTS, verbose=False)["input_ids"] == expected


@pytest.mark.parametrize("name", ["xlm-roberta", "bert", "bundled"])
def test_decoding_and_whatever_else_transformers_tokenizers_do(folders: dict[str, Path], name: str) -> None:
    theirs, ours = of_transformers(folders[name]), load_tokenizer(folders[name])
    ids = theirs(CORPUS[0])["input_ids"]
    for special in (False, True):
        assert ours.decode(ids, skip_special_tokens=special) == theirs.decode(ids, skip_special_tokens=special)
    assert ours.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)
    padded = ours(CORPUS[:2], padding=True, return_tensors="pt")
    assert padded["input_ids"].tolist() == theirs(CORPUS[:2], padding=True)["input_ids"]
    assert ours("A dog.", "Ein Hund.")["input_ids"] == theirs("A dog.", "Ein Hund.")["input_ids"]
    with pytest.raises(AttributeError):
        _ = ours.no_such_thing


def test_a_copy_is_a_tokenizer(folders: dict[str, Path]) -> None:
    ours = load_tokenizer(folders["bundled"])
    assert copy.deepcopy(ours)(TEXTS)["input_ids"] == ours(TEXTS)["input_ids"]


@pytest.mark.parametrize(
    "settings",
    [
        {"tokenizer_class": "DebertaV2Tokenizer"},
        {"tokenizer_class": "XLMRobertaTokenizer", "additional_special_tokens": ["<new>"]},
        {"tokenizer_class": "XLMRobertaTokenizer", "pad_token": "<unk>"},
    ],
    ids=str,
)
def test_folders_of_other_kinds_are_left_to_transformers(
    folders: dict[str, Path], settings: dict[str, Any], tmp_path: Path
) -> None:
    for file in folders["xlm-roberta"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": "<pad>"}')
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert FastTokenizer.of_folder(tmp_path) is None


def test_a_broken_file_says_why(folders: dict[str, Path], tmp_path: Path) -> None:
    from candidates.common.errors import ModelError

    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(ModelError, match="cannot load the tokenizer: .*EOF"):
        load_tokenizer(tmp_path)
