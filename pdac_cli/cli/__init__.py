"""The command line: options, help and exit codes, one verb per file.  Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from pdac_cli import __version__
from pdac_cli.cli.compare import compare
from pdac_cli.cli.extract import extract
from pdac_cli.cli.fit import fit
from pdac_cli.cli.merge import merge
from pdac_cli.cli.select import select
from pdac_cli.cli.stream import stream
from pdac_cli.cli.train_cl import train_cl
from pdac_cli.cli.valex import valex
from pdac_cli.errors import PdacError

_INTERRUPTED, _TERMINATED = 130, 143  # 128 + the signal's number

app = typer.Typer(
    name="pdac",
    help="Choose which samples to keep: coresets and replay buffers for continual learning, from saved features.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (extract, fit, select, compare, stream, merge, valex):
    app.command()(verb)
app.command("train-cl")(train_cl)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"pdac {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; the one place where errors become exit codes."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        if code == _INTERRUPTED:  # Typer has caught the KeyboardInterrupt
            code = _fail("interrupted; the output is as it was before", _INTERRUPTED)
    except PdacError as error:
        code = _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has had enough, which is no error; nothing must be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = _fail("interrupted; the output is as it was before", _INTERRUPTED)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        code = _fail(f"standard output: {os.strerror(error.errno).lower()}; expected room for the result", 5)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        # Typer's own usage errors; its base class is private, its exit code and message are not.
        if not hasattr(error, "format_message"):
            raise
        code = _fail(f"{error.format_message().rstrip('.')}; see pdac --help", 2)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    """Leave through the open contexts, so that temporaries are removed."""
    print("error: terminated; the output is as it was before", file=sys.stderr)
    sys.exit(_TERMINATED)
