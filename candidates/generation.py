"""Candidate lists from a translation model: the settings, and the choice of a back-end.

with open_generator(Settings(nbest=100)) as generator:
    for item in generator.generate(["A dog runs."]):
        print(item.texts)
"""

from __future__ import annotations

import inspect
from typing import Any

from candidates.backends.base import BACKENDS, Generator
from candidates.backends.models import guess_backend
from candidates.common.errors import UsageError
from candidates.common.plugins import option_names
from candidates.settings import Settings, flag

DEFAULT_MODEL = "en-de"

__all__ = ["DEFAULT_MODEL", "Generator", "Settings", "backend_class", "backend_options", "open_generator"]


def open_generator(
    settings: Settings | None = None, *, model: str | None = None, backend: str | None = None, **options: Any
) -> Generator:
    """The generator for a model.

    Args:
        settings: how candidates are searched or drawn.
        model: a folder, a hub name, a bundled model's name (`en-de`), or a server's address.
        backend: a name of the table of back-ends, plug-ins included. Default: `ct2` for a CTranslate2 folder and for
            the bundled models, `openai` for an address, else `hf`.
        options: keyword arguments of the back-end; None stands for the back-end's default.

    Raises:
        UsageError: the back-end is unknown, does not take an option, or needs one that is missing.
        EnvironmentProblem: the plug-in of this name cannot be loaded.
    """
    settings = settings or Settings()
    model = model or DEFAULT_MODEL
    backend = backend or guess_backend(model)
    options = {name: value for name, value in options.items() if value is not None}
    taken = backend_options(backend)
    for name in options:
        if name not in taken:
            expected = ", ".join(map(flag, taken)) or "no options"
            raise UsageError(f"{flag(name)} does not go with the back-end {backend}, which takes {expected}")
    for name, required in taken.items():
        if required and name not in options:
            raise UsageError(f"the back-end {backend} needs {name}; give --translator-option {name}=VALUE")
    generator: Generator = backend_class(backend)(model, settings, **options)
    return generator


def backend_class(name: str) -> Any:
    """The `Generator` subclass of a name. Importing it loads none of the heavy libraries."""
    return BACKENDS.load(name, Generator)


def backend_options(name: str) -> dict[str, bool]:
    """The options of a back-end, and whether it needs them: its arguments but for model and settings, the first two."""
    kind = backend_class(name)
    parameters = inspect.signature(kind).parameters
    return {
        option: option in parameters and parameters[option].default is inspect.Parameter.empty
        for option in option_names(kind)
        if option not in list(parameters)[:2]
    }
