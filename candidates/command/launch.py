"""Where the commands start: in the one package that no other distribution claims.

A command's module is imported inside `run`, so that even a broken installation ends in one clear sentence and
the right exit code instead of a traceback.
"""

from __future__ import annotations

import os
import resource
import sys
from functools import partial
from importlib import import_module

from candidates.command import owner
from candidates.command.console import run
from candidates.common.errors import ResourceError

COMMANDS = {
    "mbr-decode": "mbr.cli.decode.command",
    "mbr-generate": "candidates.cli",
    "mbr-compare": "mbr.cli.compare.command",
    "mbr-evaluate": "mbr.cli.evaluate.command",
    "mbr-metaeval": "mbr.cli.metaeval.command",
    "mbr-tune": "mbr.cli.tune.command",
    "mbr-serve": "mbr.cli.serve.command",
    "mbr-doctor": "mbr.cli.doctor",
    "mbr-merge": "mbr.cli.merge",
    "pear": "pear.commands",
    "pear-score": "pear.cli.score",
    "pear-train": "pear.cli.train",
    "pear-label": "pear.cli.label",
    "pear-convert": "pear.cli.convert",
}


# Libraries that cannot get less end the process from within: OpenBLAS and torch take half a gigabyte to be imported.
LEAST_ADDRESS_SPACE = 2**30


def check_address_space() -> None:
    """Refuse a limit (`ulimit -v`) under which numpy and torch cannot be imported; --help needs neither.

    Raises:
        ResourceError: the limit is too low.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < LEAST_ADDRESS_SPACE and not {"-h", "--help", "--help-all", "--version"} & set(sys.argv[1:]):
        raise ResourceError(
            f"the memory of this process is limited to {limit / 2**20:.0f} MiB (ulimit -v); expected "
            f"{LEAST_ADDRESS_SPACE / 2**20:.0f} MiB at least for the libraries alone; raise the limit"
        )


def start(command: str) -> None:
    def main() -> int:
        if command == "mbr-doctor":
            owner.only_look()
        check_address_space()
        owner.check_owners()
        # numpy's matrices are small, and many: more threads for each only wait for one another. Models have --threads.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # Waiting threads of models sleep: beside other programs, threads that spin cost several times the work itself.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        code: int = import_module(COMMANDS[command]).command()
        return code

    run(command, main)


mbr_decode = partial(start, "mbr-decode")
mbr_generate = partial(start, "mbr-generate")
mbr_compare = partial(start, "mbr-compare")
mbr_evaluate = partial(start, "mbr-evaluate")
mbr_metaeval = partial(start, "mbr-metaeval")
mbr_tune = partial(start, "mbr-tune")
mbr_serve = partial(start, "mbr-serve")
mbr_doctor = partial(start, "mbr-doctor")
mbr_merge = partial(start, "mbr-merge")
pear = partial(start, "pear")
pear_score = partial(start, "pear-score")
pear_train = partial(start, "pear-train")
pear_label = partial(start, "pear-label")
pear_convert = partial(start, "pear-convert")
