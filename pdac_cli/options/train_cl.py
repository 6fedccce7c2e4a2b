"""`pdac train-cl`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pdac_cli.errors import UsageError
from pdac_cli.options.checks import Options, did_you_mean, require
from pdac_cli.options.declare import Applies, Panel, group, option
from pdac_cli.options.effect import Reduced, used_by
from pdac_cli.options.extract import Amp, amp_option, device_option, download_option
from pdac_cli.options.heads import HeadLearner
from pdac_cli.options.methods import ABOUT, DRAWN, MethodOptions, OwnOptions, StreamMethod
from pdac_cli.options.select import (
    BY_CLASS,
    DRAWS,
    STEERED,
    WEIGHED,
    Allocation,
    DensityKind,
    DrawOptions,
    Eviction,
    temperature_option,
)
from pdac_cli.options.shared import DensityOptions, RunOptions, Units, VerbOptions, seed_option
from pdac_cli.options.stream import (
    SPDAC,
    STREAM_STEER,
    Acceptance,
    Updates,
    acceptance_option,
    beta_option,
    step_rows_option,
    updates_option,
    window_option,
)
from pdac_cli.options.text import parse_size


class Setting(StrEnum):
    """When a continual run chooses what to keep, and how often it sees a task."""

    OFFLINE = "offline"  # several epochs, selection after each task
    RELAXED = "relaxed"  # several epochs, selection batch by batch
    ONLINE = "online"  # one epoch, selection batch by batch


class Feed(StrEnum):
    """Which passes over a task a stream feeds its buffer, densities and counters from."""

    ALL = "all"  # as the public ER code does, and as the times of the paper's table 4 imply
    FIRST = "first"  # every row is offered once


class KmeansOf(StrEnum):
    """What k-means compares of images."""

    FEATURES = "features"  # penultimate: "of Embeddings" in the original code
    INPUTS = "inputs"  # pixels: "of Features" there, and in the paper


class Preset(StrEnum):
    """The paper's protocols, and its rules."""

    PAPER = "paper"  # the rules as printed
    CIFAR10 = "cifar10"
    CIFAR100 = "cifar100"
    TINYIMAGENET = "tinyimagenet"


OFFLINE_METHODS = (DRAWN, "uniform")  # compared when no method is named
STREAM_METHODS = ("spdac", "er")
REFERENCE_METHODS = ("uniform", "er")  # they draw uniformly: what others are compared with
PAPER_RULE: Mapping[str, Any] = {
    "density_kind": DensityKind.CLASS, "steer": 0.0, "normalize": False, "rescore": True,
    "units": Units.ABSOLUTE, "allocation": Allocation.JOINT, "eviction": Eviction.PAPER,
    "acceptance": Acceptance.PAPER, "window": 0, "step_rows": 1, "updates": Updates.PRINTED,
}  # fmt: skip
DEFAULT_EPOCHS = 10
PROPER_WIDTH = 64  # of the ResNet18's first stage
TINY_WIDTH, TINY_PIXELS = 8, 16  # and of images below so many pixels
_IS_OFFLINE = Applies("--setting offline", lambda options: options.setting is Setting.OFFLINE)
_BY_DENSITY = used_by(DRAWN, StreamMethod.SPDAC)
_REPLAYS = Applies("a replay buffer, and --budget is 0", lambda options: options.budget > 0)
PRESET_TASKS = {Preset.CIFAR10: 5, Preset.CIFAR100: 10, Preset.TINYIMAGENET: 10}


@dataclass(frozen=True, kw_only=True)
class LearningOptions(Options):
    """How the network learns; the defaults are the paper's."""

    epochs: int | None = option(
        None, help="Epochs per task.", panel=Panel.NETWORK, minimum=1, otherwise=f"{DEFAULT_EPOCHS}, online 1"
    )
    lr: float = option(0.03, help="Step of plain SGD.", panel=Panel.NETWORK, above=0)
    batch: int = option(32, help="New rows per step.", panel=Panel.NETWORK, minimum=1)
    replay_batch: int = option(
        32, help="Rows of the buffer per step.", panel=Panel.NETWORK, minimum=0, applies=(_REPLAYS,)
    )
    width: int | None = option(
        None, help="Width of the ResNet18's first stage.", panel=Panel.NETWORK, minimum=1,
        otherwise=f"{PROPER_WIDTH}, ResNet18 proper; {TINY_WIDTH} below {TINY_PIXELS} pixels",
    )  # fmt: skip
    hidden: int = option(
        0, help="On features: units of a hidden layer; 0: a linear head.", panel=Panel.NETWORK, minimum=0
    )  # fmt: skip
    pad: int | None = option(
        None, help="Frame of random crops in pixels.", panel=Panel.NETWORK, minimum=0, expected="0 or more pixels",
        otherwise="an eighth of the image; presets: 4",
    )  # fmt: skip
    flip: bool | None = option(
        None, help="Mirror at random.", panel=Panel.NETWORK, flags=("--flip/--no-flip",),
        otherwise="colour images only",
    )  # fmt: skip
    resize: tuple[int, ...] | None = option(
        None, help="Resize images once, at the beginning.", panel=Panel.NETWORK, metavar="N|HxW", parse=parse_size
    )
    init: Path | None = option(
        None, help="Checkpoint of a ResNet18 to start from, but for its classifier.", panel=Panel.NETWORK
    )
    device: str = device_option()
    amp: Amp = amp_option()
    channels_last: bool = option(False, help="Memory format of images on a GPU.", panel=Panel.RESOURCES)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(VerbOptions):
    """``pdac train-cl``."""

    data: tuple[str, ...] = option(
        (), help="Images (a file, a folder per class, cifar10:PATH, cifar100:PATH, tinyimagenet:PATH) or feature "
        "files. With --compare: run folders.", panel=Panel.INPUT, argument=True, flags=("--data",), metavar="DATA",
    )  # fmt: skip
    test: str | None = option(
        None, help="Test data.", panel=Panel.INPUT, metavar="DATA",
        otherwise="the data's own test part, else a fifth of every class",
    )  # fmt: skip
    output: Path | None = option(
        None, help="Run folder.", panel=Panel.OUTPUT, flags=("--output", "-o"), otherwise="runs/NAME, numbered"
    )
    compare: bool = option(False, help="Tabulate the run folders given.", panel=Panel.OUTPUT)
    resume: bool = option(False, help="Go on with a run that was interrupted.", panel=Panel.OUTPUT)
    setting: Setting = option(
        Setting.OFFLINE, help="offline: choose after each task; relaxed, online: batch by batch.", panel=Panel.TASKS
    )
    presets: tuple[Preset, ...] = option(
        (), help="paper: the paper's rules as printed; cifar10, …: its tasks, width and augmentation.",
        panel=Panel.TASKS, flags=("--preset",), repeated=True,
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        (), help="A method of `pdac select`; streaming: of `pdac stream`, er-mir or metasp.", panel=Panel.KEEP,
        flags=("--method",), repeated=True, offered=tuple(dict.fromkeys([*ABOUT, *StreamMethod])),
        otherwise=f"{' and '.join(OFFLINE_METHODS)}; streaming: {' and '.join(STREAM_METHODS)}",
    )  # fmt: skip
    learners: tuple[HeadLearner, ...] = option(
        (HeadLearner.LINEAR,), help="linear: gradient steps with replay by each method; finetune: without replay; in "
        "closed form, no buffer, on features: ncm (nearest mean), slda, ridge, ranpac; joint: all rows at once.",
        panel=Panel.TASKS, flags=("--learner",), repeated=True,
    )  # fmt: skip
    random_features: int = option(
        2000, help="--learner ranpac: width of its random layer; its authors take 10000.", panel=Panel.NETWORK,
        minimum=1, maximum=50_000, expected="1 to 50,000 random features",
    )  # fmt: skip
    reference: str | None = option(
        None, help="What the other methods are compared with.", panel=Panel.TASKS, metavar="NAME",
        otherwise=f"{' or '.join(REFERENCE_METHODS)}",
        applies=(Applies("two methods or more", lambda options: options.compare or len(options.run_methods) > 1),),
    )  # fmt: skip
    budget: int = option(
        200, help="Rows to keep for replay; 0: no replay.", panel=Panel.KEEP, flags=("--budget", "-n"), minimum=0,
        expected="0 or more rows to keep",
    )  # fmt: skip
    tasks: int | None = option(
        None, help="Number of tasks.", panel=Panel.TASKS, minimum=1, otherwise="two classes each, at most five tasks"
    )
    class_order: str = option(
        "natural", help="natural, random (by seed), or labels: 3,1,4.", panel=Panel.TASKS, metavar="ORDER"
    )
    imbalance: float | None = option(
        None, help="Share of its rows that the last class of a task keeps, such as 0.05.", panel=Panel.TASKS,
        above=0, maximum=1, expected="a share above 0 and at most 1, such as 0.05",
    )  # fmt: skip
    feed: Feed = option(
        Feed.ALL, help="--setting relaxed: feed the buffer from every pass over a task, or from the first alone.",
        panel=Panel.TASKS, applies=(Applies("--setting relaxed", lambda options: options.setting is Setting.RELAXED),),
    )  # fmt: skip
    kmeans_of: KmeansOf = option(
        KmeansOf.FEATURES, help="kmeans on images: compare the network's features, or the images themselves.",
        panel=Panel.KEEP, applies=(_IS_OFFLINE, used_by("kmeans")),
    )  # fmt: skip
    probe: bool = option(
        False, help="Offline: record after epochs 1, 2, 4, 10, 20, … how densities go with the network's margins.",
        panel=Panel.OUTPUT,
    )  # fmt: skip
    rescore: bool = option(
        False, help="Score stored rows anew with the current network before eviction.", panel=Panel.KEEP,
        applies=(DRAWS,),
    )  # fmt: skip
    allocation: Allocation | None = option(
        None, help="How classes share the budget; streams have joint, too.", panel=Panel.KEEP,
        otherwise="the method's own",
        applies=(Applies(
            "the method spdac with --density class, or --setting offline",
            lambda options: _IS_OFFLINE.when(options) or (SPDAC.when(options) and BY_CLASS.when(options)),
        ),),
    )  # fmt: skip
    temperature: float = temperature_option(
        "Draw in proportion to density^T; 0: the density has no say, which pdac's default is on images.",
        (_BY_DENSITY,),
    )
    draw: DrawOptions = group(DrawOptions, help={
        "steer": f"How much a choice is steered by the rows kept already; 0: not at all; streams: {STREAM_STEER:g}.",
        "steer_by": "What a row is to help with. On images the error, on features the mean.",
    }, applies={
        "density_kind": (_BY_DENSITY,),
        "steer": (_BY_DENSITY, Applies(
            "--density relative",
            lambda options: _IS_OFFLINE.when(options) or not BY_CLASS.when(options) or options.draw.steer == 0,
        )),
        "steer_by": (_IS_OFFLINE, DRAWS, STEERED),
    })  # fmt: skip
    eviction: Eviction = option(
        Eviction.STEERED, help="Offline: which rows earlier tasks give up first.", panel=Panel.KEEP,
        applies=(_IS_OFFLINE, WEIGHED),
    )  # fmt: skip
    acceptance: Acceptance = acceptance_option((SPDAC, BY_CLASS))
    window: int = window_option(
        (SPDAC, BY_CLASS, Applies("--allocation per-class", lambda options: not options.is_joint))
    )
    beta: float = beta_option((SPDAC, BY_CLASS))
    step_rows: int = step_rows_option((SPDAC, BY_CLASS))
    updates: Updates = updates_option((SPDAC, BY_CLASS))
    rows_per_class: int | None = option(
        None, help="Learn from the first so many rows of every class.", panel=Panel.INPUT, minimum=2, otherwise="all"
    )
    download: bool = download_option(lambda options: (*options.data, options.test))
    seeds: int = option(3, help="How many seeds, from --seed on.", panel=Panel.TASKS, minimum=1)
    seed: int = seed_option()
    learning: LearningOptions = group(LearningOptions)
    density: DensityOptions = group(DensityOptions, leave_out=("tol", "solver"), applies={
        **dict.fromkeys(("dim", "components", "ridge", "units"), (_BY_DENSITY, BY_CLASS)),
        "iterations": (_IS_OFFLINE, DRAWS, BY_CLASS),
        "normalize": (_IS_OFFLINE, DRAWS),
    })  # fmt: skip
    settings: MethodOptions = group(MethodOptions)
    own: OwnOptions = group(OwnOptions, leave_out=("neighbours",))  # which streams have with another meaning
    run: RunOptions = group(RunOptions, leave_out=("memory", "device"))

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        super().__post_init__()
        require(len(set(self.methods)) == len(self.methods), "--method names a method twice; expected each once")
        require(
            len(set(self.learners)) == len(self.learners) > 0, "--learner names a learner twice; expected each once"
        )
        require(
            not self.methods or self.compare or HeadLearner.LINEAR in self.learners,
            "--method names what is kept for replay, and no --learner replays; expected --learner linear among them",
        )
        protocols = self._protocols()
        found = " and ".join(protocols)
        require(len(protocols) <= 1, f"--preset names {found}; expected one data set's protocol")
        offline = self.setting is Setting.OFFLINE
        require(not self.rescore or offline, "--rescore is for --setting offline; a stream scores rows as they come")
        require(not self.probe or offline, "--probe is for --setting offline; leave it out")
        scored = self.draw.density_kind is DensityKind.CLASS
        require(
            not self.rescore or scored,
            "--rescore scores stored rows by the densities of their classes; expected --density class with it",
        )
        single = self.setting is not Setting.ONLINE or self.learning.epochs in (None, 1)
        require(single, "--epochs is more than 1 in the online setting; expected 1; use --setting relaxed")
        for method in self.methods:
            _check_method(method, self.setting)
        if offline and DRAWN in self.compared_methods:
            self.draw.check(self.allocation)
        names = self.compared
        known = self.compare or self.reference is None or self.reference in names
        near = did_you_mean(str(self.reference), names)
        require(known, f"--reference is {self.reference!r}; expected one of the methods: {', '.join(names)}{near}")

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values of the paper's rules with their preset; a stream is steered less."""
        offline = given.get("setting", Setting.OFFLINE) == Setting.OFFLINE
        if Preset.PAPER in given.get("presets", ()):
            return PAPER_RULE if offline else {**PAPER_RULE, "rescore": False}
        return {} if offline else {"steer": STREAM_STEER}

    @property
    def run_methods(self) -> tuple[str, ...]:
        """The methods to run."""
        return self.compared_methods

    @property
    def is_joint(self) -> bool:
        """Whether all classes are drawn from at once."""
        return self.allocation is Allocation.JOINT

    def reduced(self) -> Reduced | None:
        """Return what is left of the options for a table of finished runs, and without a buffer."""
        if self.compare:
            return Reduced("a run, and --compare tabulates finished ones", lambda one: one.name not in _OF_TABLES)
        if self.budget == 0:
            return Reduced(_REPLAYS.to, lambda one: one.about.panel in _OF_BUFFERS and one.name not in _OF_RUNS)
        return None

    @property
    def preset(self) -> Preset | None:
        """The data set's protocol, where one is asked for."""
        return next(iter(self._protocols()), None)

    @property
    def compared_methods(self) -> tuple[str, ...]:
        """The methods to run: those named, else the best one known beside the one that draws uniformly."""
        if self.setting is not Setting.OFFLINE:
            return self.methods or STREAM_METHODS
        return self.methods or OFFLINE_METHODS

    @property
    def compared(self) -> tuple[str, ...]:
        """The rows of the table: the methods where the linear head learns with replay, and the other learners."""
        with_replay = self.compared_methods if HeadLearner.LINEAR in self.learners else ()
        return *with_replay, *(one.value for one in self.learners if one is not HeadLearner.LINEAR)

    def _protocols(self) -> list[Preset]:
        return [preset for preset in self.presets if preset is not Preset.PAPER]


_OF_TABLES = ("compare", "data", "reference", "json", "quiet", "verbose")  # of finished runs
_OF_BUFFERS = (Panel.KEEP, Panel.STREAMING, Panel.DENSITY)
_OF_RUNS = ("budget", "methods")  # among the former


def _check_method(method: str, setting: Setting) -> None:
    """Refuse a method that the setting does not have."""
    streaming = [one.value for one in StreamMethod]
    offline = setting is Setting.OFFLINE
    names = list(ABOUT) if offline else streaming
    if offline and method in streaming and method not in ABOUT:
        raise UsageError(f"--method {method} keeps rows batch by batch; expected --setting relaxed or online")
    if method not in names:
        found = f"--method is {method!r}{'' if offline else f' with --setting {setting.value}'}"
        raise UsageError(f"{found}; expected one of: {', '.join(names)}{did_you_mean(method, names)}")
