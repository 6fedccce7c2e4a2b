"""The command line as a whole: help, start-up, exit codes, pipes and signals."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pdac_cli import __version__
from pdac_cli.options.text import parse_bytes
from tests.conftest import SAMPLE
from tests.processes import wait_until_open


def process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "pdac_cli", *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def test_version_and_help(pdac):
    assert pdac("--version").out == f"pdac {__version__}\n"
    assert pdac("--version", "select", "no.h5").out == f"pdac {__version__}\n"
    shown = pdac("--help").out
    assert "Commands:" in shown
    alone = pdac()
    assert (alone.code, alone.out, alone.err) == (0, shown, "")


@pytest.mark.parametrize(("arguments", "absent"), [
    (["--help"], ["numpy", "h5py", "scipy", "sklearn", "torch"]),
    (["select", "--help"], ["numpy", "h5py", "scipy", "sklearn", "torch"]),
    (["select", "--budget", "5", str(SAMPLE)], ["sklearn", "torch", "torchvision"]),
])  # fmt: skip
def test_nothing_heavy_is_loaded_before_it_is_used(arguments, absent):
    code = (
        "import sys\nfrom pdac_cli import cli\nsys.argv = ['pdac', *sys.argv[1:]]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    print('LOADED', *sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split("LOADED")[1].split())
    assert not loaded & set(absent)


@pytest.mark.parametrize(("arguments", "words"), [
    (["select", SAMPLE], "budget"),
    (["select", SAMPLE, "--budget", "many"], "--budget is 'many'; expected a whole number"),
    (["select", SAMPLE, "--budget", "5", "--bogus"], "--bogus"),
    (["select", SAMPLE, "--budget", "0"], "--budget is 0; expected at least 1"),
    (["select", SAMPLE, "--budget", "-3"], "--budget is -3; expected at least 1"),
    (["select", SAMPLE, "--budget", "5", "--method", "best"], "expected one of: pdac, uniform"),
    (["select", SAMPLE, "--budget", "5", "--allocation", "fair"], "per-class"),
    (["select", SAMPLE, "--budget", "5", "--density", "class", "--dim", "65"], "--dim is 65, the data has 64 features"),
    (["select", SAMPLE, "--budget", "5", "--dim", "0"], "--dim is 0; expected at least 1"),
    (["select", SAMPLE, "--budget", "5", "--components", "0"], "--components is 0"),
    (["select", SAMPLE, "--budget", "5", "--ridge", "0"], "--ridge is 0.0; expected a number of 1e-12 or more"),
    (["select", SAMPLE, "--budget", "5", "--temperature", "nan"], "--temperature is nan"),
    (["select", SAMPLE, "--budget", "5", "--seed", "-1"], "--seed is -1"),
    (["select", SAMPLE, "--budget", "5", "--jobs", "0"], "--jobs is 0"),
    (["select", SAMPLE, "--budget", "5", "--memory", "lots"], "--memory is 'lots'"),
    (["select", SAMPLE, "--budget", "5", "--task", "0"], "--task is 0"),
    (["select", SAMPLE, "--budget", "5", "-o", "rows.xls"], ".json"),
    (["fit", SAMPLE], "output"),
    (["frobnicate"], "frobnicate"),
])  # fmt: skip
def test_usage_errors_are_one_line_and_exit_2(pdac, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = pdac(*arguments)
    assert result.code == 2
    assert words in result.err
    assert result.err.startswith("error: ")
    assert len(result.err.splitlines()) == 1
    assert result.out == ""
    assert not list(tmp_path.iterdir())


def test_sizes_are_understood():
    assert parse_bytes("--memory", "512M") == 512 << 20
    assert parse_bytes("--memory", "1.5g") == 3 << 29
    assert parse_bytes("--memory", "2GiB") == 2 << 30
    assert parse_bytes("--memory", "33554432") == 1 << 25


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m pdac_cli select --budget 1700 {SAMPLE} --method uniform -q | head -n 2"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert len(result.stdout.splitlines()) == 2
    assert (result.returncode, result.stderr) == (0, "")


def test_a_full_disk_behind_standard_output_is_exit_5():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(
            [sys.executable, "-m", "pdac_cli", "select", "--budget", "5", str(SAMPLE), "-q"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 5
    assert "error: standard output: no space left on device" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_run_with_its_code_and_no_output(tmp_path, number, code):
    path, out = tmp_path / "big.npy", tmp_path / "model.h5"
    np.save(path, np.random.default_rng(0).standard_normal((120_000, 256), dtype="f4"))
    np.save(tmp_path / "labels.npy", np.arange(120_000) % 50)
    running = subprocess.Popen(
        [sys.executable, "-m", "pdac_cli", "fit", str(path), "-o", str(out), "--iterations", "500"],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_open(running, path)
    time.sleep(0.5)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code, err
    assert err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in err
    assert {entry.name for entry in tmp_path.iterdir()} == {"big.npy", "labels.npy"}


def test_colours_and_bars_stay_away_from_files():
    result = process("select", "--budget", 5, SAMPLE, env={**os.environ, "FORCE_COLOR": "1"})
    assert "\x1b" not in result.stdout + result.stderr
