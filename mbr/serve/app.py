"""The web application: endpoints of our own, errors, and what stands around them (`limits`, `observed`).

    app = create_app(service)

Endpoints of other APIs are in `mbr.serve.compat`. An endpoint makes requests, waits for their answers as long as the
client does, and writes JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from candidates.common.errors import MbrError, UsageError
from candidates.common.version import __version__
from candidates.lists import Candidate
from mbr.serve.answers import candidates_body, decision_body
from mbr.serve.compat import add_endpoints
from mbr.serve.errors import Problem, body_of, problem_headers, problem_of, too_many_texts
from mbr.serve.exchange import Json, answers_of, note, validation_problem
from mbr.serve.limits import ApiKeys, App, Guard, Receive, Scope, Send
from mbr.serve.metrics import CONTENT_TYPE, Metrics
from mbr.serve.observed import Observed
from mbr.serve.schema import use_current_schema
from mbr.serve.service import Service
from mbr.serve.shapes import (
    CandidateIn,
    DecodeIn,
    DecodeOut,
    StateOut,
    TranslateIn,
    TranslationsOut,
    error_responses,
)

# Nothing is fetched from elsewhere, whatever texts contain.
POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}


def create_app(
    service: Service,
    *,
    keys: ApiKeys | None = None,
    metrics: Metrics | None = None,
    log: Callable[[dict[str, Any]], None] = lambda facts: None,
) -> App:
    """The whole application as ASGI.

    Args:
        keys: accepted API keys; without any, every request is accepted.
        metrics: of the service; the same object that its scheduler reports to.
        log: receives one dict per request, without texts.
    """
    metrics = metrics or Metrics()
    api = create_api(service, metrics)
    routes = {route.path for route in api.routes if hasattr(route, "path")}
    return Observed(Guard(_head_as_get(api), service.settings, keys or ApiKeys()), metrics, lambda: routes, log)


def _head_as_get(app: App) -> App:
    """HEAD as GET: the server leaves out the body. Load balancers ask for /health in this way."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope, receive, send)

    return call


def create_api(service: Service, metrics: Metrics) -> FastAPI:
    """The endpoints alone, without keys, limits and the log."""
    api = FastAPI(
        title="mbr-serve",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=Json,
    )
    _add_errors(api)
    _add_decisions(api, service)
    add_endpoints(api, service)
    _add_state(api, service, metrics)
    _add_page(api)
    use_current_schema(api, service)
    return api


def _add_errors(api: FastAPI) -> None:
    def answer(problem: Problem) -> Response:
        return Response(body_of(problem), problem.status, problem_headers(problem), "application/json")

    @api.exception_handler(MbrError)
    async def ours(request: Request, error: MbrError) -> Response:
        return answer(problem_of(error))

    @api.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> Response:
        return answer(error)

    @api.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer(validation_problem(error.errors()))

    @api.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        messages = {
            404: "there is no endpoint at this path; /openapi.json lists the paths that exist",
            405: f"this endpoint does not take {request.method}; use {headers.get('allow', 'another method')}",
        }
        return answer(Problem(error.status_code, messages.get(error.status_code, str(error.detail)), headers))


def _add_decisions(api: FastAPI, service: Service) -> None:
    @api.post("/v1/decode", responses={200: {"model": DecodeOut}, **error_responses()})
    async def decode(body: DecodeIn, request: Request) -> Response:
        """The best of a source's candidates."""
        recipe = service.recipe_name(body.recipe, body.utility)
        note(request, recipe=recipe)
        candidates = [_candidate(entry) for entry in body.candidates]
        decoding = service.list_request(body.source, candidates, recipe, **_rules(body))
        (answer,) = await answers_of(request, service, [decoding])
        systems = {
            place: entry.system
            for place, entry in enumerate(body.candidates)
            if isinstance(entry, CandidateIn) and entry.system is not None
        }
        return Json(
            decision_body(answer, id=body.id, recipe=recipe, top=body.top, systems=systems, matrix=body.return_matrix)
        )

    @api.post("/v1/translate", responses={200: {"model": DecodeOut | TranslationsOut}, **error_responses()})
    async def translate(body: TranslateIn, request: Request) -> Response:
        """Candidates of the bundled translator, and the best of them; of one text, or of several."""
        if (body.text is None) == (body.texts is None):
            raise UsageError(
                f"the request has {'neither' if body.text is None else 'both'} of `text` and `texts`; expected one of "
                "them; send `text` for a single text, `texts` for several"
            )
        texts = [body.text] if body.text is not None else body.texts or []
        if len(texts) > service.settings.max_texts:
            raise too_many_texts(len(texts), service.settings.max_texts)
        recipe = service.recipe_name(body.recipe, body.utility, translation=True)
        note(request, recipe=recipe)
        translations = [service.translation_request(text, recipe, nbest=body.nbest, **_rules(body)) for text in texts]
        results = []
        for answer in await answers_of(request, service, translations):
            result = decision_body(answer, id=None, recipe=recipe, top=body.top, matrix=body.return_matrix)
            if body.return_candidates and answer.decision and answer.decision.candidates:
                result["candidates"] = candidates_body(answer.decision.candidates)
            results.append(result)
        return Json(results[0] if body.text is not None else {"results": results})


def _candidate(entry: str | CandidateIn) -> str | Candidate:
    return entry if isinstance(entry, str) else Candidate(entry.text, entry.logprob, entry.count)


def _rules(body: DecodeIn | TranslateIn) -> dict[str, Any]:
    return {
        "keep_matrix": body.return_matrix,
        "timeout": None if body.timeout_ms is None else body.timeout_ms / 1000,
        "on_deadline": body.on_deadline,
    }


def _add_state(api: FastAPI, service: Service, metrics: Metrics) -> None:
    errors = error_responses(400, 401, 408, 413)

    @api.get("/health", responses={200: {"model": StateOut}, **errors})
    async def health() -> Response:
        """Whether the process is alive."""
        return Json({"status": "ok"})

    @api.get("/ready", responses={200: {"model": StateOut}, 503: {"model": StateOut}, **errors})
    async def ready() -> Response:
        """Whether it takes requests: the models are loaded and have decided a list, and it is not ending."""
        return Json({"status": service.state}, 200 if service.state == "ready" else 503)

    @api.get("/info", responses=errors)
    async def info() -> dict[str, Any]:
        """What is served, with all limits."""
        return service.info()

    @api.get("/v1/models", responses=errors)
    async def models() -> dict[str, Any]:
        """The recipes, in the manner of OpenAI's API."""
        names = service.scheduler.recipes
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "mbr-decode"} for name in names]
        return {"object": "list", "data": data}

    @api.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **errors})
    async def numbers() -> Response:
        """Numbers for Prometheus."""
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})


def _add_page(api: FastAPI) -> None:
    folder = files("mbr.serve.page")
    for path, (name, kind) in PAGE.items():
        content = folder.joinpath(name).read_bytes()
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

        async def file(content: bytes = content, kind: str = kind, headers: dict[str, str] = headers) -> Response:
            return Response(content, headers={**headers, "Content-Type": f"{kind}; charset=utf-8"})

        api.add_route(path, _as_route(file), methods=["GET"], include_in_schema=False)


def _as_route(answer: Callable[[], Any]) -> Callable[[Request], Any]:
    async def route(request: Request) -> Any:
        return await answer()

    return route
