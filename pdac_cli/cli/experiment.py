"""`pdac experiment`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import Json, Quiet, Verbose, print_result
from pdac_cli.errors import UsageError
from pdac_cli.options.experiment import ExperimentOptions, Scale
from pdac_cli.options.shared import RunOptions


def experiment(
    definition: Annotated[
        Path | None, typer.Argument(metavar="DEFINITION", help="What to run: a TOML file; see README.")
    ] = ExperimentOptions.definition,
    preset: Annotated[
        str | None, typer.Option(help="Instead: table1 to table6, figure3 to figure5 of the paper; see --list.")
    ] = ExperimentOptions.preset,
    listing: Annotated[bool, typer.Option("--list", help="List the presets and exit.")] = False,
    data: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="Where a data set is. Can be repeated.")
    ] = None,
    test: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="Where its test part is, if it is a file of its own.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; a rerun goes on in it. Default: experiments/NAME.")
    ] = ExperimentOptions.output,
    scale: Annotated[
        Scale, typer.Option(help="small: the definition's own reduced size, for two cores.")
    ] = ExperimentOptions.scale,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change an option or the values of an axis. Can be repeated."),
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Only these of the methods: pdac,uniform.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds. Default: as defined.")] = ExperimentOptions.seeds,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only print the runs and about how long they take.")
    ] = ExperimentOptions.plan,
    jobs: Annotated[int, typer.Option(help="Runs side by side, each a process.")] = ExperimentOptions.side_by_side,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = ExperimentOptions.device,
    force: Annotated[
        bool, typer.Option("--force", help="Replace runs in the folder that another definition has made.")
    ] = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Run a declared sweep over data, settings, methods and seeds; stopped and run again, it goes on."""
    if listing:
        from pdac_cli.commands.experiment_definition import preset_titles

        for name, title in preset_titles().items():
            print(f"{name:8}  {title}")
        return
    options = ExperimentOptions(
        definition,
        preset,
        output,
        scale,
        _pairs("--data", data),
        _pairs("--test", test),
        _pairs("--set", changes),
        tuple(name.strip() for name in methods.split(",")) if methods else (),
        seeds,
        jobs,
        device,
        plan,
        RunOptions(quiet=quiet, verbose=verbose, json=as_json, force=force),
    )
    from pdac_cli.commands.experiment import run

    print_result(run(options), options.run)


def _pairs(flag: str, given: list[str] | None) -> dict[str, str]:
    found = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{flag} is {item!r}; expected a name and a value, such as {flag} name=value")
        if name in found:
            raise UsageError(f"{flag} names {name} twice; expected each once")
        found[name] = value
    return found
