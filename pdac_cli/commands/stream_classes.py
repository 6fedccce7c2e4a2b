"""The numbers that a stream gives to classes with names, whatever pieces its files are read in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdac_cli.density.blocks import Array
from pdac_cli.errors import DataError
from pdac_cli.files.features import FeatureSet


@dataclass
class StreamClasses:
    """Names in the order of their numbers; outputs show names that are the rows' own labels in sorted order instead.

    Which names a growing file will have is not known when its first rows are read, so these are numbered as they
    appear.  A file of numbers that gives names to them keeps its numbers, if it is the first.
    """

    names: dict[str, int] | None = None  # None: labels are numbers, or no row has come
    sort: bool = False  # whether outputs are sorted by name

    @classmethod
    def of(cls, names: tuple[str, ...] | None, sort: bool) -> StreamClasses:
        """Return the classes of a stream that goes on."""
        return cls(None if names is None else {name: k for k, name in enumerate(names)}, sort)

    def numbers(self, y: Array, source: FeatureSet, path: str, first: bool) -> Array:
        """Return the stream's numbers of labels (n,) of a file, where a stream's `first` rows settle the kind."""
        if first:
            self.names, self.sort = (None if source.label_names is None else {}), source.names_are_labels
        if (self.names is None) != (source.label_names is None):
            kinds = ["numbers" if each is None else "names" for each in (source.label_names, self.names)]
            found = f"classes are {kinds[0]}, the stream's are {kinds[1]}"
            raise DataError(f"{path}: {found}; expected one kind in all")
        if self.names is None or source.label_names is None:
            return y
        codes, at, where = np.unique(y, return_index=True, return_inverse=True)
        present = [source.label_names[code] for code in codes]
        for name in [present[k] for k in np.argsort(at)] if source.names_are_labels else source.label_names:
            self.names.setdefault(name, len(self.names))
        return np.array([self.names[name] for name in present], np.int64)[where]

    def shown(self) -> tuple[tuple[str, ...] | None, Array]:
        """Return the names in the order of the outputs, and the output's number of each of the stream's: (K,)."""
        if self.names is None:
            return None, np.empty(0, np.int64)
        names = tuple(sorted(self.names)) if self.sort else tuple(self.names)
        place = {name: k for k, name in enumerate(names)}
        return names, np.array([place[name] for name in self.names], np.int64)
