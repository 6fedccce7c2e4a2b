"""Where a verb's work runs: in this process, unless the user names a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pdac_cli.console import Console
from pdac_cli.engine.local import InProcess
from pdac_cli.engine.protocol import Engine
from pdac_cli.engine.resources import default_jobs
from pdac_cli.errors import UsageError
from pdac_cli.options.cluster import ClusterOptions
from pdac_cli.options.shared import RunOptions


@contextmanager
def engine_of(options: ClusterOptions, key: Sequence[object], run: RunOptions, console: Console) -> Iterator[Engine]:
    """Give the engine that the options ask for; `key` is all that decides the work, by which a rerun finds it."""
    if not options.wanted:
        yield InProcess()
        return
    try:
        from pdac_cli.engine.cluster.opening import cluster
    except ImportError as problem:
        raise UsageError(
            f"working on a cluster needs Dask.distributed ({problem}); expected it; pip install 'pdac-cli[cluster]'"
        ) from None
    with cluster(options, key, run.jobs or default_jobs(), console) as engine:
        yield engine
