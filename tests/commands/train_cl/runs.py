"""Small continual runs: options, what they wrote, and runs that get a signal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CLASSES = (0, 1, 2, 5)


SMALL = ("--jobs", 1, "--quiet", "--seeds", 1)


def result(folder: Path, method: str, seed: int = 0) -> dict:
    return json.loads((folder / method / f"seed-{seed}" / "result.json").read_text())


def outcome(folder: Path, method: str, seed: int = 0) -> dict:
    """What must be the same in runs that are the same."""
    found = result(folder, method, seed)
    return {name: found[name] for name in ("acc", "fm", "accuracy", "losses", "classes", "train_rows")}


STEPWISE = """
import os, signal, sys
from pdac_cli import cli
from pdac_cli.learning.learner import Learner
step, left = Learner.step, [int(os.environ["STEPS"])]
def counted(self, *arguments):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))
    return step(self, *arguments)
Learner.step = counted
import pdac_cli.learning.loop as loop
loop._SAVE_SECONDS = 0.0
sys.argv = ["pdac", *sys.argv[1:]]
cli.main()
"""


def interrupted(steps: int, number: int, *arguments: object) -> subprocess.CompletedProcess:
    """Run the command line in a process that gets a signal at a certain step."""
    environment = {**os.environ, "STEPS": str(steps), "SIGNAL": str(number), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", STEPWISE, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
