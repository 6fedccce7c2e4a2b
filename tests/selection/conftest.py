import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """As the commands run methods; on small arrays threads wait for each other longer than they work."""
    with threadpool_limits(1, user_api="blas"):
        yield
