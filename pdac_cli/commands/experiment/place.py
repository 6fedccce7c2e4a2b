"""The folder of an experiment's runs: what each run is, and which of them are complete."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdac_cli.commands.experiment.checks import is_name
from pdac_cli.commands.experiment.plan import Unit, run_name
from pdac_cli.commands.experiment.schema import METHOD, OPTIONS, TRAIN
from pdac_cli.errors import UsageError
from pdac_cli.files.results.runs import read_json, write_json
from pdac_cli.options.shared import RunOptions

_CELL = "cell"  # in a run's file, beside what decides its result
_RESULT = ".result.json"


@dataclass(frozen=True)
class Run:
    """A complete run: where it stands in the table, and where its result is."""

    command: str
    data: str
    axes: Mapping[str, str]
    label: str
    method: str  # which the label is a variant of
    seed: int
    result: Path

    @property
    def cell(self) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
        """What the runs that differ in nothing but their seeds have in common."""
        return self.command, self.data, self.label, tuple(self.axes.items())

    @property
    def models(self) -> Path:
        """The folder in which a run with `rescore` stores its models."""
        return self.result.parent / self.method / f"seed-{self.seed}"


@dataclass(frozen=True)
class Place:
    """Where runs keep their files: NAME.json says what a run is, NAME/ or NAME.result.json has its result."""

    folder: Path
    device: str
    run: RunOptions
    replacing: bool = False  # runs of another definition

    def identity(self, unit: Unit) -> Path:
        """The file that says what a run is."""
        return self.folder / f"{unit.name}.json"

    def result(self, unit: Unit) -> Path:
        """The file that is there once a run is complete."""
        return self._result(unit.command, unit.name)

    def claim(self, unit: Unit) -> None:
        """Note what the run is; refuse to resume another one of the same name."""
        path, wanted, cell = self.identity(unit), unit.identity(), unit.place_in_table()
        if path.exists():
            found = read_json(path)
            known = found.pop(_CELL, None)
            name = next((name for name in {**wanted, **found} if found.get(name) != wanted.get(name)), None)
            if name is not None and self.replacing:
                shutil.rmtree(self.folder / unit.name, ignore_errors=True)
                self.result(unit).unlink(missing_ok=True)
            elif name is not None:
                raise UsageError(
                    f"{path}: a run with {name} {found.get(name)} and not {wanted.get(name)}; expected the same "
                    "definition as then; give it again, choose another --output, or replace it by --force"
                )
            elif known == cell:
                return
        write_json(path, {**wanted, _CELL: cell})

    def complete(self) -> list[Run]:
        """Return all complete runs of the folder, whichever definition and options they were made by."""
        found = []
        for path in sorted(self.folder.glob("*.json")):
            if not path.name.endswith(_RESULT):
                run = self._run(path)
                if run is not None and run.result.exists():
                    found.append(run)
        return found

    def _run(self, path: Path) -> Run | None:
        """Return the run that a file speaks of; None if it is not one of ours."""
        found = read_json(path)
        cell, seed = found.get(_CELL), found.get("seed")
        axes = cell.get("axes") if isinstance(cell, dict) else None
        if not isinstance(cell, dict) or not isinstance(axes, dict) or not isinstance(seed, int):
            return None
        names = (cell.get("data"), cell.get("label"), found.get("command"), found.get(METHOD))
        if not all(isinstance(each, str) for each in (*names, *axes.values())):
            return None
        data, label, command, method = map(str, names)
        # What a file says must not lead elsewhere.
        plain = all(is_name(each) for each in (data, label, method, *axes)) and "/" not in method
        if run_name(data, axes, label, seed) != path.stem or not plain or command not in OPTIONS:
            return None
        return Run(command, data, axes, label, method, seed, self._result(command, path.stem))

    def _result(self, command: str, name: str) -> Path:
        return self.folder / name / "results.json" if command == TRAIN else self.folder / f"{name}{_RESULT}"


def in_order(runs: list[Run], units: list[Unit]) -> list[Run]:
    """Return the runs as a definition orders them, then those that it does not have, by name."""
    order: dict[Any, int] = {}
    for unit in units:
        order.setdefault((unit.command, unit.data, unit.label, tuple(unit.axes.items())), len(order))
    return sorted(runs, key=lambda run: (order.get(run.cell, len(order)), [str(part) for part in run.cell], run.seed))
