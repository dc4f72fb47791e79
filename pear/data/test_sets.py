"""What WMT's official results take for each language pair of a test set: reference, gold, outliers, human systems.

A test set or language pair that is not listed has no official answer here, and callers must say what they assume.

    >>> official("wmt24", "en-de")
    Official(reference='refB', gold='mqm', outliers=('MSLC',), human_systems=True)
    >>> official("wmt99", "en-de") is None
    True
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Official:
    """The set-up of the official results for one language pair."""

    reference: str
    gold: str | None = "mqm"  # human scores of segments; None: there are none, or they are not listed here
    outliers: tuple[str, ...] = ()  # systems that are left out
    human_systems: bool = False  # whether the other references count as systems


REF_A, NOT_LISTED = Official("refA"), Official("refA", None)
WMT20, WMT21 = Official("ref", None), NOT_LISTED
WMT22, WMT23, ESA = Official("refA", "wmt-appraise"), Official("refA", "da-sqm"), Official("refA", "esa")
MSLC = replace(REF_A, outliers=("MSLC",))
WMT25 = Official("refA", "esa-human1")
POST_EDITS = Official("posteditA", None)


def _without(*systems: str) -> Official:
    return replace(WMT20, outliers=systems)


# By test set: what holds for language pairs that are not named (None: such a pair is not official), and the others.
_SETS: dict[str, tuple[Official | None, dict[str, Official]]] = {
    "wmt19": (WMT20, {}),
    "wmt20": (
        WMT20,
        {
            "cs-en": _without("zlabs-nlp.1149", "CUNI-DocTransformer.1457"),
            "de-en": _without("yolo.1052", "zlabs-nlp.1153", "WMTBiomedBaseline.387"),
            "en-cs": _without("zlabs-nlp.1151", "Online-G.1555"),
            "en-de": _without("zlabs-nlp.179", "WMTBiomedBaseline.388", "Online-G.1556"),
            "en-iu": _without("UEDIN.1281", "OPPO.722", "UQAM_TanLe.521"),
            "en-ja": _without("Online-G.1557", "SJTU-NICT.370"),
            "en-pl": _without("Online-Z.1634", "zlabs-nlp.180", "Online-A.1576"),
            "en-ta": _without("TALP_UPC.1049", "SJTU-NICT.386", "Online-G.1561"),
            "iu-en": _without("NiuTrans.1206", "Facebook_AI.729"),
            "ja-en": _without("Online-G.1564", "zlabs-nlp.66", "Online-Z.1640"),
            "pl-en": _without("zlabs-nlp.1162"),
            "ru-en": _without("zlabs-nlp.1164"),
            "ta-en": _without("Online-G.1568", "TALP_UPC.192"),
            "zh-en": _without("WMTBiomedBaseline.183"),
        },
    ),
    "wmt21.news": (WMT21, {"en-de": Official("refC"), "en-ru": REF_A, "zh-en": Official("refB")}),
    "wmt21.tedtalks": (None, {"en-de": REF_A, "en-ru": REF_A, "zh-en": Official("refB")}),
    "wmt21.flores": (WMT21, {}),
    "wmt22": (
        WMT22,
        {
            "en-de": replace(REF_A, outliers=("M2M100_1.2B-B4",)),
            **dict.fromkeys(("en-ru", "zh-en"), REF_A),
            "cs-en": Official("refB", "wmt"),
            "en-cs": Official("refB", "wmt-appraise"),
            **dict.fromkeys(("de-en", "ja-en", "ru-en", "uk-en"), Official("refA", "wmt")),
            **dict.fromkeys(("de-fr", "fr-de", "ru-sah"), NOT_LISTED),
        },
    ),
    "wmt23": (
        WMT23,
        {
            **dict.fromkeys(("en-de", "zh-en"), replace(REF_A, outliers=("synthetic_ref",))),
            "he-en": Official("refB"),
            "en-he": Official("refB", None),
            **dict.fromkeys(("en-ru", "en-uk", "ru-en", "uk-en"), NOT_LISTED),
        },
    ),
    "wmt23.sent": (None, {"en-de": REF_A}),
    "wmt24": (
        None,
        {
            "en-de": replace(MSLC, reference="refB", human_systems=True),
            **dict.fromkeys(("en-es", "ja-zh"), MSLC),
            **dict.fromkeys(("cs-uk", "en-cs", "en-hi", "en-is", "en-ja", "en-ru", "en-uk", "en-zh"), ESA),
        },
    ),
    "wmt24pp": (POST_EDITS, {"en-de_DE": Official("posteditB", None), "en-is_IS": NOT_LISTED}),
    "wmt25": (
        None,
        {
            **dict.fromkeys(("ja-zh_CN", "en-ko_KR"), REF_A),
            **dict.fromkeys(
                (
                    *("cs-de_DE", "cs-uk_UA", "en-ar_EG", "en-bho_IN", "en-zh_CN", "en-cs_CZ", "en-et_EE"),
                    *("en-is_IS", "en-it_IT", "en-ja_JP", "en-mas_KE", "en-ru_RU", "en-sr_Cyrl_RS", "en-uk_UA"),
                ),
                WMT25,
            ),
        },
    ),
}
_PAIRS_OF_MAIN_RESULT = {"wmt24": ("en-de", "en-es", "ja-zh"), "wmt25": tuple(_SETS["wmt25"][1])}


def is_known(test_set: str) -> bool:
    return test_set in _SETS


def official(test_set: str, lp: str) -> Official | None:
    """The official set-up of a language pair; None where it is not known."""
    others, pairs = _SETS.get(test_set, (None, {}))
    if lp in pairs or test_set != "wmt24pp":
        return pairs.get(lp, others)
    return others if re.fullmatch(r"en-[a-z]{2,3}_[A-Z]{2}", lp) else None


def main_result(test_set: str) -> tuple[str, ...]:
    """The language pairs whose mean of SPA and acc_eq* is the official main result; empty where there is none.

    WMT24's are those with MQM, WMT25's all that people scored. Earlier years had other statistics.
    """
    return _PAIRS_OF_MAIN_RESULT.get(test_set, ())
