import pytest

from tests.engine.rows import mixed


@pytest.fixture
def source():
    return mixed()
