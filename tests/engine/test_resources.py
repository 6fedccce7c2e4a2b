import os

import pytest
from threadpoolctl import threadpool_info

from pdac_cli.engine import resources
from pdac_cli.errors import UsageError


def test_jobs_follow_affinity_and_the_schedulers_variables(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for name in ("SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert resources.default_jobs() == 8
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert resources.default_jobs() == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert resources.default_jobs() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(UsageError, match="OMP_NUM_THREADS is 'many'; expected a whole number"):
        resources.default_jobs()


def test_memory_is_half_of_what_the_cgroup_leaves(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "_CGROUP_V2", tmp_path)
    monkeypatch.setattr(resources, "_CGROUP_V1", tmp_path / "none")
    monkeypatch.setattr(resources, "_available", lambda: 1 << 34)
    monkeypatch.delenv("SLURM_MEM_PER_NODE", raising=False)
    assert resources.default_memory() == 1 << 33
    (tmp_path / "memory.max").write_text("max\n")
    assert resources.default_memory() == 1 << 33
    (tmp_path / "memory.max").write_text(f"{1 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{1 << 29}\n")
    assert resources.default_memory() == 1 << 28
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "256")
    assert resources.default_memory() == 1 << 27


def test_this_machine_has_memory():
    assert resources.default_memory() > 1 << 24


def test_blas_is_kept_to_one_thread_only_inside():
    before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    with resources.one_blas_thread():
        assert all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")
    assert [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"] == before
