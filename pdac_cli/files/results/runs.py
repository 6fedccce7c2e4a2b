"""Run folders: settings, results and checkpoints of an experiment, each file written whole or not at all.

NAME/config.json                       what decides the results
NAME/results.json, results.csv         what the run came to, when it is complete
NAME/METHOD/seed-S/accuracy.csv, buffer-T.json, result.json, and checkpoint.pt until the seed is done
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdac_cli.errors import DataError, PdacError, Stopped, StorageError, UsageError
from pdac_cli.storage.atomic import storage_errors, write_bytes
from pdac_cli.storage.json_files import parse_json
from pdac_cli.storage.locks import exclusive
from pdac_cli.storage.reading import check_readable

FORMAT = "pdac-run 1"
CONFIG, _RESULTS, _TABLE, _LOCK, _CHECKPOINT = "config.json", "results.json", "results.csv", ".lock", "checkpoint.pt"


@dataclass(frozen=True)
class SeedFolder:
    """Where one seed of one method keeps its files."""

    path: Path

    def buffer(self, task: int) -> Path:
        """The buffer after a task."""
        return self.path / f"buffer-{task}.json"

    def model(self, task: int) -> Path:
        """The densities of a task's classes."""
        return self.path / f"model-{task}.h5"

    def probe(self, task: int, epoch: int) -> Path:
        """How densities and margins went together after an epoch of a task."""
        return self.path / f"probe-{task}-{epoch}.json"

    def save(self, checkpoint: bytes) -> None:
        """Keep a checkpoint in place of the last one."""
        write_bytes(self.path / _CHECKPOINT, checkpoint, force=True)

    def checkpoint(self) -> bytes | None:
        """The last checkpoint, if there is one."""
        try:
            return (self.path / _CHECKPOINT).read_bytes()
        except FileNotFoundError:
            return None

    def result(self) -> dict[str, Any] | None:
        """What the seed came to, once it is done; a kill may then have left the checkpoint."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        (self.path / _CHECKPOINT).unlink(missing_ok=True)
        return read_json(path)

    def finish(self, result: Mapping[str, Any], accuracy: str) -> None:
        """Write the results; only then is the checkpoint no longer needed."""
        write_bytes(self.path / "accuracy.csv", accuracy.encode(), force=True)
        write_json(self.path / "result.json", result)
        (self.path / _CHECKPOINT).unlink(missing_ok=True)


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run."""

    path: Path

    def seed(self, method: str, seed: int, make: bool = True) -> SeedFolder:
        """Return the folder of one seed; make it, or clean up after a run that was killed in it."""
        path = self.path / method / f"seed-{seed}"
        if make:
            with storage_errors(path):
                path.mkdir(parents=True, exist_ok=True)
                _remove_stale(path)
        return SeedFolder(path)

    def finish(self, results: Mapping[str, Any], table: str) -> None:
        """Write the results of all seeds."""
        write_bytes(self.path / _TABLE, table.encode(), force=True)
        write_json(self.path / _RESULTS, results)


@contextmanager
def open_run(path: Path, config: Mapping[str, Any], resume: bool, force: bool) -> Iterator[RunFolder]:
    """Make the folder, or with `resume` go on in it if it was made by the same settings; one process at a time."""
    config = dict(json.loads(json.dumps({"format": FORMAT, **config})))
    made = not path.exists()
    with storage_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    with exclusive(path / _LOCK, path):
        exists = (path / CONFIG).exists()
        if exists and resume:
            _check_same(path, read_json(path / CONFIG), dict(config))
        elif _holds_anything(path) and not (exists and force):
            raise StorageError(
                f"{path}: exists; expected a new folder; add --resume to go on with its run, or --force to replace it"
                if exists
                else f"{path}: exists and holds no run of pdac train-cl; expected a new or empty folder; choose another"
            )
        with storage_errors(path):
            _remove_stale(path)
            if exists and not resume:
                _clear(path)
            if not (exists and resume):
                write_json(path / CONFIG, config)
            try:
                yield RunFolder(path)
            except PdacError as problem:
                if not resume and not isinstance(problem, Stopped):
                    _remove_unused(path, made)
                raise


def _remove_unused(path: Path, made: bool) -> None:
    """Remove what a run has made that ended before it had anything to keep: the corrected command may begin anew."""
    if any(entry.is_file() for entry in path.glob("*/seed-*/*")):
        return
    _clear(path)
    if made:
        (path / _LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # others' files stay, and so does the folder then
            path.rmdir()


def read_results(path: Path) -> dict[str, Any]:
    """Return the results of a finished run."""
    folder = path.parent if path.name == _RESULTS else path
    if folder.is_dir() and (folder / CONFIG).exists() and not (folder / _RESULTS).exists():
        raise DataError(f"{folder}: its run is not complete; expected {_RESULTS} in it; finish it with --resume")
    check_readable(folder / _RESULTS, "the results of a run")
    return read_json(folder / _RESULTS)


def new_name(parent: Path, stem: str) -> Path:
    """Return the first of stem, stem-2, stem-3 … that is not there."""
    taken = _numbers(parent, stem)
    return parent / (stem if not taken else f"{stem}-{max(taken) + 1}")


def last_name(parent: Path, stem: str) -> Path:
    """Return the last of stem, stem-2, stem-3 … that is there."""
    taken = _numbers(parent, stem)
    if not taken:
        raise DataError(f"{parent / stem}: not found; expected a run to resume; name it with --output")
    return parent / (stem if max(taken) == 1 else f"{stem}-{max(taken)}")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that people can read, whole or not at all."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode(), force=True)


def _numbers(parent: Path, stem: str) -> list[int]:
    pattern = re.compile(re.escape(stem) + r"(?:-(\d{1,6}))?")
    names = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
    return [int(found[1] or 1) for name in names if (found := pattern.fullmatch(name))]


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of ours."""
    try:
        content = parse_json(path, "a file of this run")
    except (DataError, OSError) as problem:
        raise _no_object(path) from problem
    if not isinstance(content, dict):
        raise _no_object(path)
    return content


def _no_object(path: Path) -> DataError:
    return DataError(f"{path}: is no JSON object; expected a file of this run; remove it and run again")


def _check_same(path: Path, found: dict[str, Any], config: dict[str, Any]) -> None:
    name = next((name for name in {**config, **found} if found.get(name) != config.get(name)), None)
    if name is not None:
        raise UsageError(
            f"{path}: holds a run with {name} {found.get(name)} and not {config.get(name)}; expected the same options "
            "as then; give them again, or choose another --output"
        )


def _holds_anything(path: Path) -> bool:
    """Whether there is more than a run that was killed at its very beginning leaves."""
    return any(entry.name != _LOCK and not _is_stale(entry) for entry in path.iterdir())


def _is_stale(entry: Path) -> bool:
    return entry.name.startswith(".") and entry.name.endswith(".tmp")


def _remove_stale(path: Path) -> None:
    """Remove what a killed run was writing; the lock tells that no other is at work."""
    for entry in path.iterdir():
        if _is_stale(entry):
            entry.unlink(missing_ok=True)


def _clear(path: Path) -> None:
    """Remove what a former run has written, and nothing else."""
    for found in path.glob("*/seed-*"):
        shutil.rmtree(found, ignore_errors=True)
        if not any(found.parent.iterdir()):
            found.parent.rmdir()
    for name in (_RESULTS, _TABLE, CONFIG):
        (path / name).unlink(missing_ok=True)
