"""Names of languages by their codes, for prompts: a chat model knows `Icelandic` better than `is`.

>>> language_name("de"), language_name("pt-BR"), language_name("deu_Latn"), language_name("")
('German', 'Brazilian Portuguese', 'German', '')
"""

from __future__ import annotations

import re

_NAMES = """
af Afrikaans|am Amharic|ar Arabic|as Assamese|az Azerbaijani|be Belarusian|bg Bulgarian|bho Bhojpuri|bn Bengali
bs Bosnian|ca Catalan|cs Czech|cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian
eu Basque|fa Persian|fi Finnish|fr French|ga Irish|gl Galician|gu Gujarati|ha Hausa|he Hebrew|hi Hindi|hr Croatian
hu Hungarian|hy Armenian|id Indonesian|ig Igbo|is Icelandic|it Italian|iu Inuktitut|ja Japanese|jv Javanese
ka Georgian|kk Kazakh|km Khmer|kn Kannada|ko Korean|ky Kyrgyz|lo Lao|lt Lithuanian|lv Latvian|mas Maasai
mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|ne Nepali
nl Dutch|nn Norwegian Nynorsk|no Norwegian|or Odia|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian
ru Russian|sa Sanskrit|si Sinhala|sk Slovak|sl Slovenian|so Somali|sq Albanian|sr Serbian|sv Swedish|sw Swahili
ta Tamil|te Telugu|tg Tajik|th Thai|tl Tagalog|tr Turkish|uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|xh Xhosa
yo Yoruba|zh Chinese|zu Zulu
"""
_REGIONS = {
    "pt-br": "Brazilian Portuguese",
    "zh-cn": "Simplified Chinese",
    "zh-tw": "Traditional Chinese",
    "zh-hans": "Simplified Chinese",
    "zh-hant": "Traditional Chinese",
}
# Codes of three letters whose first two are not the code of the language.
_THREE = {
    "deu": "de", "ger": "de", "spa": "es", "por": "pt", "swe": "sv", "zho": "zh", "cmn": "zh", "jpn": "ja", "ces": "cs",
    "cze": "cs", "slk": "sk", "slv": "sl", "ell": "el", "est": "et", "pol": "pl", "tur": "tr", "ukr": "uk", "isl": "is",
    "nld": "nl", "dut": "nl", "kor": "ko", "fas": "fa", "pes": "fa", "ben": "bn", "mar": "mr", "mal": "ml", "tgl": "tl",
}  # fmt: skip
NAMES = dict(entry.split(" ", 1) for entry in re.split(r"[|\n]", _NAMES.strip()))


def language_name(code: str) -> str:
    """The English name of a language; what is no known code, such as a name, is returned as it is."""
    spelled = code.strip().lower().replace("_", "-")
    if spelled in _REGIONS:
        return _REGIONS[spelled]
    language = spelled.split("-")[0]
    name = NAMES.get(language) or NAMES.get(_THREE.get(language, ""))
    if name is None and len(language) == 3 and "-" in spelled:  # NLLB: fra_Latn
        name = NAMES.get(language[:2])
    return name or code.strip()
