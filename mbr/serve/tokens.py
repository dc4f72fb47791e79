"""How much work a request is, in tokens, estimated from the lengths of its texts: no tokenizer is needed for admission.

The estimate is an upper bound of the passes; adaptive strategies such as race mostly need a third of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from candidates.lists import CandidateList
from mbr.pipeline import Decoder
from mbr.utilities import MatrixUtility, QualityUtility

BYTES_PER_TOKEN = 4
SPECIAL = 2  # tokens around each text


def text_tokens(text: str) -> int:
    """About as many tokens as subword vocabularies make of a text."""
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + SPECIAL


def pair_tokens(decoder: Decoder, source: str, texts: Sequence[str]) -> int:
    """Tokens of one pass, on average over the texts."""
    mean = sum(map(text_tokens, texts)) // max(len(texts), 1)
    return text_tokens(source) + mean * (1 if isinstance(decoder.utility, QualityUtility) else 2)


def single_tokens(source: str, texts: Sequence[str]) -> int:
    """Tokens of one pass of a term or a first stage, on average over the texts."""
    return text_tokens(source) + sum(map(text_tokens, texts)) // max(len(texts), 1)


def evidence_passes(decoder: Decoder, size: int) -> int:
    """Passes of the first stage and the terms on a list of this many candidates."""
    first_stage = decoder.prefilter
    kept = size if first_stage is None else min(size, first_stage.keep)
    passes = sum(weighted.term.passes(kept) for weighted in decoder.terms)
    return passes if first_stage is None else passes + first_stage.passes(size)


def list_tokens(decoder: Decoder, item: CandidateList) -> int:
    """Tokens of a whole decision, at most."""
    texts = sum(map(text_tokens, (item.source, *item.texts)))
    texts += evidence_passes(decoder, len(item)) * single_tokens(item.source, item.texts)
    if isinstance(decoder.utility, MatrixUtility):
        return texts
    return texts + decoder.passes(item) * pair_tokens(decoder, item.source, item.texts)


def translation_tokens(decoder: Decoder, text: str, nbest: int) -> int:
    """Tokens of making `nbest` candidates of a text and deciding among them, taken to be as long as the text."""
    tokens = text_tokens(text)
    made = nbest * tokens + evidence_passes(decoder, nbest) * single_tokens(text, [text])
    if isinstance(decoder.utility, MatrixUtility):
        return made + nbest * tokens
    return made + decoder.passes_of(nbest) * pair_tokens(decoder, text, [text])
