"""The scripts, as far as they can be tried without SLURM."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pdac_cli

SCRIPTS = sorted((Path(pdac_cli.__file__).parent / "engine/cluster/scripts").glob("*.sh"))


def run(name, *arguments, **more):
    (script,) = [path for path in SCRIPTS if path.name == name]
    environment = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **more}
    done = subprocess.run(["bash", script, *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_shell(path):
    assert subprocess.run(["bash", "-n", path], capture_output=True).stderr == b""


@pytest.mark.slow
def test_fit_and_select_by_a_scheduler_file(features, tmp_path):
    whole, _ = features
    run("fit-and-select.sh", 30, tmp_path, whole, RUN="env", HOST="--host 127.0.0.1", SLURM_CPUS_PER_TASK="1")
    assert len(np.load(tmp_path / "rows.npy")) == 30
    assert (tmp_path / "model.h5").exists()
    assert list(tmp_path.glob("pdac-*")) == []


@pytest.mark.slow
def test_a_nightly_stream(features, tmp_path):
    _, shards = features
    for shard in shards:
        run("nightly-stream.sh", 30, tmp_path / "buffer", shard)
    assert (tmp_path / "buffer/rows.json").exists()
