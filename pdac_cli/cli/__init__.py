"""The command line: options, help and exit codes, one verb per file.  Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from pdac_cli import __version__
from pdac_cli.cli.compare import compare
from pdac_cli.cli.experiment import experiment
from pdac_cli.cli.extract import extract
from pdac_cli.cli.fit import fit
from pdac_cli.cli.merge import merge
from pdac_cli.cli.process import (
    ENDED,
    INTERRUPTED,
    TERMINATED,
    Terminated,
    discard_output,
    safe_streams,
    signals_raised,
)
from pdac_cli.cli.select import select
from pdac_cli.cli.stream import stream
from pdac_cli.cli.train_cl import train_cl
from pdac_cli.cli.valex import valex
from pdac_cli.errors import PdacError

app = typer.Typer(
    name="pdac",
    help="Choose which samples to keep: coresets and replay buffers for continual learning, from saved features.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (extract, fit, select, compare, stream, merge, experiment, valex):
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
    """Run the command line."""
    try:
        with safe_streams():
            code = _run()
    except KeyboardInterrupt:  # before it began
        code = _interrupted()
    sys.exit(code)


def _run() -> int:
    """Return the exit code; the one place where errors become one."""
    try:
        with signals_raised():
            code = int(app(standalone_mode=False) or 0)
            sys.stdout.flush()
        if code == INTERRUPTED:  # Typer has caught the KeyboardInterrupt
            return _interrupted()
    except PdacError as error:
        return _fail(str(error), error.exit_code)
    except (BrokenPipeError, SystemExit) as error:  # whoever read our output has had enough, which is no error
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise  # Typer makes exit code 1 of a broken pipe
        discard_output()
        return 0
    except KeyboardInterrupt:
        return _interrupted()
    except Terminated:
        return _fail(ENDED[TERMINATED], TERMINATED)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        discard_output()
        return _fail(f"standard output: {os.strerror(error.errno).lower()}; expected room for the result", 5)
    except Exception as error:
        # Typer's own usage errors; its base class is private, its exit code and message are not.
        if not hasattr(error, "format_message"):
            raise
        return _fail(f"{error.format_message().rstrip('.')}; see pdac --help", 2)
    return code


def _interrupted() -> int:
    # An interrupt within the execution of a string, such as the making of a dataclass, would have the interpreter end
    # by SIGINT instead of our code, unless another string has been executed since.
    exec("")
    return _fail(ENDED[INTERRUPTED], INTERRUPTED)


def _fail(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code
