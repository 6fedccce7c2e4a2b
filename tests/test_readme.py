"""The README's commands, run by copy and paste, print what it says they print."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
NUMBER = re.compile(r"-?\d[\d,]*\.\d+")


def blocks():
    """Every fenced block of a kind that can be run: (kind, text), in order."""
    return re.findall(r"^```(python|console)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(text):
    """The commands of a console block with the output shown under each."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def same(found, shown):
    """Equal texts, but for speeds and the last digits of fractions, which another processor may round otherwise."""
    found, shown = (re.sub(r"(?m)^(.*per second\s+)[\d,.]+", r"\1#", text) for text in (found, shown))
    ours, theirs = NUMBER.findall(found), NUMBER.findall(shown)
    if NUMBER.sub("#", found) != NUMBER.sub("#", shown):
        return False
    values = [[float(text.replace(",", "")) for text in texts] for texts in (ours, theirs)]
    return values[0] == pytest.approx(values[1], rel=0.02)


def test_the_tour_works_by_copy_and_paste(tmp_path):
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = 0
    for kind, text in blocks():
        if kind == "python":
            subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True)
            continue
        for command, shown in commands(text):
            result = subprocess.run(
                ["bash", "-c", f"{{ {command}\n}} 2>&1"],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, result.stdout
            assert same(result.stdout, shown), f"$ {command}\n{result.stdout}"
            ran += 1
    assert ran >= 5


@pytest.mark.parametrize("name", ["sample", "tests"])
def test_the_two_commands_can_be_found_by_the_script_that_runs_them(name):
    found = re.findall(rf"<!-- command: {name} -->\n```sh\n(.+)\n```", README)
    assert len(found) == 1


def test_links_inside_the_readme_lead_somewhere():
    anchors = {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif not target.startswith("http"):
            assert (ROOT / target).exists(), target
