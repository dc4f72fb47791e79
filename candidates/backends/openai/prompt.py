"""The message that a source becomes: a template with `{source}`, `{src_lang}` and `{tgt_lang}`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from candidates.backends.tokens import spelled_languages
from candidates.chat.template import filled, places_of
from candidates.common.errors import UsageError
from candidates.common.text import lines
from candidates.lists import check_text
from candidates.settings import flag

PROMPT = (
    "Translate the following text from {src_lang} to {tgt_lang}. Answer with the translation only: "
    "no quotation marks around it, no notes, no explanations.\n\n{source}"
)


class Prompt:
    """A template whose places are checked. `text` is the template, or `@` and the name of a file that holds it."""

    def __init__(self, text: str | None, *, src_lang: str | None, tgt_lang: str | None) -> None:
        languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
        self._template = _read_template(PROMPT if text is None else text, languages)
        self._languages = {name: value or "" for name, value in languages.items() if f"{{{name}}}" in self._template}

    def filled(self, source: str) -> str:
        """The message for a source."""
        return filled(self._template, {"source": source, **self._languages})

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that change when the template does."""
        return hashlib.blake2b(self._template.encode(), digest_size=4).hexdigest()

    @property
    def languages(self) -> str | None:
        """The languages that the template names, as signatures have them."""
        return spelled_languages(self._languages.get("src_lang"), self._languages.get("tgt_lang"))


def _read_template(prompt: str, languages: Mapping[str, str | None]) -> str:
    """The template, its places checked. Braces around anything but a single word are text."""
    template = "\n".join(line for _, line in lines(prompt[1:])) if prompt.startswith("@") else prompt
    check_text(template, "the prompt")
    places = places_of(template)
    unknown = sorted(places - {"source", *languages})
    if unknown:
        raise UsageError(
            f"the prompt has a place {{{unknown[0]}}}; expected {{source}}, {{src_lang}} and {{tgt_lang}} only; "
            "correct it, or put a space inside braces that are meant as text"
        )
    if "source" not in places:
        raise UsageError(f"the prompt {template!r:.80} has no {{source}}; put it where the text to translate goes")
    for name, value in languages.items():
        if name in places and not value:
            raise UsageError(
                f"the prompt has a place {{{name}}}, but no language was given for it; give {flag(name)} (a name such "
                "as German), or a --prompt without it"
            )
    return template
