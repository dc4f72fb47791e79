"""Command-line options of generation, the same on mbr-generate and on mbr-decode.

On mbr-decode `--model`, `--backend` and a few others speak of the utility, so the translation model's carry the word
`translator`; mbr-generate takes both spellings.
"""

from __future__ import annotations

import argparse

from candidates.common.errors import UsageError
from candidates.generation import (
    BACKENDS,
    DEFAULT_MODEL,
    METHODS,
    Generator,
    Method,
    Settings,
    guess_backend,
    open_generator,
)

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
    """Add the options; with `short_names` also those that mbr-decode has given to its utility."""

    def names(name: str) -> list[str]:
        return [f"--{name}", f"--translator-{name}"] if short_names else [f"--translator-{name}"]

    g = parser.add_argument_group("translation model" if short_names else "translation model (text in)")
    g.add_argument(
        *(["--model", "--translator"] if short_names else ["--translator"]),
        dest="translator",
        metavar="MODEL",
        help="CTranslate2 folder, transformers folder or hub name, server address, or a bundled model (default: en-de)",
    )
    g.add_argument(
        *names("backend"), dest="translator_backend", choices=BACKENDS, help="default: what the model calls for"
    )
    g.add_argument("--src-lang", metavar="CODE", help="source language, as the model spells it (eng_Latn, en)")
    g.add_argument("--tgt-lang", metavar="CODE", help="target language, as the model spells it (deu_Latn, de)")
    g.add_argument(
        *names("compute-type"), dest="translator_compute_type", metavar="TYPE", help="int8, float32, float16, ..."
    )
    g.add_argument(
        *names("batch-tokens"),
        dest="translator_batch_tokens",
        type=int,
        metavar="N",
        help="ct2 beams: source tokens times beam size in a batch (default: 8192)",
    )

    g = parser.add_argument_group("search or sampling" if short_names else "search or sampling (text in)")
    g.add_argument(
        "--method", choices=METHODS, help="n-best beam, sampling, epsilon sampling (default: beam; a server: sample)"
    )
    g.add_argument("--beam-size", type=int, metavar="N", help="beam: default as large as --nbest, at least 5")
    g.add_argument("--patience", type=float, metavar="X", help="beam: go on until beam size times X have ended")
    g.add_argument("--length-penalty", type=float, metavar="X", help="beam: exponent of the length (default: 1)")
    g.add_argument("--temperature", type=float, metavar="T", help="sample, epsilon (default: 1)")
    g.add_argument("--top-k", type=int, metavar="K", help="sample: from the K likeliest tokens (default: all)")
    g.add_argument(
        "--top-p", type=float, metavar="P", help="sample: from the likeliest tokens that hold P (default: 1)"
    )
    g.add_argument("--epsilon", type=float, metavar="E", help="epsilon: no token less likely than E (default: 0.02)")
    g.add_argument("--max-length", type=int, metavar="N", help="tokens of a candidate (default: 256)")
    g.add_argument("--split-sentences", action="store_true", help="translate sentence by sentence, and join")

    g = parser.add_argument_group("server (back-end openai; the key is taken from OPENAI_API_KEY)")
    g.add_argument("--server-model", metavar="NAME", help="the model's name at the server (default: its only one)")
    g.add_argument("--prompt", metavar="TEXT", help="with {source}, {src_lang}, {tgt_lang}; @FILE reads a file")
    g.add_argument("--concurrency", type=int, metavar="N", help="requests at once (default: 8)")
    g.add_argument("--retries", type=int, metavar="N", help="of a failed request (default: 5)")
    g.add_argument("--timeout", type=float, metavar="SECONDS", help="of a request (default: 120)")


def given_options(options: argparse.Namespace) -> list[str]:
    """The generation options that were given, as they are spelled on mbr-decode."""
    model = ("translator", "translator_backend", "translator_compute_type", "translator_batch_tokens")
    names = (*model, "src_lang", "tgt_lang", "method", *_SETTINGS, "split_sentences", *_SERVER)
    return [f"--{name.replace('_', '-')}" for name in names if getattr(options, name) not in (None, False)]


def method_of(options: argparse.Namespace) -> Method:
    """The method asked for, or the back-end's usual one: a server can only sample."""
    method: Method = options.method or ("sample" if _backend_of(options) == "openai" else "beam")
    return method


def _backend_of(options: argparse.Namespace) -> str:
    return str(options.translator_backend or guess_backend(options.translator or DEFAULT_MODEL))


def settings_of(options: argparse.Namespace) -> Settings:
    """The search or sampling that the options describe."""
    return Settings(
        nbest=100 if options.nbest is None else options.nbest,
        seed=options.seed,
        method=method_of(options),
        **{name: value for name in _SETTINGS if (value := getattr(options, name)) is not None},
    )


def generator_of(options: argparse.Namespace) -> Generator:
    """The generator that the options describe."""
    for name in ("threads", "translator_batch_tokens", "concurrency"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(options, name)} is not a positive number")
    given = {name: getattr(options, name) for name in ("src_lang", "tgt_lang", *_SERVER)}
    given |= {"compute_type": options.translator_compute_type, "batch_tokens": options.translator_batch_tokens}
    given["split_sentences"] = options.split_sentences or None
    backend = _backend_of(options)
    if backend != "openai":  # on mbr-decode these two may be meant for the utility alone
        device = (options.device or "auto").split(",")[0]
        given |= {"device": "cpu" if (backend, device) == ("ct2", "mps") else device, "threads": options.threads}
    return open_generator(settings_of(options), model=options.translator, backend=options.translator_backend, **given)
