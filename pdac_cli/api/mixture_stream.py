"""The mixture as its rows arrive: what `partial_fit` keeps between two calls."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from pdac_cli.api.labels import encoded
from pdac_cli.arrays import Array
from pdac_cli.density.streaming import StreamedClass, add_rows, new_class, to_model, variance_outside
from pdac_cli.errors import DataError
from pdac_cli.files.results.model import StoredModel
from pdac_cli.options.stream import StreamDensityOptions


@dataclass
class MixtureStream:
    """Classes by what the caller calls them, in order of appearance."""

    options: StreamDensityOptions
    seed: int
    n_features: int
    classes: dict[Any, StreamedClass] = field(default_factory=dict)
    _stored: StoredModel | None = None  # made when it is asked for

    def take(self, h: Array, y: Any, expected: Any = None) -> None:
        """Take in one batch: h (n, D), y (n,)."""
        labels = encoded(y, len(h))
        present = np.unique(labels.codes)
        if expected is not None:
            odd = [value for value in labels.of(present).tolist() if value not in set(np.asarray(expected).tolist())]
            if odd:
                raise DataError(f"y has {odd[0]!r}, which is not in classes; expected labels of those")
        for code in present.tolist():
            name = labels.of(np.array([code])).tolist()[0]
            if self.classes and isinstance(name, str) != isinstance(next(iter(self.classes)), str):
                raise DataError(f"y has {name!r}, and earlier labels were of another kind; expected one kind in all")
            if name not in self.classes:
                number = code if labels.values is None else len(self.classes)
                self.classes[name] = new_class(number, self.n_features, self.options)
            add_rows(self.classes[name], h[labels.codes == code], self.options, self.seed)
        self._stored = None

    def labels(self) -> Array:
        """Return the labels seen, ascending."""
        return np.array(sorted(self.classes))

    def rest(self) -> float:
        """Return the variance outside the projections."""
        return variance_outside(list(self.classes.values()), self.options)

    def stored(self, normalize: bool) -> StoredModel:
        """Return the densities as an ordinary model, its classes in the order of their labels."""
        if self._stored is None:
            named = sorted(self.classes)
            texts = any(isinstance(name, str) or name < 0 for name in named)
            numbers = range(len(named)) if texts else named
            known = [replace(self.classes[name], label=int(k)) for k, name in zip(numbers, named, strict=True)]
            options = {**asdict(self.options), "normalize": normalize}
            names = tuple(map(str, named)) if texts else None
            self._stored = StoredModel(to_model(known, self.options), "stream", names, options, self.seed)
        return self._stored
