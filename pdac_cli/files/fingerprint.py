"""Facts about feature values: the type they are read as, which are not finite, what names the whole."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FINGERPRINT_ROWS = 64
_CHECK_BYTES = 1 << 16  # of truth values at once, which stay in the cache


def float_dtype(stored: np.dtype[Any]) -> np.dtype[Any]:
    """The native float type that features of a stored type are read as; integers keep every value."""
    if stored.kind == "f":
        return np.dtype(f"f{min(stored.itemsize, 8)}")
    return np.dtype(np.float32 if stored.itemsize <= 2 else np.float64)


def fingerprint_rows(n: int) -> NDArray[np.int64]:
    """The rows of n that the fingerprint looks at: up to 64, evenly spaced, first and last among them."""
    count = min(n, _FINGERPRINT_ROWS)
    return np.array([i * (n - 1) // max(1, count - 1) for i in range(count)], np.int64)


def fingerprint_of(n: int, h: NDArray[Any], labels: NDArray[Any]) -> str:
    """The fingerprint of a set of n rows of which ``h`` (m, D) and ``labels`` (m,) are the sampled ones."""
    digest = hashlib.blake2b(digest_size=16)
    kind = "names" if labels.dtype == object else "numbers"
    digest.update(f"pdac-features 1 {n} {h.shape[1]} {h.dtype.name} {kind}\n".encode())
    digest.update(np.ascontiguousarray(h, h.dtype.newbyteorder("<")).tobytes())
    if kind == "names":
        for name in labels:
            raw = name.encode("utf-8", "backslashreplace")
            digest.update(len(raw).to_bytes(8, "little") + raw)
    else:
        digest.update(labels.astype("<i8").tobytes())
    return digest.hexdigest()


def nonfinite_rows(h: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows (m,) of ``h`` (m, D) hold NaN or infinity, without a temporary of the size of ``h``."""
    bad = np.zeros(len(h), bool)
    step = max(1, _CHECK_BYTES // max(1, h.shape[1]))
    for start in range(0, len(h), step):
        finite = np.isfinite(h[start : start + step])
        if not finite.all():
            bad[start : start + step] = ~finite.all(axis=1)
    return bad
