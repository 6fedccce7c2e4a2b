"""One frozen dataclass per command: the only copy of each default (standard library only)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.errors import UsageError


class Allocation(StrEnum):
    """How the budget is shared among classes."""

    PER_CLASS = "per-class"  # budget · p̂(y), drawn within the class
    BALANCED = "balanced"  # the same for every class
    JOINT = "joint"  # the paper: one draw over p̂(x|y) p̂(y)


class Eviction(StrEnum):
    """The weight with which an earlier task's stored row is given up, Eq. (11)."""

    RELATIVE = "relative"  # 1 − p̂/max p̂
    INVERSE = "inverse"  # 1/p̂
    PAPER = "paper"  # 1 − p̂, clipped at 0


class Solver(StrEnum):
    """How the top directions of Eq. (3) are found."""

    FAST = "fast"
    EXACT = "exact"


@dataclass(frozen=True)
class InputOptions:
    """Where the rows come from and what to do with rows that cannot be used."""

    paths: tuple[str, ...] = ()
    features_key: str | None = None  # None: found by its common names
    labels_key: str | None = None
    drop_nonfinite: bool = False
    ignore_label: int | None = None
    allow_external: bool = False
    chunk_rows: int | None = None  # rows read at once; None: from the memory bound. Never changes the answer.


@dataclass(frozen=True)
class DensityOptions:
    """The projected Gaussian mixture, Eqs. (1)–(9)."""

    dim: int = 10
    components: int = 7
    iterations: int = 20
    ridge: float = 1e-6  # times the class's mean projected variance
    tol: float | None = None  # None: run all iterations
    solver: Solver = Solver.FAST

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require(self.dim >= 1, f"--dim is {self.dim}; expected at least 1")
        require(self.components >= 1, f"--components is {self.components}; expected at least 1")
        require(self.iterations >= 0, f"--iterations is {self.iterations}; expected 0 or more")
        # Below this, rounding alone makes a covariance indefinite.
        require(1e-12 <= self.ridge < float("inf"), f"--ridge is {self.ridge}; expected a number of 1e-12 or more")
        require(self.tol is None or self.tol >= 0, f"--tol is {self.tol}; expected 0 or more, or leave it out")


@dataclass(frozen=True)
class RunOptions:
    """How the work is done; nothing here changes the answer."""

    memory: int | None = None  # bytes for the working set; None: a safe share of what the machine has
    jobs: int | None = None  # worker threads; None: the cores this process may use
    device: str | None = None  # torch device of the fit's products; None: NumPy
    quiet: bool = False
    verbose: bool = False
    json: bool = False
    force: bool = False  # overwrite the output

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        require(self.jobs is None or self.jobs >= 1, f"--jobs is {self.jobs}; expected at least 1")


@dataclass(frozen=True)
class FitOptions:
    """``pdac fit``."""

    input: InputOptions
    output: Path
    density: DensityOptions = field(default_factory=DensityOptions)
    run: RunOptions = field(default_factory=RunOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a seed that is not one."""
        require_seed(self.seed)


@dataclass(frozen=True)
class SelectOptions:
    """``pdac select``."""

    input: InputOptions
    budget: int
    output: Path | None = None  # None: one row index a line on standard output
    model: Path | None = None  # None: fit first
    method: str = "pdac"
    allocation: Allocation | None = None  # None: the method's own; per-class for pdac
    temperature: float = 1.0  # draw ∝ p̂^T
    buffer: Path | None = None
    task: int | None = None  # None: one more than the buffer's last
    eviction: Eviction = Eviction.RELATIVE
    strict: bool = False  # a budget larger than the data is an error
    density: DensityOptions = field(default_factory=DensityOptions)
    run: RunOptions = field(default_factory=RunOptions)
    seed: int = 0
    head: bool = False  # train a linear head where a method needs logits and the files have none

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(self.budget >= 1, f"--budget is {self.budget}; expected at least 1 row to keep")
        require(
            0 <= abs(self.temperature) < float("inf"),
            f"--temperature is {self.temperature}; expected a finite number (1: the paper, 0: uniform)",
        )
        require(self.task is None or self.task >= 1, f"--task is {self.task}; expected 1 or more")


class Split(StrEnum):
    """Which part of a dataset."""

    TRAIN = "train"
    TEST = "test"


class Amp(StrEnum):
    """Number type of a GPU's matrix products."""

    OFF = "off"
    BF16 = "bf16"
    FP16 = "fp16"


class StoredType(StrEnum):
    """Number type of features and logits on disk."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


@dataclass(frozen=True)
class PreprocessingOptions:
    """What is done to images; None: as the checkpoint's metadata says, else as is usual for the dataset."""

    mean: tuple[float, ...] | None = None  # on the scale 0 to 1, one per channel
    std: tuple[float, ...] | None = None
    resize: tuple[int, ...] | None = None  # one number: the shorter side; two: height and width
    crop: tuple[int, ...] | None = None  # of the centre, likewise

    def __post_init__(self) -> None:
        """Refuse sizes and scales that no image could have."""
        for name, size in (("resize", self.resize), ("crop", self.crop)):
            valid = size is None or (len(size) in (1, 2) and all(1 <= side <= 2**15 for side in size))
            require(valid, f"--{name} is {size}; expected one size in pixels, such as 224, or two, such as 224x288")
        for numbers in (self.mean, self.std):
            finite = numbers is None or (len(numbers) > 0 and all(abs(x) < float("inf") for x in numbers))
            require(finite, "--mean or --std is not finite; expected one number per channel, such as 0.49,0.48,0.45")
        require(self.std is None or min(self.std) > 0, f"--std is {self.std}; expected numbers above 0")


@dataclass(frozen=True)
class ExtractOptions:
    """``pdac extract``."""

    data: str  # a folder, an array file, or cifar10:PATH, cifar100:PATH, tinyimagenet:PATH
    output: Path
    checkpoint: Path | None = None
    weights: str | None = None  # torchvision's published ones, instead of a checkpoint
    arch: str | None = None  # None: a ResNet18, whose form the checkpoint tells
    split: Split | None = None  # None: train where the dataset has parts, else all images
    preprocessing: PreprocessingOptions = field(default_factory=PreprocessingOptions)
    device: str = "auto"
    amp: Amp = Amp.OFF
    dtype: StoredType = StoredType.FLOAT32
    batch_size: int = 128
    shard: tuple[int, int] | None = None  # i of n, counted from 0
    skip_bad: bool = False  # leave unreadable images out and list them
    download: bool = False
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        one = (self.checkpoint is None) != (self.weights is None)
        require(one, "expected either --checkpoint PATH or --weights DEFAULT, and not both")
        require(self.weights is None or self.arch is not None, "--weights is given without --arch; add --arch resnet18")
        require(self.batch_size >= 1, f"--batch-size is {self.batch_size}; expected at least 1")
        if self.shard is not None:
            i, n = self.shard
            require(n >= 1 and 0 <= i < n, f"--shard is {i}/{n}; expected i/n with i from 0 to n - 1")


@dataclass(frozen=True)
class MergeOptions:
    """``pdac merge``."""

    paths: tuple[Path, ...]
    output: Path
    link: bool = False  # a virtual file that refers to the shards, instead of a copy
    run: RunOptions = field(default_factory=RunOptions)


class StreamMethod(StrEnum):
    """How `pdac stream` weighs a new row."""

    SPDAC = "spdac"  # by its estimated density, the paper's Algorithm 2
    ER = "er"  # all alike: plain reservoir sampling


class Acceptance(StrEnum):
    """When a row enters a full buffer, Eq. (19); c is uniform on {1, …, n}."""

    DENSITY = "density"  # c ≤ N·ε: denser rows are kept more often
    PAPER = "paper"  # c·ε ≤ N, as printed: denser rows are kept less often


class StreamAllocation(StrEnum):
    """Which rows a row's density is compared with, Eq. (18)."""

    PER_CLASS = "per-class"  # the latest rows of its own class
    JOINT = "joint"  # the paper: all rows of its batch


class StreamSolver(StrEnum):
    """How the top directions of Eq. (15) follow the stream."""

    WARM = "warm"  # a subspace step on the D × D covariance, from the last directions
    EXACT = "exact"  # the covariance decomposed afresh: the direct transcription
    SKETCH = "sketch"  # a low-rank factor in place of the covariance, for D in the thousands


@dataclass(frozen=True)
class StreamDensityOptions:
    """The streamed projected Gaussian mixture, Eqs. (13)–(17)."""

    dim: int = DensityOptions.dim
    components: int = DensityOptions.components
    ridge: float = DensityOptions.ridge
    beta: float = 0.5
    # Rows of a class from one update of its density to the next; fewer while it has seen fewer. 1: every batch.
    step_rows: int = 256
    solver: StreamSolver = StreamSolver.WARM

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        DensityOptions(self.dim, self.components, ridge=self.ridge)
        require(0 < self.beta <= 1, f"--beta is {self.beta}; expected more than 0 and at most 1")
        require(self.step_rows >= 1, f"--step-rows is {self.step_rows}; expected at least 1")


@dataclass(frozen=True)
class StreamOptions:
    """``pdac stream``."""

    input: InputOptions
    budget: int
    output: Path
    state: Path | None = None
    model: Path | None = None  # where to write the streamed model
    trace: Path | None = None
    method: StreamMethod = StreamMethod.SPDAC
    acceptance: Acceptance = Acceptance.DENSITY
    allocation: StreamAllocation = StreamAllocation.PER_CLASS
    window: int = 32  # the latest rows of a class that a density is compared with; 0: those of the batch
    temperature: float = 1.0  # weigh by p̂^T
    batch: int = 32
    state_every: int | None = None  # rows; None: so that state files cost little beside the rows read
    follow: bool = False
    timeout: float = 60.0  # seconds without a new row after which a followed file counts as complete
    density: StreamDensityOptions = field(default_factory=StreamDensityOptions)
    run: RunOptions = field(default_factory=RunOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(self.budget >= 1, f"--budget is {self.budget}; expected at least 1 row to keep")
        require(self.batch >= 1, f"--batch is {self.batch}; expected at least 1 row")
        require(self.window >= 0, f"--window is {self.window}; expected 0 or more rows")
        require(
            self.state_every is None or self.state_every >= 1,
            f"--state-every is {self.state_every}; expected 1 or more",
        )
        require(
            self.state_every is None or self.state is not None,
            "--state-every is given without --state; add --state state.h5",
        )
        require(self.timeout >= 0, f"--timeout is {self.timeout}; expected 0 or more seconds")
        require(
            0 <= abs(self.temperature) < float("inf"),
            f"--temperature is {self.temperature}; expected a finite number (1: the paper, 0: uniform)",
        )


class Setting(StrEnum):
    """When a continual run chooses what to keep, and how often it sees a task."""

    OFFLINE = "offline"  # several epochs, selection after each task
    RELAXED = "relaxed"  # several epochs, selection batch by batch in the first
    ONLINE = "online"  # one epoch, selection batch by batch


class Preset(StrEnum):
    """The paper's protocols."""

    CIFAR10 = "cifar10"
    CIFAR100 = "cifar100"
    TINYIMAGENET = "tinyimagenet"


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
    preset: Preset | None = None
    tasks: int | None = None  # None: two classes each, at most five tasks
    class_order: str = "natural"  # or random, or labels in order: 3,1,4
    budget: int = 200  # 0: no replay
    imbalance: float | None = None  # share of its rows that a task's last class keeps
    methods: tuple[str, ...] = ()  # empty: the paper's and the uniform one
    seeds: int = 3
    seed: int = 0
    rescore: bool = False  # score stored rows anew, with the current network
    resume: bool = False
    download: bool = False
    allocation: Allocation | None = None  # None: the method's own
    temperature: float = 1.0
    eviction: Eviction = Eviction.RELATIVE
    acceptance: Acceptance = Acceptance.DENSITY
    learning: LearningOptions = field(default_factory=LearningOptions)
    density: DensityOptions = field(default_factory=DensityOptions)
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
        offline = self.setting is Setting.OFFLINE
        require(not self.rescore or offline, "--rescore is for --setting offline; a stream scores rows as they come")
        single = self.setting is not Setting.ONLINE or self.learning.epochs in (None, 1)
        require(single, "--epochs is more than 1 in the online setting; expected 1; use --setting relaxed")


@dataclass(frozen=True)
class CompareOptions:
    """``pdac compare``."""

    input: InputOptions
    budgets: tuple[int, ...]
    methods: tuple[str, ...] = ()  # empty: all
    seeds: int = 5
    seed: int = 0  # the first one
    test: str | None = None  # feature file to test a linear head on
    output: Path | None = None  # CSV
    allocation: Allocation | None = None  # None: each method's own
    temperature: float = SelectOptions.temperature
    head: bool = False
    limit: float = 600.0  # seconds of one run beyond which a method that was not named is left out
    density: DensityOptions = field(default_factory=DensityOptions)
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(len(self.budgets) > 0, "--budget is empty; expected row numbers such as 200,500")
        for budget in self.budgets:
            require(budget >= 1, f"--budget has {budget}; expected at least 1 row to keep")
        require(len(set(self.budgets)) == len(self.budgets), "--budget names a number twice; expected each once")
        require(len(set(self.methods)) == len(self.methods), "--methods names a method twice; expected each once")
        require(self.seeds >= 1, f"--seeds is {self.seeds}; expected at least 1")
        require(self.limit > 0, f"--limit is {self.limit}; expected seconds above 0")


def require(condition: bool, message: str) -> None:
    """Raise a usage error unless the condition holds."""
    if not condition:
        raise UsageError(message)


def require_seed(seed: int) -> None:
    """Raise a usage error unless the seed is a whole number from 0 to 2**63 − 1."""
    require(0 <= seed < 2**63, f"--seed is {seed}; expected a whole number from 0 to 2^63 - 1")
