"""Connecting to a cluster, or making one: the scheduler, its workers and the folder they share."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import signal
import socket
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.security import Security

from pdac_cli.console import Console
from pdac_cli.engine.cluster.engine import Cluster
from pdac_cli.engine.cluster.identity import identity
from pdac_cli.engine.cluster.job_folder import JobFolder
from pdac_cli.engine.cluster.waiting import Workers, WorkersGone
from pdac_cli.errors import Stopped, StorageError, UsageError
from pdac_cli.options.cluster import ClusterOptions
from pdac_cli.storage.reading import plain
from pdac_cli.storage.signals import handled

_CONNECT_SECONDS = 8
_CLOSE_SECONDS = 3
_PACKAGES = ("python", "distributed", "numpy", "cloudpickle")  # that scheduler and workers must have as we do


@contextmanager
def cluster(options: ClusterOptions, key: Sequence[object], jobs: int, console: Console) -> Iterator[Cluster]:
    """Give the engine of a cluster; `key` is all that decides what its units are and come to."""
    with connected(options, jobs, console) as (workers, local):
        folder, found = JobFolder.make(_place(options, local), _digest([*key, options.unit, *identity().items()]))
        if found:
            console.note(f"note: going on from what an earlier run has finished, in {folder.path}")
        try:
            yield Cluster(workers, folder, options.unit)
        except (Stopped, WorkersGone) as problem:
            kept = f"what is finished is kept in {folder.path}; run the same command again to go on from it"
            raise type(problem)(f"{problem}; {kept}") from None
        except BaseException:
            folder.remove()
            raise
        folder.remove()


@contextmanager
def connected(options: ClusterOptions, jobs: int, console: Console) -> Iterator[tuple[Workers, bool]]:
    """Give the workers, and whether they are on this machine; SIGTERM and SIGUSR1 stop the work and lose nothing."""
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        client, local = _client(options, jobs, stack, console)
        stack.callback(_close, client)
        workers = Workers(client, options.worker_timeout)
        stack.callback(workers.cancel)
        stack.enter_context(handled((signal.SIGTERM, signal.SIGUSR1), _stop))
        _check_versions(client)
        workers.wait_for_one()
        _check_versions(client)
        yield workers, local


def _close(what: Any) -> None:
    """Let go of a client or a cluster; one that takes its time does not make an error of work that is done."""
    with suppress(Exception):
        what.close(timeout=_CLOSE_SECONDS)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(f"stopped by {signal.Signals(number).name}")


def _client(options: ClusterOptions, jobs: int, stack: ExitStack, console: Console) -> tuple[Client, bool]:
    security = _security(options)
    if options.workers is not None:
        made = LocalCluster(
            n_workers=options.workers,
            threads_per_worker=max(1, jobs // options.workers),
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
        stack.callback(_close, made)
        return Client(made, set_as_default=False), True
    if options.cluster is not None:
        return Client(_slurm(stack), set_as_default=False), False
    address = options.scheduler or _address_in(options.scheduler_file)
    local = _is_loopback(address)
    if address.startswith("tcp://") and not local:
        console.warn(
            f"{address}: Dask does not ask who connects over tcp://, and whoever can reach the scheduler can run "
            "programs as you; use tls:// with --tls-ca-file, --tls-cert and --tls-key, or a network of your own"
        )
    try:
        found = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False, security=security)
    except (OSError, TimeoutError, ValueError) as problem:
        raise StorageError(
            f"{address}: the scheduler cannot be reached ({plain(problem)}); expected a running `dask scheduler`; "
            "check the address, and that it may be reached from here"
        ) from None
    return found, local


def _slurm(stack: ExitStack) -> Any:
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise UsageError("--cluster slurm needs dask-jobqueue; expected it; pip install 'pdac-cli[cluster]'") from None
    try:
        made = SLURMCluster()
        stack.callback(_close, made)
        workers = dask.config.get("jobqueue.slurm.pdac-workers", None)
        made.scale(jobs=int(workers)) if workers else made.adapt(minimum_jobs=1, maximum_jobs=64)
    except (ValueError, TypeError, OSError, RuntimeError) as problem:
        raise UsageError(
            f"--cluster slurm: {plain(problem)}; expected cores and memory in dask-jobqueue's configuration; "
            "write them into ~/.config/dask/jobqueue.yaml"
        ) from None
    return made


def _address_in(path: Path | None) -> str:
    """Return the address in the file that a scheduler has written."""
    try:
        found = json.loads(Path(path or "").read_text("utf-8"))["address"]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise StorageError(
            f"{path}: cannot be read as a scheduler's file ({plain(problem)}); expected what "
            "`dask scheduler --scheduler-file` writes; check the path, and that the scheduler runs"
        ) from None
    if not isinstance(found, str) or not found.startswith(("tcp://", "tls://")):
        raise StorageError(f"{path}: its address is {str(found)[:60]!r}; expected tcp://HOST:PORT or tls://HOST:PORT")
    return found


def _is_loopback(address: str) -> bool:
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        return all(ipaddress.ip_address(str(info[4][0])).is_loopback for info in socket.getaddrinfo(host, None))
    except (OSError, ValueError):
        return False


def _security(options: ClusterOptions) -> Security | None:
    if options.tls_ca_file is None:
        return None
    for path in (options.tls_ca_file, options.tls_cert, options.tls_key):
        if path is not None and not path.is_file():
            raise StorageError(f"{path}: not found; expected a file in PEM format; check the path")
    return Security(
        tls_ca_file=str(options.tls_ca_file),
        tls_client_cert=str(options.tls_cert),
        tls_client_key=str(options.tls_key),
        require_encryption=True,
    )


def _check_versions(client: Client) -> None:
    """Refuse a scheduler or workers of other versions before anything is sent."""
    found = client.get_versions(check=False)
    own = found["client"]["packages"]
    others = {"the scheduler": found["scheduler"], **{f"worker {name}": one for name, one in found["workers"].items()}}
    for who, one in others.items():
        packages = (one or {}).get("packages", {})
        for name in _PACKAGES:
            theirs, ours = packages.get(name), own.get(name)
            if name == "python":
                theirs, ours = (
                    str(text).rsplit(".", 2 if text and str(text).count(".") > 2 else 1)[0] for text in (theirs, ours)
                )
            if theirs != ours:
                raise StorageError(
                    f"{who} has {name} {theirs}, and this client {ours}; expected the same on all; "
                    "start scheduler and workers from the client's environment"
                )


def _place(options: ClusterOptions, local: bool) -> Path:
    place = options.scratch or (Path(tempfile.gettempdir()) if local else Path())
    if not place.is_dir():
        raise StorageError(
            f"{place}: is not a folder; expected one that all workers share; make it, or choose another --scratch"
        )
    return place


def _digest(key: Sequence[object]) -> str:
    return hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own messages off standard error: what matters of them is said by us."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), dask.config.set({"distributed.comm.timeouts.connect": f"{_CONNECT_SECONDS}s"}):
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL + 1)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
