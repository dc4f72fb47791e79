"""Command-line options of generation, the same on mbr-generate and on mbr-decode.

On mbr-decode `--model`, `--backend` and a few others belong to the utility, so the translation model's carry the word
`translator`; mbr-generate takes both spellings. Options of a plug-in back-end are `--translator-option KEY=VALUE`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from candidates.backends.base import BACKENDS, Generator
from candidates.backends.models import guess_backend
from candidates.common.errors import UsageError
from candidates.formats import guess_format
from candidates.generation import DEFAULT_MODEL, backend_class, backend_options, open_generator
from candidates.settings import METHODS, Method, Settings, flag

_SETTINGS = (
    "beam_size",
    "patience",
    "length_penalty",
    "temperature",
    "top_k",
    "top_p",
    "epsilon",
    "max_length",
)
_SERVER = ("server_model", "prompt", "concurrency", "retries", "timeout")


def add_generation_options(parser: argparse.ArgumentParser, *, short_names: bool) -> None:
    """Add the options; with `short_names` also without the word `translator`, where mbr-decode has another use."""

    from_text = "" if short_names else " (text in)"
    _add_model_options(parser.add_argument_group(f"translation model{from_text}"), short_names)
    _add_search_options(parser.add_argument_group(f"search or sampling{from_text}"))
    server = "server (back-end openai; the key is taken from OPENAI_API_KEY)"
    _add_server_options(parser.add_argument_group(server))


def _add_model_options(g: argparse._ArgumentGroup, short_names: bool) -> None:
    def names(name: str) -> list[str]:
        return [f"--{name}", f"--translator-{name}"] if short_names else [f"--translator-{name}"]

    g.add_argument(
        *(["--model", "--translator"] if short_names else ["--translator"]),
        dest="translator",
        metavar="MODEL",
        help="CTranslate2 folder, transformers folder or hub name, server address, or a bundled model (default: en-de)",
    )
    g.add_argument(
        *names("backend"),
        dest="translator_backend",
        choices=BACKENDS,
        help="back-end of the translation model (default: by the model's name)",
    )
    g.add_argument(
        *names("option"),
        dest="translator_option",
        action="append",
        metavar="KEY=VALUE",
        help="an option of the back-end, the value as in YAML; repeatable",
    )
    g.add_argument("--src-lang", metavar="CODE", help="source language, as the model spells it (eng_Latn, en)")
    g.add_argument("--tgt-lang", metavar="CODE", help="target language, as the model spells it (deu_Latn, de)")
    g.add_argument(
        *names("compute-type"),
        dest="translator_compute_type",
        metavar="TYPE",
        help="precision: int8, float32, float16, ...",
    )
    g.add_argument(
        *names("batch-tokens"),
        dest="translator_batch_tokens",
        type=int,
        metavar="N",
        help="ct2 beams: source tokens times beam size per batch (default: 8192, less for wide beams and large "
        "vocabularies on a CPU)",
    )


def _add_search_options(g: argparse._ArgumentGroup) -> None:
    g.add_argument(
        "--method",
        choices=METHODS,
        help="n-best beam, sampling, epsilon sampling (default: beam; for a server: sample)",
    )
    g.add_argument("--beam-size", type=int, metavar="N", help="beam: its size (default: --nbest, at least 5)")
    g.add_argument(
        "--patience", type=float, metavar="X", help="beam: search until beam size times X hypotheses are complete"
    )
    g.add_argument("--length-penalty", type=float, metavar="X", help="beam: exponent of the length (default: 1)")
    g.add_argument("--temperature", type=float, metavar="T", help="sample, epsilon: softmax temperature (default: 1)")
    g.add_argument("--top-k", type=int, metavar="K", help="sample: only the K most likely tokens (default: all)")
    g.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="sample: only the most likely tokens that sum to P (default: 1)",
    )
    g.add_argument("--epsilon", type=float, metavar="E", help="epsilon: no token less likely than E (default: 0.02)")
    g.add_argument("--max-length", type=int, metavar="N", help="tokens per candidate, at most (default: 256)")
    g.add_argument(
        "--split-sentences",
        action=argparse.BooleanOptionalAction,
        help="translate each sentence of a line by itself (default: yes; for a server: no)",
    )


def _add_server_options(g: argparse._ArgumentGroup) -> None:
    g.add_argument("--server-model", metavar="NAME", help="the model's name on the server (default: its only model)")
    g.add_argument("--prompt", metavar="TEXT", help="with {source}, {src_lang}, {tgt_lang}; @FILE reads a file")
    g.add_argument("--concurrency", type=int, metavar="N", help="concurrent requests (default: 8)")
    g.add_argument("--retries", type=int, metavar="N", help="retries of a failed request (default: 5)")
    g.add_argument("--timeout", type=float, metavar="SECONDS", help="time limit per request (default: 120)")


def file_option(name: str) -> str:
    """The option that takes a file of this name, for commands that read text and candidate lists."""
    try:
        return "--sources" if guess_format(name) == "lines" else "--candidates"
    except UsageError:
        return "--sources"


def given_options(options: argparse.Namespace) -> list[str]:
    """The generation options on the command line, as they are spelled on mbr-decode."""
    model = tuple(f"translator{name}" for name in ("", "_backend", "_option", "_compute_type", "_batch_tokens"))
    names = (*model, "src_lang", "tgt_lang", "method", *_SETTINGS, "split_sentences", *_SERVER)
    return [flag(name) for name in names if getattr(options, name) is not None]


def method_of(options: argparse.Namespace) -> Method:
    """The method of --method, or the back-end's default: a server can only sample."""
    method: Method = options.method or backend_class(_backend_of(options)).default_method
    return method


def _backend_of(options: argparse.Namespace) -> str:
    return str(options.translator_backend or guess_backend(options.translator or DEFAULT_MODEL))


def settings_of(options: argparse.Namespace) -> Settings:
    """The search or sampling that the options describe."""
    return Settings(
        nbest=100 if options.nbest is None else options.nbest,
        seed=1 if options.seed is None else options.seed,
        method=method_of(options),
        **{name: value for name in _SETTINGS if (value := getattr(options, name)) is not None},
    )


def generator_of(options: argparse.Namespace) -> Generator:
    """The generator that the options describe."""
    for name in ("threads", "translator_batch_tokens", "concurrency"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise UsageError(f"{flag(name)} {getattr(options, name)} is out of range; expected a positive number")
    backend = _backend_of(options)
    taken = backend_options(backend)
    values = {name: getattr(options, name) for name in ("src_lang", "tgt_lang", *_SERVER)}
    values |= {"compute_type": options.translator_compute_type, "batch_tokens": options.translator_batch_tokens}
    values["split_sentences"] = options.split_sentences
    # On mbr-decode these two may be meant for the utility alone.
    device = (options.device or "auto").split(",")[0]
    shared = {"device": "cpu" if (backend, device) == ("ct2", "mps") else device, "threads": options.threads}
    values |= {name: value for name, value in shared.items() if name in taken}
    own = _own_options(options.translator_option or ())
    for name in own:
        if name not in taken:
            expected = ", ".join(taken) or "none"
            raise UsageError(f"the back-end {backend} has no option {name!r}; expected one of its own: {expected}")
    return open_generator(settings_of(options), model=options.translator, backend=backend, **values | own)


def _own_options(words: Sequence[str]) -> dict[str, Any]:
    """The options of --translator-option, their values read as YAML scalars."""
    import yaml

    options: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = [text]
        if not equals or not name.isidentifier() or isinstance(value, (list, dict)):
            raise UsageError(
                f"--translator-option {word!r:.80} is not KEY=VALUE with one text, number, true or false as value; "
                "put a text with special characters in quotes: key='\"a: b\"'"
            )
        if name in options:
            raise UsageError(f"--translator-option {name} was given twice; give it once")
        options[name] = value if value is None or isinstance(value, (str, int, float)) else text
    return options
