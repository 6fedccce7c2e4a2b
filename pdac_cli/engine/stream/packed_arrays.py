"""Whether named arrays are a packed stream: their names, kinds and sizes, checked before any of them is used."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.engine.stream.running import Stream
from pdac_cli.options.stream import StreamSolver

_WHOLE, _REAL, _ANY = "iu", "f", "iuf"  # kinds of numbers
_PER_CLASS = ("label", "count", "waiting", "fitted", "recent", "kept")
# Numbers of axes; the basis, whose widths differ, is joined end to end and looked at by itself.
_FITTED = {"mean": 2, "width": 1, "alpha": 2, "mu": 3, "sigma": 4, "dims": 1, "log_likelihood": 1}
_COUNTS = ("width", "dims")


class NotPacked(ValueError):  # noqa: N818 -- says what is wrong with the arrays
    """Arrays that are not those of a stream."""


def stored_name(column: str) -> str:
    """Return what a column of the buffer is called in a state file."""
    return "buffer/z" if column == "logits" else f"buffer/{column}"


def check_packed(arrays: Mapping[str, Array], stream: Stream) -> None:
    """Refuse arrays that `pack` would not have made of a stream such as this one, which has seen no row yet."""
    _check(arrays, "seen", _WHOLE, (2,))
    _check_buffer(arrays, stream)
    labels = _check(arrays, "rows/label", _WHOLE, (None,))
    _check(arrays, "rows/count", _WHOLE, labels.shape)
    classes = _check(arrays, "class/label", _WHOLE, (None,)).shape
    _check(arrays, "class/unit", _REAL, classes)
    of = {name: _check(arrays, f"class/{name}", _WHOLE, classes) for name in _PER_CLASS}
    if any((values < 0).any() for name, values in of.items() if name != "label"):
        raise NotPacked("a number of rows is negative")
    width = stream.n_features
    for name, sizes in (("pending", of["waiting"]), ("kept", of["kept"])):
        _check(arrays, name, _REAL, (int(sizes.sum()), width))
    _check(arrays, "recent", _REAL, (int(of["recent"].sum()),))
    _check_moments(arrays, stream, int(np.count_nonzero(of["count"])))
    _check_fitted(arrays, width, int(np.count_nonzero(of["fitted"])))


def _check_buffer(arrays: Mapping[str, Array], stream: Stream) -> None:
    rows = _check(arrays, stored_name("row"), _WHOLE, (None,))
    if len(rows) > stream.options.budget:
        raise NotPacked(f"{len(rows):,} rows are stored, above the budget")
    for name, empty in stream.buffer.columns.items():
        kinds = _ANY if empty.dtype.kind in _REAL else _WHOLE
        _check(arrays, stored_name(name), kinds, (len(rows), *[None] * (empty.ndim - 1)))
    places = np.stack([arrays[stored_name("source")], rows])
    if len(np.unique(places, axis=1).T) < len(rows):
        raise NotPacked("a row is stored twice")


def _check_moments(arrays: Mapping[str, Array], stream: Stream, classes: int) -> None:
    """Refuse moments whose sizes do not add up: a triangle of D × D each, or factors of several rows of D."""
    size = stream.n_features
    _check(arrays, "moments/mean", _REAL, (classes, size))
    sketched = stream.options.density.solver is StreamSolver.SKETCH
    factors = _check(arrays, "moments/width", _WHOLE, (classes,))
    if (factors < 0).any() or (factors.any() and not sketched):
        raise NotPacked("'moments/width' is not that of a stream")
    each = np.where(factors > 0, factors * size, 0 if sketched else size * (size + 1) // 2)
    _check(arrays, "moments/scatter", _REAL, (int(each.sum()),))


def _check_fitted(arrays: Mapping[str, Array], n_features: int, classes: int) -> None:
    """Refuse mixtures whose arrays differ in their numbers of components or dimensions."""
    found = {
        name: _check(
            arrays, f"fitted/{name}", _WHOLE if name in _COUNTS and classes else _ANY, (classes, *[None] * (sizes - 1))
        )
        for name, sizes in _FITTED.items()
    }
    components, dim = found["mu"].shape[1:]
    _check(arrays, "fitted/mean", _ANY, (classes, n_features if classes else None))
    _check(arrays, "fitted/alpha", _ANY, (classes, components))
    _check(arrays, "fitted/sigma", _ANY, (classes, components, dim, dim))
    if (found["dims"] < 0).any() or (found["dims"] > np.minimum(dim, found["width"])).any():
        raise NotPacked("'fitted/dims' has more dimensions than there are")
    _check(arrays, "fitted/basis", _ANY, (int(found["width"].sum()) * n_features,))
    if not all(np.isfinite(found[name]).all() for name in ("mean", "alpha", "mu", "sigma")):
        raise NotPacked("a density is not finite")


def _check(arrays: Mapping[str, Array], name: str, kinds: str, shape: tuple[int | None, ...]) -> Array:
    """Return an array of one of these kinds of numbers and of this shape, None: any size."""
    array = arrays.get(name)
    if array is None:
        raise NotPacked(f"{name!r} is missing")
    fits = len(array.shape) == len(shape) and all(
        size in (None, found) for size, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype.kind not in kinds or not fits:
        raise NotPacked(f"{name!r} is {array.dtype} of shape {array.shape}")
    return array
