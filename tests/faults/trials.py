"""Runs of one command that are disturbed, compared with a run that was not."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from tests.faults.processes import Ended, Server, contents
from tests.faults.works import Work, steady


class Trial:
    """Runs of one command on copies of the same inputs, held to a run that was left in peace."""

    def __init__(self, work: Work, server: Server, folder: Path) -> None:
        self.work, self.server, self._folder = work, server, folder
        self._inputs = work.prepare(folder / "inputs")
        self._number = itertools.count()
        self.before = contents(self._inputs)
        seconds = []
        for _ in range(3):  # the first one may find nothing in the caches
            whole = self.fresh()
            ended = self.run(whole)
            assert ended.code == 0, ended.err
            seconds.append(ended.seconds)
        self.seconds, self.expected = sorted(seconds)[1], steady(contents(whole))

    def fresh(self) -> Path:
        """Return a new folder to run in."""
        folder = self._folder / f"trial-{next(self._number)}" / "here"  # of one name: it may be stored
        shutil.copytree(self._inputs, folder, symlinks=True)
        return folder

    def run(self, folder: Path, again: bool = False, **options: object) -> Ended:
        """Run the command."""
        return self.server.run(self.work.command(again), folder, patches=self.work.patches, **options)  # type: ignore[arg-type]

    def check_between(self, folder: Path) -> None:
        """After a kill: inputs as they were, every output the old one, the complete new one, or not there."""
        found = steady({n: d for n, d in contents(folder).items() if not n.endswith(self.work.passing or "\0")})
        for name, data in self.before.items():
            if name != self.work.output:
                assert found[name] == data, f"{name} has changed"
        for name, data in self.expected.items():
            allowed = [None, data] if name not in self.before else [self.before[name], data]
            assert name.endswith(self.work.passing or "\0") or found.get(name) in allowed, f"{name} is half written"

    def check_end(self, folder: Path) -> None:
        """A rerun goes through, and nothing tells its folder from one that was left in peace."""
        complete = steady(contents(folder)).get(self.work.output) == self.expected[self.work.output]
        last = self.run(folder, again=True)
        expected = self.work.idle if complete and not self.work.forced else 0
        assert last.code == expected, last.err
        assert last.code == 0 or "exists" in last.error
        found = steady(contents(folder))
        assert sorted(found) == sorted(self.expected)
        for name, data in self.expected.items():
            assert found[name] == data, f"{name} differs"
        shutil.rmtree(folder.parent)
