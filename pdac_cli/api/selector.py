"""Choosing rows as an estimator: for pipelines of scikit-learn and imbalanced-learn."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from pdac_cli.api.checked import checked_features
from pdac_cli.api.choosing import NAMES, Selected, select
from pdac_cli.api.kept import KeptRows
from pdac_cli.api.messages import FORGOTTEN, PdacWarning, python_messages
from pdac_cli.api.rows import is_files, is_on_disk
from pdac_cli.arrays import Array
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.index.index_file import Index, index_suffix, write_index
from pdac_cli.options.checks import check_value
from pdac_cli.options.declare import declared
from pdac_cli.options.methods import DRAWN
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.pipeline.replay_buffer import shortened
from pdac_cli.selection.interface import Reference
from pdac_cli.selection.methods import method_named

BUDGET = next(one for one in declared(SelectOptions) if one.name == "budget")


class CoresetSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Choose the rows to keep, as `pdac select` does.

    A parameter that is None stands for the command's default; see ``pdac select --help``.

    Parameters
    ----------
    method : str
        A selection method.
    budget : int
        How many rows to keep.
    allocation : {"per-class", "balanced", "joint"}, optional
        How the budget is shared among classes.
    temperature, steer : float, optional
        How much the density counts, and the rows kept already.
    density_kind : {"relative", "class"}, optional
        What density rows are drawn by.
    steer_by : {"error", "mean"}, optional
        What a row is to help with beside those kept already.
    preset : "paper", optional
        The rule as printed.
    model : path, optional
        A model file of `pdac fit` or of `ProjectedGaussianMixture.to_file`.
    head : bool, optional
        Where a method needs logits and there are none, train a linear head first.
    options : mapping, optional
        Any other option of `pdac select` by the name of its field, such as ``{"bandwidth": 0.5}``.
    memory : int or str, optional
        Bound on the working set, such as ``"1G"``.
    n_jobs : int, optional
        Threads.
    random_state : int or generator, optional
        The seed of every random number; None: the command's, so that the same call gives the same rows.

    Attributes
    ----------
    ranking_ : array of shape (m,)
        The rows chosen, best first.
    sample_indices_ : array of shape (m,)
        The same, ascending.
    scores_ : array of shape (m,), or None
        The method's own score of each row of ``ranking_``.
    suspects_, suspect_labels_ : arrays of shape (s,), or None
        Rows whose label is more likely wrong than right, and what they look like, where the method judges labels.
    buffer_ : KeptRows
        All rows kept, those of earlier calls of ``partial_fit`` included.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pdac_cli import CoresetSelector
    >>> X, y = load_digits(return_X_y=True)
    >>> X_kept, y_kept = CoresetSelector(budget=50).fit_resample(X, y)
    >>> X_kept.shape
    (50, 64)
    """

    def __init__(
        self,
        method: str = DRAWN,
        budget: int = 500,
        *,
        allocation: str | None = None,
        temperature: float | None = None,
        density_kind: str | None = None,
        steer: float | None = None,
        steer_by: str | None = None,
        preset: str | None = None,
        model: str | PathLike[str] | None = None,
        head: bool | None = None,
        options: Mapping[str, Any] | None = None,
        memory: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.budget = budget
        self.allocation = allocation
        self.temperature = temperature
        self.density_kind = density_kind
        self.steer = steer
        self.steer_by = steer_by
        self.preset = preset
        self.model = model
        self.head = head
        self.options = options
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state

    index_: Index
    _gradients: dict[tuple[int, int], tuple[Array, Array]]  # features and residuals of stored rows, by task and row
    _values: dict[str, Any] | None  # what the caller calls the classes, by their names; None: they are numbers

    def fit(self, X: Any, y: Any = None, *, logits: Any = None) -> Self:
        """Choose rows of X: an array, a tensor, a table, a data set on disk, a path or a `FeatureSet`.

        `y` are labels, whole numbers or texts; without them all rows are of one class.  `logits` (n, K) are for the
        methods that need them.
        """
        self._in_tasks = False
        return self._choose(X, y, logits, None)

    def partial_fit(self, X: Any, y: Any = None, *, logits: Any = None) -> Self:
        """Choose rows of a new task and let the earlier ones give up theirs, as `pdac select --buffer` does.

        What ``fit`` chose is no task: it is forgotten, with a warning.
        """
        before = self.index_ if getattr(self, "_in_tasks", False) else None
        if before is None and hasattr(self, "index_"):
            warnings.warn(FORGOTTEN, PdacWarning, stacklevel=2)
        self._choose(X, y, logits, before, in_tasks=True)
        self._in_tasks = True
        return self

    def fit_resample(self, X: Any, y: Any = None) -> tuple[Any, Any]:
        """Choose rows and return their X and y, ascending."""
        self.fit(X, y)
        if is_files(X):
            with_files = X if isinstance(X, FeatureSet) else FeatureSet(X)
            chunk = with_files.read_rows(self.sample_indices_)
            order = np.argsort(self.ranking_)
            if with_files is not X:
                with_files.close()
            return chunk.h, self._labels[order]
        kept = X[self.sample_indices_] if is_on_disk(X) else _safe_indexing(X, self.sample_indices_)
        return kept, None if y is None else _safe_indexing(y, self.sample_indices_)

    def to_file(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write the rows kept as an index file: `.json`, `.h5`, `.npy` or `.txt`."""
        check_is_fitted(self)
        with python_messages():
            index_suffix(Path(path))
            write_index(self.index_, Path(path), force)

    def resize(self, budget: int) -> Self:
        """Change the budget; where more rows are kept, every task gives up its last ones, in proportion."""
        self.budget = budget
        with python_messages(NAMES):
            check_value(BUDGET, budget)
            if hasattr(self, "index_") and len(self.index_.row) > budget:
                allocation = method_named(self.method).allocation
                given = allocation if self.allocation is None else Allocation(self.allocation)
                self.index_ = shortened(self.index_, budget, given)
        return self

    @property
    def buffer_(self) -> KeptRows:
        """The rows kept."""
        check_is_fitted(self)
        index: Index = self.index_
        names, labels = index.label_names, index.label
        if names is not None and self._values is not None:
            labels = np.array([self._values[names[label]] for label in labels.tolist()])
        return KeptRows(index.row, labels, index.task, index.log_density, index.score)

    def _choose(self, X: Any, y: Any, logits: Any, before: Index | None, *, in_tasks: bool = False) -> Self:
        X = checked_features(self, X, reset=before is None)
        given = self.get_params(deep=False)
        more = given.pop("options")
        in_memory = isinstance(X, np.ndarray) and not is_on_disk(X)
        reference = None if before is None else self._reference(before)
        found = select(X, y, logits, given, more, before, reference, in_tasks=in_tasks, is_checked=in_memory)
        self._take(found, first=before is None)
        return self

    def _reference(self, before: Index) -> Reference | None:
        """Return the rows stored, for methods that compare new ones with them; None where some came without logits."""
        places = list(zip(before.task.tolist(), before.row.tolist(), strict=True))
        if not all(place in self._gradients for place in places):
            return None
        h, e = (np.stack(part) for part in zip(*(self._gradients[place] for place in places), strict=True))
        return Reference(h, e)

    def _take(self, found: Selected, first: bool) -> None:
        answer = found.chosen.answer
        self.index_ = found.chosen.index
        self.ranking_: Array = answer.ranking.ids
        self.sample_indices_: Array = np.sort(self.ranking_)
        self.scores_ = answer.ranking.score
        self.suspects_ = None if answer.suspects is None else answer.suspects.ids
        self.suspect_labels_ = found.suspect_labels
        self._labels = found.labels
        rows = zip(self.index_.task.tolist(), self.index_.row.tolist(), strict=True)
        stored = {} if first else self._gradients
        if found.gradients is not None:
            new = zip(self.ranking_.tolist(), found.gradients.h, found.gradients.residuals, strict=True)
            stored = stored | {(found.chosen.task, row): (h, e) for row, h, e in new}
        self._gradients = {place: stored[place] for place in rows if place in stored}
        known = {} if first or self._values is None else self._values
        names = found.chosen.label_names
        if names is None:
            self._values = None
        else:
            codes = answer.ranking.codes
            classes = found.chosen.classes.labels
            self._values = known | {
                names[classes[code]]: value for code, value in zip(codes.tolist(), found.labels.tolist(), strict=True)
            }
