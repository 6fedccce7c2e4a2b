"""The texts of ``pdac extract``'s options: numbers, sizes, and a shard, which a SLURM job array may tell too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pdac_cli.errors import UsageError

SLURM = "slurm"
_ARRAY = "SLURM_ARRAY_TASK_"
ARRAY_TASK = f"{_ARRAY}ID"


def parse_numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Return the numbers of ``0.49,0.48,0.45``."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} is {text!r}; expected numbers with commas, such as 0.49,0.48,0.45") from None


def parse_size(option: str, text: str | None) -> tuple[int, ...] | None:
    """Return the size of ``224`` or ``224x288``."""
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,5}(x\d{1,5})?", text):
        raise UsageError(f"{option} is {text!r}; expected pixels, such as 224, or height and width, such as 224x288")
    return tuple(int(part) for part in text.split("x"))


def parse_shard(text: str | None, environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (i, n) of ``i/n``, counted from 0, or of ``slurm``: this task's place in its job array."""
    if text is None:
        return None
    if text == SLURM:
        return _slurm_task(environment)
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found:
        raise UsageError(f"--shard is {text!r}; expected i/n with i from 0 to n - 1, such as 0/8, or {SLURM}")
    i, n = int(found[1]), int(found[2])
    if i >= n:
        raise UsageError(f"--shard is {i}/{n}; expected i from 0 to {max(0, n - 1)}: shards count from 0")
    return i, n


def _slurm_task(environment: Mapping[str, str]) -> tuple[int, int]:
    """Tasks of ``--array=MIN-MAX:STEP`` are shards 0 to COUNT − 1 in order."""
    task, count = _number(environment, "ID"), _number(environment, "COUNT")
    first, step = _number(environment, "MIN", 0), _number(environment, "STEP", 1)
    place, left = divmod(task - first, max(1, step))
    last = _number(environment, "MAX", first + (count - 1) * step)
    if left or not 0 <= place < count or last != first + (count - 1) * step:
        raise UsageError(
            f"{_ARRAY}ID is {task} in an array of {count} tasks from {first} to {last} by {step}; expected evenly "
            "spaced ids, such as --array=0-7; or give --shard i/n"
        )
    return place, count


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(_ARRAY + name)
    if text is None and default is not None:
        return default
    if text is None:
        raise UsageError(f"--shard {SLURM}: {_ARRAY}{name} is not set; expected a job array; or give --shard i/n")
    if not re.fullmatch(r"\d{1,9}", text):
        raise UsageError(f"{_ARRAY}{name} is {text!r}; expected a whole number; or give --shard i/n")
    return int(text)
