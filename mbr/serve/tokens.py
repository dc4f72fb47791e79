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


def list_tokens(decoder: Decoder, item: CandidateList) -> int:
    """Tokens of a whole decision, at most."""
    texts = sum(map(text_tokens, (item.source, *item.texts)))
    if isinstance(decoder.utility, MatrixUtility):
        return texts
    return texts + decoder.passes(item) * pair_tokens(decoder, item.source, item.texts)


def translation_tokens(decoder: Decoder, text: str, nbest: int) -> int:
    """Tokens of making `nbest` candidates of a text and deciding among them, taken to be as long as the text."""
    tokens = text_tokens(text)
    if isinstance(decoder.utility, MatrixUtility):
        return 2 * nbest * tokens
    passes = decoder.passes(CandidateList.of("", [str(number) for number in range(nbest)]))
    return nbest * tokens + passes * pair_tokens(decoder, text, [text])
