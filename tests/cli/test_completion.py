"""Shell completion: verbs, options, methods and choices, in bash, zsh and fish."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pdac_cli.cli.verbs import VERBS
from pdac_cli.options.methods import ABOUT

SHELLS = ("bash", "zsh", "fish")


def completed(shell, line, **more):
    """What pdac offers for the last word of a line, as its completion script asks for it."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    asked = {
        "_PDAC_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-m", "pdac_cli"], env={**os.environ, **asked, **more}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def offered(shell, line):
    """The words themselves; zsh and fish are told what they mean, too."""
    text = completed(shell, line)
    if shell == "zsh":
        found = [part for part in text.split('"') if part and not part[0].isspace()]
        return [word for word in found if word[0] not in ":_)"]
    return [word.partition("\t")[0] for word in text.split("\n") if word]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "words"), [
    ("pdac select --method ", list(ABOUT)),
    ("pdac select --method h", ["herding", "hardest", "highest-prob"]),
    ("pdac stream --method ", ["herding", "spdac", "er", "gss", "aser"]),
    ("pdac train-cl --method meta", ["metasp"]),
    ("pdac train-cl --setting ", ["offline", "relaxed", "online"]),
    ("pdac compare --methods uniform,k", ["uniform,kcenter", "uniform,kmeans", "uniform,kmedoids"]),
    ("pdac fit --solver ", ["fast", "exact"]),
])  # fmt: skip
def test_methods_and_choices_are_completed(shell, line, words):
    assert sorted(offered(shell, line)) == sorted(words)


@pytest.mark.parametrize("shell", SHELLS)
def test_verbs_and_options_are_completed(shell):
    verbs = completed(shell, "pdac ")
    assert all(verb in verbs for verb in VERBS)
    options = completed(shell, "pdac fit --")
    assert all(one.label in options for one in VERBS["fit"].declared() if one.flags)


@pytest.mark.parametrize("shell", SHELLS)
def test_where_a_path_is_expected_the_shell_offers_files(shell):
    assert completed(shell, "pdac fit --output ").strip() in ("", "_files")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_shown_and_installed_for_each_shell(shell, tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    run = {"env": environment, "capture_output": True, "text": True, "check": True}
    shown = subprocess.run([sys.executable, "-m", "pdac_cli", "--show-completion", shell], **run).stdout
    assert f"complete_{shell}" in shown
    assert "_PDAC_COMPLETE" in shown
    said = subprocess.run([sys.executable, "-m", "pdac_cli", "--install-completion", shell], **run).stdout
    assert f"{shell} completion installed in" in said
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_PDAC_COMPLETE" in text for text in written)


def test_bash_itself_completes(tmp_path):
    """Its own machinery asks the script, which asks pdac: what a user's Tab does."""
    command = tmp_path / "pdac"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pdac_cli "$@"\n')
    command.chmod(0o755)
    script = """
    eval "$(_PDAC_COMPLETE=source_bash pdac)"
    COMP_WORDS=(pdac select --method her); COMP_CWORD=3; COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
    function=$(complete -p pdac | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
    $function pdac her --method
    echo "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    result = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("herding\n", "")


def test_completion_loads_nothing_heavy(tmp_path):
    code = "import atexit, sys\natexit.register(lambda: print('LOADED', *sys.modules))\n"
    code += "from pdac_cli import cli\ncli.main()"
    asked = {"_PDAC_COMPLETE": "complete_bash", "COMP_WORDS": "pdac select --method ", "COMP_CWORD": "3"}
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert not {"numpy", "torch", "h5py"} & set(result.stdout.split("LOADED")[1].split())
