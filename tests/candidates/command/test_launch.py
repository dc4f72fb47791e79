"""Where the commands start: what every command sets before it loads a library."""

from __future__ import annotations

import os
import subprocess
import sys

PRINTS = """
import os, sys
from candidates.command import launch
sys.modules["printing"] = type(sys)("printing")
sys.modules["printing"].command = lambda: print(os.environ["OMP_WAIT_POLICY"], "torch" in sys.modules)
launch.COMMANDS["mbr-doctor"] = "printing"
launch.start("mbr-doctor")
"""


def _printed(**variables: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"} | variables
    words = [sys.executable, "-c", PRINTS]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout


def test_waiting_threads_sleep_unless_the_user_has_set_it_otherwise() -> None:
    """Set before torch is loaded, which reads it once."""
    assert _printed() == "PASSIVE False\n"
    assert _printed(OMP_WAIT_POLICY="ACTIVE") == "ACTIVE False\n"
