"""What becomes of a signal that comes where Python or a library does not let its error through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import gc, signal, sys, time
from pdac_cli.cli import process
from pdac_cli.storage.signals import deferred_signals

class Going:
    def __del__(self):
        signal.raise_signal({number})

def swallowed():  # as by a destructor, or a callback from C
    going = Going()
    del going
    for _ in range(100):
        time.sleep(0.05)
    sys.exit("the signal was lost")

def swallowed_first():  # and then HDF5 writes, which an error must not interrupt
    going = Going()
    del going
    with deferred_signals():
        for _ in range(10):
            time.sleep(0.05)
        print("written", end=", ")
    sys.exit("the signal was lost")

def changed():  # as by a library that gives errors of its own
    try:
        signal.raise_signal({number})
    except BaseException as problem:
        raise SystemError("a result with an exception set") from problem

def half_made():  # an object complains when it goes
    class Half:
        def __del__(self):
            self.missing
    half = Half()
    half.itself = half
    signal.raise_signal({number})

try:
    with process.signals_raised():
        {case}()
except (KeyboardInterrupt, process.Terminated) as problem:
    print(type(problem).__name__)
gc.collect()
"""


@pytest.mark.parametrize(("number", "name"), [(2, "KeyboardInterrupt"), (15, "Terminated")])
@pytest.mark.parametrize("case", ["swallowed", "swallowed_first", "changed", "half_made"])
def test_a_signal_ends_the_run_once_and_in_silence(case: str, number: int, name: str) -> None:
    command = [sys.executable, "-c", RUN.format(number=number, case=case)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = f"written, {name}\n" if case == "swallowed_first" else f"{name}\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")


STUCK = """
import signal, sys, threading
from pathlib import Path
from pdac_cli.cli import process
from pdac_cli.storage.atomic import atomic_path

process._GRACE_SECONDS = 0.2
with process.signals_raised(), atomic_path(Path(sys.argv[1]), force=False):
    lock = threading.Lock()
    lock.acquire()
    try:
        signal.raise_signal({number})
    finally:
        lock.acquire()
"""


@pytest.mark.parametrize(("number", "word"), [(2, "interrupted"), (15, "terminated")])
def test_a_process_that_cannot_leave_is_ended(tmp_path: Path, number: int, word: str) -> None:
    """As where the signal came between two steps of a lock: nothing is left of it all the same."""
    command = [sys.executable, "-c", STUCK.format(number=number), str(tmp_path / "out")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 128 + number
    assert ended.stderr == f"error: {word}; every output is as it was before, or complete\n"
    assert list(tmp_path.iterdir()) == []
