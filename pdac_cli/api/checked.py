"""Features checked as scikit-learn's users expect: its messages, the numbers and names of features noted."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import validate_data

from pdac_cli.api.messages import InputError, python_messages
from pdac_cli.api.rows import feature_array, is_files, is_on_disk
from pdac_cli.files.featureset import FeatureSet


def checked_features(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return X in memory as an array, checked; what is read a slice at a time, as it is."""
    if is_files(X):
        if isinstance(X, FeatureSet):
            note_width(estimator, X.n_features, reset=reset)
        return X
    if is_on_disk(X):
        if len(X.shape) == 2:
            note_width(estimator, int(X.shape[1]), reset=reset)
        return X
    if hasattr(X, "toarray") or hasattr(X, "detach"):  # sparse matrices are refused there, tensors made arrays
        with python_messages():
            X = feature_array(X, "X")
    return validate_data(estimator, X, reset=reset, dtype="numeric")


def note_width(estimator: Any, n_features: int, *, reset: bool) -> None:
    """Note the number of features, or refuse another one than was fitted."""
    if reset:
        estimator.n_features_in_ = n_features
    elif n_features != estimator.n_features_in_:
        raise InputError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input"
        )
