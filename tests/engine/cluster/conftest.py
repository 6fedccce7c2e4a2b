import pytest

from tests.engine.cluster.dask_processes import DaskProcesses, write_features


@pytest.fixture(scope="session")
def features(tmp_path_factory):
    """A set in one file, and in two."""
    return write_features(tmp_path_factory.mktemp("features"))


@pytest.fixture
def dask(tmp_path):
    """A scheduler of the test's own, for which a worker that says nothing for four seconds is dead."""
    processes = DaskProcesses(
        tmp_path, SCHEDULER__WORKER_TTL="4s", SCHEDULER__ALLOWED_FAILURES="1", WORKER__PROFILE__INTERVAL="1s"
    )
    yield processes
    processes.close()
