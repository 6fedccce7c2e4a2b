"""The rows of an index file: read from the feature files, or as a subset of a data set of PyTorch."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdac_cli.api.messages import python_messages
from pdac_cli.arrays import Array
from pdac_cli.errors import DataError
from pdac_cli.files.features import open_features
from pdac_cli.files.index.index_file import read_index, read_rows
from pdac_cli.options.shared import InputOptions

if TYPE_CHECKING:
    from pdac_cli.learning.replay import RowSubset


def coreset_subset(dataset: Any, index: str | PathLike[str], *, task: int | None = None) -> RowSubset:
    """Return the rows that `pdac select` or `pdac stream` kept, as a `torch.utils.data.Subset`, best first.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        The data set that features were extracted from, with as many rows.
    index : path
        What was written with ``-o``.  `.json` and `.h5` know how many rows the data had, and a data set of another
        length is refused; `.npy` and `.txt` do not.
    task : int, optional
        Which task's rows, where the index has several.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from pdac_cli import CoresetSelector, coreset_subset
    >>> X, y = torch.randn(90, 4), torch.arange(90) % 3
    >>> CoresetSelector(budget=9).fit(X, y).to_file("coreset.json")
    >>> len(coreset_subset(TensorDataset(X, y), "coreset.json"))
    9
    """
    with python_messages():
        rows = _rows_of(Path(index), len(dataset), task)
    from pdac_cli.learning.replay import subset_of

    return subset_of(dataset, rows)


def load_rows(
    features: str | PathLike[str], index: str | PathLike[str], *, task: int | None = None
) -> tuple[Array, Array]:
    """Return features (m, D) and labels (m,) of the rows that were kept, best first; no others are read.

    Parameters
    ----------
    features : path
        The feature file they were chosen from.
    index : path
        What was written with ``-o``: `.json`, `.h5`, `.npy` or `.txt`.
    task : int, optional
        Which task's rows, where the index has several.

    Examples
    --------
    >>> import numpy as np
    >>> from pdac_cli import CoresetSelector, load_rows
    >>> X, y = np.random.default_rng(0).normal(size=(90, 4)), np.arange(90) % 3
    >>> np.savez("feats.npz", features=X, labels=y)
    >>> CoresetSelector(budget=9).fit(X, y).to_file("coreset.json")
    >>> h, labels = load_rows("feats.npz", "coreset.json")
    >>> h.shape, np.bincount(labels).tolist()
    ((9, 4), [3, 3, 3])
    """
    with python_messages(), open_features(InputOptions(paths=(str(features),))) as source:
        chunk = source.read_rows(_rows_of(Path(index), source.n, task))
        names = source.label_names
        return chunk.h, chunk.y if names is None else np.asarray(names)[chunk.y]


def _rows_of(path: Path, size: int, task: int | None) -> Array:
    """Return the row numbers (m,), in a data set of this size."""
    if path.suffix not in (".json", ".h5"):
        if task is not None:
            raise DataError(f"{path}: knows of no tasks; expected a .json or .h5 index with task; leave task out")
        return read_rows(path, size)
    found = read_index(path)
    numbers = [source.task for source in found.sources]
    if task is None and len(numbers) > 1:
        raise DataError(f"{path}: holds rows of tasks {numbers}; expected those of one; choose it with task")
    if task is not None and task not in numbers:
        raise DataError(f"{path}: has no task {task}; expected one of {numbers}")
    k = 0 if task is None else numbers.index(task)
    if found.sources[k].rows != size:
        raise DataError(
            f"{path}: was chosen from {found.sources[k].rows:,} rows, the data set has {size:,}; expected as many; "
            "give the data set that the features were extracted from, not shuffled or filtered"
        )
    rows: Array = np.asarray(found.row[found.source == k])
    return rows
