"""The one table of selection methods.

A method turns the rows of a task into a ranking, and must answer the same however they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pdac_cli.errors import UsageError
from pdac_cli.options.select import Allocation
from pdac_cli.selection.bcsr import bcsr
from pdac_cli.selection.centres import kcenter, kmeans
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.gcr import gcr
from pdac_cli.selection.greedy import greedy
from pdac_cli.selection.herding import herding
from pdac_cli.selection.least_error import CANDIDATES, least_error
from pdac_cli.selection.ocs import ocs
from pdac_cli.selection.pbcs import pbcs
from pdac_cli.selection.rows import Answer, Offer, Request, Rows
from pdac_cli.selection.scored import draw, hardest, highest_prob

# How much longer a multiplication takes than in a product of square matrices, as measured: with one vector it waits for
# memory, with a few columns there are exponentials between the products.
_VECTOR, _NARROW = 8, 3

__all__ = ["METHODS", "Answer", "Method", "Offer", "Request", "Rows", "Size", "method_named"]


@dataclass(frozen=True)
class Size:
    """How much there is to choose from."""

    n: int  # rows
    dim: int  # features
    logits: int  # K, or the number of classes
    pools: int  # that are chosen from separately
    m: int  # budget


@dataclass(frozen=True)
class Method:
    """One entry of the table."""

    select: Callable[[Rows, Request], Answer]
    allocation: Allocation  # where the user does not say
    evict: Evict
    work: Callable[[Size], float]  # multiplications, about
    needs_density: bool = False
    needs_logits: bool = False
    needs_features: bool = True  # False: labels and what stands above do
    uses_stored: bool = False  # compares new rows with those already stored
    random: bool = True  # whether another seed gives another answer, but for places filled at random


def _one_pass(size: Size) -> float:
    return size.n * (size.dim + 20 * size.logits)


def _fit(size: Size) -> float:
    return size.n * (30 * size.dim + 20 * 7 * 66)


def _product_a_row(size: Size) -> float:
    return size.m * size.n * size.dim / size.pools * _VECTOR


def _moments_and_turns(size: Size) -> float:
    candidates = min(size.n, CANDIDATES)
    return size.dim * (size.n * size.dim + size.m * (3 * size.dim + 4 * candidates))


def _gram_of_batches(size: Size) -> float:
    return 256 * size.n * (size.dim + size.logits) * 2


def _pursuit(size: Size) -> float:
    m = size.m / size.pools
    return _product_a_row(size) + size.pools * m**4 / 8


def _weights(size: Size) -> float:
    return 50 * 20 * size.n * size.dim * size.logits * _NARROW


def _subsets(size: Size) -> float:
    return 100 * 5 * (60 * size.m + size.n) * size.dim * size.logits * _NARROW


def _one_by_one(size: Size) -> float:
    return size.m * size.dim * size.logits * (2 * size.n + 150 * size.m) * _NARROW


METHODS: Mapping[str, Method] = {
    "pdac": Method(draw, Allocation.PER_CLASS, Evict.DENSITY, _fit, needs_density=True),
    "uniform": Method(draw, Allocation.PER_CLASS, Evict.RANDOM, _one_pass, needs_features=False),
    "least-error": Method(least_error, Allocation.BALANCED, Evict.ORDER, _moments_and_turns, random=False),
    "kcenter": Method(kcenter, Allocation.JOINT, Evict.ORDER, _product_a_row, random=False),
    "kmeans": Method(kmeans, Allocation.JOINT, Evict.ORDER, _product_a_row),
    "herding": Method(herding, Allocation.BALANCED, Evict.ORDER, _product_a_row, random=False),
    "hardest": Method(
        hardest, Allocation.JOINT, Evict.SCORE, _one_pass, needs_logits=True, needs_features=False, random=False
    ),
    "highest-prob": Method(
        highest_prob, Allocation.JOINT, Evict.SCORE, _one_pass, needs_logits=True, needs_features=False, random=False
    ),
    "ocs": Method(ocs, Allocation.JOINT, Evict.SCORE, _gram_of_batches, needs_logits=True, uses_stored=True),
    "gcr": Method(gcr, Allocation.PER_CLASS, Evict.ORDER, _pursuit, needs_logits=True, random=False),
    "bcsr": Method(bcsr, Allocation.JOINT, Evict.SCORE, _weights),
    "pbcs": Method(pbcs, Allocation.JOINT, Evict.SCORE, _subsets),
    "greedy": Method(greedy, Allocation.JOINT, Evict.ORDER, _one_by_one),
}


def method_named(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise UsageError(f"--method is {name!r}; expected one of: {', '.join(METHODS)}")
    return METHODS[name]
