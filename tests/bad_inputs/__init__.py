"""A row of the table of bad inputs, and the commands that rows are run with; ``tests.test_bad_inputs`` runs them.

A new command joins by a line in ``COMMANDS`` and, where it reads features like the others, by its name in ``READERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.files.formats.bad_features import H, Y, put

# Run in the folder of the bad input, which is called f.h5; the output is always out.h5.
COMMANDS = {
    "fit": "fit f.h5 -o out.h5 --dim 2 --components 2",
    "select": "select f.h5 -o out.h5 --budget 20",
    "class": "select f.h5 -o out.h5 --density class --steer 0 --no-normalize --dim 2 --components 2 --budget 20",
    "uniform": "select f.h5 -o out.h5 --method uniform --budget 20",
    "print": "select f.h5 --budget 20",
    "stream": "stream f.h5 -o out.h5 --density class --dim 2 --components 2 --budget 20",
    "compare": "compare f.h5 --methods uniform --dim 2 --components 2 --budget 20",
    "train-cl": "train-cl f.h5 -o out.h5 --method uniform --epochs 1 --seeds 1 --tasks 1 --budget 20 --jobs 1",
    "extract": "extract --checkpoint c.pt --data i.h5 -o out.h5 --batch-size 10 --jobs 1",
    "merge": "merge part-0.h5 part-1.h5 -o out.h5",
}
READERS = ("fit", "select", "uniform", "print", "stream", "compare", "train-cl")
FITTERS = ("fit", "class")
DRAWERS = ("select", "print")
WRITERS = ("fit", "select", "stream")
SELECT = ("select",)
PRINTERS = ("print", "compare")  # write no file
BARE = ("train-cl",)  # has none of the options about the input, so only rows without arguments are run with it

Make = Callable[[Path], object]
During = Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[None]]


@dataclass(frozen=True)
class Case:
    """One kind of input: how it comes about, what is run on it and what that must end in."""

    name: str
    code: int
    words: str  # a pattern: of the error, or for code 0 of what is said on standard error
    make: Make = lambda folder: put(folder / "f.h5")
    arguments: str = ""
    verbs: tuple[str, ...] = READERS
    during: During = lambda folder, patch: nullcontext()
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[int, int] = field(default_factory=dict)  # of a process of its own
    same: bool = False  # as many rows as the plain file gives, and the same ones


def f(make: Make) -> Make:
    """A maker that is told the folder, of one that is told the path."""
    return lambda folder: make(folder / "f.h5")


def features(h: Any = H, y: Any = Y, **more: Any) -> Make:
    return f(lambda path: put(path, h, y, **more))
