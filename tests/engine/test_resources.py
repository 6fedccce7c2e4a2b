import os

import pytest
from threadpoolctl import threadpool_info

from pdac_cli.engine import cgroups, resources
from pdac_cli.errors import UsageError


def test_jobs_follow_affinity_and_the_schedulers_variables(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cgroups, "cores", lambda: None)
    for name in ("SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert resources.default_jobs() == 8
    monkeypatch.setattr(cgroups, "cores", lambda: 5)
    assert resources.default_jobs() == 5
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert resources.default_jobs() == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert resources.default_jobs() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(UsageError, match="OMP_NUM_THREADS is 'many'; expected a whole number"):
        resources.default_jobs()


def test_memory_is_half_of_what_is_left(monkeypatch):
    monkeypatch.setattr(resources, "_available", lambda: 1 << 34)
    monkeypatch.delenv("SLURM_MEM_PER_NODE", raising=False)
    monkeypatch.setattr(cgroups, "memory_left", lambda: None)
    assert resources.default_memory() == 1 << 33
    monkeypatch.setattr(cgroups, "memory_left", lambda: 1 << 29)
    assert resources.default_memory() == 1 << 28
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "256")
    assert resources.default_memory() == 1 << 27


@pytest.fixture
def group(monkeypatch, tmp_path):
    """Make a process a member of groups, and write their files."""
    monkeypatch.setattr(cgroups, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path / "root")

    def write(membership, **files):
        (tmp_path / "membership").write_text(membership)
        for path, text in files.items():
            file = tmp_path / "root" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    return write


def test_without_groups_there_is_no_limit(group):
    assert (cgroups.memory_left(), cgroups.cores()) == (None, None)
    group("0::/a\n", **{"a/memory.max": "max\n", "a/cpu.max": "max 100000\n"})
    assert (cgroups.memory_left(), cgroups.cores()) == (None, None)
    none = {"memory/memory.limit_in_bytes": "9223372036854771712\n", "cpu/cpu.cfs_quota_us": "-1\n"}
    group("4:memory:/\n3:cpu,cpuacct:/\n", **none, **{"cpu/cpu.cfs_period_us": "100000\n"})
    assert (cgroups.memory_left(), cgroups.cores()) == (None, None)


@pytest.mark.parametrize("where", ["", "job/", "job/step/"])
def test_the_tightest_of_a_groups_ancestors_counts(group, where):
    group("0::/job/step\n", **{"job/memory.max": "8000\n", "job/cpu.max": "900000 100000\n"})
    group("0::/job/step\n", **{f"{where}memory.max": "1000\n", f"{where}memory.current": "400\n"})
    assert cgroups.memory_left() == 600
    group("0::/job/step\n", **{f"{where}memory.stat": "anon 5\ninactive_file 300\n"})
    assert cgroups.memory_left() == 900
    group("0::/job/step\n", **{f"{where}memory.current": "990\n", f"{where}memory.stat": ""})
    assert cgroups.memory_left() == 125
    group("0::/job/step\n", **{f"{where}cpu.max": "150000 100000\n"})
    assert cgroups.cores() == 2


def test_the_first_version_has_a_tree_for_each_controller(group):
    files = {
        "memory/slurm/job/memory.limit_in_bytes": "1000\n",
        "memory/slurm/job/memory.usage_in_bytes": "600\n",
        "memory/slurm/job/memory.stat": "inactive_file 7\ntotal_inactive_file 100\n",
        "cpu/slurm/cpu.cfs_quota_us": "300000\n",
        "cpu/slurm/cpu.cfs_period_us": "100000\n",
    }
    group("4:memory:/slurm/job\n3:cpuacct,cpu:/slurm\n1:name=systemd:/x\n0::/\n", **files)
    assert (cgroups.memory_left(), cgroups.cores()) == (500, 3)


def test_a_container_sees_its_group_as_the_root(group):
    group("0::/docker/123\n", **{"memory.max": "1000\n", "cpu.max": "50000 100000\n"})
    assert (cgroups.memory_left(), cgroups.cores()) == (1000, 1)


def test_this_machine_has_memory():
    assert resources.default_memory() > 1 << 24


def test_blas_is_kept_to_one_thread_only_inside():
    before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    with resources.one_blas_thread():
        assert all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")
    assert [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"] == before
