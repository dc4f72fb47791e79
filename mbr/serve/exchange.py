"""What all endpoints share: waiting for answers as long as the client does, JSON, and facts for the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

from mbr.serve import jobs
from mbr.serve.errors import Problem, as_json
from mbr.serve.service import Service


class Json(JSONResponse):
    def render(self, content: Any) -> bytes:
        return as_json(content)


async def answers_of(request: Request, service: Service, requests: Sequence[jobs.Request]) -> list[jobs.Answer]:
    """The answers, in order. When the client leaves, or one fails, the work of all is dropped.

    Raises:
        MbrError: of the first that fails; `Gone` where the client has left.
    """
    tickets = service.scheduler.submit(requests)
    answers: asyncio.Future[list[jobs.Answer]] = asyncio.gather(
        *(asyncio.wrap_future(ticket.future) for ticket in tickets)
    )
    gone: asyncio.Future[Any] = asyncio.ensure_future(_client_leaves(request))
    try:
        waited: set[asyncio.Future[Any]] = {answers, gone}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not answers.done():
            raise jobs.Gone("the client has gone")
        received = answers.result()
    except BaseException:
        for ticket in tickets:
            ticket.cancel()
        raise
    finally:
        gone.cancel()
        answers.cancel()
    _note(request, received)
    return received


def note(request: Request, **facts: Any) -> None:
    """Facts for the log and the headers; never a text."""
    request.scope["state"]["mbr"].update(facts)


def _note(request: Request, answers: Sequence[jobs.Answer]) -> None:
    decisions = [answer.decision for answer in answers if answer.decision is not None]
    flags = {flag for decision in decisions for flag in decision.flags}
    flags |= {"partial" for answer in answers if answer.partial}
    note(
        request,
        queue_ms=round(1000 * max(answer.queue_seconds for answer in answers), 1),
        inference_ms=round(1000 * max(answer.inference_seconds for answer in answers), 1),
        flags=",".join(sorted(flags)) or None,
        candidates=sum(sum(decision.candidates.counts) for decision in decisions if decision.candidates),
        passes=sum(decision.passes for decision in decisions),
        tokens=sum(answer.tokens for answer in answers),
    )


async def _client_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def validation_problem(errors: Sequence[Any]) -> Problem:
    """What pydantic found, without the values: these are texts of users."""
    if any(error["type"] == "json_invalid" for error in errors):
        return Problem(400, "the body is not valid JSON; send one JSON object in UTF-8")
    problems = [f"{'.'.join(str(part) for part in error['loc'][1:]) or 'body'}: {error['msg']}" for error in errors[:5]]
    return Problem(422, f"{'; '.join(problems)}; /openapi.json has the expected shape")
