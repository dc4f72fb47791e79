"""What becomes of a server's choices: texts, log-probabilities, counts; and what follows where some are missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chat_server import ChatServer, Reply, bad, choice, first, lists

pytestmark = pytest.mark.one_world


def test_choices_become_candidates_with_the_sum_of_their_logprobs(server: ChatServer) -> None:
    (item,) = lists(server.records(["A dog."], nbest=3))
    seed = server.bodies[0]["seed"]
    assert (item.id, item.source) == (0, "A dog.")
    assert item.texts == tuple(f"A dog. {seed} {place}" for place in range(3))
    assert item.logprobs == (-0.75,) * 3


def test_equal_texts_are_draws_and_count(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("x"), choice("y"), choice("x")]})
    (item,) = lists(server.records(["s"], nbest=3))
    assert (item.texts, item.counts, item.logprobs) == (("x", "y"), (2, 1), None)
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ([-1.0, -2.5], -3.5),
        ([-1, 0], -1.0),
        (None, None),
        ([], None),
        ([-1.0, None], None),
        ([-1.0, float("nan")], None),
        ([-1.0, float("-inf")], None),
        ([-(10**400)], None),
        ([-1.0, "-2"], None),
        ([True], None),
    ],
)
def test_a_logprob_is_the_sum_over_the_tokens_or_unknown(
    server: ChatServer, logprobs: list[Any] | None, expected: float | None
) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("x", logprobs=logprobs)]})
    (item,) = lists(server.records(["s"], nbest=1))
    assert item.logprobs == (None if expected is None else (expected,))


@pytest.mark.parametrize("logprobs", ["x", {"content": "x"}, {"content": [3]}, [1]])
def test_logprobs_of_another_shape_are_unknown(server: ChatServer, logprobs: Any) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("x") | {"logprobs": logprobs}]})
    assert lists(server.records(["s"], nbest=1))[0].logprobs is None


def test_candidates_cut_off_by_the_length_limit_are_counted(server: ChatServer) -> None:
    choices = [choice("x", finish="length"), choice("y"), choice("z", finish="length")]
    server.script = lambda source, asked, body: Reply({"choices": choices})
    with server.generator(nbest=3) as generator:
        list(generator.generate(["s", "t"]))
        assert generator.cut_off == 4


def test_white_space_around_a_text_goes_and_inside_stays(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice("\n Ein\n Hund. \n")]})
    assert lists(server.records(["s"], nbest=1))[0].texts == ("Ein\n Hund.",)


def test_a_server_that_ignores_n_is_asked_until_all_are_there(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice(f"{source}{asked}")]})
    with server.generator(nbest=5) as generator:
        (item,) = lists(list(generator.generate(["s"])))
        assert not generator.notices
    assert item.texts == ("s0", "s1", "s2", "s3", "s4")
    assert [body["n"] for body in server.bodies] == [5, 4, 3, 2, 1]
    assert len({body["seed"] for body in server.bodies}) == 5


def test_choices_beyond_n_are_left_out(server: ChatServer) -> None:
    server.script = lambda source, asked, body: Reply({"choices": [choice(str(place)) for place in range(9)]})
    assert lists(server.records(["s"], nbest=2))[0].texts == ("0", "1")


def test_no_request_asks_for_more_choices_than_servers_give(server: ChatServer) -> None:
    (item,) = lists(server.records(["s"], nbest=300))
    assert [body["n"] for body in server.bodies] == [128, 128, 44]
    assert len(item) == 300


@pytest.mark.parametrize(
    "useless",
    [
        choice(None),
        choice(""),
        choice(" \n"),
        choice(3),
        choice(["x"]),
        choice("half \ud83d"),
        {},
        {"message": None},
        {"message": "x"},
        "x",
        None,
    ],
)
def test_a_choice_without_text_is_asked_for_again(server: ChatServer, useless: Any) -> None:
    server.script = first(Reply({"choices": [choice("x"), useless]}))
    (item,) = lists(server.records(["s"]))
    assert [body["n"] for body in server.bodies] == [2, 1]
    assert (len(item), item.texts[0]) == (2, "x")


def test_a_list_that_stays_short_is_kept_with_a_notice(server: ChatServer) -> None:
    def script(source: str, asked: int, body: dict[str, Any]) -> Reply:
        return Reply({"choices": [choice(f"x{asked}"), choice("")] if asked < 3 else [choice("")]})

    server.script = script
    with server.generator(nbest=10) as generator:
        *_, item = lists(list(generator.generate(["", "", "", "s"])))
        assert item.texts == ("x0", "x1", "x2")
        (notice,) = generator.notices
    assert notice.startswith("segment 3: 3 of 10 candidates;")


@pytest.mark.parametrize("choices", [[], [choice(None, finish="length")]])
def test_a_segment_without_any_text_is_a_bad_record(server: ChatServer, choices: list[Any]) -> None:
    server.script = lambda source, asked, body: Reply({"choices": choices})
    record = bad(server.records(["s"])[0])
    assert (record.id, record.source) == (0, "s")
    assert "segment 0: none of 2 candidates" in str(record.error)
