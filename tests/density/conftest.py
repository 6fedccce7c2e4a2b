import pytest

from pdac_cli.density import kernel


@pytest.fixture(params=["C", "without"])
def way(request, monkeypatch):
    """The test holds with the inner loops in C and without them."""
    if request.param == "without":
        monkeypatch.setattr(kernel, "compiled", None)
    elif kernel.compiled is None:
        pytest.skip("not compiled")
