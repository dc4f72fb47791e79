"""Models of other families, random and tiny but in their genuine formats: CTranslate2 and transformers agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from candidates.backends.models import guess_backend
from candidates.common.errors import ModelError, UsageError
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList, Origin

SOURCES = [
    "Tom told me that he wanted to meet my parents.",
    "The quick brown fox.",
    "",
    "She bought some bread, two eggs and a bottle of milk.",
]
LANGUAGES: dict[str, dict[str, str]] = {
    "marian": {},
    "m2m100": {"src_lang": "en", "tgt_lang": "de"},
    "nllb": {"src_lang": "eng_Latn", "tgt_lang": "deu_Latn"},
    "t5": {"tgt_lang": "de"},
}
Folders = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The transformers folder of a family and what our converter makes of it, each made once."""
    from candidates.backends.convert import convert
    from tests.support.random_mt import write_random_translator

    root = tmp_path_factory.mktemp("translators")

    def get(family: str) -> tuple[Path, Path]:
        theirs, ours = root / family, root / f"{family}-ct2"
        if not theirs.exists():
            write_random_translator(family, theirs)
            convert(str(theirs), ours, quantization="float32")
        return theirs, ours

    return get


def lists(model: Path, settings: Settings, sources: list[str] = SOURCES, **options: Any) -> list[CandidateList]:
    with open_generator(settings, model=str(model), **options) as generator:
        return list(generator.generate(sources))  # type: ignore[arg-type]


def reference(model: Path, family: str, source: str, beams: int, nbest: int, length: int) -> list[tuple[str, float]]:
    """transformers' own beam search and log-probabilities, written out here without our code."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForSeq2SeqLM.from_pretrained(model).eval()
    pad, end = network.config.pad_token_id, network.config.eos_token_id
    forced: dict[str, Any] = {"marian": {"bad_words_ids": [[pad]]}, "t5": {"bad_words_ids": [[pad]]}}.get(family, {})
    if family in ("m2m100", "nllb"):
        tokenizer.src_lang = LANGUAGES[family]["src_lang"]
        token = {"m2m100": "__de__", "nllb": "deu_Latn"}[family]
        forced = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(token)}
    given = len(forced) if "forced_bos_token_id" in forced else 0
    inputs = tokenizer("<2de> " + source if family == "t5" else source, return_tensors="pt")
    with torch.no_grad():
        sequences = network.generate(
            **inputs,
            num_beams=beams,
            num_return_sequences=nbest,
            max_new_tokens=length + given,
            do_sample=False,
            early_stopping=True,
            **forced,
        )
        found = []
        for sequence in sequences:
            tokens = sequence[1:].tolist()
            tokens = tokens[: tokens.index(end) + 1] if end in tokens else tokens
            logits = network(**inputs, decoder_input_ids=torch.tensor([[sequence[0].item(), *tokens[:-1]]])).logits[0]
            if family in ("marian", "t5"):
                logits[:, pad] = -torch.inf  # never said; CTranslate2 leaves it out of the distribution
            chosen = logits.log_softmax(-1)[range(len(tokens)), tokens]
            text = tokenizer.decode(tokens[given:], skip_special_tokens=True, clean_up_tokenization_spaces=False)
            found.append((text.strip(), float(chosen[given:].sum())))
    return found


# A random T5 says its padding token, as no trained one does; greedily it does not here.
@pytest.mark.parametrize(
    ("family", "beams"),
    [("marian", 1), ("marian", 4), ("m2m100", 1), ("m2m100", 4), ("nllb", 1), ("nllb", 4), ("t5", 1)],
)
def test_converted_models_give_transformers_translations_and_log_probabilities(
    folders: Folders, family: str, beams: int
) -> None:
    theirs, ours = folders(family)
    settings = Settings(nbest=beams, beam_size=beams, max_length=12)
    with open_generator(settings, model=str(ours), **LANGUAGES[family]) as generator:
        made = list(generator.generate(SOURCES))
    assert made[2].texts == ("",)
    if beams > 1:
        assert generator.cut_off < 3 * beams, "some hypotheses must end for this to mean much"
    for item in (made[0], made[1], made[3]):
        expected: dict[str, float] = {}
        for text, logprob in reference(theirs, family, item.source, beams, beams, 12):
            expected[text] = max(logprob, expected.get(text, -1e9))
        assert list(item.texts) == list(expected)
        assert item.logprobs == pytest.approx(list(expected.values()), abs=1e-3 if family != "t5" else 5e-2)


@pytest.mark.parametrize("family", ["marian", "m2m100", "nllb"])
def test_the_hf_back_end_gives_the_same_beams(folders: Folders, family: str) -> None:
    theirs, ours = folders(family)
    settings = Settings(nbest=3, beam_size=4, max_length=12)
    theirs_made = lists(theirs, settings, backend="hf", device="cpu", **LANGUAGES[family])
    for a, b in zip(lists(ours, settings, **LANGUAGES[family]), theirs_made, strict=True):
        assert a.texts == b.texts
        assert a.logprobs == pytest.approx(b.logprobs, abs=5e-2)  # the padding token has its small share here


def test_the_hf_back_end_samples_with_its_seed(folders: Folders) -> None:
    theirs, _ = folders("marian")
    for method in ("sample", "epsilon"):
        settings = {"nbest": 6, "method": method, "max_length": 8}
        first = lists(theirs, Settings(**settings), backend="hf", device="cpu")
        assert lists(theirs, Settings(**settings), backend="hf", device="cpu") == first
        other = lists(theirs, Settings(**settings, seed=2), backend="hf", device="cpu")
        assert [item.texts for item in other] != [item.texts for item in first]
        with open_generator(Settings(**settings), model=str(theirs), backend="hf", device="cpu") as generator:
            assert list(generator.generate(SOURCES, skip=3)) == first[3:]
            assert {item.origin for item in first} == {Origin.of(generator.described())}


def test_a_word_piece_is_no_language() -> None:
    """Vocabularies of real models hold the pieces "de" and "en" as well."""
    from candidates.backends.tokens import find_languages

    m2m100 = dict.fromkeys(["en", "de", "__en__", "__de__"])
    assert find_languages(m2m100, "en", "de").target_tokens == ("__de__",)
    with pytest.raises(UsageError, match="has no language 'de'"):
        find_languages(dict.fromkeys(["en", "de", "eng_Latn", "deu_Latn"]), "eng_Latn", "de")


@pytest.mark.parametrize("family", ["marian", "m2m100", "nllb", "t5"])
@pytest.mark.parametrize("method", ["beam", "sample", "epsilon"])
def test_no_model_is_asked_about_nothing(folders: Folders, family: str, method: str) -> None:
    theirs, ours = folders(family)
    settings = Settings(nbest=3, method=method, max_length=4)  # type: ignore[arg-type]
    for model in (ours, theirs) if method == "beam" else (ours,):
        for item in lists(model, settings, ["", "  ", "\t"], **LANGUAGES[family]):
            assert (item.texts, item.counts) == (("",), (3,))


def test_languages_must_be_named_and_known(folders: Folders) -> None:
    _, nllb = folders("nllb")
    _, m2m100 = folders("m2m100")
    for model, options, message in (
        (nllb, {}, "give --tgt-lang"),
        (nllb, {"tgt_lang": "deu_Latn"}, "give --src-lang"),
        (nllb, {"src_lang": "eng_Latn", "tgt_lang": "de"}, "has no language 'de'"),
        (m2m100, {"src_lang": "english", "tgt_lang": "de"}, "has no language 'english'"),
    ):
        with pytest.raises(UsageError, match=message):
            open_generator(Settings(nbest=1), model=str(model), **options)


def test_a_source_beyond_the_positions_is_cut_with_a_notice(folders: Folders) -> None:
    """Also where the folder does not say how many positions there are: CTranslate2 does, once it has failed."""
    _, ours = folders("marian")
    long = " ".join(["Tom"] * 300)
    limit = ours / "mbr-generate.json"
    known = limit.read_text(encoding="utf-8")
    results = []
    try:
        for content in (known, "{}"):
            limit.write_text(content, encoding="utf-8")
            with open_generator(Settings(nbest=2, max_length=5), model=str(ours), threads=2) as generator:
                results.append(list(generator.generate(["The fox.", long] * 40)))
                assert any("segment 1: 30" in notice for notice in generator.notices)
    finally:
        limit.write_text(known, encoding="utf-8")
    assert results[0] == results[1]


def test_a_folder_of_transformers_runs_with_hf_and_says_how_to_convert(folders: Folders) -> None:
    theirs, ours = folders("marian")
    assert (guess_backend(str(theirs)), guess_backend(str(ours))) == ("hf", "ct2")
    with pytest.raises(ModelError, match="mbr-generate --convert"):
        open_generator(Settings(nbest=1), model=str(theirs), backend="ct2")


def test_conversion_leaves_nothing_behind_when_it_fails(tmp_path: Path, folders: Folders) -> None:
    from candidates.backends.convert import convert

    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="cannot be converted"):
        convert(str(tmp_path / "empty"), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    theirs, ours = folders("marian")
    with pytest.raises(UsageError, match="exists"):
        convert(str(theirs), ours)
