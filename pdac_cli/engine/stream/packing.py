"""A stream as named arrays and back, bit for bit: what a state file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.mixture import Mixtures, coefficients
from pdac_cli.density.moments import DenseMoments, SketchMoments
from pdac_cli.density.streaming import Fitted, StreamedClass, new_class
from pdac_cli.engine.stream.packed_arrays import check_packed, stored_name
from pdac_cli.engine.stream.running import Stream
from pdac_cli.options.stream import StreamRule
from pdac_cli.selection.streams.buffer import Buffer
from pdac_cli.selection.streams.interface import StreamingMethod

Arrays = dict[str, Array]


def pack(stream: Stream) -> Arrays:
    """Return everything the stream knows.  Arrays of C classes; those of a ragged kind are joined end to end."""
    classes, recent = list(stream.classes.values()), stream.densities.recent
    fitted = [known.fitted for known in classes if known.fitted is not None]
    moments = [known.moments for known in classes if known.moments.count]
    pending = [rows for known in classes for rows in known.pending]
    kept = [known.kept for known in classes if known.kept is not None]
    arrays: Arrays = {
        "seen": np.array([stream.buffer.seen, stream.buffer.replaced]),
        "rows/label": np.array(list(stream.rows), np.int64),
        "rows/count": np.array(list(stream.rows.values()), np.int64),
        **{stored_name(name): column for name, column in stream.buffer.columns.items()},
        **{f"memo/{name}": value for name, value in stream.memo.items()},
        "class/label": np.array([known.label for known in classes], np.int64),
        "class/unit": np.array([known.unit for known in classes], np.float64),
        "class/count": np.array([known.moments.count for known in classes], np.int64),
        "class/waiting": np.array([known.waiting for known in classes], np.int64),
        "class/fitted": np.array([known.fitted is not None for known in classes], np.int64),
        "class/recent": np.array([len(recent[known.label]) for known in classes], np.int64),
        "class/kept": np.array([0 if known.kept is None else len(known.kept) for known in classes], np.int64),
        "pending": _smallest(_joined(pending, (0, stream.n_features))),
        "kept": _smallest(_joined(kept, (0, stream.n_features))),
        "recent": _joined([recent[known.label] for known in classes], (0,)),
        "moments/mean": _joined([m.mean[None] for m in moments], (0, stream.n_features)),
        "moments/width": np.array([_width(m) for m in moments], np.int64),
        "moments/scatter": _joined([_values(m) for m in moments], (0,)),
    }
    return {**arrays, **_pack_fitted(fitted, stream.n_features)}


def unpack(
    arrays: Mapping[str, Array],
    options: StreamRule,
    method: StreamingMethod,
    n_features: int,
    network: bool = False,
) -> Stream:
    """Return the stream that was packed; raise `NotPacked` where the arrays are not one."""
    stream = Stream.begin(options, method, n_features, network=network)
    check_packed(arrays, stream)
    columns = {name: np.array(arrays[stored_name(name)], empty.dtype) for name, empty in stream.buffer.columns.items()}
    seen, replaced = map(int, arrays["seen"])
    stream.buffer = Buffer(options.budget, columns, seen, replaced)
    stream.memo = {name.removeprefix("memo/"): np.array(arrays[name]) for name in arrays if name.startswith("memo/")}
    stream.rows = dict(zip(arrays["rows/label"].tolist(), arrays["rows/count"].tolist(), strict=True))
    moments, fitted = _Reader(arrays, "moments"), iter(_unpack_fitted(arrays))
    at = rows = held = 0
    for c, label in enumerate(arrays["class/label"].tolist()):
        waiting, kept, recent = (int(arrays[f"class/{name}"][c]) for name in ("waiting", "kept", "recent"))
        known = new_class(label, n_features, options.density)
        known.unit = float(arrays["class/unit"][c])
        moments.into(known, int(arrays["class/count"][c]))
        known.pending = [np.array(arrays["pending"][rows : rows + waiting])] if waiting else []
        known.waiting = waiting
        known.kept = np.array(arrays["kept"][held : held + kept]) if kept else None
        known.fitted = next(fitted) if arrays["class/fitted"][c] else None
        stream.classes[label] = known
        stream.densities.recent[label] = np.array(arrays["recent"][at : at + recent])
        rows, held, at = rows + waiting, held + kept, at + recent
    return stream


class _Reader:
    """Takes the moments of one class after the other."""

    def __init__(self, arrays: Mapping[str, Array], name: str) -> None:
        self.mean, self.width, self.values = (arrays[f"{name}/{part}"] for part in ("mean", "width", "scatter"))
        self.next = self.at = 0

    def into(self, known: StreamedClass, count: int) -> None:
        """Fill the moments of a class of `count` rows."""
        if count == 0:
            return
        moments, width, n_features = known.moments, int(self.width[self.next]), self.mean.shape[1]
        moments.count, moments.mean = count, np.array(self.mean[self.next])
        if isinstance(moments, DenseMoments):
            size = n_features * (n_features + 1) // 2
            moments.scatter[np.triu_indices(n_features)] = self.values[self.at : self.at + size]
        elif isinstance(moments, SketchMoments):
            size = width * n_features
            moments.factor = np.array(self.values[self.at : self.at + size]).reshape(width, n_features)
        self.at += size
        self.next += 1


def _pack_fitted(fitted: Sequence[Fitted], n_features: int) -> Arrays:
    return {
        "fitted/mean": _joined([one.mean[None] for one in fitted], (0, n_features)),
        "fitted/width": np.array([one.basis.shape[1] for one in fitted], np.int64),
        "fitted/basis": _joined([one.basis.ravel() for one in fitted], (0,)),
        "fitted/alpha": _joined([one.mixture.alpha for one in fitted], (0, 0)),
        "fitted/mu": _joined([one.mixture.mu for one in fitted], (0, 0, 0)),
        "fitted/sigma": _joined([one.mixture.sigma for one in fitted], (0, 0, 0, 0)),
        "fitted/dims": _joined([one.mixture.dims for one in fitted], (0,)),
        "fitted/log_likelihood": np.array([one.log_likelihood for one in fitted]),
    }


def _unpack_fitted(arrays: Mapping[str, Array]) -> list[Fitted]:
    mean, width, basis, alpha, mu, sigma, dims, likelihood = (
        arrays[f"fitted/{name}"]
        for name in ("mean", "width", "basis", "alpha", "mu", "sigma", "dims", "log_likelihood")
    )
    ends = np.cumsum(width * mean.shape[1]) if len(width) else np.zeros(0, np.int64)
    fitted = []
    for k, (end, columns) in enumerate(zip(ends.tolist(), width.tolist(), strict=True)):
        one = slice(k, k + 1)
        mixture = Mixtures(np.array(alpha[one]), np.array(mu[one]), np.array(sigma[one]), np.array(dims[one]))
        vectors = np.array(basis[end - columns * mean.shape[1] : end]).reshape(mean.shape[1], columns)
        fitted.append(Fitted(np.array(mean[k]), vectors, mixture, coefficients(mixture), float(likelihood[k])))
    return fitted


def _width(moments: object) -> int:
    return len(moments.factor) if isinstance(moments, SketchMoments) else 0


def _values(moments: object) -> Array:
    """Return the scatter matrix's upper triangle, or the sketch's factor, as one row of numbers."""
    if isinstance(moments, SketchMoments):
        return moments.factor.ravel()
    if isinstance(moments, DenseMoments):
        return moments.scatter[np.triu_indices(len(moments.scatter))]
    raise TypeError(type(moments))


def _joined(parts: Sequence[Array], empty: tuple[int, ...]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(empty)


def _smallest(rows: Array) -> Array:
    """Return the rows in the smallest float type that holds them exactly: what is stored depends on values alone."""
    with np.errstate(over="ignore"):
        for kind in (np.float16, np.float32):
            small = rows.astype(kind)
            if np.array_equal(small, rows):
                return small
    return rows
