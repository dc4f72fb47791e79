"""mbr-serve: decisions behind HTTP, for clients of Cohere, Jina, vLLM, TEI, LibreTranslate, and a page to try it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console, Parser, add_message_options
from candidates.command.model_options import HUB, RUNNING, add_model_options, model_options
from candidates.common.errors import EnvironmentProblem, UsageError, install_extra
from mbr.serve.settings import PREFIX, Settings

if TYPE_CHECKING:
    from mbr.serve.server import Loading
    from mbr.serve.service import Service

QUICK_START = """\
quick start:
  mbr-serve  # then open http://127.0.0.1:8080 in a browser
  curl -d '{"text": "Tom wants to meet my parents."}' localhost:8080/v1/translate
  mbr-serve --recipe quality=recipe.yaml --recipe fast='{utility: chrf}' --api-key-file keys.txt --host 0.0.0.0"""

TEXTS = {"host": "127.0.0.1", "port": 8080, "api_key_file": None, "on_error": "stop"}


def parser() -> Parser:
    p = Parser(
        "mbr-serve",
        "Serve decisions over HTTP. Without options: the bundled models, on this machine only. Every limit, --host, "
        f"--port, --api-key-file and --on-error are also environment variables, such as {PREFIX}PORT; flags override "
        "them.",
        QUICK_START,
    )
    g = p.add_argument_group("address")
    g.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    g.add_argument("--port", type=int, metavar="N", help="port; 0 is any free one (default: 8080)")
    g.add_argument("--api-key-file", metavar="FILE", help="accepted API keys, one per line")
    g.add_argument(
        "--without-key", action="store_true", help="listen on an address that others can reach, without a key"
    )
    g = p.add_argument_group("what is served")
    g.add_argument(
        "--recipe",
        action="append",
        metavar="[NAME=]FILE|NAME",
        help="a recipe as for mbr-decode; repeatable, the first is the default (default: the bundled models')",
    )
    g.add_argument(
        "--translator",
        metavar="MODEL",
        help="translation model for texts without candidates, as for mbr-decode; none: none (default: en-de)",
    )
    g.add_argument("--src-lang", metavar="CODE", help="source language, as the translation model spells it")
    g.add_argument("--tgt-lang", metavar="CODE", help="target language, as the translation model spells it")
    g.add_argument("--split-sentences", action="store_true", help="translate each sentence of a text by itself")
    g.add_argument(
        "--on-error",
        choices=("stop", "fallback"),
        help="where scoring fails: an error, or the first candidate with the flag `fallback` (default: stop)",
    )
    g = p.add_argument_group("limits")
    for limit in fields(Settings):
        kind = int if isinstance(limit.default, int) else float
        g.add_argument(
            f"--{limit.name.replace('_', '-')}",
            type=kind,
            metavar="N" if kind is int else "SECONDS",
            help=f"{limit.metadata['help']} (default: {limit.default:{',' if kind is int else 'g'}})",
        )
    add_model_options(p, "models", (*HUB, *RUNNING))
    g = p.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags override it")
    g.add_argument("--no-access-log", action="store_true", help="no line of JSON per request on standard error")
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.config import with_config

    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    _fill_from_environment(options)
    settings = Settings.from_environment(
        os.environ, **{limit.name: getattr(options, limit.name) for limit in fields(Settings)}
    )
    console = Console("mbr-serve", quiet=options.quiet, log_format=options.log_format)
    _check_extra()
    return _serve(options, settings, console)


def _fill_from_environment(options: argparse.Namespace) -> None:
    """What is neither a limit nor of a model: flags, then the environment, then the default."""
    for name, default in TEXTS.items():
        if getattr(options, name) is None:
            value: Any = os.environ.get(PREFIX + name.upper(), default)
            if isinstance(default, int):
                if not str(value).isdecimal():
                    raise UsageError(f"{PREFIX}{name.upper()} is {value!r:.40}; expected a whole number")
                value = int(value)
            setattr(options, name, value)
    if options.on_error not in ("stop", "fallback"):
        raise UsageError(f"{PREFIX}ON_ERROR is {options.on_error!r:.40}; expected stop or fallback")
    if not 0 <= options.port < 2**16:
        raise UsageError(f"--port {options.port} is out of range; expected 0 to 65535")


def _check_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as exc:
        raise EnvironmentProblem(f"mbr-serve lacks a package ({exc}); {install_extra('serve')}") from exc


def _serve(options: argparse.Namespace, settings: Settings, console: Console) -> int:
    from mbr.serve.app import create_app
    from mbr.serve.limits import ApiKeys, check_address
    from mbr.serve.metrics import Metrics
    from mbr.serve.server import Running, leave, listen
    from mbr.serve.service import Service

    keys = ApiKeys() if options.api_key_file is None else ApiKeys.read(options.api_key_file)
    check_address(options.host, keys, insecure=options.without_key)
    metrics = Metrics(console.error)
    service = Service(settings, fallback=options.on_error == "fallback", watch=metrics)
    loading = _loading(options, service)
    listener = listen(options.host, options.port)
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    console.info(f"listening on {address}, loading models", address=address)
    log = (lambda facts: None) if options.no_access_log or options.quiet else access_log
    app = create_app(service, keys=keys, metrics=metrics, log=log)
    code = Running(service, app, listener, loading, console).run()
    if service.scheduler.stuck:
        leave(code)
    return code


def _loading(options: argparse.Namespace, service: Service) -> Loading:
    """How to load what the options name; recipes are read now as well, so that a wrong one ends the start."""
    from mbr.recipe import RUNTIME_OPTIONS, read_recipe
    from mbr.recipe.plan import with_precision
    from mbr.serve.served import Words, load
    from mbr.serve.server import Loading
    from mbr.serve.translator import Translator

    words = Words.parse(options.recipe or ())
    for word in words.recipes.values():
        read_recipe(word).check()

    def runtime() -> dict[str, Any]:
        chosen = model_options(options, RUNTIME_OPTIONS)
        workers = service.settings.workers_per_device
        if workers > 1:
            from pear.runtime.devices import resolve_devices

            devices = resolve_devices(options.device or "auto")
            chosen["device"] = ",".join(device for device in devices for _ in range(workers))
        return chosen

    def precise(recipe: Any) -> Any:
        return recipe if options.dtype is None else with_precision(recipe, options.dtype, required=False)

    def translator() -> Translator | None:
        from candidates.generation import open_generator
        from candidates.settings import Settings as Search

        if options.translator == "none":
            return None
        generator = open_generator(
            Search(nbest=service.settings.nbest),
            model=options.translator,
            src_lang=options.src_lang,
            tgt_lang=options.tgt_lang,
            split_sentences=options.split_sentences or None,
            **_translator_runtime(options),
        )
        return Translator(generator, options.src_lang, options.tgt_lang)

    return Loading(
        translator,
        lambda translator: load(words, runtime(), service.cache, translator.origin if translator else None, precise),
    )


def _translator_runtime(options: argparse.Namespace) -> dict[str, Any]:
    """How the translation model runs: on the first of the devices. A model behind an address runs elsewhere."""
    from candidates.backends.models import guess_backend
    from candidates.generation import DEFAULT_MODEL, backend_options

    device = options.device.split(",")[0] if options.device else None
    taken = backend_options(guess_backend(options.translator or DEFAULT_MODEL))
    runtime = {"device": device, "threads": options.threads}
    return {name: value for name, value in runtime.items() if name in taken}


def access_log(facts: dict[str, Any]) -> None:
    """One line of JSON per request on standard error; it never holds a text."""
    import json
    import time

    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"time": stamp, "event": "request", **facts})
    print(line, file=sys.stderr, flush=True)
