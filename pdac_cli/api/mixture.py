"""The projected Gaussian mixture as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from pdac_cli.api.checked import checked_features
from pdac_cli.api.labels import encoded
from pdac_cli.api.messages import FORGOTTEN, InputError, ParameterError, python_messages
from pdac_cli.api.mixture_stream import MixtureStream
from pdac_cli.api.rows import feature_array, given_rows, is_files, is_on_disk
from pdac_cli.api.settings import jobs_of, options_of, seed_value
from pdac_cli.arrays import Array
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.density.posterior import draw_rows, log_joint, log_of_class, rest_variance
from pdac_cli.density.relative import log_softmax
from pdac_cli.engine.plan import count_classes, make_plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import ModelError
from pdac_cli.files.results.model import StoredModel, read_model, write_model
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from pdac_cli.options.stream import StreamDensityOptions
from pdac_cli.pipeline.fitting import DensitySetup
from pdac_cli.pipeline.modelling import model_of_source

NAMES: Mapping[str, str] = {
    "dim": "n_dims", "components": "n_components", "iterations": "n_iter", "ridge": "floor", "seed": "random_state",
    "jobs": "n_jobs",
}  # fmt: skip
_FIT, _STREAM = DensityOptions(), StreamDensityOptions()


class ProjectedGaussianMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One projection and one Gaussian mixture for each class: the density of `pdac fit`.

    Classes are compared by log p(x, y) = log p(y) + log p(W_yᵀ(x − m_y) | y) + the log-density of what is outside the
    projection, a Gaussian of one variance in all other directions.  Where ``n_dims`` is the number of features nothing
    is outside, and this is ``score_samples(X, y)``.

    Parameters
    ----------
    n_components : int
        Gaussian components of each class.
    n_dims : int
        Projected dimensions; at most as many as there are features are used.
    n_iter : int
        EM steps.
    floor : float
        Added to each covariance, times the class's mean projected variance.
    normalize : bool
        Divide rows by their length first.
    tol : float, optional
        Stop a class's EM when a step gains less than this.
    step_rows : int
        ``partial_fit``: rows of a class from one update of its density to the next.
    memory : int or str, optional
        Bound on the working set, such as ``"1G"``.
    n_jobs : int, optional
        Threads.
    random_state : int or generator, optional
        The seed; None: the command's, so that the same call gives the same model.

    Attributes
    ----------
    classes_ : array of shape (C,)
        The labels.
    class_count_ : array of shape (C,)
        Rows of each class.
    weights_, means_, covariances_ : arrays of shapes (C, L), (C, L, d), (C, L, d, d)
        The mixtures, in projected directions.
    components_, class_means_ : arrays of shapes (C, D, d), (C, D)
        The projections, and the means that rows are centred by.
    rest_variance_ : float, or None
        The variance outside the projections; None where a model file has none.
    log_likelihood_ : array
        Mean log-likelihood before each EM step and after the last.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pdac_cli import ProjectedGaussianMixture
    >>> X, y = load_digits(return_X_y=True)
    >>> mixture = ProjectedGaussianMixture(n_components=3).fit(X[:1000], y[:1000])
    >>> bool(mixture.score(X[1000:], y[1000:]) > 0.9)
    True
    >>> mixture.score_samples(X, y).shape
    (1797,)
    """

    def __init__(
        self,
        n_components: int = _FIT.components,
        n_dims: int = _FIT.dim,
        n_iter: int = _FIT.iterations,
        *,
        floor: float = _FIT.ridge,
        normalize: bool = _FIT.normalize,
        tol: float | None = _FIT.tol,
        step_rows: int = _STREAM.step_rows,
        memory: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_dims = n_dims
        self.n_iter = n_iter
        self.floor = floor
        self.normalize = normalize
        self.tol = tol
        self.step_rows = step_rows
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the density of every class: X (n, D) and y (n,), or feature files by a path or a `FeatureSet`."""
        with python_messages(NAMES) as console:
            seed, run = seed_value(self.random_state), self._run()
            options = self._density(None)
            X, y = self._checked(X, y, reset=True)
            plan = make_plan(InputOptions(), run)
            with given_rows(X, y, None, console, is_checked=isinstance(X, np.ndarray)) as rows:
                self.n_features_in_ = rows.source.n_features
                options = self._density(self.n_features_in_)
                given = getattr(rows.source, "options", InputOptions())
                classes = count_classes(rows.source, plan, given)
                stored = model_of_source(rows.source, classes, DensitySetup(options, seed), plan, console)
                self._keep(stored, rows.names_of(stored.model.labels))
        self._stream: MixtureStream | None = None
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Take in more rows by the streaming EM of `pdac stream --density class`; new classes may come at any time.

        Every call is one batch.  What ``fit`` found is forgotten, with a warning: a mixture alone does not say what its
        rows were.  `classes`, if given, are the only labels expected.
        """
        with python_messages(NAMES) as console, one_blas_thread():
            stream = getattr(self, "_stream", None)
            if stream is None and hasattr(self, "_stored"):
                del self._stored
                console.warn(FORGOTTEN)
            X, y = self._checked(X, y, reset=stream is None)
            if stream is None:
                values = self._values("iterations", "tol", "normalize") | {"step_rows": self.step_rows}
                options = options_of(StreamDensityOptions, self._clipped(values, self.n_features_in_))
                stream = MixtureStream(options, seed_value(self.random_state), self.n_features_in_)
            rows = feature_array(X, "X", is_checked=True)
            stream.take(unit_rows(rows) if self.normalize else rows, y, classes)
            self._stream, self.classes_ = stream, stream.labels()
        return self

    def score_samples(self, X: Any, y: Any = None) -> Array:
        """Return log p(x, y) of rows with their labels, Eq. (9); without labels log p(x), all classes summed: (n,)."""
        if y is None:
            joint = self._joint(X)
            largest = joint.max(axis=1)
            total: Array = largest + np.log(np.exp(joint - largest[:, None]).sum(axis=1))
            return total
        h = self._rows(X)
        labels = encoded(y, len(h))
        found = labels.of(labels.codes)
        codes = np.searchsorted(self.classes_, found)
        known = np.minimum(codes, len(self.classes_) - 1)
        odd = self.classes_[known] != found
        if odd.any():
            raise InputError(f"y has {found[odd].tolist()[0]!r}; expected labels that were fitted")
        return log_of_class(self._fitted().model, h, codes)

    def predict_log_proba(self, X: Any) -> Array:
        """Return log P(y | x), by the Bayes rule over the classes: (n, C)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_proba(self, X: Any) -> Array:
        """Return P(y | x), by the Bayes rule over the classes: (n, C)."""
        return np.exp(log_softmax(self._joint(X)))

    def predict(self, X: Any) -> Array:
        """Return the likeliest label of each row: (n,)."""
        joint = self._joint(X)
        likeliest: Array = self.classes_[joint.argmax(axis=1)]
        return likeliest

    def transform(self, X: Any) -> Array:
        """Return log p(x, y) of every row with every class: (n, C)."""
        return self._joint(X)

    def sample(self, n_samples: int = 1) -> tuple[Array, Array]:
        """Draw rows and their labels from the model: (n, D), (n,); in the units of length 1 with ``normalize``."""
        stored = self._fitted()
        if not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ParameterError(f"n_samples is {n_samples!r}; expected at least 1")
        rng = np.random.default_rng(seed_value(self.random_state))
        rows, codes = draw_rows(stored.model, self.rest_variance_ or 0.0, int(n_samples), rng)
        return rows, self.classes_[codes]

    def to_file(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write the model as `pdac fit` does, for `pdac select --model` and `from_file`."""
        with python_messages(NAMES):
            write_model(self._fitted(), Path(path), force)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Self:
        """Return the estimator that a model file of `pdac fit` holds; its classes are numbers, or their names."""
        with python_messages(NAMES):
            stored = read_model(Path(path))
        inverse = {field: name for field, name in NAMES.items() if field not in ("seed", "jobs")}
        given = stored.options
        known: dict[str, Any] = {name: given[field] for field, name in inverse.items() if field in given}
        more: dict[str, Any] = {name: given[name] for name in ("normalize", "tol", "step_rows") if name in given}
        made = cls(**known, **more, random_state=stored.seed)
        made.n_features_in_ = int(stored.model.mean.shape[1])
        labels = stored.model.labels
        names = stored.label_names
        made._keep(stored, labels if names is None else np.array([names[label] for label in labels]))
        made._stream = None
        return made

    model_ = property(lambda self: self._fitted().model)
    class_count_ = property(lambda self: self._fitted().model.counts)
    weights_ = property(lambda self: self._fitted().model.alpha)
    means_ = property(lambda self: self._fitted().model.mu)
    components_ = property(lambda self: self._fitted().model.W)
    class_means_ = property(lambda self: self._fitted().model.mean)
    log_likelihood_ = property(lambda self: self._fitted().model.step_log_likelihood())

    @property
    def covariances_(self) -> Array:
        """Σ of each component: (C, L, d, d)."""
        chol = self._fitted().model.chol
        covariances: Array = chol @ chol.swapaxes(-1, -2)
        return covariances

    @property
    def rest_variance_(self) -> float | None:
        """v, the variance outside the projections."""
        stored = self._fitted()
        if self._stream is not None:
            return self._stream.rest()
        if stored.space is not None:
            moments = stored.space.moments
            return rest_variance(stored.model, float(np.trace(moments.scatter)) / float(moments.counts.sum()))
        return None

    @property
    def _n_features_out(self) -> int:
        return len(self.classes_)

    def _fitted(self) -> StoredModel:
        check_is_fitted(self)
        if self._stream is not None:
            return self._stream.stored(self.normalize)
        stored: StoredModel = self._stored
        return stored

    def _keep(self, stored: StoredModel, classes: Array) -> None:
        self._stored, self.classes_ = stored, classes

    def _joint(self, X: Any) -> Array:
        h, stored, rest = self._rows(X), self._fitted(), self.rest_variance_
        if rest is None and (stored.model.dims < stored.model.mean.shape[1]).any():
            raise ModelError(
                "the model was written by pdac stream, which keeps no variance outside its projections; expected one "
                "of pdac fit for comparing classes; score_samples(X, y) needs none"
            )
        with one_blas_thread():
            return log_joint(stored.model, rest or 1.0, h)

    def _rows(self, X: Any) -> Array:
        """Return rows as the density takes them: (n, D)."""
        check_is_fitted(self)
        if is_files(X):
            raise InputError("X is feature files; expected rows here, such as those of FeatureSet.chunks")
        X = checked_features(self, X, reset=False)
        rows = feature_array(X[:] if is_on_disk(X) else X, "X", is_checked=not is_on_disk(X))
        return unit_rows(rows) if self.normalize else rows

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        """Return features and labels, checked."""
        if is_files(X):
            return checked_features(self, X, reset=reset), y
        if y is None:
            raise InputError("ProjectedGaussianMixture requires y to be passed, but the target y is None")
        X = checked_features(self, X, reset=reset)
        y = column_or_1d(y.detach().cpu().numpy() if hasattr(y, "detach") else y, warn=True)
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return X, y

    def _values(self, *without: str) -> dict[str, Any]:
        values = {
            "dim": self.n_dims, "components": self.n_components, "iterations": self.n_iter, "ridge": self.floor,
            "tol": self.tol, "normalize": self.normalize,
        }  # fmt: skip
        return {name: value for name, value in values.items() if name not in without}

    def _clipped(self, values: Mapping[str, Any], n_features: int) -> dict[str, Any]:
        return {**values, "dim": min(values["dim"], n_features)}

    def _density(self, n_features: int | None) -> DensityOptions:
        made = options_of(DensityOptions, self._values())
        return made if n_features is None else options_of(DensityOptions, self._clipped(self._values(), n_features))

    def _run(self) -> RunOptions:
        return options_of(RunOptions, {"memory": self.memory, "jobs": jobs_of(self.n_jobs)})
