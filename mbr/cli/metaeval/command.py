"""mbr-metaeval: scores by people and by metrics in; how well they agree out.

Without a task it makes the table of agreement; a first word chooses another task. Each task has options of its own.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module

from candidates.command.console import Console
from candidates.common.errors import UsageError

TASKS = {
    "agreement": "how well metrics agree with people (the default)",
    "choice": "what people think of the translations that metrics and utilities choose, with a plot",
    "parity": "people among the metrics: SPA and acc_eq* of several human columns",
    "correlation": "which metrics agree with each other: a matrix and a heat map",
    "noise": "how far statistics fall when human scores are disturbed, with a plot",
    "oracle": "what statistics reward: metrics that see one kind of MQM error",
    "anchors": "whether a pairwise metric needs a human reference as its anchor",
    "post-edits": "how often a metric scores a post-edit above what it corrects",
    "resume-metric": "how much RESUME to add to a metric: agreement and post-edit rate by its weight, with a plot",
}


def command(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    task = "agreement"
    if words and not words[0].startswith("-"):
        task, *words = words
        if task not in TASKS:
            option = "--data" if os.path.isdir(task) else "--table" if os.path.exists(task) else None
            hint = f"; did you mean {option} {shlex.quote(task)}?" if option else ", or an option"
            raise UsageError(f"task {task!r} is unknown; expected one of {', '.join(TASKS)}{hint}")
    module = import_module(f"mbr.cli.metaeval.{task.replace('-', '_')}")

    from candidates.command.config import with_config
    from mbr.cli.metaeval.options import check_options

    parser = module.parser()
    options = parser.parse_args(with_config(parser, words))
    console = Console("mbr-metaeval", quiet=options.quiet, log_format=options.log_format)
    check_options(options)
    code: int = module.run(options, console)
    return code
