"""What a definition may say: its keys, the options of each command, what each measures, and how much of anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.declare import declared
from pdac_cli.options.heads import Classifier, TrialOptions
from pdac_cli.options.methods import MethodOptions, OwnOptions
from pdac_cli.options.select import DrawOptions
from pdac_cli.options.shared import DensityOptions
from pdac_cli.options.train_cl import LearningOptions, Preset, TrainOptions

NONE = "none"  # how a definition says that an option is left out
TRAIN, COMPARE, STORAGE, HEADS = "train-cl", "compare", "storage", "heads"
TOP = ("title", "measures", "reference", "seeds", "data", "options", "methods", "sweep", "plot", "small")
DATA = ("path", "test", "classes", "rows", "pixels", "options")
PLOT = ("x", "y", "by", "panel")
SMALL = ("seeds", "options", "sweep", "data")
SWEEP = ("command", "methods")  # beside the axes
METHOD = "method"  # the option by which [methods.LABEL] says what it is a variant of
STEP, LIKELIHOOD = "step", "log_likelihood"  # what curves over EM steps have as x and y
# What another run measures otherwise.
SECONDS = ("selection_seconds", "run_minutes", "training_seconds", "seconds", "peak_mib")
LINEAR = "linear"  # the mean of the logistic and the ridge head
TRIAL_HEADS = (LINEAR, *(kind.value for kind in Classifier))
ROWS = "rows"  # a class: the axis that a head-to-head makes of the budgets of one trial
MEASURES: Mapping[str, tuple[str, ...]] = {
    TRAIN: ("acc", "fm", "s", f"{LIKELIHOOD}@STEP", *SECONDS[:3]),
    COMPARE: ("accuracy", "coverage", "mean_log_density", "radius", SECONDS[3], "mean_distance", "suspects"),
    STORAGE: ("model_mib",),
    HEADS: (*TRIAL_HEADS, "kept", *SECONDS[3:]),
}
DEFAULT_MEASURES = {TRAIN: ("acc", "fm", "s"), COMPARE: ("accuracy",), STORAGE: ("model_mib",), HEADS: TRIAL_HEADS}

# More than any sweep needs: beyond these a definition is a mistake, and an answer would take hours or the memory.
MOST_SEEDS = 1_000
MOST_VALUES = 1_000  # of a list
MOST_RUNS = 20_000
MOST_BYTES = 1 << 20  # of a definition
MOST_LETTERS = 4_096  # of a text
MOST_NAME = 100  # letters of a name
MOST_RUN_NAME = 200  # bytes of a run's folder name; file systems have 255
LARGEST: Mapping[str, int] = {
    "width": 4_096, "resize": 4_096, "pixels": 4_096, "batch": 1 << 20, "replay_batch": 1 << 20, "classes": 10_000_000,
}  # fmt: skip

Hint = Any


def _hints(kind: type, left_out: Iterable[str]) -> dict[str, Hint]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind) if item.name not in left_out}


DENSITY = _hints(DensityOptions, ())
DRAW = _hints(DrawOptions, ())
LEARNING = _hints(LearningOptions, ("init", "device"))
SETTINGS = {one.name: one.hint for one in declared(MethodOptions)}
OWN = {one.name: one.hint for one in declared(OwnOptions) if one.name not in SETTINGS}
_OWN = ("data", "test", "output", "compare", "presets", "methods", "reference", "seeds", "seed", "resume", "download",
        "learners", "learning", "draw", "density", "settings", "own", "run", "given")  # fmt: skip
RUN = {**_hints(TrainOptions, _OWN), "preset": Preset | None}
_NOT_CHOICE = ("given", "input", "budgets", "methods", "seeds", "seed", "test", "output", "limit", "draw", "density",
               "run", "curve", "per_class", "classifier", "reach", "plot")  # fmt: skip
CHOICE = {"budget": int, **_hints(CompareOptions, _NOT_CHOICE)}
TRIAL = _hints(TrialOptions, ())
OPTIONS: Mapping[str, Mapping[str, Hint]] = {
    TRAIN: {**RUN, **DRAW, **LEARNING, **DENSITY, **SETTINGS, **OWN, METHOD: str},
    COMPARE: {**CHOICE, **DRAW, **DENSITY, METHOD: str},
    HEADS: {
        **TRIAL,
        "allocation": CHOICE["allocation"],
        "temperature": float,
        **DRAW,
        **DENSITY,
        **{one.name: one.hint for one in declared(OwnOptions)},
        METHOD: str,
    },
    STORAGE: {"dim": int, "components": int, "features": int, METHOD: str},
}
