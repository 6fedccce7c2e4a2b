import pytest

from tests.conftest import SAMPLE


@pytest.mark.parametrize(("options", "said"), [
    (("-n", 50), ""),
    (("-n", 200), ""),
    (("-n", 50, "--method", "herding"), ""),
    (("-n", 50, "--method", "uniform"), "up to 20 rows a class by uniform were poorer than the default's"),
    (("-n", 500, "--method", "uniform"), ""),
    (("-n", 50, "--density", "class", "--ridge", 1), "rows dense within their own class were poorer"),
])  # fmt: skip
def test_what_is_known_to_be_better_is_said_once(options, said, pdac):
    notes = [line for line in pdac("select", SAMPLE, *options).err.splitlines() if line.startswith("note: ")]
    notes = [line for line in notes if "better" in line or "poorer" in line]
    assert len(notes) == (1 if said else 0)
    assert all(said in line for line in notes)
    assert "better" not in pdac("select", SAMPLE, *options, "-q").err
