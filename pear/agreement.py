"""Does a converted model still score like the original? Fixed probe pairs, and how two sets of scores compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError

Triple = tuple[str, str, str]

# Beyond this difference a float32 conversion is broken, not rounded.
FLOAT32_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Agreement:
    """How a back-end's scores compare with torch float32 on the probes."""

    largest_difference: float
    spread: float
    same_sign: float
    compute_type: str

    @classmethod
    def between(cls, exact: NDArray[np.float32], fast: NDArray[np.float32], compute_type: str) -> Agreement:
        spread = float(max(np.abs(exact).max(), 1e-6))
        same_sign = float(np.mean(np.sign(exact) == np.sign(fast)))
        return cls(float(np.abs(exact - fast).max()), spread, same_sign, compute_type)

    def check(self) -> None:
        """int8 rounds and only reports; float32 that differs is a broken conversion."""
        if self.compute_type == "float32" and not self.largest_difference <= FLOAT32_TOLERANCE * self.spread:
            raise ModelError(f"the CTranslate2 conversion disagrees with torch: {self}; use the torch back-end")

    def __str__(self) -> str:
        return (
            f"CTranslate2 {self.compute_type} against torch float32 on {len(PROBES)} probe pairs: largest "
            f"difference {self.largest_difference:.2g} (scores up to {self.spread:.2g}), "
            f"same preference in {self.same_sign:.0%}"
        )


# Fixed pairs in several languages and lengths, for the agreement check of a converted model.
PROBES: list[Triple] = [
    ("The cat sat on the mat.", "Die Katze saß auf der Matte.", "Die Katze lag unter dem Tisch."),
    ("The cat sat on the mat.", "Die Katze saß auf der Matte.", "Der Hund saß auf der Matte."),
    ("How much is it?", "Wie viel kostet das?", "Wie viel ist es?"),
    ("How much is it?", "Wie viel kostet das?", "Wie geht es dir?"),
    ("He left early because he was tired.", "Er ging früh, weil er müde war.", "Er ging, weil er müde war."),
    ("She has 1,200 books.", "Sie hat 1.200 Bücher.", "Sie hat 12.000 Bücher."),
    ("Il fait beau aujourd'hui.", "The weather is nice today.", "It is beautiful yesterday."),
    ("La réunion est reportée à lundi.", "The meeting is postponed to Monday.", "The meeting is on Monday."),
    ("今日はいい天気ですね。", "It's nice weather today, isn't it?", "Today is a good day."),
    ("我不知道他什么时候来。", "I don't know when he is coming.", "I know when he comes."),
    ("Где находится вокзал?", "Where is the railway station?", "Where is the station located at?"),
    ("أين المحطة؟", "Where is the station?", "Where is the hotel?"),
    ("Please close the door.", "Bitte schließen Sie die Tür.", ""),
    ("Thanks!", "Danke!", "Danke schön, vielen herzlichen Dank für alles!"),
    (
        "Although it had rained all night, the streets were dry by the time we left the house.",
        "Obwohl es die ganze Nacht geregnet hatte, waren die Straßen trocken, als wir das Haus verließen.",
        "Obwohl es geregnet hat, die Straßen waren trocken, als wir verließen.",
    ),
    (
        "The committee will publish its report in the second half of next year.",
        "Der Ausschuss wird seinen Bericht in der zweiten Hälfte des nächsten Jahres veröffentlichen.",
        "Das Komitee veröffentlichte seinen Bericht im zweiten Halbjahr des letzten Jahres.",
    ),
]
