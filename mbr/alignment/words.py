"""The words of a sentence, for word-translation tables: casefolded, without punctuation, CJK characters singly.

>>> words("Tom's dog isn't 7.5 years old – 犬だ。")
["tom's", 'dog', "isn't", '7.5', 'years', 'old', '犬', 'だ']
"""

from __future__ import annotations

import re
import unicodedata

# Scripts that are written without spaces: kana, Chinese characters, Thai, Lao, Khmer, Burmese.
_SINGLE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*|[{_SINGLE}]|[^\W_{_SINGLE}]+(?:['’][^\W\d_{_SINGLE}]+)*")


def words(text: str) -> list[str]:
    """Its words in order; punctuation and symbols are left out."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return _WORD.findall(plain)
