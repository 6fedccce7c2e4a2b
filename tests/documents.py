"""The repository's documents: finding them, running what they show, and writing the output anew.

    python -m tests.documents                        # run every block of every document, write what it prints now
    python -m tests.documents pdac_cli/files/README.md
    python -m tests.documents --modules              # only the tables of modules, from their docstrings

Blocks fenced as ``console`` and ``python`` are run in order, in one folder per document that holds `sample_data`.  A
block after a line ``<!-- slow -->`` is run by the slow tests only; one after ``<!-- file: NAME -->`` is written to that
file.  Blocks of any other kind are only read.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOP = ROOT / "README.md"
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
HELP = ROOT / "pdac_cli" / "cli" / "HELP.md"
_PLACES = ("pdac_cli", "tests", "sample_data")
_BLOCK = re.compile(
    r"^(?P<marker><!-- (?:slow|file: \S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_NUMBER = re.compile(r"-?\d[\d,]*\.\d+")


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, its lines, and where they begin and end in the document."""

    kind: str
    text: str
    marker: str
    start: int
    end: int

    @property
    def slow(self) -> bool:
        return "slow" in self.marker

    @property
    def file(self) -> str | None:
        found = re.search(r"file: (\S+)", self.marker)
        return found[1] if found else None


@dataclass(frozen=True)
class Ran:
    """A command of a console block, the output shown under it, and what it really printed."""

    command: str
    shown: str
    code: int
    printed: str


def documents() -> list[Path]:
    """Every document of the repository."""
    below = [path for place in _PLACES for path in sorted((ROOT / place).rglob("README.md"))]
    return [TOP, CONTRIBUTING, HELP, *below]


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """Every fenced block, in order."""
    return [
        Block(found["kind"], found["text"], found["marker"] or "", found.start("text"), found.end("text"))
        for found in _BLOCK.finditer(text)
    ]


def runnable(document: Path) -> list[Block]:
    return [block for block in blocks(document.read_text("utf-8")) if block.kind in ("console", "python")]


def prose(text: str) -> str:
    """The document without its blocks."""
    return _BLOCK.sub("", text)


def headings(text: str) -> list[str]:
    """The anchors of the document's headings, as they are made where repositories are shown."""
    anchors: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        anchors.append(f"{anchor}-{anchors.count(anchor)}" if anchor in anchors else anchor)
    return anchors


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block with the output shown under each."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def same(printed: str, shown: str) -> bool:
    """Equal texts, but for speeds and the last digits of fractions, which another processor may round otherwise."""
    printed, shown = (re.sub(r"(?m)^(.*per second\s+)[\d,.]+", r"\1#", text) for text in (printed, shown))
    printed, shown = (re.sub(r"(?m) +$", "", text) for text in (printed, shown))
    if _NUMBER.sub("#", printed) != _NUMBER.sub("#", shown):
        return False
    ours, theirs = ([float(found.replace(",", "")) for found in _NUMBER.findall(text)] for text in (printed, shown))
    return all(abs(our - their) <= 0.02 * abs(their) + 1e-12 for our, their in zip(ours, theirs, strict=True))


def run(document: Path, folder: Path, slow: bool = True) -> Iterator[tuple[Block, list[Ran]]]:
    """Run the document's blocks one after the other in `folder`; without `slow`, up to the first slow one."""
    shutil.copytree(ROOT / "sample_data", folder / "sample_data", dirs_exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks(document.read_text("utf-8")):
        if block.slow and not slow:
            continue
        if block.file is not None:
            (folder / block.file).write_text(block.text, "utf-8")
        elif block.kind == "python":
            yield block, [_shell(f"{sys.executable} - <<'END'\n{block.text}END", "", folder, path)]
        elif block.kind == "console":
            yield block, [_shell(command, shown, folder, path) for command, shown in commands(block.text)]


def _shell(command: str, shown: str, folder: Path, path: str) -> Ran:
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    result = subprocess.run(
        ["bash", "-c", f"{{ {command}\n}} 2>&1"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(command, shown, result.returncode, result.stdout)


def rewrite(document: Path) -> bool:
    """Run the document and write what its commands print now under them; whether anything had changed."""
    text = document.read_text("utf-8")
    new, end = "", 0
    with tempfile.TemporaryDirectory() as folder:
        for block, ran in run(document, Path(folder)):
            for one in ran:
                if one.code:
                    raise SystemExit(f"{name(document)}: exit {one.code}\n$ {one.command}\n{one.printed}")
            if block.kind == "console":
                kept = (one.shown if same(one.printed, one.shown) else one.printed for one in ran)
                lines = "".join(f"$ {one.command}\n{output}" for one, output in zip(ran, kept, strict=True))
                new, end = new + text[end : block.start] + lines, block.end
    new += text[end:]
    document.write_text(new, "utf-8")
    return new != text


def modules_table(folder: Path) -> str:
    """The modules of a package folder with the first sentence of each docstring."""
    lines = ["| module | what |", "|---|---|"]
    for path in sorted(folder.glob("*.py")):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if path.name != "__init__.py":
            sentence = re.split(r"(?<!et al)(?<!Eq)(?<!Eqs)\.(?=\s|$)", " ".join(said.split("\n\n")[0].split()))[0]
            lines.append(f"| `{path.name}` | {sentence.replace('``', '`')} |")
    return "\n".join(lines)


def rewrite_modules(document: Path) -> None:
    begin, end = "<!-- modules -->", "<!-- end of modules -->"
    table = f"{begin}\n{modules_table(document.parent)}\n{end}"
    text = document.read_text("utf-8")
    document.write_text(re.sub(f"{begin}.*?{end}", lambda _: table, text, flags=re.DOTALL), "utf-8")


def main() -> None:
    if sys.argv[1:] == ["--modules"]:
        for document in documents():
            rewrite_modules(document)
        return
    chosen = [Path(argument).resolve() for argument in sys.argv[1:]] or documents()
    for document in chosen:
        print(f"{name(document)}: {'written anew' if rewrite(document) else 'as it was'}", flush=True)


if __name__ == "__main__":
    main()
