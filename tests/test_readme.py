"""What the documents say holds: commands print what is shown, links lead somewhere, every folder is described."""

import re
import tomllib

import pytest

from tests.documents import CONTRIBUTING, HELP, ROOT, TOP, blocks, documents, headings, name, prose, run, runnable, same

RUN = [path for path in documents() if any(not block.slow for block in runnable(path))]
RUN_SLOWLY = [path for path in documents() if any(block.slow for block in runnable(path))]
ELSEWHERE = {"--nproc-per-node", "--strict", "--install-completion"}  # of torchrun, mypy and pdac itself
PACKAGES = sorted(path.parent for path in (ROOT / "pdac_cli").rglob("__init__.py"))


def check(document, folder, slow):
    for _, ran in run(document, folder, slow):
        for one in ran:
            assert one.code == 0, f"$ {one.command}\n{one.printed}"
            assert same(one.printed, one.shown), f"$ {one.command}\n{one.printed}"


@pytest.mark.parametrize("document", RUN, ids=name)
def test_what_a_document_shows_works_by_copy_and_paste(document, tmp_path):
    check(document, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("document", RUN_SLOWLY, ids=name)
def test_what_takes_long_in_a_document_works_too(document, tmp_path):
    check(document, tmp_path, slow=True)


def test_the_tour_goes_through_the_five_main_verbs():
    shown = "".join(block.text for block in runnable(TOP))
    for verb in ("extract", "fit", "select", "stream", "train-cl"):
        assert f"$ pdac {verb} " in shown


@pytest.mark.parametrize(("printed", "shown", "alike"), [
    ("kept 3 of 1,797\n", "kept 3 of 1,797\n", True),
    ("kept 4 of 1,797\n", "kept 3 of 1,797\n", False),
    ("size 87.8 kB\n", "size 87.9 kB\n", True),
    ("size 87.8 kB\n", "size 97.8 kB\n", False),
    ("size 1,087.8 kB\n", "size 2,087.8 kB\n", False),
    ("images per second  1,813.0 on cpu\n", "images per second  99.0 on cpu\n", True),
    ("", "kept\n", False),
])  # fmt: skip
def test_outputs_are_compared_but_for_speeds_and_last_digits(printed, shown, alike):
    assert same(printed, shown) is alike


@pytest.mark.parametrize("command", ["sample", "tests"])
def test_the_two_commands_can_be_found_by_the_script_that_runs_them(command):
    found = re.findall(rf"<!-- command: {command} -->\n```sh\n(.+)\n```", TOP.read_text("utf-8"))
    assert len(found) == 1


@pytest.mark.parametrize("document", documents(), ids=name)
def test_links_lead_somewhere(document):
    text = document.read_text("utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", prose(text)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        there = (document.parent / path).resolve() if path else document
        there = there / "README.md" if there.is_dir() else there
        assert there.exists(), target
        if anchor:
            assert anchor in headings(there.read_text("utf-8")), target


@pytest.mark.parametrize("document", documents(), ids=name)
def test_files_that_are_named_exist(document):
    places = (document.parent, ROOT, ROOT / "pdac_cli", ROOT / "tests")
    named = re.findall(r"`([\w./-]+\.(?:py|pyi|c|h|svg))`", prose(document.read_text("utf-8")))
    assert [path for path in named if not any((place / path).exists() for place in places)] == []


def test_every_document_can_be_reached_from_the_first():
    reached, left = set(), [TOP]
    while left:
        document = left.pop()
        if document in reached or not document.name.endswith(".md"):
            continue
        reached.add(document)
        for target in re.findall(r"\]\(([^)#]+)", prose(document.read_text("utf-8"))):
            there = (document.parent / target).resolve()
            left.append(there / "README.md" if there.is_dir() else there)
    assert set(documents()) <= reached


def test_every_equation_that_docstrings_cite_is_written_down_once():
    cited = set()
    for path in (ROOT / "pdac_cli").rglob("*.py"):
        for found in re.findall(r"Eqs?\. ((?:\(\d+\)(?:, | and |–)?)+)", path.read_text("utf-8")):
            cited |= {int(number) for number in re.findall(r"\d+", found)}
    written = [
        int(number)
        for document in documents()
        for number in re.findall(r"^\| \((\d+)\) \|", document.read_text("utf-8"), re.M)
    ]
    assert len(cited) >= 15
    assert cited <= set(written)
    assert sorted(written) == list(range(1, len(written) + 1))


def test_the_first_document_is_short_and_its_pictures_are_small():
    text = TOP.read_text("utf-8")
    assert len(text.splitlines()) <= 250
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert len(pictures) >= 1
    assert all((ROOT / picture).stat().st_size < 100_000 for picture in pictures)


@pytest.mark.parametrize("folder", PACKAGES[1:], ids=name)
def test_every_folder_of_the_package_says_what_lives_in_it(folder):
    """Its README names each module; `python -m tests.documents --modules` writes the table."""
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    if len(modules) < 2 and folder.parent != ROOT / "pdac_cli":
        return
    text = (folder / "README.md").read_text("utf-8")
    assert [path.name for path in modules if f"`{path.name}`" not in text] == []


def test_no_test_file_is_imported_by_another():
    found = {
        name(path): re.findall(r"^\s*from (tests\.\S*\btest_\w+) import", path.read_text("utf-8"), re.MULTILINE)
        for path in (ROOT / "tests").rglob("*.py")
    }
    assert len(found) > 100
    assert {path: names for path, names in found.items() if names} == {}


def test_no_document_and_no_code_names_a_machine_or_a_registry():
    secret = re.compile(
        "|".join(
            [
                r"(?<![\w.])/(?:work|home|root|Users)/",
                *(host.replace(".", r"\.") for host in ("pypi" + ".org", "python" + "hosted.org", "npm" + "js.")),
                *(host.replace(".", r"\.") for host in ("anaconda" + ".org", "download." + "pytorch.org")),
            ]
        )
    )
    kinds = {".py", ".md", ".toml", ".c", ".h", ".pyi", ".svg"}
    places = [ROOT / "pdac_cli", ROOT / "tests", ROOT / "sample_data", ROOT / ".github", ROOT / ".ci"]
    files = [TOP, ROOT / "pyproject.toml", *(path for place in places for path in place.rglob("*"))]
    read = [path for path in files if path.is_file() and (path.suffix in kinds or path.parent.name == ".ci")]
    assert len(read) > 300
    found = {name(path): secret.findall(path.read_text("utf-8")) for path in read if path.name != "test_readme.py"}
    assert {path: hits for path, hits in found.items() if hits} == {}


def flags(text):
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


@pytest.fixture
def known(pdac):
    """The options of every verb, as its help has them."""
    verbs = re.findall(r"^  ([a-z][a-z-]*)  ", pdac("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert len(verbs) >= 9
    return {verb: flags(pdac(verb, "--help").out) | {"--help"} for verb in verbs}


def test_options_that_are_written_of_exist(known):
    """In commands that are not run, those of the verb; in sentences, those of some verb or of a script of the tests."""
    scripts = [*(ROOT / "tests" / "benchmarks").glob("*.py"), ROOT / "tests" / "documents.py"]
    ours = set().union(*known.values(), *(flags(path.read_text("utf-8")) for path in scripts))
    unknown = []
    for document in documents():
        text = document.read_text("utf-8")
        for block in (block for block in blocks(text) if block.kind in ("sh", "bash")):
            for verb, rest in re.findall(r"^pdac ([\w-]+)((?:.*\\\n)*.*)", block.text, re.MULTILINE):
                unknown += [(name(document), flag) for flag in flags(rest.partition("#")[0]) - known[verb]]
        written = flags(" ".join(re.findall(r"`[^`]+`", prose(text))))
        unknown += [(name(document), flag) for flag in written - ours - ELSEWHERE]
    assert unknown == []


def test_every_verb_is_in_the_table_of_the_first_document_and_has_its_page_of_options(known):
    shown = re.findall(r"^\| `pdac ([\w-]+)` \|", TOP.read_text("utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted(known)
    assert {f"$ pdac {verb} --help\n" for verb in known} <= {
        block.text[: block.text.index("\n") + 1] for block in runnable(HELP)
    }


def test_the_layers_that_contributors_read_are_those_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    shown = re.search(r"<!-- layers -->\n```text\n(.+?)```", CONTRIBUTING.read_text("utf-8"), re.DOTALL)
    assert shown is not None
    assert [line.strip() for line in shown[1].splitlines()] == layers


def test_the_tree_that_contributors_read_is_the_tree():
    shown = re.search(r"^pdac_cli/\n(.+?)^\w", CONTRIBUTING.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert shown is not None
    found = re.findall(r"^  ([\w/.]+)", shown[1], re.MULTILINE)
    below = ROOT / "pdac_cli"
    there = {f"{path.name}/" for path in below.iterdir() if (path / "__init__.py").exists()} | {"presets/"}
    assert {entry for entry in found if entry.endswith("/")} == there
    assert all((below / entry).exists() for entry in found)
