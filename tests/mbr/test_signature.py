from __future__ import annotations

import pytest

from candidates.common.errors import InputError
from mbr import Signature

SETTINGS = {"utility": "pear", "model": "Prosho/pear@3cc8:x", "strategy": "half", "seed": None, "nbest": 100}


def test_a_signature_prints_and_parses_back() -> None:
    signature = Signature(SETTINGS)
    assert str(signature) == "MBR|utility:pear|model:Prosho/pear@3cc8:x|strategy:half|nbest:100"
    assert Signature.parse(str(signature)) == signature
    assert signature["model"] == "Prosho/pear@3cc8:x"


def test_the_difference_of_two_signatures() -> None:
    other = Signature({**SETTINGS, "strategy": "full", "seed": 3})
    assert Signature(SETTINGS).difference(other) == {"strategy": ("half", "full"), "seed": (None, "3")}


def test_a_bar_in_a_value_cannot_forge_a_setting() -> None:
    signature = Signature({"model": "x|strategy:full"})
    assert list(Signature.parse(str(signature))) == ["model"]


@pytest.mark.parametrize("text", ["", "BLEU|a:b", "MBR|nonsense"])
def test_other_texts_are_no_signatures(text: str) -> None:
    with pytest.raises(InputError, match="not a signature"):
        Signature.parse(text)
