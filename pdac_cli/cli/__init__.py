"""The command line: options, help and exit codes.  Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pdac_cli import __version__
from pdac_cli.cli.help import ROOT_HELP, root_help, verb_help
from pdac_cli.cli.process import (
    ENDED,
    INTERRUPTED,
    TERMINATED,
    Terminated,
    discard_output,
    safe_streams,
    signals_raised,
)
from pdac_cli.cli.signature import command_of
from pdac_cli.cli.verbs import VERBS
from pdac_cli.console import printable
from pdac_cli.errors import PdacError, UsageError
from pdac_cli.options.checks import did_you_mean


class _VerbCommand(TyperCommand):
    """A command whose help is made from its options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        formatter.write(verb_help(VERBS[str(self.name)]))


class _Root(TyperGroup):
    """The command line as a whole."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        options = [one for one in self.get_params(ctx) if "--help" not in one.opts]
        formatter.write(root_help([(one.opts[0], getattr(one, "help", "")) for one in options]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not ctx.resilient_parsing and args[0] not in VERBS:
            near = did_you_mean(args[0], VERBS)
            raise UsageError(
                f"{args[0]!r} is not a command; expected one of: {', '.join(VERBS)}{near or ';'} see pdac --help"
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="pdac",
    cls=_Root,
    help=ROOT_HELP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in VERBS.values():
    app.command(verb.name, cls=_VerbCommand)(command_of(verb))


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"pdac {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


_NO_ROOM = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")  # what dlopen says


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
            code = int(app(prog_name="pdac", standalone_mode=False) or 0)
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
    except ImportError as error:
        if not any(reason in str(error) for reason in _NO_ROOM):
            return _bug(error)
        return _fail(f"a library cannot be loaded ({error}); expected more memory; raise the limit (ulimit -v)", 5)
    except MemoryError as error:
        return _fail(f"out of memory ({error}); expected more of it; lower --memory or --jobs, or give less data", 5)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            return _bug(error)
        discard_output()
        return _fail(f"standard output: {os.strerror(error.errno).lower()}; expected room for the result", 5)
    except Exception as error:  # noqa: BLE001 -- said to be a bug
        # Typer's own usage errors; its base class is private, its exit code and message are not.
        if not hasattr(error, "format_message"):
            return _bug(error)
        return _fail(_usage_text(error), 2)
    return code


def _usage_text(error: Any) -> str:
    """Return what one of Typer's own errors says, with the nearest option where one is misspelt."""
    verb = next((VERBS[word] for word in sys.argv[1:] if word in VERBS), None)
    see = f"see pdac {'' if verb is None else f'{verb.name} '}--help"
    if not hasattr(error, "possibilities"):
        return f"{error.format_message().rstrip('.')}; {see}"
    flags = [part for one in (verb.declared() if verb else ()) for flag in one.flags for part in flag.split("/")]
    near = did_you_mean(error.option_name, [*flags, "--help", "--version"])
    return f"{error.option_name} is not an option{near or ';'} {see}"


def _interrupted() -> int:
    # An interrupt within the execution of a string, such as the making of a dataclass, would have the interpreter end
    # by SIGINT instead of our code, unless another string has been executed since: only that takes its flag back
    # (run_eval_code_obj of https://github.com/python/cpython/pull/11862).
    exec("")
    return _fail(ENDED[INTERRUPTED], INTERRUPTED)


def _bug(error: Exception) -> int:
    """Say where the code is wrong: an error that was not foreseen is never the user's."""
    if {"-v", "--verbose"} & set(sys.argv):
        traceback.print_exception(error, file=sys.stderr)
    *_, last = traceback.extract_tb(error.__traceback__)
    what = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    return _fail(f"this is a bug in pdac: {what}; rerun with --verbose for the traceback, and report it", 1)


def _fail(message: str, code: int) -> int:
    print(printable(f"error: {message}"), file=sys.stderr)
    return code
