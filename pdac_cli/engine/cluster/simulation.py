"""The plan of a fit on a cluster, simulated: units, bytes and seconds for any size, without any data.

``python -m pdac_cli.engine.cluster.simulation`` prints the table of this folder's README.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from pdac_cli.density.common_rows import common_width

_GROUPS = 1024  # of classes, at most about: see `selection.interface.class_groups`
_LOST_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class FitSize:
    """What is to be fitted."""

    rows: int
    features: int
    classes: int
    dim: int = 10
    components: int = 7
    itemsize: int = 2  # bytes of a number in the files
    unit: int = 1 << 28  # bytes


@dataclass(frozen=True)
class Stage:
    """Units that can be worked on at the same time; the next stage begins when all are done."""

    name: str
    units: int
    read: float  # bytes, all units together
    written: float
    sent: float  # through the scratch folder to the client, or from it
    products: float  # multiplications


@dataclass(frozen=True, kw_only=True)
class Machines:
    """What there is to work with: stated, not measured."""

    workers: int = 100
    bandwidth: float = 5e8  # bytes a second, of a worker
    shared: float = 2e10  # of the file system, all workers together
    products: float = 3e10  # multiplications a second, of a worker


def stages(job: FitSize) -> list[Stage]:
    """Return the stages of `pdac fit`."""
    n, width = job.rows, common_width(job.features)
    in_file, as_float, common = n * job.features * job.itemsize, n * (4 * job.features + 8), n * (4 * width + 8)
    reading = -(-in_file // job.unit)
    groups = min(_GROUPS, job.classes)
    model = job.classes * (
        4 * job.features * (job.dim + 1) + 8 * job.components * (job.dim**2 + job.dim + 1) + 8 * job.dim
    )
    where = 32 * reading * job.classes  # in which file each class's rows of each range are
    em = n * 20 * job.components * (job.dim + 1) * (job.dim + 2) / 2
    return [
        Stage("part rows for the mixtures", reading, in_file, as_float, 8 * reading * job.classes + 2 * n, 0),
        Stage("fit", max(1, -(-as_float // job.unit)), as_float, 0, model + where, n * job.features * 4 * job.dim + em),
        Stage("part rows for the common space", reading, in_file, common, 8 * reading * job.classes + 2 * n, 0),
        Stage("moments of all classes", groups, common, 0, groups * 8 * width**2 + where, n * width**2),
        Stage("calibrate", groups, min(20_000 * (4.0 * width), common), 0, 20_000 * 8 * job.classes + where, 0),
    ]


def seconds(job: FitSize, machines: Machines, *, lost: int = 0) -> float:
    """Return how long a fit takes, so many workers being lost for an hour when half of the first stage is done."""
    clock = 0.0
    for number, stage in enumerate(stages(job)):
        each = min(machines.bandwidth, machines.shared / min(machines.workers, stage.units))
        unit = (stage.read + stage.written) / stage.units / each + stage.products / stage.units / machines.products
        gone = lost if number == 0 else 0
        clock += _makespan(stage.units, unit, machines.workers, gone) + stage.sent / machines.bandwidth
    return clock


def _makespan(units: int, unit: float, workers: int, lost: int) -> float:
    """Give units to whoever is free first; those of lost workers are done again by others."""
    free = [0.0] * workers
    heapq.heapify(free)
    middle, end, left = units * unit / workers / 2, 0.0, units
    while left:
        begin = heapq.heappop(free)
        if lost and begin + unit > middle:
            lost -= 1
            heapq.heappush(free, middle + _LOST_SECONDS)  # its unit is still to be done
            continue
        left -= 1
        end = max(end, begin + unit)
        heapq.heappush(free, begin + unit)
    return end


def table() -> str:
    """Return units, bytes and times for some sizes."""
    lines = [
        "| rows | features | classes | units | read GB | written GB | through client GB | minutes | one worker lost |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for rows, features, classes in [
        (10**7, 512, 1000), (10**8, 1024, 1000), (10**8, 1024, 21_841), (10**9, 512, 1000), (10**9, 1024, 10_000),
    ]:  # fmt: skip
        job, machines = FitSize(rows=rows, features=features, classes=classes), Machines()
        plan = stages(job)
        read, written, sent = (sum(getattr(one, name) for one in plan) / 1e9 for name in ("read", "written", "sent"))
        minutes = [seconds(job, machines, lost=lost) / 60 for lost in (0, 1)]
        lines.append(
            f"| {rows:,} | {features:,} | {classes:,} | {sum(stage.units for stage in plan):,} | {read:,.0f} "
            f"| {written:,.0f} | {sent:,.1f} | {minutes[0]:.2f} | {minutes[1]:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
