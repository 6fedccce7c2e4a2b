"""Options whose text is more than one number or name: lists, sizes, pairs, and a shard, which SLURM may tell too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from pdac_cli.errors import UsageError

ALL = "all"
SLURM = "slurm"
_ARRAY = "SLURM_ARRAY_TASK_"
ARRAY_TASK = f"{_ARRAY}ID"


def parse_bytes(option: str, text: str) -> int:
    """Return a size such as 512M or 1.5G in bytes (powers of 1024)."""
    return _size(option, text, 2**24, "16M, such as 512M or 1.5G")


def parse_unit(option: str, text: str) -> int:
    """Return a size of what is read at once, such as 64M, in bytes."""
    return _size(option, text, 2**12, "4k, such as 64M or 256M")


def _size(option: str, text: str, least: int, words: str) -> int:
    number, unit = text.strip().upper().removesuffix("IB").removesuffix("B"), 1
    if number[-1:] in ("K", "M", "G", "T"):
        unit = 1024 ** ("KMGT".index(number[-1]) + 1)
        number = number[:-1]
    try:
        size = float(number) * unit
    except ValueError:
        size = 0.0
    if not least <= size < 2**60:
        raise UsageError(f"{option} is {text!r}; expected a size of at least {words}")
    return int(size)


def parse_rows(option: str, text: str, what: str = "row numbers such as 200 or 200,500") -> tuple[int, ...]:
    """Return the whole numbers of ``200,500``."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} is {text!r}; expected {what}") from None


def parse_names(_option: str, text: str) -> tuple[str, ...]:
    """Return the names of ``pdac,uniform``; none for ``all``."""
    return () if text == ALL else tuple(name.strip() for name in text.split(","))


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the names and values of several ``name=value``."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{option} is {text!r}; expected a name and a value, such as {option} name=value")
        if name in found:
            raise UsageError(f"{option} names {name} twice; expected each once")
        found[name] = value
    return found


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """Return the numbers of ``0.49,0.48,0.45``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} is {text!r}; expected numbers with commas, such as 0.49,0.48,0.45") from None


def parse_size(option: str, text: str) -> tuple[int, ...]:
    """Return the size of ``224`` or ``224x288``."""
    if not re.fullmatch(r"\d{1,5}(x\d{1,5})?", text):
        raise UsageError(f"{option} is {text!r}; expected pixels, such as 224, or height and width, such as 224x288")
    return tuple(int(part) for part in text.split("x"))


def parse_shape(option: str, text: str) -> tuple[int, int, str]:
    """Return rows, columns and type of ``1000x512:float16``; 0 rows and float32 where these are left out."""
    found = re.fullmatch(r"(?:(\d{1,15})x)?(\d{1,9})(?::(float16|float32|float64|u?int8))?", text)
    if not found or int(found[2]) == 0:
        raise UsageError(
            f"{option} is {text!r}; expected columns, or rows x columns, and perhaps a type, such as 512, 1000x512 or "
            "1000x512:float16"
        )
    return int(found[1] or 0), int(found[2]), found[3] or "float32"


def parse_shard(option: str, text: str, environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return (i, n) of ``i/n``, counted from 0, or of ``slurm``: this task's place in its job array."""
    if text == SLURM:
        return _slurm_task(environment)
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found:
        raise UsageError(f"{option} is {text!r}; expected i/n with i from 0 to n - 1, such as 0/8, or {SLURM}")
    i, n = int(found[1]), int(found[2])
    if i >= n:
        raise UsageError(f"{option} is {i}/{n}; expected i from 0 to {max(0, n - 1)}: shards count from 0")
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
