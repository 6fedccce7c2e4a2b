"""What is wrong with a set of rows: one pass over it, whatever its size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pdac_cli.arrays import Array, Tick
from pdac_cli.engine.plan import Plan
from pdac_cli.files.featureset import FeatureSet

TINY_CLASS = 10  # rows; a mixture of seven components needs more
_BYTES_A_ROW = 32  # of the arrays that find repeated rows
_LABEL_ROWS = 1 << 20


@dataclass(frozen=True)
class Finding:
    """Something about the rows that the user should know."""

    check: str
    found: str
    advice: str

    def text(self) -> str:
        """Return it as one line."""
        return f"{self.check}: {self.found}; {self.advice}" if self.advice else f"{self.check}: {self.found}"


@dataclass(frozen=True)
class Health:
    """What one pass over a set of rows shows."""

    rows: int  # usable
    labels: Array  # (C,) ascending
    counts: Array  # (C,) rows of each
    lengths: tuple[float, float, float] | None  # least, mean and largest Euclidean length of a row
    logit_hits: float | None  # share of rows whose largest logit is their label's, where there are logits
    findings: tuple[Finding, ...]


def examine(source: FeatureSet, plan: Plan, tick: Tick) -> Health:
    """Read every row once and say what is wrong with the set."""
    counts: dict[int, int] = {}
    last, changes, falls = None, 0, 0
    for _, y in source.label_chunks(_LABEL_ROWS):
        steps = np.diff(y if last is None else np.concatenate([[last], y]))
        changes, falls, last = changes + int((steps != 0).sum()), falls + int((steps < 0).sum()), y[-1]
        for label, count in zip(*np.unique(y, return_counts=True), strict=True):
            counts[int(label)] = counts.get(int(label), 0) + int(count)
    seen = _Seen(source.n_features, source.n if source.n * _BYTES_A_ROW <= plan.memory // 2 else 0)
    for chunk in source.chunks(plan.rows_at_once(source), logits=source.has_logits):
        seen.take(chunk.h, chunk.y, chunk.logits)
        tick(len(chunk.ids))
    labels = np.array(sorted(counts), np.int64)
    sizes = np.array([counts[label] for label in labels.tolist()], np.int64)
    in_order = falls == 0 and changes > 0
    findings = (
        *_of_rows(source, seen),
        *_of_classes(source, labels, sizes, in_order),
        *_of_logits(seen, labels, sizes),
    )
    return Health(seen.rows, labels, sizes, seen.lengths, seen.share_hit, findings)


@dataclass
class _Seen:
    """What is gathered chunk by chunk; nothing depends on where chunks begin and end."""

    n_features: int
    room: int  # rows that repeated ones are looked for among; 0: there is no memory for it
    rows: int = 0
    low: Array = field(init=False)
    high: Array = field(init=False)
    columns: list[hashlib.blake2b] = field(init=False)  # a hash of every feature's values
    row_hash: Array = field(init=False)
    row_label: Array = field(init=False)
    least: float = np.inf
    most: float = 0.0
    total: float = 0.0
    logit_range: tuple[Array, Array] | None = None
    hits: int = 0

    def __post_init__(self) -> None:
        self.low, self.high = np.full(self.n_features, np.inf), np.full(self.n_features, -np.inf)
        self.columns = [hashlib.blake2b(digest_size=16) for _ in range(self.n_features)]
        self.row_hash, self.row_label = np.empty(self.room, np.int64), np.empty(self.room, np.int64)

    def take(self, h: Array, y: Array, logits: Array | None) -> None:
        """Take in rows h (m, D) with their labels (m,) and, where there are any, logits (m, K)."""
        h = h + h.dtype.type(0)  # of the two zeros one
        self.low, self.high = np.minimum(self.low, h.min(axis=0)), np.maximum(self.high, h.max(axis=0))
        turned = np.ascontiguousarray(h.T)
        for digest, column in zip(self.columns, turned, strict=True):
            digest.update(column.data)
        if self.room:
            stop = self.rows + len(h)
            self.row_hash[self.rows : stop] = [hash(row.tobytes()) for row in h]
            self.row_label[self.rows : stop] = y
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.einsum("nd,nd->n", h, h, dtype=np.float64))
        self.least, self.most = min(self.least, float(lengths.min())), max(self.most, float(lengths.max()))
        self.total += float(lengths.sum())
        self.rows += len(h)
        if logits is not None:
            low, high = logits.min(axis=0), logits.max(axis=0)
            before = self.logit_range or (low, high)
            self.logit_range = np.minimum(before[0], low), np.maximum(before[1], high)
            self.hits += int((logits.argmax(axis=1) == y).sum())

    @property
    def lengths(self) -> tuple[float, float, float] | None:
        """Least, mean and largest length."""
        return (self.least, self.total / self.rows, self.most) if self.rows else None

    @property
    def share_hit(self) -> float | None:
        """The share of rows whose largest logit is their label's."""
        return None if self.logit_range is None or not self.rows else self.hits / self.rows


def _of_rows(source: FeatureSet, seen: _Seen) -> Iterator[Finding]:
    if source.dropped:
        found = f"{source.dropped:,} of {source.n:,} rows hold NaN or infinity"
        yield Finding("not finite", found, "leave them out with --drop-nonfinite")
    if not seen.rows:
        return
    constant = np.flatnonzero(seen.low == seen.high)
    if len(constant) and seen.rows > 1:
        found = f"{len(constant):,} of {source.n_features:,} features ({_some(constant)})"
        yield Finding("constant features", found, "they tell no row from another; harmless")
    digests = np.array([digest.digest() for digest in seen.columns], "V16")
    varying = np.flatnonzero(seen.low < seen.high)
    first = np.sort(np.unique(digests[varying], return_index=True)[1])
    copies = np.delete(varying, first)
    if len(copies):
        found = f"{len(copies):,} features are copies of others ({_some(copies)})"
        yield Finding("repeated features", found, "what is there twice counts twice in every distance")
    if not seen.room:
        yield Finding("repeated rows", "not looked for: no room in --memory", "give more of it")
        return
    hashes, labels = seen.row_hash[: seen.rows], seen.row_label[: seen.rows]
    order = np.argsort(hashes, kind="stable")
    same = hashes[order][1:] == hashes[order][:-1]
    if same.any():
        disputed = int((same & (labels[order][1:] != labels[order][:-1])).sum())
        where = f", {disputed:,} of them under another label" if disputed else ""
        found = f"{int(same.sum()):,} rows repeat another{where}"
        yield Finding("repeated rows", found, "a budget may be spent on copies")


def _of_classes(source: FeatureSet, labels: Array, counts: Array, in_order: bool) -> Iterator[Finding]:
    if len(labels) == 1:
        yield Finding("classes", "there is one class only", "rows are chosen within it")
    tiny = labels[counts < TINY_CLASS]
    if len(tiny):
        names = source.label_names
        shown = ", ".join(names[label] if names else str(label) for label in tiny[:5].tolist())
        shown += ", …" if len(tiny) > 5 else ""
        found = f"{len(tiny):,} of {len(labels):,} have fewer than {TINY_CLASS} rows ({shown})"
        yield Finding("tiny classes", found, "their density is flat or has few components")
    if in_order:
        yield Finding(
            "order", "rows are sorted by label", "a stream meets one class after the other; shuffle for another order"
        )


def _of_logits(seen: _Seen, labels: Array, counts: Array) -> Iterator[Finding]:
    if seen.logit_range is None or not seen.rows:
        return
    low, high = seen.logit_range
    if seen.rows > 1 and (low == high).all():
        yield Finding("logits", "all rows have the same", "they say nothing; use --head, or extract again")
    elif labels[-1] >= len(low):
        found = f"{len(low):,} columns, and there is a label {labels[-1]:,}"
        yield Finding("logits", found, "they are of other classes; use --head, or extract again")
    else:
        chance, hit = counts.max() / counts.sum(), seen.share_hit or 0.0
        if hit <= chance and len(labels) > 1:
            found = f"the largest is the label's in {hit:.1%} of the rows, no more than by chance"
            yield Finding("logits", found, "they may be of other classes; use --head, or extract again")


def _some(columns: Array) -> str:
    return ", ".join(map(str, columns[:5].tolist())) + (", …" if len(columns) > 5 else "")
