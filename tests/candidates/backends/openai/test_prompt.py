"""The prompt template: its places, its file, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, UsageError
from tests.support.chat_server import ChatServer

pytestmark = pytest.mark.one_world


def prompts(server: ChatServer) -> list[str]:
    return [body["messages"][0]["content"] for body in server.bodies]


def test_the_prompt_holds_source_and_languages_and_asks_for_nothing_else(server: ChatServer) -> None:
    server.records(["A dog."], prompt=None, src_lang="English", tgt_lang="German")
    (prompt,) = prompts(server)
    assert "from English to German" in prompt
    assert "translation only" in prompt
    assert prompt.endswith("\n\nA dog.")


def test_braces_in_source_template_and_language_are_text(server: ChatServer) -> None:
    template = 'Like {"a": {1}, {}} or { x }, %s, \\1: {tgt_lang}: {source}|{source}'
    source = "{source} {tgt_lang} {0} {x} \\g<0> {{"
    server.records([source], prompt=template, tgt_lang="{source}")
    assert prompts(server) == [f'Like {{"a": {{1}}, {{}}}} or {{ x }}, %s, \\1: {{source}}: {source}|{source}']


def test_a_template_can_come_from_a_file(server: ChatServer, tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes("\ufeffÜbersetze:\r\n{source}\n".encode())
    server.records(["s"], prompt=f"@{path}")
    assert prompts(server) == ["Übersetze:\ns"]
    with pytest.raises(InputError, match="cannot be read"):
        server.generator(prompt=f"@{tmp_path / 'missing'}")


@pytest.mark.parametrize(
    ("prompt", "options", "words"),
    [
        (None, {}, "--src-lang"),
        (None, {"src_lang": "English"}, "--tgt-lang"),
        (None, {"src_lang": "English", "tgt_lang": ""}, "--tgt-lang"),
        ("To {tgt_lang}: {source}", {"src_lang": "English"}, "--tgt-lang"),
        ("Translate", {}, "no {source}"),
        ("", {}, "no {source}"),
        ("{source} {target_lang}", {}, "place {target_lang}"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused_at_once(
    server: ChatServer, prompt: str | None, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        server.generator(prompt=prompt, **options)
