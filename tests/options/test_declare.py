"""Options as their fields declare them: ranges, texts, what is given, presets, and no construction by position."""

import dataclasses
import inspect
import re

import pytest

from pdac_cli.cli.verbs import VERBS
from pdac_cli.errors import UsageError
from pdac_cli.options.checks import did_you_mean, value_of
from pdac_cli.options.declare import build, declared
from pdac_cli.options.methods import ABOUT, ABOUT_STREAMING, LEAST_ERROR_CANDIDATES, MethodOptions, StreamMethod
from pdac_cli.options.select import Allocation, DensityKind, Eviction, SelectOptions
from pdac_cli.options.shared import DensityOptions, RunOptions
from pdac_cli.options.stream import Acceptance, StreamOptions
from pdac_cli.options.train_cl import Preset, Setting, TrainOptions
from pdac_cli.selection import least_error

GIVEN = {
    "budget": 5, "budgets": (5,), "output": "out.h5", "data": "x", "paths": ("f.h5",), "checkpoint": "c.pt",
    "preset": "table1", "file": "c.json", "shown": ("f.h5",),
}  # fmt: skip
OPTIONS = [(verb, one) for verb in VERBS.values() for one in verb.declared()]


def outside(one):
    """Values just outside an option's range."""
    about = one.about
    values = [None if about.minimum is None else about.minimum - 1, about.above]
    values += [None if about.maximum is None else about.maximum + 1, float("nan") if one.kind is float else None]
    return [value for value in values if value is not None]


RANGES = [(verb, one, one.kind(value)) for verb, one in OPTIONS for value in outside(one)]
TEXTS = [
    (verb, one) for verb, one in OPTIONS if not one.about.parse and (one.choices or one.kind in (int, float))
]  # fmt: skip


def groups_of(kind):
    """A class of options, and those of its groups."""
    inner = [item.metadata["group"].kind for item in dataclasses.fields(kind) if "group" in item.metadata]
    return {kind}.union(*map(groups_of, inner))


def required(verb):
    """Values for what a verb requires."""
    names = {one.name for one in verb.declared() if one.about.required}
    if verb.name == "extract":
        names.add("checkpoint")
    if verb.name == "experiment":
        names.add("preset")
    return {name: GIVEN[name] for name in names}


@pytest.mark.parametrize(
    ("verb", "one", "value"), RANGES, ids=[f"{verb.name} {one.label} {value}" for verb, one, value in RANGES]
)
def test_a_value_outside_its_range_names_flag_value_and_what_is_allowed(verb, one, value):
    with pytest.raises(UsageError) as found:
        build(verb.options, {**required(verb), one.name: (value,) if one.is_several else value})
    message = str(found.value)
    assert re.match(rf"{one.label} (is|has) {re.escape(str(value))}; expected ", message)
    assert message.endswith(f"expected {one.allowed()}")
    assert "\n" not in message


def test_there_are_ranges_and_every_number_without_one_is_meant():
    assert len(RANGES) > 80
    free = {one.label for _, one in OPTIONS if one.kind is int and one.about.minimum is None and not one.about.parse}
    assert free == {"--ignore-label"}


@pytest.mark.parametrize(("verb", "one"), TEXTS, ids=[f"{verb.name} {one.label}" for verb, one in TEXTS])
def test_a_text_that_is_no_number_or_choice_is_refused_with_what_is_allowed(verb, one):
    with pytest.raises(UsageError) as found:
        value_of(one, "@@")
    message = str(found.value)
    assert message.startswith(f"{one.label} is '@@'; expected ")
    assert one.allowed() in message


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_nothing_is_constructed_by_position(verb):
    for kind in groups_of(verb.options):
        assert dataclasses.fields(kind)
        assert all(item.kw_only for item in dataclasses.fields(kind)), kind
        assert kind.__dataclass_params__.frozen, kind
        positional = [one for one in inspect.signature(kind).parameters.values() if one.kind is not one.KEYWORD_ONLY]
        assert positional == []
    with pytest.raises(TypeError):
        DensityOptions(10)


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_a_name_and_a_flag_stand_for_one_option(verb):
    flags = [part for one in verb.declared() for flag in one.flags for part in flag.split("/")]
    assert sorted(flags) == sorted(set(flags))
    writes = set() if verb.name in ("inspect", "verify") else {"--force"}
    assert {"--json", "--quiet", "--verbose"} | writes <= set(flags)
    for item in dataclasses.fields(verb.options):  # what is no option is a group, or known not to be one
        assert item.metadata or (verb.name, item.name) in {(verb.name, "given"), ("valex", "density")}, item.name


def test_options_know_which_of_them_were_given():
    found = build(SelectOptions, {"budget": 5, "density_kind": DensityKind.CLASS, "dim": 3, "quiet": True})
    assert found.given == {"budget", "density_kind", "dim", "quiet"}
    assert (found.density.dim, found.run.quiet, found.density.components) == (3, True, DensityOptions.components)
    assert SelectOptions(budget=5).given == frozenset()
    assert dataclasses.replace(found, budget=6).given == found.given


def test_an_option_of_a_group_that_a_verb_leaves_out_is_not_set_by_another_of_its_name():
    found = build(TrainOptions, {"device": "cuda"})
    assert (found.learning.device, found.run.device) == ("cuda", None)
    assert "device" in {one.name for one in declared(RunOptions)}


@pytest.mark.parametrize(("given", "method"), [
    ({}, "pdac"),
    ({"density_kind": DensityKind.CLASS, "dim": 10}, "pdac"),
    ({"model": "m.h5"}, "pdac"),
    ({"steer": 0.0}, "pdac"),
    ({"allocation": Allocation.JOINT, "method": "herding"}, "herding"),
    ({"method": "least-error"}, "least-error"),
    ({"allocation": Allocation.BALANCED}, "pdac"),
    ({"preset": "paper"}, "pdac"),
    ({"preset": "paper", "method": "uniform"}, "uniform"),
])  # fmt: skip
def test_no_option_changes_the_method_but_its_own(given, method):
    assert build(SelectOptions, {"budget": 5, **given}).method == method


@pytest.mark.parametrize(("given", "refused"), [
    ({}, True), ({"steer": 0.0}, False), ({"method": "kcenter"}, False), ({"preset": "paper"}, False),
    ({"preset": "paper", "steer": 2.0}, True),
])  # fmt: skip
def test_a_steered_draw_over_all_classes_at_once_is_refused(given, refused):
    given = {"budget": 5, "allocation": Allocation.JOINT, **given}
    if not refused:
        assert build(SelectOptions, given).allocation is Allocation.JOINT
        return
    with pytest.raises(UsageError, match=r"--allocation joint .* expected --steer 0 with it, or --allocation balanced"):
        build(SelectOptions, given)


@pytest.mark.parametrize(("given", "method"), [
    ({}, StreamMethod.SPDAC), ({"batch": 3}, StreamMethod.SPDAC), ({"temperature": 0.5}, StreamMethod.SPDAC),
    ({"density_kind": DensityKind.CLASS, "window": 3}, StreamMethod.SPDAC),
    ({"batch": 5, "method": StreamMethod.ER}, StreamMethod.ER),
])  # fmt: skip
def test_no_option_changes_the_streaming_method(given, method):
    assert build(StreamOptions, {"budget": 5, "output": "b.json", **given}).method is method


def test_a_continual_stream_is_steered_as_a_stream():
    def steer(**given):
        return build(TrainOptions, {"data": ("x.h5",), **given}).draw.steer

    assert steer() == 30
    assert steer(setting=Setting.ONLINE) == steer(setting="relaxed") == StreamOptions(budget=1, output="b").steer == 10
    assert steer(setting=Setting.ONLINE, steer=3.0) == 3
    assert steer(setting=Setting.ONLINE, presets=(Preset.PAPER,)) == 0
    with pytest.raises(UsageError, match="--window has no effect on this run; it belongs to --density class"):
        steer(setting=Setting.ONLINE, window=3)


def test_a_preset_stands_for_options_and_those_that_are_given_stay():
    found = build(SelectOptions, {"budget": 5, "preset": "paper", "temperature": 0.5})
    assert (found.allocation, found.eviction, found.temperature) == (Allocation.JOINT, Eviction.PAPER, 0.5)
    assert (found.draw.density_kind, found.draw.steer, found.density.normalize) == (DensityKind.CLASS, 0, False)
    stream = build(StreamOptions, {"budget": 5, "output": "b.json", "preset": "paper", "step_rows": 9})
    assert (stream.acceptance, stream.density.step_rows) == (Acceptance.PAPER, 9)
    assert (stream.density_kind, stream.steer) == (DensityKind.CLASS, 0)
    train = build(TrainOptions, {"presets": (Preset.PAPER, Preset.CIFAR10), "dim": 5})
    assert (train.density.dim, train.step_rows, train.preset) == (5, 1, Preset.CIFAR10)
    assert train.compared_methods == ("pdac", "uniform")
    assert (train.draw.density_kind, train.draw.steer, train.density.normalize) == (DensityKind.CLASS, 0, False)
    assert train.rescore
    with pytest.raises(UsageError, match="cifar10 and cifar100; expected one"):
        build(TrainOptions, {"presets": (Preset.CIFAR10, Preset.CIFAR100)})


def test_a_method_owns_its_options():
    found = build(MethodOptions, {"candidates": 9, "neighbours": 2})
    assert found.of(StreamMethod.ASER) == {"candidates": 9, "neighbours": 2}
    assert found.of(StreamMethod.ER_MIR) == {"candidates": 9}
    assert found.of(StreamMethod.GSS) == {"gradient_batches": 10}
    assert found.of(StreamMethod.ER) == {}
    names = {item.name.replace("_", "-") for item in dataclasses.fields(MethodOptions)}
    assert names <= set(StreamMethod)
    assert set(ABOUT_STREAMING) == set(StreamMethod)


def test_the_cost_that_help_tells_is_that_of_the_code():
    assert least_error.CANDIDATES == LEAST_ERROR_CANDIDATES
    assert f"{LEAST_ERROR_CANDIDATES:,} x D" in ABOUT["least-error"].cost


@pytest.mark.parametrize(("word", "near"), [
    ("herdin", "; did you mean herding?"), ("Uniform", "; did you mean uniform?"), ("zzz", ""),
])  # fmt: skip
def test_the_nearest_name(word, near):
    assert did_you_mean(word, ABOUT) == near
