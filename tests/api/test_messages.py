"""Every flag of the commands is turned into its parameter, and sentences stay sentences."""

import pytest

from pdac_cli.api.messages import in_python
from pdac_cli.options.declare import declared
from pdac_cli.options.fit import FitOptions
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.stream import StreamOptions

OPTIONS = {one.name: one for kind in (FitOptions, StreamOptions, SelectOptions) for one in declared(kind)}


@pytest.mark.parametrize(
    "one", [one for one in OPTIONS.values() if one.label.startswith("--")], ids=lambda one: one.name
)
def test_every_flag_has_a_parameter(one):
    said = in_python(f"{one.label} is wrong; see {one.label}")
    assert "--" not in said
    assert said.startswith(f"{one.name} is wrong")


@pytest.mark.parametrize(("text", "said"), [
    ("--budget is 0; expected at least 1", "budget is 0; expected at least 1"),
    ("try --ridge 0.1 or --temperature 0.25", "try floor=0.1 or temperature=0.25"),
    ("add --head to train a head", "add head=True to train a head"),
    ("use --no-normalize", "use normalize=False"),
    ("or --allocation per-class", "or allocation='per-class'"),
    ("add --density class", "add density_kind='class'"),
    ("lower --components or --dim, or raise --memory", "lower n_components or n_dims, or raise memory"),
    ("--memory 1G, say", "memory='1G', say"),
    ("fewer than --dim 10 directions", "fewer than n_dims=10 directions"),
    ("a dash -- and --no-such-flag 3", "a dash -- and --no-such-flag 3"),
    ("f--budget.h5: is no file", "f--budget.h5: is no file"),
])  # fmt: skip
def test_messages_in_python(text, said):
    names = {"ridge": "floor", "dim": "n_dims", "components": "n_components"}
    assert in_python(text, names) == said
