"""Tokenizers of XLM-R, BERT and of bundled models, by the package `tokenizers` alone.

A folder holds `tokenizer.json`, which is read as it is, or a vocabulary (`sentencepiece.bpe.model`, `vocab.txt`), from
which the same tokenizer is built. Token ids are those of transformers, which takes seconds to import and is needed
only for folders of other kinds: for these `FastTokenizer.of_folder` answers None.

    tokenizer = FastTokenizer.of_folder(Path("pear-folder"))
    tokenizer(["A dog."])["input_ids"]                                  # -> [[0, 83, 1542, 5, 2]]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SPECIALS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
XLM_ROBERTA = dict(zip(SPECIALS, ("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"), strict=True))
BERT = dict(zip(SPECIALS[2:], ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"), strict=True))
# Tokenizer classes of transformers that are read here, and the special tokens they have by default.
CLASSES: dict[str, Mapping[str, str]] = {
    "XLMRobertaTokenizer": XLM_ROBERTA,
    "BertTokenizer": BERT,
    "PreTrainedTokenizer": {},
    "TokenizersBackend": {},  # the name of the line above since transformers 5
}
CLASS_OF_MODEL = {
    "xlm-roberta": "XLMRobertaTokenizer",
    "xlm-roberta-xl": "XLMRobertaTokenizer",
    "bert": "BertTokenizer",
}
# What `FastTokenizer` understands of a call; transformers' tokenizer takes the others.
UNDERSTOOD = {
    "add_special_tokens",
    "truncation",
    "max_length",
    "return_offsets_mapping",
    "return_attention_mask",
    "verbose",
}


class FastTokenizer:
    """A tokenizer that is called as those of transformers are, and saved as they are.

    Whatever is asked of it beyond token ids and offsets, transformers' tokenizer of the same folder does.
    """

    def __init__(self, backend: Any, tokens: Mapping[str, str], settings: Mapping[str, Any], folder: Path) -> None:
        """`tokens` are the special tokens by role, `settings` the values of `tokenizer_config.json`."""
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = bool(settings.get("split_special_tokens", False))
        self.folder = folder
        self.settings = {**settings, **tokens}
        self._backend = backend
        for role in SPECIALS:
            token = tokens.get(role)
            setattr(self, role, token)
            setattr(self, f"{role}_id", None if token is None else backend.token_to_id(token))

    @classmethod
    def of_folder(
        cls, folder: Path, class_name: str | None = None, *, lower_case: bool | None = None
    ) -> FastTokenizer | None:
        """The tokenizer in a folder, of the class it names itself or of `class_name`; None if it is none of ours.

        `lower_case` overrides the folder's setting: whether BERT's pieces are in lower case.

        Raises:
            ValueError: a file cannot be read as what it should be.
        """
        settings = _read_object(folder / "tokenizer_config.json")
        if lower_case is not None:
            settings = {**settings, "do_lower_case": lower_case}
        name = (class_name or _class_of(folder, settings) or "").removesuffix("Fast")
        if name not in CLASSES or (folder / "added_tokens.json").is_file():
            return None
        tokens = _special_tokens(CLASSES[name], settings, _read_object(folder / "special_tokens_map.json"))
        if tokens is None:
            return None
        try:
            backend = _backend(folder, name, tokens, settings)
        except Exception as exc:  # the package raises exceptions of no particular kind
            raise ValueError(str(exc)) from exc
        if backend is None or not _know_all(backend, settings):
            return None
        return cls(backend, tokens, {"tokenizer_class": name, **settings}, folder)

    def __call__(self, text: str | Sequence[str], *more: Any, **options: Any) -> Any:
        """`input_ids` of a text or of several, and with `return_offsets_mapping` the characters of each token."""
        if more or options.keys() - UNDERSTOOD or not isinstance(options.get("truncation", False), bool):
            return self._transformers()(text, *more, **options)
        texts = [text] if isinstance(text, str) else list(text)
        offsets = bool(options.get("return_offsets_mapping"))
        encode = self._backend.encode_batch if offsets else _without_offsets(self._backend)
        special = bool(options.get("add_special_tokens", True))
        limit = options.get("max_length") if options.get("truncation") else None
        if limit is None:
            encodings = encode(texts, add_special_tokens=special)
        else:
            room = max(limit - self._backend.num_special_tokens_to_add(False) * special, 0)
            encodings = encode(texts, add_special_tokens=False)
            for encoding in encodings:
                encoding.truncate(room)
            encodings = [self._backend.post_process(encoding, None, special) for encoding in encodings]
        columns: dict[str, list[Any]] = {"input_ids": [encoding.ids for encoding in encodings]}
        if options.get("return_attention_mask", True):
            columns["attention_mask"] = [encoding.attention_mask for encoding in encodings]
        if offsets:
            columns["offset_mapping"] = [encoding.offsets for encoding in encodings]
        return {name: values[0] for name, values in columns.items()} if isinstance(text, str) else columns

    def __len__(self) -> int:
        return int(self._backend.get_vocab_size(with_added_tokens=True))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("folder", "settings"):
            raise AttributeError(name)
        return getattr(self._transformers(), name)

    def has_words(self, *words: str) -> bool:
        """Whether all of these are in the vocabulary itself, not only added to it."""
        return set(words) <= set(self._backend.get_vocab(with_added_tokens=False))

    def decode(self, ids: Any, skip_special_tokens: bool = False, **options: Any) -> str:
        """The text of token ids."""
        if options or self.settings.get("clean_up_tokenization_spaces"):
            return str(self._transformers().decode(ids, skip_special_tokens=skip_special_tokens, **options))
        ids = [ids] if isinstance(ids, int) else [int(number) for number in ids]
        return str(self._backend.decode(ids, skip_special_tokens=skip_special_tokens))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, which transformers reads, too."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._backend.save(str(folder / "tokenizer.json"))
        text = json.dumps(self.settings, indent=2, sort_keys=True, ensure_ascii=False)
        (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")

    def _transformers(self) -> Any:
        if "_library" not in self.__dict__:
            import transformers

            self._library = getattr(transformers, self._class_in(transformers)).from_pretrained(self.folder)
        return self._library

    def _class_in(self, library: Any) -> str:
        name = str(self.settings["tokenizer_class"]).removesuffix("Fast")
        name = "PreTrainedTokenizer" if name == "TokenizersBackend" else name
        return f"{name}Fast" if hasattr(library, f"{name}Fast") else name


def _without_offsets(backend: Any) -> Any:
    """Of the package's two ways to encode the faster, which versions before 0.20 lack."""
    return getattr(backend, "encode_batch_fast", backend.encode_batch)


def _class_of(folder: Path, settings: Mapping[str, Any]) -> str | None:
    config = _read_object(folder / "config.json")
    name = settings.get("tokenizer_class") or config.get("tokenizer_class")
    return str(name) if name else CLASS_OF_MODEL.get(str(config.get("model_type")))


def _special_tokens(
    defaults: Mapping[str, str], settings: Mapping[str, Any], table: Mapping[str, Any]
) -> dict[str, str] | None:
    """Special tokens by role; None where the two files contradict each other."""
    tokens = dict(defaults)
    for role in SPECIALS:
        values = {_content(source[role]) for source in (settings, table) if source.get(role) is not None}
        if len(values) > 1:
            return None
        if values:
            tokens[role] = values.pop()
    return tokens


def _content(token: Any) -> str:
    """A token is a text, or a table of its properties."""
    return str(token.get("content")) if isinstance(token, dict) else str(token)


def _backend(folder: Path, name: str, tokens: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if file.is_file():
        backend: Any = Tokenizer.from_file(str(file))
    elif name == "XLMRobertaTokenizer" and (folder / "sentencepiece.bpe.model").is_file():
        backend = _of_pieces(folder / "sentencepiece.bpe.model", tokens)
    elif name == "BertTokenizer" and (folder / "vocab.txt").is_file():
        backend = _of_words(folder / "vocab.txt", tokens)
    else:
        return None
    if backend is not None and name == "BertTokenizer" and not _normalise(backend, settings):
        return None
    if backend is not None:
        _add(backend, tokens)
    return backend


def _of_pieces(file: Path, tokens: Mapping[str, str]) -> Any:
    """XLM-R's tokenizer: piece k of sentencepiece is token k + 1 from the fourth on, the first four are fairseq's.

    None for a vocabulary that is not a unigram model, or is not XLM-R's in its special tokens.
    """
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocabulary = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    vocabulary.ParseFromString(file.read_bytes())
    if vocabulary.trainer_spec.model_type != 1 or dict(tokens) != XLM_ROBERTA:
        return None
    names = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    names += [(piece.piece, piece.score) for piece in vocabulary.pieces[3:]]
    names.append(("<mask>", 0.0))
    backend: Any = Tokenizer(models.Unigram(names, unk_id=3, byte_fallback=False))
    if vocabulary.normalizer_spec.precompiled_charsmap:
        backend.normalizer = normalizers.Precompiled(vocabulary.normalizer_spec.precompiled_charsmap)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    backend.decoder = decoders.Metaspace()
    backend.post_processor = _template("<s>", "</s>", ["<s>", "$A", "</s>", "</s>", "$B", "</s>"], backend)
    return backend


def _of_words(file: Path, tokens: Mapping[str, str]) -> Any:
    """BERT's tokenizer: a word a line, its number is its token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    words = {word: number for number, word in enumerate(file.read_text(encoding="utf-8").split("\n"))}
    words.pop("", None)
    start, end = tokens["cls_token"], tokens["sep_token"]
    if not {start, end, tokens["pad_token"], tokens["unk_token"]} <= words.keys():
        return None
    backend: Any = Tokenizer(models.WordPiece(words, unk_token=tokens["unk_token"]))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = _template(start, end, [f"{start}:0", "$A:0", f"{end}:0", "$B:1", f"{end}:1"], backend)
    return backend


def _template(start: str, end: str, pair: list[str], backend: Any) -> Any:
    from tokenizers import processors

    special = [(token, backend.token_to_id(token)) for token in (start, end)]
    return processors.TemplateProcessing(single=[start, "$A", end], pair=pair, special_tokens=special)


def _normalise(backend: Any, settings: Mapping[str, Any]) -> bool:
    """BERT's settings override those of `tokenizer.json`; False where its normaliser is not BERT's."""
    normalizer = backend.normalizer
    if type(normalizer).__name__ != "BertNormalizer":
        return False
    normalizer.lowercase = bool(settings.get("do_lower_case", True))
    normalizer.strip_accents = settings.get("strip_accents")
    normalizer.handle_chinese_chars = bool(settings.get("tokenize_chinese_chars", True))
    backend.normalizer = normalizer
    return True


def _add(backend: Any, tokens: Mapping[str, str]) -> None:
    """Let a text that spells a special token be that token, as the package does with those it knows as special."""
    from tokenizers import AddedToken

    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    for token in dict.fromkeys(tokens.values()):
        if token not in added:
            # A mask takes the space before it.
            backend.add_special_tokens([AddedToken(token, lstrip=token == "<mask>", normalized=False)])


def _know_all(backend: Any, settings: Mapping[str, Any]) -> bool:
    """Whether further tokens that the settings name are in the tokenizer."""
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    listed = settings.get("added_tokens_decoder") or {}
    wanted = list(listed.values()) if isinstance(listed, dict) else []
    for name in ("additional_special_tokens", "extra_special_tokens"):
        further = settings.get(name) or []
        wanted += further.values() if isinstance(further, dict) else further
    return {_content(token) for token in wanted} <= added


def _read_object(file: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no such file."""
    if not file.is_file():
        return {}
    content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{file.name} is not a JSON object")
    return content
