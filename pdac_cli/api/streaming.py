"""A replay buffer over a stream, as an estimator: rows come in calls, and the buffer is all that is kept of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pdac_cli.api.checked import checked_features, note_width
from pdac_cli.api.kept import KeptRows
from pdac_cli.api.labels import label_array
from pdac_cli.api.messages import python_messages
from pdac_cli.api.rows import given_rows, is_on_disk
from pdac_cli.api.settings import options_of, seed_value
from pdac_cli.arrays import Array, Source
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.stream.packed_arrays import NotPacked
from pdac_cli.engine.stream.packing import pack, unpack
from pdac_cli.engine.stream.running import Stream
from pdac_cli.errors import DataError, ModelError, UsageError
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.stream import StreamRule
from pdac_cli.pipeline.streaming import (
    batches_of,
    check_dim,
    check_has_no_network,
    check_logit_columns,
    outcome_options,
    rows_read_at_once,
)
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.streams.methods import streaming_method

NAMES: Mapping[str, str] = {"seed": "random_state"}


class StreamingSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Keep a buffer over rows that come once, as `pdac stream` does.

    Every call of ``partial_fit`` counts as one file of the command: it is cut into batches of ``batch`` rows from its
    first row on.  Calls of a multiple of ``batch`` rows keep what one call of all rows keeps.

    A parameter that is None stands for the command's default; see ``pdac stream --help``.

    Parameters
    ----------
    budget : int
        How many rows to keep.
    method : str
        A streaming method.
    density_kind : {"relative", "class"}, optional
        What density rows are kept by.
    steer, temperature : float, optional
        How much the rows kept already count, and the density.
    batch : int, optional
        Rows that arrive together.
    preset : "paper", optional
        The rule as printed.
    options : mapping, optional
        Any other option of `pdac stream` by the name of its field, such as ``{"window": 16}``.
    random_state : int or generator, optional
        The seed; None: the command's, so that the same rows are kept every time.

    Attributes
    ----------
    buffer_ : KeptRows
        The rows kept now.
    n_seen_ : int
        How many rows have come.

    Examples
    --------
    >>> import numpy as np
    >>> from pdac_cli import StreamingSelector
    >>> rng = np.random.default_rng(0)
    >>> stream = StreamingSelector(budget=20)
    >>> for _ in range(10):
    ...     X, y = rng.normal(size=(32, 8)), rng.integers(0, 4, 32)
    ...     stream = stream.partial_fit(X, y)
    >>> len(stream.buffer_), stream.n_seen_
    (20, 320)
    """

    def __init__(
        self,
        budget: int = 500,
        method: str = StreamMethod.SPDAC.value,
        *,
        density_kind: str | None = None,
        steer: float | None = None,
        temperature: float | None = None,
        batch: int | None = None,
        preset: str | None = None,
        options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.budget = budget
        self.method = method
        self.density_kind = density_kind
        self.steer = steer
        self.temperature = temperature
        self.batch = batch
        self.preset = preset
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, ids: Any = None, *, logits: Any = None) -> Self:
        """Begin anew and take in the rows."""
        self.__dict__.pop("_stream", None)
        return self.partial_fit(X, y, ids, logits=logits)

    def partial_fit(self, X: Any, y: Any = None, ids: Any = None, *, logits: Any = None) -> Self:
        """Take in rows: X (n, D), y (n,), by default all of one class, and what the caller calls the rows, ids (n,).

        By default rows are called by their number in the stream.  `logits` (n, K) are for the methods that need them.
        """
        X, first = checked_features(self, X, reset=not hasattr(self, "_stream")), not hasattr(self, "_stream")
        checked = isinstance(X, np.ndarray) and not is_on_disk(X)
        with (
            python_messages(NAMES) as console,
            one_blas_thread(),
            given_rows(X, y, logits, console, is_checked=checked) as rows,
        ):
            source = rows.source
            note_width(self, source.n_features, reset=first)
            if first:
                self._begin(source.n_features)
            stream = self._stream
            given = self._named(ids, source.n)
            if stream.method.needs_logits and not source.has_logits:
                raise DataError(f"logits is not given, and --method {self.method} needs them; expected (n, K)")
            number, size = self._calls, stream.options.batch
            self._calls += 1
            at_once = rows_read_at_once(size, source.n_features, source.dtype.itemsize)
            chunks = source.chunks(at_once, logits=stream.method.needs_logits)
            for batch in batches_of(chunks, size):
                codes = self._codes(rows.names_of(batch.y), source)
                if batch.logits is not None and stream.method.needs_logits:
                    check_logit_columns(batch.logits, codes, self._kind is not None, "logits")
                stream.take(number, batch.ids, batch.h, codes, batch.logits)
            self._name_kept(number, given)
            self._offered += source.n
        return self

    @property
    def buffer_(self) -> KeptRows:
        """The rows kept now."""
        check_is_fitted(self, "_stream")
        columns = self._stream.buffer.columns
        names = self._ids[np.searchsorted(self._keys, _keys(columns["source"], columns["row"]))]
        codes = columns["label"]
        labels = codes.copy() if self._kind is None else np.array(list(self._names))[codes]
        score = self._stream.score
        return KeptRows(names, labels, columns["source"] + 1, columns["log_density"].copy(), score)

    @property
    def n_seen_(self) -> int:
        """How many rows have come, those left out not counted."""
        check_is_fitted(self, "_stream")
        return self._stream.buffer.seen

    def state_dict(self) -> dict[str, Any]:
        """Return all that the stream knows, as arrays and a text: what `load_state_dict` goes on from."""
        check_is_fitted(self, "_stream")
        settings = {
            "options": outcome_options(self._stream.options, self._stream.method),
            "n_features": self._stream.n_features, "calls": self._calls, "offered": self._offered,
            "kind": self._kind, "names": list(self._names),
        }  # fmt: skip
        arrays = {f"stream/{name}": np.array(array) for name, array in pack(self._stream).items()}
        return {"settings": json.dumps(settings), "ids": self._ids.copy(), "keys": self._keys.copy(), **arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Go back to a state; it must be of a stream with the same parameters."""
        with python_messages(NAMES):
            try:
                settings = json.loads(str(state["settings"]))
                options, n_features = settings["options"], int(settings["n_features"])
                ids, keys = np.array(state["ids"]), np.array(state["keys"])
                names = {name: k for k, name in enumerate(settings["names"])}
                calls, offered, kind = int(settings["calls"]), int(settings["offered"]), settings["kind"]
            except (KeyError, TypeError, ValueError) as problem:
                raise ModelError(f"the state cannot be read ({problem!r}); expected one of state_dict()") from problem
            rule, method = self._rule()
            for name, value in outcome_options(rule, method).items():
                if options.get(name) != value:
                    raise UsageError(
                        f"the state was begun with {name} {options.get(name)} and not {value}; expected the same"
                    )
            arrays = {
                name.removeprefix("stream/"): np.asarray(array)
                for name, array in state.items()
                if name.startswith("stream/")
            }
            try:
                stream = unpack(arrays, rule, method, n_features)
            except NotPacked as problem:
                raise ModelError(f"the state cannot be read ({problem}); expected one of state_dict()") from problem
            columns = stream.buffer.columns
            if not np.array_equal(np.sort(_keys(columns["source"], columns["row"])), keys) or len(ids) != len(keys):
                raise ModelError("the state cannot be read ('ids' are not those of the rows); expected one whole")
            self._stream, self._ids, self._keys, self._names = stream, ids, keys, names
            self._calls, self._offered, self._kind, self.n_features_in_ = calls, offered, kind, n_features
        return self

    _kind: str | None  # of labels that are not codes: "text" or "number"
    _names: dict[Any, int]  # their codes, by appearance

    def _rule(self) -> tuple[StreamRule, StreamingMethod]:
        given = self.get_params(deep=False)
        more = given.pop("options")
        seed = seed_value(given.pop("random_state"))
        rule = options_of(StreamRule, {**given, "seed": seed}, more)
        method = streaming_method(rule.method, rule.density_kind)
        check_has_no_network(rule, method)
        return rule, method

    def _begin(self, n_features: int) -> None:
        rule, method = self._rule()
        check_dim(rule, method, n_features)
        self._stream = Stream.begin(rule, method, n_features)
        self._calls = self._offered = 0
        self._kind, self._names = None, {}
        self._ids, self._keys = np.empty(0, np.int64), np.empty(0, np.int64)

    def _named(self, ids: Any, rows: int) -> Array:
        """Return what the rows are called: (n,)."""
        if ids is None:
            return np.arange(self._offered, self._offered + rows)
        found = np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
        if found.shape != (rows,):
            raise DataError(f"ids has shape {found.shape}, X has {rows:,} rows; expected one id per row, (n,)")
        return found

    def _codes(self, labels: Array, source: Source) -> Array:
        """Return the stream's codes of labels (n,): whole numbers from 0 on are codes, others count as they come."""
        kind = None if source.label_names is None else "text" if label_array(labels).dtype.kind in "OSU" else "number"
        if not self._stream.rows:
            self._kind = kind
        if kind != self._kind:
            raise DataError("y has labels of another kind than before; expected whole numbers from 0 on, or texts")
        if kind is None:
            return labels
        return np.array([self._names.setdefault(label, len(self._names)) for label in labels.tolist()], np.int64)

    def _name_kept(self, number: int, given: Array) -> None:
        """Note what the rows kept are called, those of the call `number` by `given` (n,)."""
        columns = self._stream.buffer.columns
        source, row = columns["source"], columns["row"]
        keys, new = _keys(source, row), source == number
        ids = np.empty(len(keys), np.result_type(self._ids, given) if len(self._ids) else given.dtype)
        ids[new] = given[row[new]]
        ids[~new] = self._ids[np.searchsorted(self._keys, keys[~new])]
        order = np.argsort(keys)
        self._ids, self._keys = ids[order], keys[order]


def _keys(source: Array, row: Array) -> Array:
    """Return one number for each row of a call: (m,), (m,) -> (m,)."""
    keys: Array = (source << 40) + row
    return keys
