"""Fixed pairs of translations in several languages and lengths, to tell tokenizers and conversions of a model apart.

Others made of them are for timing a model.
"""

from __future__ import annotations

Triple = tuple[str, str, str]

# (source, a, b)
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


def scattered_pairs(count: int = 60) -> list[Triple]:
    """Pairs of distinct candidates of one source, each in two pairs, as a search among many scores them; for timing."""
    texts = [text for _, *pair in PROBES for text in pair if text]
    size = len(texts)
    candidates = [f"{texts[k % size]} {texts[(7 * k + k // size + 1) % size]}" for k in range(count)]
    return [(PROBES[-2][0], candidates[k], candidates[(11 * k + 5) % count]) for k in range(count)]
