"""Methods that need one pass: every row gets a key of its own, and the largest keys are kept.

`uniform` follows `UniformSummarizer`, `hardest` `HardestSamples` of `cl_streaming/summary.py` of Borsos et al., both
over the whole task (`--allocation joint`); here `uniform` gives every class its share unless told otherwise, which is
already a better rule.  `highest-prob` is the paper's own baseline.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pdac_cli.arrays import Candidates, Rows
from pdac_cli.density.relative import log_softmax
from pdac_cli.options.select import Allocation
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, ProblemSize, Request
from pdac_cli.selection.sampling import EffectiveSize, TopK, keys

_SMALL_ROWS = 1 << 10  # of a class that is joined with others, and classes joined


def uniform(rows: Rows, request: Request) -> Answer:
    """Draw rows uniformly without replacement."""
    return draw((some for several in rows.pieces(_labels) for some in several), request)


def _labels(candidates: Iterator[Candidates]) -> list[Candidates]:
    """Return rows without their features, which were looked at only for being numbers."""
    return [Candidates(some.ids, some.codes) for some in candidates]


def hardest(rows: Rows, request: Request) -> Answer:
    """Keep the rows of largest cross-entropy −log p_y; the score is the cross-entropy."""
    return _largest(rows, request, hard=True)


def highest_prob(rows: Rows, request: Request) -> Answer:
    """Keep the rows of largest probability p_y of the true class; the score is that probability."""
    return _largest(rows, request, hard=False)


def draw(candidates: Iterator[Candidates], request: Request) -> Answer:
    """Draw rows ∝ p̂^T, or uniformly where they have no density."""
    top, size = TopK(request.quotas()), EffectiveSize(len(request.counts))
    for some in _joined(candidates):
        log_w = np.zeros(len(some.ids)) if some.log_p is None else request.temperature * some.log_p
        size.add(log_w, some.codes)
        key = keys(log_w, some.ids, request.seed)
        top.add(key, request.pools(some.codes), some.ids, some.codes, log_p=some.log_p)
    return Answer(top.ranking(), size.sizes(), size.total())


def _joined(candidates: Iterator[Candidates]) -> Iterator[Candidates]:
    """Join small classes that follow each other: taking in a piece costs as much as there are classes."""
    held: list[Candidates] = []
    for some in candidates:
        # Of one class no two pieces are joined, so that sums over its rows are made as they are without this.
        if held and (some.log_p is None or some.codes[0] == held[-1].codes[-1]):
            yield _concatenated(held)
            held = []
        held.append(some)
        if some.log_p is None or len(some.ids) > _SMALL_ROWS or len(held) == _SMALL_ROWS:
            yield _concatenated(held)
            held = []
    if held:
        yield _concatenated(held)


def _concatenated(held: list[Candidates]) -> Candidates:
    if len(held) == 1:
        return held[0]
    ids, codes = (np.concatenate([getattr(piece, name) for piece in held]) for name in ("ids", "codes"))
    return Candidates(ids, codes, np.concatenate([piece.log_p for piece in held if piece.log_p is not None]))


def _largest(rows: Rows, request: Request, *, hard: bool) -> Answer:
    top = TopK(request.quotas())
    for some in rows.candidates():
        if some.logits is None or some.targets is None:
            raise ValueError("given without logits")
        log_q = log_softmax(some.logits)[np.arange(len(some.ids)), some.targets]
        key = -log_q if hard else log_q
        score = key if hard else np.exp(log_q)
        top.add(key, request.pools(some.codes), some.ids, some.codes, score=score)
    return Answer(top.ranking())


def _one_pass(size: ProblemSize) -> float:
    return size.n * (size.n_features + 20 * size.n_logits)


def _fit(size: ProblemSize) -> float:
    return size.n * (30 * size.n_features + 20 * 7 * 66)


UNIFORM = Method(
    uniform, Allocation.PER_CLASS, Evict.RANDOM, _one_pass, needs_features=False, is_reference=True, distributed=True
)
HARDEST = Method(
    hardest,
    Allocation.JOINT,
    Evict.SCORE,
    _one_pass,
    needs_logits=True,
    needs_features=False,
    random=False,
    needs_classes=True,
)
HIGHEST_PROB = Method(
    highest_prob,
    Allocation.JOINT,
    Evict.SCORE,
    _one_pass,
    needs_logits=True,
    needs_features=False,
    random=False,
    needs_classes=True,
)
