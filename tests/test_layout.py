"""What holds of the package as text: one name for one thing, modules that can be read, methods named in tables."""

import ast
from collections import defaultdict
from pathlib import Path

import pdac_cli
from pdac_cli.options.train_cl import REFERENCE_METHODS
from pdac_cli.selection.methods import METHODS
from pdac_cli.selection.streams.methods import STREAMING_METHODS

PACKAGE = Path(pdac_cli.__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
# Where methods are named: the tables, what help prints of them, and the options' defaults and presets.
TABLES = ("selection/methods.py", "selection/streams/methods.py", "selection/names.py", "options/")
MOST_LINES = 350


def nodes(kind):
    """All nodes of a kind, with the module they are in."""
    return [
        (name, node) for name, text in MODULES.items() for node in ast.walk(ast.parse(text)) if isinstance(node, kind)
    ]


def test_no_class_name_stands_for_two_things():
    found = defaultdict(list)
    for module, node in nodes(ast.ClassDef):
        if not node.name.startswith("_"):
            found[node.name].append(module)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def test_no_module_is_too_long_to_be_read():
    assert {name: text.count("\n") for name, text in MODULES.items() if text.count("\n") > MOST_LINES} == {}


def test_methods_are_named_in_their_tables_alone():
    names = {*METHODS, *(method.value for method in STREAMING_METHODS)} - {"pdac"}  # the program's name, too
    assert [
        (module, node.lineno, node.value)
        for module, node in nodes(ast.Constant)
        if isinstance(node.value, str) and node.value in names and not module.startswith(TABLES)
    ] == []


def test_what_others_are_compared_with_is_what_the_tables_say():
    tables = [(name, method.is_reference) for name, method in METHODS.items()]
    tables += [(method.value, entry.is_reference) for method, entry in STREAMING_METHODS.items()]
    assert {name for name, is_reference in tables if is_reference} == set(REFERENCE_METHODS)


def test_a_key_of_the_summaries_has_one_type_in_all_verbs():
    types = defaultdict(set)
    for _, node in nodes(ast.ClassDef):
        for field in node.body if node.name.endswith("Summary") else ():
            if isinstance(field, ast.AnnAssign):
                # What is in a list is the verb's own, and what may be missing is of the type it has elsewhere.
                kind = ast.unparse(field.annotation).removesuffix(" | None").partition("[")[0]
                types[ast.unparse(field.target)].add(kind)
    assert len(types["classes"]) == 1
    assert {key: kinds for key, kinds in types.items() if len(kinds) > 1} == {}
