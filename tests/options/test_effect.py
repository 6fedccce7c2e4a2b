"""An option that has no effect on a run is refused, in every verb, and says what it belongs to."""

import dataclasses

import pytest

from pdac_cli.cli.verbs import VERBS
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.declare import build, declared
from pdac_cli.options.effect import idle_options
from pdac_cli.options.methods import ABOUT, MethodOptions, OwnOptions
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import RunOptions
from pdac_cli.options.train_cl import TrainOptions
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.methods import METHODS

SELECT, STREAM = ["select", "f.h5", "-n", "5"], ["stream", "f.h5", "-n", "5", "-o", "b.json"]
COMPARE, TRAIN = ["compare", "f.h5", "-n", "5"], ["train-cl", "f.h5"]
EXTRACT = ["extract", "--data", "f.h5", "-o", "g.h5", "--checkpoint", "c.pt"]
ONLINE = [*TRAIN, "--setting", "online"]
PDAC = "the method pdac"
CLASS, FIT = "--density class", "the fit, and --model is fitted already: give it to pdac fit"

# (command, idle options, what they belong to)
IDLE = [
    (SELECT, ["--dim", "3"], CLASS),
    (SELECT, ["--ridge", "0.1", "--components", "3", "--tol", "0.1", "--iterations", "2", "--solver", "exact"], CLASS),
    (SELECT, ["--device", "cpu"], CLASS),
    (SELECT, ["--scratch", ".", "--unit", "1M", "--worker-timeout", "9"], "a cluster: --scheduler"),
    ([*SELECT, "--workers", "2"], ["--tls-ca-file", "a", "--tls-cert", "b", "--tls-key", "c"], "a running scheduler"),
    ([*SELECT, "--model", "m.h5"], ["--ridge", "0.1", "--dim", "3", "--components", "2", "--no-normalize"], FIT),
    ([*SELECT, "--model", "m.h5"], ["--normalize"], FIT),
    ([*SELECT, "--model", "m.h5", "--density", "class"], ["--dim", "3"], FIT),
    ([*SELECT, "--method", "herding"], ["--temperature", "0.5"], PDAC),
    ([*SELECT, "--method", "herding"], ["--temperature", "1"], PDAC),  # the default, but it was given
    ([*SELECT, "--method", "uniform"], ["--ridge", "0.1", "--density", "class", "--steer", "3"], PDAC),
    ([*SELECT, "--method", "uniform"], ["--model", "m.h5"], PDAC),
    ([*SELECT, "--steer", "0"], ["--steer-by", "mean"], "a steered draw"),
    (SELECT, ["--bandwidth", "2"], "the method maxherding"),
    (SELECT, ["--neighbours", "2"], "the methods typiclust and teal"),
    (SELECT, ["--eviction", "relative"], "--buffer"),
    ([*SELECT, "--buffer", "b.json", "--method", "herding"], ["--eviction", "inverse"], "the methods pdac, hardest"),
    (SELECT, ["--head"], "the methods hardest, highest-prob, ocs and gcr"),
    ([*COMPARE, "--methods", "uniform,herding"], ["--temperature", "0.5", "--steer", "2"], PDAC),
    ([*COMPARE, "--methods", "herding,kcenter"], ["--seeds", "3"], "the methods pdac, uniform, kmeans"),
    ([*COMPARE, "--methods", "uniform"], ["--head"], "the methods hardest"),
    ([*COMPARE, "--methods", "uniform"], ["--rounds", "3"], "the method csrel"),
    (STREAM, ["--window", "3", "--beta", "0.1", "--dim", "3", "--solver", "sketch", "--model", "m.h5"], CLASS),
    ([*STREAM, "--density", "class"], ["--steer", "3"], "--density relative"),
    ([*STREAM, "--preset", "paper"], ["--window", "3"], "--allocation per-class"),
    ([*STREAM, "--method", "er"], ["--window", "3", "--temperature", "0.5", "--preset", "paper"], "the method spdac"),
    (STREAM, ["--gradient-batches", "3"], "the method gss"),
    (STREAM, ["--candidates", "3"], "the methods er-mir and aser"),
    (STREAM, ["--timeout", "3"], "--follow"),
    (TRAIN, ["--iterations", "3", "--dim", "3"], CLASS),
    (TRAIN, ["--window", "3", "--acceptance", "paper"], "the method spdac"),
    (TRAIN, ["--gradient-batches", "3"], "the method gss"),
    ([*TRAIN, "--method", "uniform"], ["--temperature", "0.5"], "the methods pdac and spdac"),
    ([*TRAIN, "--method", "uniform"], ["--normalize"], PDAC),
    ([*TRAIN, "--method", "uniform"], ["--rescore", "--density", "class"], PDAC),
    ([*TRAIN, "--method", "herding"], ["--eviction", "paper"], "the methods pdac, hardest"),
    ([*TRAIN, "--method", "er", "--setting", "relaxed"], ["--temperature", "0.5"], "the methods pdac and spdac"),
    ([*TRAIN, "--method", "uniform"], ["--reference", "uniform"], "two methods or more"),
    ([*TRAIN, "--budget", "0"], ["--replay-batch", "3", "--steer", "3", "--dim", "3"], "a replay buffer"),
    (TRAIN, ["--download"], "a data set by its name"),
    (ONLINE, ["--eviction", "paper", "--steer-by", "mean", "--normalize"], "--setting offline"),
    (ONLINE, ["--allocation", "joint"], "the method spdac with --density class"),
    ([*ONLINE, "--density", "class"], ["--steer", "3"], "--density relative"),
    ([*TRAIN, "--compare"], ["--budget", "3", "-o", "x", "--force", "--jobs", "2"], "a run, and --compare"),
    (EXTRACT, ["--download"], "a data set by its name"),
    (["experiment", "--list"], ["--preset", "table1", "--plan", "-o", "x"], "an experiment, and --list"),
]  # fmt: skip
IDS = [" ".join([*command, *idle]) for command, idle, _ in IDLE]
# The run's own and what is said in case of need is always allowed, so that scripts can give it to every call.
ALWAYS = {"seed", "strict", "force", "json", "quiet", "verbose", "jobs", "memory", "chunk_rows", "ignore_label",
          "drop_nonfinite", "allow_external", "skip_bad"}  # fmt: skip


@pytest.mark.parametrize(("command", "idle", "to"), IDLE, ids=IDS)
def test_an_option_without_effect_is_refused_with_what_it_belongs_to(pdac, command, idle, to):
    result = pdac(*command, *idle)
    first = next(part for part in idle if part.startswith("-"))
    assert result.code == 2, result.err
    assert " no effect on this run; " in result.err
    assert f"to {to}" in result.err
    assert first.replace("-o", "--output") in result.err
    assert len(result.err.splitlines()) == 1


def test_all_that_belong_to_the_same_are_named_at_once(pdac):
    err = pdac(*SELECT, "--model", "m.h5", "--ridge", "0.1", "--dim", "3", "--no-normalize").err
    names = "--dim, --ridge and --no-normalize"
    assert err == f"error: {names} have no effect on this run; they belong to {FIT}; leave them out\n"


@pytest.mark.parametrize("given", [
    {"density_kind": "class", "dim": 3, "device": "cpu"},
    {"method": "typiclust", "neighbours": 3},
    {"buffer": "b.json", "eviction": "relative"},
    {"model": "m.h5", "temperature": 0.5, "steer": 2.0},
    {"preset": "paper", "method": "uniform"},
    {"preset": "paper", "dim": 3},
    {"method": "ocs", "head": True},
])  # fmt: skip
def test_an_option_with_an_effect_is_taken(given):
    from pdac_cli.options.select import DensityKind

    if "density_kind" in given:
        given = {**given, "density_kind": DensityKind(given["density_kind"])}
    assert build(SelectOptions, {"budget": 5, **given}).given == {"budget", *given}


def test_what_is_not_given_is_never_refused():
    assert idle_options(SelectOptions(budget=5, method="uniform", temperature=0.5)) == []
    build(CompareOptions, {"budgets": (5,), "methods": ("uniform",)})
    build(TrainOptions, {"presets": ("paper",), "methods": ("uniform",)})  # what a preset implies is not given


def test_what_help_says_of_methods_is_what_they_do():
    """The facts by which options are refused are those of the table of methods."""
    assert {name for name, about in ABOUT.items() if about.random} == {n for n, m in METHODS.items() if m.random}
    weighed = {name for name, method in METHODS.items() if method.evict in (Evict.DENSITY, Evict.SCORE)}
    assert {name for name, about in ABOUT.items() if about.weighs} == weighed
    assert {name for name, about in ABOUT.items() if about.logits} == {n for n, m in METHODS.items() if m.needs_logits}
    assert [name for name, method in METHODS.items() if method.needs_density] == ["pdac"]


@pytest.mark.parametrize("kind", [OwnOptions, MethodOptions])
def test_a_method_owns_what_stands_under_its_name(kind):
    for item in dataclasses.fields(kind):
        for one in declared(item.metadata["group"].kind):
            found = next(each for each in declared(kind) if each.name == one.name)
            assert item.name.replace("_", "-") in found.about.owners


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_the_runs_own_options_are_always_allowed(verb):
    for one in verb.declared():
        if one.name in ALWAYS or one.name in {item.name for item in dataclasses.fields(RunOptions)} - {"device"}:
            assert not one.about.applies, one.label
