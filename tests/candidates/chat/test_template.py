"""Templates of conversations: roles, places, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from candidates.chat.template import Template
from candidates.common.errors import InputError, UsageError

pytestmark = pytest.mark.one_world


def test_headings_make_messages_and_values_are_never_read_as_places(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text('### system\nBe brief.\n###  user \nA {a}\n### assistant\n{"x": 1}\n### user\n{ b } {a}\n\n')
    template = Template.read(file, needs=("a",))
    assert template.messages({"a": "{b} {a}"}) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "A {b} {a}"},
        {"role": "assistant", "content": '{"x": 1}'},
        {"role": "user", "content": "{ b } {b} {a}"},
    ]


def test_the_digest_follows_the_text_and_the_roles() -> None:
    texts = ["{a}", "{a}!", "### system\n{a}\n### user\n{a}"]
    assert len({Template.of(text, needs=("a",)).digest for text in texts}) == 3
    assert Template.of("{a}", ("a",)).digest == Template.of("### user\n{a}\n", ("a",)).digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{a}", r"has no \{b\}; expected \{a\}, \{b\}, \{c\}"),
        ("{a} {b} {d}", r"place \{d\}.*a space inside braces"),
        ("{a} {b}\n### assistant\nyes", "ends with a message of the assistant"),
        ("", r"has no \{a\}"),
    ],
)
def test_a_template_that_does_not_fit_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Template.of(text, needs=("a", "b"), takes=("c",))


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("\n \n")
    with pytest.raises(InputError, match="p.txt: an empty file"):
        Template.read(tmp_path / "p.txt", needs=())


def test_the_prompts_that_ship_have_their_places() -> None:
    from mbr.utilities.llm import PROMPT as JUDGE
    from pear.labelling.labels import NEEDS, PROMPT, TAKES

    assert len(Template.read(PROMPT, NEEDS, TAKES).messages(dict.fromkeys((*NEEDS, *TAKES), "x"))) == 6
    assert len(Template.read(JUDGE, ("source", "a", "b")).parts) == 2
