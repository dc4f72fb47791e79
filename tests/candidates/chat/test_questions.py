"""Questions against a real server: readings, repeats, cache, budget, order, and servers that fail."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from candidates.chat.budget import Budget, BudgetSpent
from candidates.chat.questions import FIRST_ANSWERS, REPEATS, Chat, Question, Reading
from candidates.chat.reading import Unreadable, json_object
from candidates.common.errors import ModelError, UsageError
from tests.support.chat_server import ChatServer, Reply, answered

pytestmark = pytest.mark.one_world


def read_number(text: str) -> int:
    try:
        return int(json_object(text)["n"])
    except (KeyError, TypeError, ValueError) as exc:
        raise Unreadable(str(exc)) from exc


def numbered(prompt: str, asked: int, body: dict[str, Any]) -> Reply:
    return answered(json.dumps({"n": int(prompt.split()[-1])}), tokens=10)


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "answers.sqlite")


def chat(server: ChatServer, cache: str, **options: Any) -> Chat:
    return Chat(server.address, server_model="m", cache=cache, **options)


def ask(opened: Chat, numbers: list[int]) -> list[Reading[int]]:
    messages = ([{"role": "user", "content": f"number {number}"}] for number in numbers)
    return list(opened.ask(Question(message, read_number) for message in messages))


def values(readings: list[Reading[int]]) -> list[int | None]:
    return [reading.value for reading in readings]


def test_answers_come_in_order_with_few_requests_at_once(server: ChatServer, cache: str) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def slow(prompt: str, asked: int, body: dict[str, Any]) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002 * (int(prompt.split()[-1]) % 3))
        with lock:
            running -= 1
        return numbered(prompt, asked, body)

    server.script = slow
    with chat(server, cache, concurrency=3) as opened:
        assert values(ask(opened, list(range(40)))) == list(range(40))
        assert (opened.usage.calls, opened.usage.tokens, opened.usage.cached) == (40, 400, 0)
    assert 1 < most <= 3


def test_a_second_run_asks_nothing_and_reads_the_same(server: ChatServer, cache: str) -> None:
    server.script = lambda prompt, asked, body: (
        answered("I cannot help with that.") if prompt.endswith(" 2") else numbered(prompt, asked, body)
    )
    with chat(server, cache) as opened:
        first = ask(opened, [1, 2, 3])
    asked = len(server.bodies)
    with chat(server, cache, calls=0, concurrency=1) as opened:
        assert ask(opened, [1, 2, 3]) == first
        assert (opened.usage.calls, opened.usage.cached) == (0, asked)
    assert len(server.bodies) == asked == 2 + REPEATS + 1
    with chat(server, cache, calls=0, temperature=0.5) as opened, pytest.raises(BudgetSpent):
        ask(opened, [1])  # another request


def test_a_damaged_entry_is_asked_for_again(server: ChatServer, cache: str) -> None:
    server.script = numbered
    with chat(server, cache) as opened:
        ask(opened, [1, 2])
    with sqlite3.connect(cache) as connection:
        connection.execute("UPDATE answers SET value = substr(value, 2)")
    connection.close()
    with chat(server, cache) as opened:
        assert values(ask(opened, [1, 2])) == [1, 2]
        assert opened.usage.calls == 2


UNREADABLE = {
    "garbage": (answered("lorem ipsum"), "no JSON object"),
    "a refusal": (answered("I'm sorry, I can't assist with that."), "no JSON object"),
    "truncated JSON": (answered('{"n": [1, 2', finish="length"), "cut off at the limit of tokens"),
    "a filter": (Reply({"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}), "no text"),
    "no choice": (Reply({"choices": []}), "no text"),
}


@pytest.mark.parametrize(("reply", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_answer_is_asked_for_again_and_kept(
    server: ChatServer, cache: str, reply: Reply, reason: str
) -> None:
    good = Reply({"choices": [{"message": {"content": '{"n": 7}'}}]})
    server.script = lambda prompt, asked, body: good if body["temperature"] and "1" in prompt else reply
    with chat(server, cache) as opened:
        once, never = ask(opened, [1, 2])
        assert (once.value, never.value) == (7, None)
        assert (len(once.rejected), len(never.rejected)) == (1, REPEATS + 1)
        assert all(reason in rejected.reason for rejected in (*once.rejected, *never.rejected))
        assert opened.usage.invalid == REPEATS + 2
    bodies = [body for body in server.bodies if body["messages"][0]["content"] == "number 2"]
    assert [body["temperature"] for body in bodies] == [0, 0.7, 0.7]
    assert len({body["seed"] for body in bodies}) == 3


@pytest.mark.parametrize(
    "failure",
    [Reply(status=429, headers={"Retry-After": "0"}), Reply(status=500), Reply(b"{"), Reply(close=True)],
    ids=["429", "500", "half a body", "closed"],
)
def test_every_attempt_is_a_call(server: ChatServer, cache: str, failure: Reply) -> None:
    server.script = lambda prompt, asked, body: failure if asked < 2 else numbered(prompt, asked, body)
    with chat(server, cache, retries=2) as opened:
        assert values(ask(opened, [5])) == [5]
        assert (opened.usage.calls, opened.usage.answers, opened.usage.tokens) == (3, 1, 10)
    server.asked.clear()
    with chat(server, "none", retries=5, calls=2) as opened, pytest.raises(BudgetSpent, match="2 calls does not"):
        ask(opened, [5])
    assert server.asked["number 5"] == 2


def test_a_question_without_an_answer_leaves_the_others_alone(server: ChatServer, cache: str) -> None:
    server.script = lambda prompt, asked, body: (
        Reply(hang=True) if prompt.endswith(" 2") else numbered(prompt, asked, body)
    )
    with chat(server, cache, retries=0, timeout=0.5) as opened:
        first, second, third = ask(opened, [1, 2, 3])
        assert (first.value, second.value, third.value) == (1, None, 3)
        assert "timed out" in str(second.error)
        assert opened.usage.failed == 1


def test_a_refused_request_is_not_repeated(server: ChatServer, cache: str) -> None:
    server.script = lambda prompt, asked, body: Reply({"error": "content policy"}, status=400)
    with chat(server, cache) as opened:
        (reading,) = ask(opened, [1])
    assert (reading.value, reading.error, len(server.bodies)) == (None, None, 1)
    assert "content policy" in reading.rejected[0].reason


def test_a_server_that_died_ends_the_run_soon(server: ChatServer, cache: str) -> None:
    server.script = lambda prompt, asked, body: Reply(status=500)
    with chat(server, cache, concurrency=2, retries=1) as opened:
        with pytest.raises(ModelError, match="answers no question any more.*HTTP 500"):
            ask(opened, list(range(100)))
        assert opened.usage.calls <= 2 * (4 + 4 * 2)


def test_answers_that_never_fit_the_prompt_end_the_run(server: ChatServer, cache: str) -> None:
    server.script = lambda prompt, asked, body: answered("Hello!")
    words = rf"none of the first {FIRST_ANSWERS}.*'Hello!'.*check the prompt"
    with chat(server, cache, concurrency=1) as opened, pytest.raises(ModelError, match=words):
        ask(opened, list(range(100)))


def test_the_budget_ends_the_run_and_a_larger_one_continues_it(server: ChatServer, cache: str) -> None:
    server.script = numbered
    with chat(server, cache, calls=10) as opened, pytest.raises(BudgetSpent, match="10 calls"):
        ask(opened, list(range(30)))
    assert len(server.bodies) == 10
    with chat(server, cache, calls=20) as opened:
        assert values(ask(opened, list(range(30)))) == list(range(30))
        assert (opened.usage.calls, opened.usage.cached) == (20, 10)
    assert len(server.bodies) == 30


def test_a_budget_of_tokens_is_not_passed(server: ChatServer, cache: str) -> None:
    server.script = lambda prompt, asked, body: answered('{"n": 1}', tokens=50)
    with chat(server, cache, tokens=500, concurrency=4) as opened, pytest.raises(BudgetSpent, match="500 tokens"):
        ask(opened, list(range(100)))
    assert 6 <= len(server.bodies) <= 10
    assert opened.usage.tokens <= 500


def test_tokens_that_the_server_does_not_count_are_estimated(server: ChatServer, cache: str) -> None:
    server.script = lambda prompt, asked, body: answered('{"n": 1}', tokens=None)
    with chat(server, cache) as opened:
        ask(opened, [1])
        assert 5 < opened.usage.tokens < 40
        assert "about" in str(opened.usage)


def test_open_requests_count_for_the_budget_until_they_are_settled() -> None:
    budget = Budget(tokens=100)
    first, second = budget.spend(40), budget.spend(40)
    with pytest.raises(BudgetSpent):
        budget.spend(40)
    budget.give_up(first)
    budget.settle(second, 20, estimated=False)
    assert budget.spend(40) == 40
    assert budget.usage.calls == 3


def test_more_fields_are_sent_and_null_takes_one_out(server: ChatServer, cache: str) -> None:
    server.script = numbered
    more = '{"temperature": null, "max_tokens": null, "max_completion_tokens": 90, "reasoning_effort": "low"}'
    with chat(server, cache, body=more) as opened:
        ask(opened, [1])
    assert set(server.bodies[0]) == {"model", "messages", "seed", "max_completion_tokens", "reasoning_effort"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "concurrency 0"),
        ({"calls": -1}, "-1 calls"),
        ({"tokens": 1.5}, "1.5 tokens"),
        ({"temperature": 3}, "temperature 3"),
        ({"max_tokens": 0}, "max-tokens 0"),
        ({"body": "{"}, "not JSON"),
        ({"body": "[1]"}, "no JSON object"),
        ({"body": '{"stream": true}'}, "'stream' is set by this program"),
    ],
)
def test_options_out_of_range_are_refused(server: ChatServer, cache: str, options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        chat(server, cache, **options)
