"""What a buffer holds, as columns."""

from __future__ import annotations

from dataclasses import dataclass

from pdac_cli.arrays import Array


@dataclass(frozen=True)
class KeptRows:
    """The rows that a buffer holds.

    Attributes
    ----------
    ids : array of shape (m,)
        What the caller calls the rows; by default their numbers.
    labels : array of shape (m,)
        Their labels, as they were given.
    task : array of shape (m,)
        Which call of ``partial_fit`` brought them, from 1 on.
    log_density : array of shape (m,)
        Their log-density as of when they entered; NaN where the method has none.
    score : array of shape (m,), or None
        What the method has to say of them, where it says anything.

    Examples
    --------
    >>> import numpy as np
    >>> from pdac_cli import StreamingSelector
    >>> rng = np.random.default_rng(0)
    >>> kept = StreamingSelector(budget=6).partial_fit(rng.normal(size=(40, 5)), np.arange(40) % 3).buffer_
    >>> len(kept), sorted(kept.labels.tolist())
    (6, [0, 0, 1, 1, 2, 2])
    """

    ids: Array
    labels: Array
    task: Array
    log_density: Array
    score: Array | None = None

    def __len__(self) -> int:
        return len(self.ids)
