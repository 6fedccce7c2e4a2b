"""What the control groups of this process allow it, in both versions of the kernel's interface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from pathlib import Path

_MEMBERSHIP, _ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # the first version writes a number above this where there is none


def memory_left() -> int | None:
    """Return the bytes that the tightest group leaves, what the kernel can take back at once included; None: any."""
    lefts = []
    for folder in _groups("memory"):
        for limit, used, reclaimable in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most = _number(folder / limit)
            if most is not None and most < _NO_LIMIT:
                taken = (_number(folder / used) or 0) - _entry(folder / "memory.stat", reclaimable)
                lefts.append(max(most - max(taken, 0), most // 8))
    return min(lefts, default=None)


def cores() -> int | None:
    """Return how many cores the tightest group's quota comes to, rounded up; None: any."""
    shares = []
    for folder in _groups("cpu"):
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        found = re.fullmatch(r"(\d+) (\d+)", _text(folder / "cpu.max"))
        if found:
            quota, period = int(found[1]), int(found[2])
        if quota and period:
            shares.append(ceil(quota / period))
    return min(shares, default=None)


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folder of this process's group and of those around it.

    A container may show its own group as the root and yet name the path outside; that folder then is not there.
    """
    for line in _text(_MEMBERSHIP).splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = _ROOT / controller if names else _ROOT
        group = root / path.lstrip("/")
        yield group
        if group != root:
            yield from group.parents[: len(group.relative_to(root).parts)]


def _number(path: Path) -> int | None:
    """Return the whole number in a file, None where there is none."""
    text = _text(path)
    return int(text) if text.isdigit() else None


def _entry(path: Path, name: str) -> int:
    """Return the number behind a name in a file of such lines, 0 where there is none."""
    found = re.search(rf"^{name} (\d+)$", _text(path), re.MULTILINE)
    return int(found[1]) if found else 0


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""
