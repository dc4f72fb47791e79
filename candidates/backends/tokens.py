"""Text to a translation model's tokens and back, language tokens included.

A CTranslate2 folder reads and writes tokens; the files of its tokenizer depend on the converter: transformers' files,
Marian's pair of sentencepiece models, or one shared model. Multilingual models name languages in four ways,
distinguished by their vocabulary: `deu_Latn` (NLLB, mBART) and `__de__` (M2M100) begin the target, `<2de>` (MADLAD) and
`>>deu<<` (OPUS) begin the source. T5 reads an instruction first: "translate English to German: ".
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from candidates.backends.models import check_reachable
from candidates.common.errors import ModelError, UsageError
from candidates.common.hub import quiet_hub

_SHARED_MODELS = ("sentencepiece.model", "sentencepiece.bpe.model", "spiece.model", "spm.model", "source.spm")
_LANGUAGE_TOKEN = re.compile(r"__[a-z]{2,3}__|[a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2}|<2[a-zA-Z_]+>|>>\w+<<")
_T5_LANGUAGES = {"en": "English", "de": "German", "fr": "French", "ro": "Romanian"}
Token = TypeVar("Token", str, int)
_SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>"})


@dataclass(frozen=True)
class Languages:
    """How a model is given the languages: in front of the source, and as the target's first tokens."""

    source_text: str = ""
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tokenizer:
    """Source text to tokens, target tokens to text and back.

    `encode` returns all tokens that the encoder reads; `encode_target` neither language tokens nor the end token.
    """

    encode: Callable[[str], list[str]]
    encode_target: Callable[[str], list[str]]
    _decode: Callable[[list[str]], str]
    end: str = "</s>"
    languages: Languages = field(default_factory=Languages)

    def is_blank(self, text: str, tokens: list[str]) -> bool:
        """Whether there is nothing to translate: no text, or only characters that the tokenizer drops."""
        return not text.strip() or tokens in (self.encode(""), self.encode(" "))

    def decode(self, tokens: list[str]) -> str:
        """The text of a hypothesis, whether or not it begins with the language and closes with the end token."""
        prefix = list(self.languages.target_tokens)
        if prefix and tokens[: len(prefix)] == prefix:
            tokens = tokens[len(prefix) :]
        return self._decode([token for token in tokens if token not in _SPECIAL])


def open_tokenizer(folder: Path, src_lang: str | None = None, tgt_lang: str | None = None) -> Tokenizer:
    """The tokenizer of a CTranslate2 folder."""
    if any((folder / name).is_file() for name in ("tokenizer_config.json", "tokenizer.json")):
        return transformers_tokenizer(load_transformers_tokenizer(folder), src_lang, tgt_lang)
    models = [folder / name for name in _SHARED_MODELS if (folder / name).is_file()]
    if not models:
        raise ModelError(
            f"{folder}: no tokenizer; expected tokenizer_config.json, source.spm and target.spm, or one of "
            f"{', '.join(_SHARED_MODELS[:-1])}. Convert the model again with mbr-generate --convert, which copies it."
        )
    return _sentencepiece_tokenizer(folder, models[0], src_lang, tgt_lang)


def load_transformers_tokenizer(folder: Path | str) -> Any:
    """transformers' own loader; a failure is a ModelError."""
    local = check_reachable(str(folder))
    from transformers import AutoTokenizer

    try:
        with warnings.catch_warnings(), quiet_hub():
            warnings.simplefilter("ignore")  # Marian's recommends a package that only cleans up punctuation
            return AutoTokenizer.from_pretrained(str(folder), local_files_only=local)
    except Exception as exc:  # transformers raises whatever its tokenizers do
        raise ModelError(f"{folder}: transformers cannot load its tokenizer: {exc}") from exc


def transformers_tokenizer(tokenizer: Any, src_lang: str | None, tgt_lang: str | None) -> Tokenizer:
    """A transformers tokenizer in the shape of ours."""
    tokens = all_tokens(tokenizer)
    if type(tokenizer).__name__.startswith("T5") and not any(map(_LANGUAGE_TOKEN.fullmatch, tokens)):
        languages = Languages(source_text=_t5_prefix(src_lang, tgt_lang))
    else:
        languages = find_languages(tokens, src_lang, tgt_lang)
    if languages.target_tokens and src_lang is not None and tgt_lang is not None:
        tokenizer.src_lang, tokenizer.tgt_lang = src_lang.strip("_"), tgt_lang.strip("_")

    def encode(text: str) -> list[str]:
        tokens: list[str] = tokenizer.convert_ids_to_tokens(tokenizer(languages.source_text + text).input_ids)
        return tokens

    def encode_target(text: str) -> list[str]:
        tokens: list[str] = tokenizer.convert_ids_to_tokens(target_ids(tokenizer, text))
        return tokens

    def decode(tokens: list[str]) -> str:
        ids = tokenizer.convert_tokens_to_ids(tokens)
        text: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.strip()

    return Tokenizer(encode, encode_target, decode, tokenizer.eos_token or "</s>", languages)


def target_ids(tokenizer: Any, text: str) -> list[int]:
    """The ids of a target text in a transformers tokenizer, without language and end tokens."""
    ids: list[int] = tokenizer(text_target=text, add_special_tokens=False).input_ids
    return ids


def all_tokens(tokenizer: Any) -> dict[str, int]:
    """A transformers tokenizer's vocabulary; M2M100's leaves its language tokens out."""
    return {**tokenizer.get_vocab(), **getattr(tokenizer, "lang_token_to_id", {})}


def _sentencepiece_tokenizer(folder: Path, model: Path, src_lang: str | None, tgt_lang: str | None) -> Tokenizer:
    import sentencepiece

    def load(file: Path) -> Any:
        try:
            return sentencepiece.SentencePieceProcessor(model_file=str(file))
        except (RuntimeError, OSError) as exc:
            raise ModelError(f"{file}: not a sentencepiece model: {exc}") from exc

    source = load(model)
    target = load(folder / "target.spm") if (folder / "target.spm").is_file() else source
    config = read_json(folder / "config.json")
    end = str(config.get("eos_token") or "</s>")
    after = [] if config.get("add_source_eos") else [end]
    tokens = [*read_vocabulary(folder, "source"), *read_vocabulary(folder)]
    languages = find_languages(dict.fromkeys(tokens), src_lang, tgt_lang)

    def encode(text: str) -> list[str]:
        pieces: list[str] = source.encode(text, out_type=str)
        return [*languages.source_tokens, *pieces, *after]

    def encode_target(text: str) -> list[str]:
        pieces: list[str] = target.encode(text, out_type=str)
        return pieces

    def decode(tokens: list[str]) -> str:
        text: str = target.decode(tokens)
        return text

    return Tokenizer(encode, encode_target, decode, end, languages)


def find_languages(vocabulary: dict[str, Any], src_lang: str | None, tgt_lang: str | None) -> Languages:
    """How this vocabulary names the two languages; empty where it has no language tokens."""
    languages = [token for token in vocabulary if _LANGUAGE_TOKEN.fullmatch(token)]
    if not languages:
        if src_lang is not None or tgt_lang is not None:
            raise UsageError("this model has no languages to choose from; leave out --src-lang and --tgt-lang")
        return Languages()
    if tgt_lang is None:
        raise UsageError(
            f"the model translates into several languages; give --tgt-lang, such as {_examples(languages)}"
        )
    for token in (f"<2{tgt_lang}>", f">>{tgt_lang}<<"):
        if token in vocabulary:
            return Languages(source_text=f"{token} ", source_tokens=(token,))
    target = _language(tgt_lang, languages)
    if src_lang is None:
        raise UsageError(
            f"the model translates from several languages; give --src-lang, such as {_examples(languages)}"
        )
    return Languages(source_tokens=(_language(src_lang, languages),), target_tokens=(target,))


def spelled_languages(src_lang: str | None, tgt_lang: str | None) -> str | None:
    """Both languages as signatures have them, `en>de`; None where none was given."""
    return f"{src_lang or ''}>{tgt_lang or ''}" if src_lang or tgt_lang else None


def fit(tokens: list[Token], end: Token, positions: int | None) -> list[Token]:
    """The tokens of a text, cut where the model has fewer positions; an end token stays at the end."""
    if positions is None or len(tokens) < positions:
        return tokens
    last = tokens[-1:] if tokens[-1] == end else []
    return tokens[: positions - 2 - len(last)] + last


def read_vocabulary(folder: Path, side: str = "target") -> list[str]:
    """The tokens of a CTranslate2 folder, by id."""
    for name in (f"{side}_vocabulary.json", "shared_vocabulary.json"):
        if (folder / name).is_file():
            tokens: list[str] = json.loads((folder / name).read_text(encoding="utf-8"))
            return tokens
    for name in (f"{side}_vocabulary.txt", "shared_vocabulary.txt"):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8").rstrip("\n").split("\n")
    raise ModelError(f"{folder}: no vocabulary file; expected shared_vocabulary.json or {side}_vocabulary.json")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model folder; empty where the file is missing."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as exc:
        raise ModelError(f"{path}: not valid JSON: {exc}") from exc
    if not isinstance(content, dict):
        raise ModelError(f"{path}: expected a JSON object")
    return content


def _language(name: str, languages: list[str]) -> str:
    """The token of a language. An ordinary word piece may have its name, so only language tokens count."""
    for token in (name, f"__{name}__"):
        if token in languages:
            return token
    raise UsageError(f"the model has no language {name!r}; expected one of {_examples(languages, 12)}")


def _examples(languages: list[str], count: int = 4) -> str:
    names = sorted({token.strip("_<>").removeprefix("2") for token in languages})
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


def _t5_prefix(src_lang: str | None, tgt_lang: str | None) -> str:
    if src_lang is None and tgt_lang is None:
        return ""  # fine-tuned for one pair
    if src_lang is None or tgt_lang is None:
        raise UsageError("T5 takes both languages or neither; give --src-lang and --tgt-lang, or leave both out")
    source, target = (_T5_LANGUAGES.get(name, name) for name in (src_lang, tgt_lang))
    return f"translate {source} to {target}: "
