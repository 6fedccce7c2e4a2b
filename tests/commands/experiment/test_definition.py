"""Definitions that cannot be meant: each ends in one line that names what was found and expected, never a traceback."""
# ruff: noqa: E501 -- a table of cases is read a case a line

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdac_cli.commands.experiment.definition import load
from pdac_cli.commands.experiment.plan import check_tested, check_units, units_of
from pdac_cli.errors import DataError, UsageError
from pdac_cli.options.experiment import ExperimentOptions, Scale

DATA = '[data.a]\npath = "x.h5"\n'
SWEEP = '[[sweep]]\nmethods = ["uniform", "pdac"]\nbudget = [10, 20]\n'
GOOD = DATA + SWEEP
HUGE = "9" * 400
DEEP = "[" * 20_000 + "]" * 20_000
LONG = "k" * 400
CHOOSE = SWEEP.replace("[[sweep]]", '[[sweep]]\ncommand = "compare"')
TESTED = DATA + 'test = "y.h5"\n'

MALFORMED = {  # content, and what the message must say of it
    "empty": ("title = 'x'", "has no sweep"),
    "no data": (SWEEP, "has no data set"),
    "not TOML": ("title = ", "is not TOML"),
    "a key twice": ("seeds = 1\nseeds = 2\n" + GOOD, "is not TOML"),
    "deep array": (f"title = {DEEP}\n" + GOOD, "is not TOML"),
    "deep array in an option": (GOOD + f"[options]\ndim = {DEEP}", "is not TOML"),
    "an integer that Python does not read": (f"seeds = {'9' * 5000}\n" + GOOD, "is not TOML"),
    "unknown key": ("colour = 1\n" + GOOD, "'colour' is not known; expected one of: title"),
    "long key": (f"{LONG} = 1\n" + GOOD, "is not known; expected one of: title"),
    "empty key": ('"" = 1\n' + GOOD, "'' is not known"),
    "key with an escape sequence": ('"\\u001b[31m" = 1\n' + GOOD, r"'\x1b[31m' is not known"),
    "title is a number": ("title = 1\n" + GOOD, "title is 1; expected a text"),
    "title is a list": ("title = ['a']\n" + GOOD, "title is ['a']; expected a text"),
    "title is a table": ("title = {a = 1}\n" + GOOD, "title is a table; expected a text"),
    "title with NUL": ('title = "a\\u0000"\n' + GOOD, "title is"),
    "title of a megabyte": (f"title = '{'x' * 10_000}'\n" + GOOD, "title has 10,000 letters; expected at most 4,096"),
    "seeds is a text": ("seeds = 'three'\n" + GOOD, "seeds is 'three'; expected a whole number from 1 to 1,000"),
    "seeds is true": ("seeds = true\n" + GOOD, "seeds is true; expected a whole number"),
    "seeds is a float": ("seeds = 1.0\n" + GOOD, "seeds is 1.0; expected a whole number"),
    "seeds is 0": ("seeds = 0\n" + GOOD, "seeds is 0; expected a whole number from 1"),
    "seeds below 0": ("seeds = -3\n" + GOOD, "seeds is -3; expected"),
    "seeds is huge": (f"seeds = {HUGE}\n" + GOOD, "seeds is a number of 1,329 bits; expected"),
    "seeds is a hundred million": ("seeds = 100000000\n" + GOOD, "seeds is 100000000; expected"),
    "seeds is a list": ("seeds = [1, 2]\n" + GOOD, "seeds is [1, 2]; expected"),
    "seeds is a date": ("seeds = 2020-01-01\n" + GOOD, "seeds is 2020-01-01; expected"),
    "measures is a text": ("measures = 'acc'\n" + GOOD, "measures is 'acc'; expected a list of names"),
    "measures is a number": ("measures = 1\n" + GOOD, "measures is 1; expected a list of names"),
    "measures is empty": ("measures = []\n" + GOOD, "measures is"),
    "measures holds a list": ("measures = [['acc']]\n" + GOOD, "measures is ['acc']; expected a list of names"),
    "measures holds a table": ("measures = [{a = 1}]\n" + GOOD, "measures is a table; expected a list of names"),
    "measures holds a number": ("measures = [1]\n" + GOOD, "measures is 1; expected a list of names"),
    "measure twice": ("measures = ['acc', 'acc']\n" + GOOD, "each once"),
    "measure unknown": ("measures = ['accc']\n" + GOOD, "'accc' is not known; expected some of: acc, fm, s"),
    "measure of another command": ("measures = ['accuracy']\n" + GOOD, "'accuracy' is measured by compare"),
    "measure of a command that is not swept": ("measures = ['model_mib']\n" + GOOD, "is measured by storage"),
    "measure of training over compare": ("measures = ['acc']\n" + TESTED + CHOOSE, "'acc' is measured by train-cl"),
    "a sweep none of whose measures is asked": ("measures = ['acc']\n" + TESTED + SWEEP + CHOOSE, "none that compare"),
    "accuracy without test rows": ("measures = ['accuracy']\n" + DATA + CHOOSE, "a has nothing to test on"),
    "likelihood of no step": ("measures = ['log_likelihood@STEP']\n" + GOOD, "is not known"),
    "likelihood of a superscript": ("measures = ['log_likelihood@²']\n" + GOOD, "is not known"),
    "likelihood of a huge step": (f"measures = ['log_likelihood@{HUGE}']\n" + GOOD, "is not known"),
    "reference is a number": ("reference = 1\n" + GOOD, "reference is 1; expected a text"),
    "reference is a list": ("reference = ['uniform']\n" + GOOD, "reference is ['uniform']; expected a text"),
    "reference is no method": ("reference = 'best'\n" + GOOD, "reference: 'best' is not known; expected one of: uniform"),
    "data is a number": ("data = 1\n" + SWEEP, "data is 1; expected a table"),
    "data is a list": ("data = [1]\n" + SWEEP, "data is [1]; expected a table"),
    "data holds a number": ("[data]\na = 1\n" + SWEEP, "data.a is 1; expected a table"),
    "data holds a list of tables": ("[[data.a]]\npath = 'x'\n" + SWEEP, "data.a is a list of 1; expected a table"),
    "data of a long name": (f"[data.{LONG}]\npath = 'x'\n" + SWEEP, "expected at most 100 letters"),
    "data without a name": ('[data.""]\npath = "x"\n' + SWEEP, "its name is ''; expected at most 100 letters"),
    "data named by a line end": ('[data."a\\nb"]\npath = "x"\n' + SWEEP, r"its name is 'a\nb'; expected"),
    "data with an unknown key": (GOOD + "[data.b]\ncolour = 1", "[data.b]: 'colour' is not known; expected one of: path"),
    "path is empty": ('[data.a]\npath = ""\n' + SWEEP, "path is ''; expected a path"),
    "path is a number": ("[data.a]\npath = 1\n" + SWEEP, "path is 1; expected a path"),
    "path is a list": ("[data.a]\npath = ['x']\n" + SWEEP, "path is ['x']; expected a path"),
    "path with NUL": ('[data.a]\npath = "a\\u0000b"\n' + SWEEP, "expected a path"),
    "test with NUL": ('[data.a]\ntest = "a\\u0000b"\n' + SWEEP, "expected a path"),
    "path beyond any length": (f"[data.a]\npath = '{'x' * 5000}'\n" + SWEEP, "path has 5,000 letters"),
    "classes is a text": ("[data.a]\nclasses = 'ten'\n" + SWEEP, "classes is 'ten'; expected a whole number"),
    "classes is 0": ("[data.a]\nclasses = 0\n" + SWEEP, "classes is 0; expected a whole number from 1"),
    "rows is huge": (f"[data.a]\nrows = {HUGE}\n" + SWEEP, "rows is a number of 1,329 bits; expected a whole"),
    "pixels is huge": ("[data.a]\npixels = 100000\n" + SWEEP, "pixels is 100000; expected a whole number from 1 to 4,096"),
    "data options is a list": (GOOD + "[data.b]\noptions = [1]", "options is [1]; expected a table"),
    "data options unknown": (GOOD + "[data.b]\noptions = {lrr = 1}", "'lrr' is not known; expected one of: setting"),
    "data options name a method": (GOOD + "[data.b]\noptions = {method = 'pdac'}", "'method' is not known"),
    "options is a number": ("options = 1\n" + GOOD, "[options] is 1; expected a table"),
    "options is a list": ("options = [[1]]\n" + GOOD, "[options] is a list of 1; expected a table"),
    "options unknown": (GOOD + "[options]\nlrr = 1", "'lrr' is not known"),
    "options of thousands": (GOOD + "[options]\n" + "\n".join(f"k{i} = 1" for i in range(2000)), "has 2,000 keys"),
    "an option is a table": (GOOD + "[options]\ndim = {a = 1}", "dim is a table; expected a whole number"),
    "an option is a nested list": (GOOD + "[options]\ndim = [[1]]", "dim is a list of 1; expected a whole number"),
    "an option is a fraction": (GOOD + "[options]\nepochs = 1.5", "epochs is 1.5; expected a whole number"),
    "an option is huge": (GOOD + f"[options]\nepochs = {HUGE}", "epochs is a number of 1,329 bits; expected a whole"),
    "a float option is huge": (GOOD + f"[options]\nlr = {HUGE}", "lr is a number of 1,329 bits; expected a number of"),
    "a float option is infinite": (GOOD + "[options]\nlr = inf", "lr is inf; expected a finite number"),
    "a float option is nan": (GOOD + "[options]\ntemperature = nan", "temperature is nan; expected a finite number"),
    "a choice is a list": (GOOD + "[options]\nallocation = ['joint']", "allocation is ['joint']; expected one of"),
    "a choice is unknown": (GOOD + "[options]\nallocation = 'fair'", "allocation is 'fair'; expected one of: per-class"),
    "a switch is a number": (GOOD + "[options]\nflip = 1", "flip is 1; expected true or false"),
    "a size of three": (GOOD + "[options]\nresize = [1, 2, 3]", "resize is [1, 2, 3]; expected whole numbers"),
    "a size of none": (GOOD + "[options]\nresize = []", "resize is"),
    "a size below 0": (GOOD + "[options]\nresize = -4", "resize is -4; expected whole numbers above 0"),
    "a network beyond memory": (GOOD + "[options]\nwidth = 1000000000", "width is 1000000000; expected at most 4,096"),
    "an option out of range": (GOOD + "[options]\ndim = 0", "--dim is 0; expected at least 1"),
    "methods is a list": ("methods = ['pdac']\n" + GOOD, "methods is ['pdac']; expected a table"),
    "methods holds a number": ("[methods]\nx = 1\n" + GOOD, "methods.x is 1; expected a table"),
    "methods holds a list": ("[methods]\nx = [{a = 1}]\n" + GOOD, "methods.x is a list of 1; expected a table"),
    "a method's name is odd": (GOOD + "[methods.'$x']\ndim = 1", "its name is '$x'; expected at most 100 letters"),
    "a method's option is a table": (GOOD + "[methods.x]\nmethod = {a = 1}", "method is a table; expected a text"),
    "a method's method is unknown": (DATA + "[methods.x]\nmethod = 'best'\n[[sweep]]\nmethods = ['x']", "x on a: --method"),
    "sweep is a number": ("sweep = 1\n" + DATA, "sweep is 1; expected [[sweep]] tables"),
    "sweep is a table": (DATA + "[sweep]\nmethods = ['pdac']", "sweep is a table; expected [[sweep]] tables"),
    "sweep holds numbers": ("sweep = [1]\n" + DATA, "[[sweep]] is 1; expected a table"),
    "command is a list": (DATA + SWEEP + "command = ['train-cl']", "command is ['train-cl']; expected a text"),
    "command is a table": (DATA + SWEEP + "command = {a = 1}", "command is a table; expected a text"),
    "command is a number": (DATA + SWEEP + "command = 1", "command is 1; expected a text"),
    "command is unknown": (DATA + SWEEP + "command = 'fit'", "'fit' is not known; expected one of: train-cl, compare"),
    "sweep without methods": (DATA + "[[sweep]]\nbudget = [30]", "has no methods; expected a list of methods"),
    "sweep's methods are none": (DATA + "[[sweep]]\nmethods = []", "has no methods; expected a list of methods"),
    "sweep's methods are a text": (DATA + "[[sweep]]\nmethods = 'pdac'", "methods is 'pdac'; expected a list"),
    "sweep's methods are numbers": (DATA + "[[sweep]]\nmethods = [1]", "methods is 1; expected at most 100 letters"),
    "sweep's methods are lists": (DATA + "[[sweep]]\nmethods = [['pdac']]", "methods is ['pdac']; expected at most"),
    "sweep's methods are tables": (DATA + "[[sweep]]\nmethods = [{a = 1}]", "methods is a table; expected at most"),
    "a method twice": (DATA + "[[sweep]]\nmethods = ['pdac', 'pdac']", "expected a list of methods, each once"),
    "an axis is unknown": (DATA + SWEEP + "budgets = [1]", "'budgets' is not known; expected one of: command, methods"),
    "an axis is a table": (DATA + SWEEP + "lr = {a = 1}", "lr is a table; expected a number"),
    "an axis holds lists": (DATA + SWEEP + "lr = [[0.1]]", "lr is [0.1]; expected a number"),
    "an axis is empty": (DATA + SWEEP + "lr = []", "expected values, each once"),
    "an axis has a value twice": (DATA + SWEEP + "lr = [0.1, 0.1]", "lr is [0.1, 0.1]; expected values, each once"),
    "an axis has thousands": (DATA + SWEEP + f"dim = {list(range(1, 3000))}", "dim has 2,999 values; expected at most"),
    "axes multiply": (DATA + SWEEP + "".join(f"{o} = {list(range(1, 999))}\n" for o in ("dim", "components", "epochs")),
                      "runs; expected at most 20,000"),
    "compare without a budget": (TESTED + "[[sweep]]\ncommand = 'compare'\nmethods = ['pdac']", "has no budget"),
    "a run is defined twice": (GOOD + "[[sweep]]\nmethods = ['uniform']\nbudget = [20]", "is defined twice"),
    "a run's name is long": (GOOD + f"[[sweep]]\nmethods = ['uniform']\nclass_order = '{'1,' * 300}2'", "shorter name"),
    "plot is a number": ("plot = 1\n" + GOOD, "plot is 1; expected [[plot]] tables"),
    "plot is a table": (GOOD + "[plot]\nx = 'budget'", "plot is a table; expected [[plot]] tables"),
    "plot holds lists": ("plot = [['x']]\n" + GOOD, "[[plot]] is ['x']; expected a table"),
    "plot has an unknown key": (GOOD + "[[plot]]\ncolour = 1", "[[plot]]: 'colour' is not known"),
    "plot's x is a list": (GOOD + "[[plot]]\nx = ['budget']\ny = 'acc'", "x is ['budget']; expected a text"),
    "plot has no x": (GOOD + "[[plot]]\ny = 'acc'", "x is ''; expected a text"),
    "plot's x is no axis": (GOOD + "[[plot]]\nx = 'lr'\ny = 'acc'", "x: 'lr' is not known; expected one of: step, budget"),
    "plot's y is no measure": (GOOD + "[[plot]]\nx = 'budget'\ny = 'bcc'", "y: 'bcc' is not known; expected one of: acc"),
    "plot's x is no number": (GOOD + "[[sweep]]\nmethods = ['pdac']\nsetting = 'offline'\n[[plot]]\nx = 'setting'\ny = 'acc'",
                              "a value of which is 'offline'; expected numbers"),
    "plot's by is no axis": (GOOD + "[[plot]]\nx = 'budget'\ny = 'acc'\nby = 'lr'", "by: 'lr' is not known"),
    "a curve over steps without likelihoods": (GOOD + "[[plot]]\nx = 'step'\ny = 'log_likelihood'", "among the measures"),
    "small is a number": ("small = 1\n" + GOOD, "[small] is 1; expected a table"),
    "small's seeds are a list": (GOOD + "[small]\nseeds = [1]", "seeds is [1]; expected a whole number"),
    "small's options are a list": (GOOD + "[small]\noptions = [1]", "options is [1]; expected a table"),
    "small's options are wrong": (GOOD + "[small.options]\ndim = 'x'", "dim is 'x'; expected a whole number"),
    "small's sweep is a list of tables": (GOOD + "[[small.sweep]]\nbudget = 1", "sweep is a list of 1; expected a table"),
    "small's axis is a table": (GOOD + "[small.sweep]\nbudget = {a = 1}", "budget is a table; expected a whole number"),
    "small's data are unknown": (GOOD + "[small.data.b]\ndim = 1", "'b' is not known; expected one of: a"),
    "small's data hold a number": (GOOD + "[small.data]\na = 1", "a is 1; expected a table"),
}  # fmt: skip


def checked(options):
    """What happens before anything runs."""
    definition = load(options)
    units, _ = units_of(definition, options)
    check_units(definition, units)
    check_tested(definition, units)
    return definition, units


def test_the_definition_that_the_others_spoil_is_good(tmp_path):
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    definition, units = checked(ExperimentOptions(definition=path))
    assert len(units) == 2 * 2 * 3
    assert definition.measures == ("acc", "fm", "s")
    assert len(MALFORMED) >= 75


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_definition_gets_one_line(pdac, tmp_path, monkeypatch, case):
    content, words = MALFORMED[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text(content)
    result = pdac("experiment", "bad.toml", "-o", "out")
    assert words in result.err
    assert len(result.err.splitlines()) == 1
    assert "expected" in result.err
    assert "bad" in result.err
    assert len(result.err) < 1500
    assert result.code == (3 if "is not TOML" in result.err else 2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("change", "words"), [
    (f"budget={DEEP}", "budget is '[[[["),
    ("budget=[[1]]", "budget is [1]; expected a whole number"),
    ("budget={a={b={c=1}}}", "budget is a table; expected a whole number"),
    ("a.b.c.d=1", "--set: 'a.b.c.d' is not known"),
    (f"{LONG}=1", "is not known"),
    ("budget=1\nx = 2", r"budget is '1\nx = 2'; expected a whole number"),
    (f"budget={HUGE}", "budget is a number of 1,329 bits"),
    (f"budget={'9' * 5000}", "expected a whole number"),
    ("budget=0x" + "f" * 20_000, "budget is a number of 80,000 bits"),
    ("methods=['pdac']", "--set: 'methods' is not known"),
    ("command='compare'", "--set: 'command' is not known"),
    ("method='pdac'", "--set: 'method' is not known"),
    ("seeds=3", "--set: 'seeds' is not known"),
    ("temperature=nan", "temperature is nan; expected a finite number"),
])  # fmt: skip
def test_a_change_that_cannot_be_meant_gets_one_line(pdac, tmp_path, monkeypatch, change, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text(GOOD)
    result = pdac("experiment", "good.toml", "--set", change)
    assert result.code == 2, result.err
    assert words in result.err
    assert len(result.err.splitlines()) == 1


def test_many_values_are_answered_at_once(tmp_path):
    path = tmp_path / "many.toml"
    path.write_text(GOOD.replace("[10, 20]", str(list(range(1, 60_000)))))
    start = time.perf_counter()
    with pytest.raises(UsageError, match="budget has 59,999 values; expected at most 1,000"):
        checked(ExperimentOptions(definition=path))
    assert time.perf_counter() - start < 10  # it never came in 40 s; a loaded machine gets its share


def test_as_many_runs_as_are_allowed_are_checked_one_by_one(tmp_path):
    path = tmp_path / "many.toml"
    path.write_text("seeds = 10\n" + GOOD.replace("[10, 20]", str(list(range(1, 1001)))))
    _, units = checked(ExperimentOptions(definition=path))
    assert len(units) == 20_000


def test_the_papers_rule_needs_no_number_of_tasks(tmp_path):
    path = tmp_path / "paper.toml"
    path.write_text(GOOD + "[options]\npreset = 'paper'\nwindow = 5\n")
    _, units = checked(ExperimentOptions(definition=path))
    found = units[-1].train_options(tmp_path, "cpu", ExperimentOptions(definition=path).run)
    assert (found.preset, found.tasks, found.allocation.value, found.eviction.value) == (None, None, "joint", "paper")
    assert (found.acceptance.value, found.window, found.step_rows) == ("paper", 5, 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates()
    | st.sampled_from(["acc", "pdac", "uniform", "none", "joint", "compare", "storage", "train-cl", "paper", "a", 10**50]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
KEYS = ["title", "measures", "reference", "seeds", "data", "options", "methods", "sweep", "plot", "small"]
INNER = st.dictionaries(
    st.sampled_from([
        "path", "test", "classes", "rows", "pixels", "options", "command", "methods", "budget", "lr", "dim", "x", "y",
        "by", "panel", "a", "pdac", "preset", "resize", "seeds", "sweep", "data", "imbalance", "setting", "features",
    ]),
    VALUES,
    max_size=5,
)  # fmt: skip
PARTS = (
    VALUES | INNER | st.lists(INNER, max_size=3) | st.dictionaries(st.sampled_from(["a", "pdac"]), INNER, max_size=2)
)
BASE = {
    "data": {"a": {"path": "x.h5"}},
    "sweep": [{"methods": ["uniform", "pdac"], "budget": [10, 20]}],
}


@settings(max_examples=400, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), PARTS, max_size=4), st.booleans(), st.sampled_from(Scale))
def test_whatever_a_definition_holds_it_is_used_or_refused(monkeypatch, tmp_path, content, based, scale):
    raw = {**BASE, **content} if based else content
    monkeypatch.setattr("pdac_cli.commands.experiment.reading.tomllib.loads", lambda text: raw)
    path = tmp_path / "any.toml"
    path.write_text("anything")
    said = "used"
    try:
        checked(ExperimentOptions(definition=path, scale=scale))
    except (UsageError, DataError) as problem:
        said = str(problem)
    assert 0 < len(said) < 2000
