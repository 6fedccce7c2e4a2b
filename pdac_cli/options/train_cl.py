"""`pdac train-cl`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require, require_seed
from pdac_cli.options.extract import Amp
from pdac_cli.options.select import Allocation, Eviction
from pdac_cli.options.shared import DensityOptions, RunOptions
from pdac_cli.options.stream import Acceptance, MethodOptions, StreamDensityOptions, StreamOptions


class Setting(StrEnum):
    """When a continual run chooses what to keep, and how often it sees a task."""

    OFFLINE = "offline"  # several epochs, selection after each task
    RELAXED = "relaxed"  # several epochs, selection batch by batch in the first
    ONLINE = "online"  # one epoch, selection batch by batch


class Preset(StrEnum):
    """The paper's protocols, and its rules."""

    PAPER = "paper"  # the rules as printed
    CIFAR10 = "cifar10"
    CIFAR100 = "cifar100"
    TINYIMAGENET = "tinyimagenet"


OFFLINE_METHODS = ("least-error", "uniform")  # compared when no method is named
STREAM_METHODS = ("spdac", "er")
PAPER_OFFLINE = ("pdac", "uniform")
PAPER_RULE = {"allocation": "joint", "eviction": "paper", "acceptance": "paper", "window": 0, "step_rows": 1}
PRESET_TASKS = {Preset.CIFAR10: 5, Preset.CIFAR100: 10, Preset.TINYIMAGENET: 10}


@dataclass(frozen=True)
class LearningOptions:
    """How the network learns; the defaults are the paper's."""

    epochs: int | None = None  # per task; None: 10, or 1 in the online setting
    lr: float = 0.03
    batch: int = 32
    replay_batch: int = 32
    width: int | None = None  # of the ResNet18's first stage; None: 64, ResNet18 proper, or 8 for tiny images
    hidden: int = 0  # units between features and classes, where the input is features; 0: a linear head
    pad: int | None = None  # pixels of a random crop's frame; None: an eighth of the image
    flip: bool | None = None  # mirror at random; None: colour images only
    resize: tuple[int, ...] | None = None
    init: Path | None = None  # checkpoint to start from
    device: str = "auto"
    amp: Amp = Amp.OFF
    channels_last: bool = False

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require(self.epochs is None or self.epochs >= 1, f"--epochs is {self.epochs}; expected at least 1")
        require(0 < self.lr < float("inf"), f"--lr is {self.lr}; expected a number above 0")
        require(self.batch >= 1, f"--batch is {self.batch}; expected at least 1")
        require(self.replay_batch >= 0, f"--replay-batch is {self.replay_batch}; expected 0 or more")
        require(self.width is None or self.width >= 1, f"--width is {self.width}; expected at least 1")
        require(self.hidden >= 0, f"--hidden is {self.hidden}; expected 0 or more")
        require(self.pad is None or self.pad >= 0, f"--pad is {self.pad}; expected 0 or more pixels")


@dataclass(frozen=True)
class TrainOptions:
    """``pdac train-cl``."""

    data: tuple[str, ...]  # images (a file, a folder, cifar10:PATH …) or feature files
    test: str | None = None  # None: the data's own test part, else rows held out
    output: Path | None = None  # run folder; None: runs/NAME, numbered
    setting: Setting = Setting.OFFLINE
    preset: Preset | None = None  # a protocol
    paper: bool = False  # compare the paper's methods where none is named
    tasks: int | None = None  # None: two classes each, at most five tasks
    class_order: str = "natural"  # or random, or labels in order: 3,1,4
    budget: int = 200  # 0: no replay
    imbalance: float | None = None  # share of its rows that a task's last class keeps
    methods: tuple[str, ...] = ()  # empty: the best one known and the uniform one
    seeds: int = 3
    seed: int = 0
    rescore: bool = False  # score stored rows anew, with the current network
    resume: bool = False
    download: bool = False
    allocation: Allocation | None = None  # None: the method's own
    temperature: float = 1.0
    eviction: Eviction = Eviction.RELATIVE
    acceptance: Acceptance = Acceptance.DENSITY
    window: int = StreamOptions.window  # streams: rows of its class that a row is compared with
    beta: float = StreamDensityOptions.beta  # streams: step of the mixture's moving averages
    step_rows: int = StreamDensityOptions.step_rows  # streams: rows of a class from update to update
    rows_per_class: int | None = None  # to learn from; None: all
    learning: LearningOptions = field(default_factory=LearningOptions)
    density: DensityOptions = field(default_factory=DensityOptions)
    settings: MethodOptions = field(default_factory=MethodOptions)
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(self.seeds >= 1, f"--seeds is {self.seeds}; expected at least 1")
        require(self.budget >= 0, f"--budget is {self.budget}; expected 0 or more rows to keep")
        require(self.tasks is None or self.tasks >= 1, f"--tasks is {self.tasks}; expected at least 1")
        require(
            self.imbalance is None or 0 < self.imbalance <= 1,
            f"--imbalance is {self.imbalance}; expected a share above 0 and at most 1, such as 0.05",
        )
        require(len(set(self.methods)) == len(self.methods), "--method names a method twice; expected each once")
        StreamDensityOptions(beta=self.beta, step_rows=self.step_rows)
        require(self.window >= 0, f"--window is {self.window}; expected 0 or more rows")
        require(
            self.rows_per_class is None or self.rows_per_class >= 2,
            f"--rows-per-class is {self.rows_per_class}; expected at least 2",
        )
        offline = self.setting is Setting.OFFLINE
        require(not self.rescore or offline, "--rescore is for --setting offline; a stream scores rows as they come")
        single = self.setting is not Setting.ONLINE or self.learning.epochs in (None, 1)
        require(single, "--epochs is more than 1 in the online setting; expected 1; use --setting relaxed")
