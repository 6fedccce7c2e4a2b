"""Heads that are trained on selections or learn tasks; what is done to the rows, and how many rows a class."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pdac_cli.options.checks import Options, require
from pdac_cli.options.declare import Panel, option
from pdac_cli.options.text import parse_rows

PER_CLASS = (1, 5, 20, 50, 200)  # rows a class of a curve


class Classifier(StrEnum):
    """Heads that are trained on the kept rows."""

    LOGISTIC = "logistic"
    RIDGE = "ridge"
    NCM = "ncm"  # nearest class mean
    NEAREST = "1nn"  # nearest neighbour


class Corruption(StrEnum):
    """What is done to the rows to choose from; test rows stay as they are."""

    CLEAN = "clean"
    WRONG_20 = "wrong-20"  # per cent of the labels replaced by another class's, at random
    WRONG_40 = "wrong-40"
    CONFUSED_20 = "confused-20"  # per cent replaced by the class whose mean is nearest
    CONFUSED_40 = "confused-40"
    IMBALANCE_100 = "imbalance-100"  # the largest class has 100 times the rows of the smallest


class HeadLearner(StrEnum):
    """What learns the tasks."""

    LINEAR = "linear"  # by gradient steps, with replay: the methods
    FINETUNE = "finetune"  # the same without replay
    NCM = "ncm"
    SLDA = "slda"
    RIDGE = "ridge"
    RANPAC = "ranpac"
    JOINT = "joint"

    @property
    def has_network(self) -> bool:
        """Whether a network learns step by step; otherwise a head in closed form, or on all rows at once."""
        return self in (HeadLearner.LINEAR, HeadLearner.FINETUNE)


def per_class_option() -> object:
    """Declare --per-class."""
    return option(
        PER_CLASS, help="--curve: rows a class.", panel=Panel.KEEP, metavar="N,N",
        parse=lambda name, text: parse_rows(name, text, "rows a class such as 1,5,20"), minimum=1,
        expected="at least 1 row a class",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrialOptions(Options):
    """One trial of a selection rule in a head-to-head."""

    corruption: Corruption = option(Corruption.CLEAN, help="What is done to the rows.", panel=Panel.TASKS)
    pool: float = option(
        0.8, help="Share of each class's rows that a seed may choose from.", panel=Panel.TASKS, above=0, maximum=1,
        expected="a share above 0 and at most 1",
    )  # fmt: skip
    per_class: tuple[int, ...] = per_class_option()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Refuse lists that cannot be meant."""
        check_per_class(self.per_class)
        super().__post_init__()


def check_per_class(rows: tuple[int, ...]) -> None:
    """Refuse an empty list and one that names a number twice."""
    require(len(rows) > 0, "--per-class is empty; expected rows a class such as 1,5,20")
    require(len(set(rows)) == len(rows), "--per-class names a number twice; expected each once")
