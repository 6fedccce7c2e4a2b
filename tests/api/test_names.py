"""The public names: listed once, loaded when they are asked for, known to type checkers, each with an example."""

import ast
import doctest
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import pdac_cli

pytestmark = pytest.mark.usefixtures("avalanche")
PUBLIC = [
    "AvalancheExemplars",
    "AvalancheStorage",
    "CoresetSelector",
    "FeatureSet",
    "InputError",
    "KeptRows",
    "ParameterError",
    "PdacError",
    "PdacWarning",
    "ProjectedGaussianMixture",
    "ReplayBatchSampler",
    "ReplayBuffer",
    "StreamingSelector",
    "coreset_subset",
    "load_rows",
    "select_coreset",
]
WITH_EXAMPLES = [name for name in PUBLIC if not name.endswith(("Error", "Warning"))]


def test_the_public_names_are_these():
    assert sorted(pdac_cli.__all__) == sorted(["__version__", *PUBLIC])
    assert set(PUBLIC) <= set(dir(pdac_cli))
    for name in PUBLIC:
        assert getattr(pdac_cli, name).__name__ == name


def test_type_checkers_are_told_the_same_names_from_the_same_modules():
    stub = ast.parse(Path(pdac_cli.__file__).with_suffix(".pyi").read_text("utf-8"))
    told = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == {name: f"pdac_cli.{module}" for name, module in pdac_cli._MODULES.items()}
    assert (Path(pdac_cli.__file__).parent / "py.typed").exists()


def loaded(code, *modules):
    """Which of the modules are loaded after the code."""
    script = f"import sys\n{code}\nprint(*[name for name in {modules!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return result.stdout.split()


HEAVY = ("numpy", "h5py", "scipy", "sklearn", "torch", "pandas", "matplotlib", "typer", "rich")


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import pdac_cli", *HEAVY) == []


def test_choosing_rows_loads_neither_the_command_line_nor_scikit_learn_nor_torch():
    code = "from pdac_cli import select_coreset; select_coreset([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], [0, 1, 0], 2)"
    assert set(loaded(code, *HEAVY)) & {"sklearn", "torch", "matplotlib", "typer", "rich", "pandas"} == set()
    estimator = "from pdac_cli import CoresetSelector; CoresetSelector(budget=2).fit([[1.0], [2.0], [3.0]], [0, 1, 0])"
    assert set(loaded(estimator, *HEAVY)) & {"torch", "matplotlib", "typer", "rich"} == set()


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'CoresetSelecter'"):
        pdac_cli.CoresetSelecter  # noqa: B018


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstrings_have_an_example_that_runs(name, tmp_path, monkeypatch, feature_file):
    monkeypatch.chdir(tmp_path)
    feature_file("feats.h5")
    thing = getattr(pdac_cli, name)
    (found,) = doctest.DocTestFinder(recurse=False).find(thing, name, import_module(thing.__module__))
    assert found.examples
    printed: list[str] = []
    result = doctest.DocTestRunner().run(found, out=printed.append)
    assert result.failed == 0, "".join(printed)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_every_parameter_is_described(name):
    thing = getattr(pdac_cli, name)
    text = inspect.getdoc(thing)
    if name in ("FeatureSet", "KeptRows"):  # their attributes are
        return
    described = text.partition("Parameters\n")[2].partition("Examples\n")[0]
    for parameter in inspect.signature(thing).parameters:
        assert parameter in described, parameter


@pytest.mark.parametrize("name", ["CoresetSelector", "StreamingSelector", "ProjectedGaussianMixture", "ReplayBuffer"])
def test_every_method_has_a_docstring(name):
    thing = getattr(pdac_cli, name)
    own = [value for key, value in vars(thing).items() if inspect.isfunction(value) and not key.startswith("_")]
    assert own
    assert [method.__name__ for method in own if not method.__doc__] == []
