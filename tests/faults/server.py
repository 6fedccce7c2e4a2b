"""A process that has loaded everything and forks one child a command, so that a thousand real processes cost little.

A child is a process of its own that runs ``pdac`` from its first line to its last: it can be killed, limited and
measured like any other.  It leaves out the interpreter's end, which with torch takes longer than a small run.  Started
as ``python -m tests.faults.server COMMAND...``; it reads one request a line and answers each with one line.
``tests.faults.processes`` is the other end.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import resource
import selectors
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

_HANG = 120.0  # seconds after which a run of a second hangs


def main() -> None:
    """Serve until the requests end; a child comes back from serving to run its command."""
    _load()
    request = _serve()
    if request is None:
        os._exit(0)
    _become(request)
    if "batch" in request:
        _run_many(request["batch"])
    try:
        importlib.import_module("pdac_cli.cli").main()
    except SystemExit as end:
        atexit._run_exitfuncs()
        os._exit(_flushed(int(end.code or 0)))
    except BaseException:  # noqa: BLE001 -- a process tells of whatever ended it
        traceback.print_exc()
        os._exit(1)


def _run_many(batch: list[tuple[str, list[str]]]) -> None:
    """Run commands one after the other in this process, each in its folder; tell of each as soon as it has ended."""
    cli, out = importlib.import_module("pdac_cli.cli"), sys.stdout
    for folder, arguments in batch:
        os.chdir(folder)
        sys.argv = ["pdac", *arguments]
        said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]):
            try:
                cli.main()
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException:  # noqa: BLE001 -- a traceback is what is looked for
                code = 1
                traceback.print_exc()
        gc.collect()
        texts = [text.getvalue() for text in said]
        print(json.dumps([code, *texts, len(list(Path("/proc/self/fd").iterdir()))]), file=out, flush=True)
    os._exit(0)


def _flushed(code: int) -> int:
    """Return the exit code, as Python changes it where standard output cannot be flushed."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return 120
    return code


def _load() -> None:
    import typer

    typer.main.get_command = functools.cache(typer.main.get_command)
    cli = importlib.import_module("pdac_cli.cli")
    typer.main.get_command(cli.app)
    for name in sys.argv[1:]:
        importlib.import_module(f"pdac_cli.commands.{name}")
    importlib.import_module("scipy.sparse.linalg")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    os.fsync = lambda _: None  # no kill can lose what it is for, and on a busy disk it is most of the time
    _warm_up(cli)
    warnings.simplefilter("error")
    gc.freeze()


def _warm_up(cli: Any) -> None:
    """Let Typer load what it loads at its first command line."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        for arguments in (["--version"], ["select", "x.h5", "--budget", "0"]):
            sys.argv = ["pdac", *arguments]
            with contextlib.suppress(SystemExit):
                cli.main()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _serve() -> dict[str, Any] | None:
    """Fork for every request; None at the end, the request in a child."""
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        out, err = os.pipe(), os.pipe()
        begun = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.dup2(out[1], 1)
            os.dup2(err[1], 2)
            for descriptor in (answers, *out, *err):
                os.close(descriptor)
            return request
        os.close(out[1])
        os.close(err[1])
        answer = _watch(pid, out[0], err[0], request.get("after"), request.get("signal", signal.SIGKILL))
        answer["seconds"] = time.monotonic() - begun
        os.write(answers, json.dumps(answer).encode() + b"\n")
    return None


def _watch(pid: int, out: int, err: int, after: float | None, number: int) -> dict[str, Any]:
    """Collect what the child says; send it the signal when its time has come; return how it ended."""
    said: dict[int, list[bytes]] = {out: [], err: []}
    handle = os.pidfd_open(pid)
    deadline = time.monotonic() + (_HANG if after is None else after)
    with selectors.DefaultSelector() as selector:
        for descriptor in (handle, out, err):
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                data = b"" if key.fd == handle else os.read(key.fd, 1 << 16)
                if key.fd != handle:
                    said[key.fd].append(data)
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
            if time.monotonic() >= deadline and handle in selector.get_map():
                signal.pidfd_send_signal(handle, number if after is not None else signal.SIGKILL)
                deadline, after = time.monotonic() + _HANG, None
    _, status, usage = os.wait4(pid, 0)
    texts = [b"".join(said[key]).decode("utf-8", "replace") for key in (out, err)]
    return {"code": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1], "peak": usage.ru_maxrss * 1024}


def _become(request: dict[str, Any]) -> None:
    """Turn this child into the process that was asked for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command has a handler: it would be our traceback
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in ((1, request.get("stdout")), (2, request.get("stderr"))):
        _redirect(descriptor, name)
    os.chdir(request["folder"])
    os.environ.update(request.get("environment", {}))
    for kind, value in request.get("limits", []):
        resource.setrlimit(kind, (value, value))
    for name, value in request.get("patches", {}).items():
        module, attribute = name.rsplit(".", 1)
        setattr(importlib.import_module(module), attribute, value)
    sys.argv = ["pdac", *request.get("arguments", [])]
    if request.get("die_at") is not None:
        _die_at(request["die_at"], request["folder"])


def _die_at(count: int, folder: str) -> None:
    """Be killed before the so-manieth change to the folder: a file opened to be written, linked, renamed, removed …"""
    changes = {"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.symlink"}
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event not in changes:
            return
        if Path.cwd().joinpath(os.fsdecode(arguments[0])).is_relative_to(folder):
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _redirect(descriptor: int, name: str | None) -> None:
    """Send a stream to a file, to a pipe that nobody reads, or nowhere."""
    if name is None:
        return
    if name == "broken":
        reading, writing = os.pipe()
        os.close(reading)
    elif name == "closed":
        os.close(descriptor)
        setattr(sys, {1: "stdout", 2: "stderr"}[descriptor], None)  # as Python finds it at its start
        return
    else:
        writing = os.open(name, os.O_WRONLY | os.O_APPEND)
    os.dup2(writing, descriptor)
    os.close(writing)


if __name__ == "__main__":
    main()
