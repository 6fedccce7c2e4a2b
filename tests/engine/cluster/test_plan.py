"""Rows in shared files are those of one process, and the simulated plan counts the bytes that are written."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pdac_cli.engine.cluster import simulation
from pdac_cli.engine.cluster.job_folder import JobFolder
from pdac_cli.engine.cluster.shared_rows import PartByClass, PartUnit, rows_of_classes
from pdac_cli.engine.cluster.simulation import FitSize, Machines, seconds, stages
from pdac_cli.engine.grouping import gathered, grouped
from pdac_cli.engine.plan import Plan, count_classes
from pdac_cli.engine.sources import normalized
from pdac_cli.files.features import open_features
from pdac_cli.options.shared import InputOptions

PLAN = Plan(1 << 30, 1)


@pytest.mark.parametrize("together", [False, True])
def test_rows_in_shared_files_are_those_of_one_process(features, tmp_path, monkeypatch, together):
    monkeypatch.setattr("pdac_cli.files.row_range.turn_locks_off", lambda: None)  # one process opens files one way
    _, shards = features
    folder, _ = JobFolder.make(tmp_path, "k")
    options = InputOptions(paths=tuple(map(str, shards)))
    with open_features(options) as opened:
        source, classes = normalized(opened), count_classes(opened, PLAN, options)
        part = PartByClass(folder.path, "0000", classes, together, rows=999)
        parted = [part(PartUnit(k, one)) for k, one in enumerate(source.ranges(1024))]
        labels = np.zeros(1, int) if together else classes.labels
        found = rows_of_classes(parted, labels, source, str(folder.path / "0000"))
        written = sum(path.stat().st_size for path in folder.path.glob("*.rows"))
        job = FitSize(rows=source.n, features=source.n_features, classes=len(classes.labels), itemsize=4)
        assert written == stages(job)[0].written
        with (gathered if together else grouped)(source, classes, PLAN) as here:
            expected = [here[0]] if together else here
            for mine, theirs in zip(found, expected, strict=True):
                assert mine.count == theirs.count
                for start, stop in ((0, mine.count), (700, 1800), (5, 6)):
                    np.testing.assert_array_equal(mine.read(start, stop), theirs.read(start, stop))
                    np.testing.assert_array_equal(mine.ids(start, stop), theirs.ids(start, stop))


def test_the_documented_table_is_the_simulations():
    assert simulation.table() in (Path(simulation.__file__).parent / "README.md").read_text("utf-8")


def test_the_plan_behaves_as_a_plan_does():
    job, machines = FitSize(rows=10**8, features=1024, classes=1000), Machines()
    assert seconds(job, machines) <= seconds(job, machines, lost=1) < 1.1 * seconds(job, machines)
    assert seconds(job, machines) < seconds(job, machines, lost=50) < 2 * seconds(job, machines)
    slow = replace(machines, bandwidth=machines.bandwidth / 2, shared=machines.shared / 2)
    assert seconds(job, replace(slow, products=machines.products / 2)) == pytest.approx(2 * seconds(job, machines))
    one, two = (seconds(job, replace(machines, workers=k)) for k in (1, 2))
    assert 1.9 < one / two <= 2
    # every byte of the files is read twice: for the mixtures of single classes, and for what all classes share
    assert sum(stage.read for stage in stages(job) if stage.name.startswith("part")) == 2 * 10**8 * 1024 * 2
