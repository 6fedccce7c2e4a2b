"""Choosing rows from Python, by the pipeline that `pdac select` uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.api.messages import python_messages
from pdac_cli.api.rows import given_rows, take
from pdac_cli.api.settings import jobs_of, options_of, seed_of
from pdac_cli.arrays import Array
from pdac_cli.engine.plan import make_plan
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.index.index_file import Index
from pdac_cli.options.select import SelectOptions
from pdac_cli.pipeline.selecting import Chosen, choose
from pdac_cli.selection.gradients import residuals
from pdac_cli.selection.interface import Reference
from pdac_cli.selection.methods import method_named

NAMES: Mapping[str, str] = {"seed": "random_state", "jobs": "n_jobs"}


@dataclass(frozen=True)
class Selected:
    """What was chosen, and the rows' labels as the caller has them."""

    chosen: Chosen
    labels: Array  # (m,) of the rows ranked
    suspect_labels: Array | None  # (s,) what the suspect rows look like
    gradients: Reference | None  # of the rows ranked, for methods that compare later ones with them


def select(
    X: Any,
    y: Any,
    logits: Any,
    given: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
    before: Index | None = None,
    reference: Reference | None = None,
    *,
    in_tasks: bool = False,
    is_checked: bool = False,
) -> Selected:
    """Choose rows; raise and warn in Python's words."""
    with python_messages(NAMES) as console:
        values = {**given, "seed": seed_of(given.get("random_state")), "jobs": jobs_of(given.get("n_jobs"))}
        options = options_of(SelectOptions, {k: v for k, v in values.items() if k not in NAMES.values()}, more)
        options = replace(options, task=1) if in_tasks and before is None else options
        method, plan = method_named(options.method), make_plan(options.input, options.run)
        with given_rows(X, y, logits, console, is_checked=is_checked) as rows:
            if isinstance(rows.source, FeatureSet):
                options = replace(options, input=rows.source.options)
            chosen = choose(rows.source, before, options, method, plan, console, reference)
            answer, labels = chosen.answer, chosen.classes.labels
            likely = None if answer.suspects is None else rows.names_of(labels[answer.suspects.likely])
            gradients = None
            if method.uses_stored and rows.source.has_logits:
                h, beside = take(rows.source, answer.ranking.ids)
                e = residuals(beside, labels[answer.ranking.codes]) if beside is not None else np.empty(0)
                gradients = Reference(h.astype(np.float64), e)
            return Selected(chosen, rows.names_of(labels[answer.ranking.codes]), likely, gradients)


def select_coreset(
    X: Any,
    y: Any = None,
    budget: int = 500,
    *,
    method: str | None = None,
    logits: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **options: Any,
) -> NDArray[np.int64]:
    """Choose the rows to keep, as `pdac select` does.

    Parameters
    ----------
    X : array of shape (n, D), path, or FeatureSet
        Features: a NumPy array, a memory map, a table of pandas, a `torch.Tensor`, a data set of h5py or zarr (which
        is read a slice at a time and never held), or feature files.
    y : array of shape (n,), optional
        Labels: whole numbers or texts.  Without them all rows are of one class.  Files have their own.
    budget : int
        How many rows to keep.
    method : str, optional
        A selection method, as in `pdac select --help`.  By default the command's, ``"pdac"``.
    logits : array of shape (n, K), optional
        For the methods that need them.
    random_state : int or generator, optional
        The seed of every random number.  By default the command's, so that the same call gives the same rows.
    n_jobs : int, optional
        Threads.  By default the cores this process may use.
    **options
        Any other option of `pdac select` by the name of its field, such as ``temperature``, ``allocation``, ``steer``,
        ``head``, ``model``, ``memory``.

    Returns
    -------
    array of shape (min(budget, n),)
        Row numbers, best first: the same ones that the command prints.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pdac_cli import select_coreset
    >>> X, y = load_digits(return_X_y=True)
    >>> rows = select_coreset(X, y, budget=50)
    >>> X[rows].shape
    (50, 64)
    """
    given = {"budget": budget, "method": method, "random_state": random_state, "n_jobs": n_jobs}
    return select(X, y, logits, given, options).chosen.index.row
