"""A misspelt verb, option, method or choice: one line with the nearest, exit code 2, before anything heavy loads."""

import subprocess
import sys

import pytest

HEAVY = {"numpy", "torch", "h5py", "scipy", "sklearn", "pandas", "matplotlib", "torchvision"}
CODE = """
import sys
from pdac_cli import cli
sys.argv = ["pdac", *sys.argv[1:]]
try:
    cli.main()
finally:
    print("LOADED", *sys.modules)
"""


@pytest.mark.parametrize(("arguments", "words"), [
    (["slect", "f.h5"], "'slect' is not a command; expected one of: extract, fit, select"),
    (["slect", "f.h5"], "did you mean select? see pdac --help"),
    (["select", "f.h5", "--bugdet", 5], "--bugdet is not an option; did you mean --budget? see pdac select --help"),
    (["train-cl", "f.h5", "--no-flp"], "--no-flp is not an option; did you mean --no-flip? see pdac train-cl --help"),
    (["select", "f.h5", "-n", 5, "--method", "herdin"], "; did you mean herding?"),
    (["select", "f.h5", "-n", 5, "--method", "Least_Error"], "; did you mean least-error?"),
    (["compare", "f.h5", "-n", 5, "--methods", "uniform,kmean"], "--methods is 'kmean'; expected one of: pdac, "),
    (["compare", "f.h5", "-n", 5, "--methods", "uniform,kmean"], "; did you mean kmeans?"),
    (["stream", "f.h5", "-n", 5, "-o", "b.json", "--method", "spdca"], "; did you mean spdac?"),
    (["train-cl", "f.h5", "--method", "unifrom"], "--method is 'unifrom'; expected one of: pdac, uniform"),
    (["train-cl", "f.h5", "--method", "unifrom"], "; did you mean uniform?"),
    (["train-cl", "f.h5", "--setting", "online", "--method", "metaps"], "; did you mean metasp?"),
    (["train-cl", "f.h5", "--reference", "unifrom"], "; did you mean uniform?"),
    (["train-cl", "f.h5", "--setting", "onlin"], "--setting is 'onlin'; expected one of: offline, relaxed, online"),
    (["train-cl", "f.h5", "--preset", "cifar11"], "; did you mean cifar10?"),
    (["select", "f.h5", "-n", 5, "--allocation", "balance"], "; did you mean balanced?"),
    (["extract", "--data", "x", "-o", "f.h5", "--checkpoint", "c", "--amp", "bf61"], "; did you mean bf16?"),
    (["fit", "f.h5"], "--output PATH is missing; expected model file to write; see pdac fit --help"),
    (["fit", "-o", "m.h5"], "folders of them, or a quoted glob; see pdac fit"),
    (["fit", "f.h5", "-o"], "see pdac fit --help"),
])  # fmt: skip
def test_the_nearest_is_suggested_in_one_line(pdac, arguments, words):
    result = pdac(*arguments)
    assert result.code == 2
    assert words in result.err
    assert result.err.startswith("error: ")
    assert len(result.err.splitlines()) == 1
    assert result.out == ""


@pytest.mark.parametrize("arguments", [
    ["select", "f.h5", "-n", "5", "--method", "herdin"],
    ["stream", "f.h5", "-n", "5", "-o", "b.json", "--method", "spdca"],
    ["compare", "f.h5", "-n", "5", "--methods", "uniform,kmean"],
    ["train-cl", "f.h5", "--method", "unifrom"],
    ["train-cl", "f.h5", "--setting", "online", "--method", "pdac"],
    ["valex", "-o", "x", "--trials", "1"],
    ["experiment", "a.toml", "--scale", "tiny"],
], ids=" ".join)  # fmt: skip
def test_it_is_refused_before_anything_heavy_loads(arguments):
    result = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    assert not HEAVY & set(result.stdout.split("LOADED")[1].split())
