"""Slow, obvious, loop-based versions of what the package computes, and small stand-ins for its inputs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.stats import multivariate_normal


@dataclass(frozen=True)
class MemoryRows:
    """One class's rows as a plain array."""

    label: int
    h: np.ndarray

    @property
    def count(self) -> int:
        return len(self.h)

    @property
    def n_features(self) -> int:
        return self.h.shape[1]

    @property
    def dtype(self) -> np.dtype:
        return self.h.dtype

    def read_into(self, start: int, out: np.ndarray) -> None:
        out[...] = self.h[start : start + len(out)]


def features(n: int, dim: int, seed: int = 0, *, decay: float = 0.5, dtype: str = "f8") -> np.ndarray:
    """Correlated Gaussian rows with a decaying spectrum and a mean that is not zero."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    rows = rng.standard_normal((n, dim)) * np.arange(1, dim + 1) ** -decay
    return (rows @ basis + rng.standard_normal(dim)).astype(dtype)


def clustered(n: int, dim: int, clusters: int, seed: int = 0) -> np.ndarray:
    """Rows from a few well separated Gaussian clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, dim)) * 3
    return centres[rng.integers(clusters, size=n)] + rng.standard_normal((n, dim)) * rng.uniform(0.5, 1.5, dim)


def log_mixture(xi: np.ndarray, alpha: np.ndarray, mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Eq. (5), one row and one component at a time, by scipy."""
    out = np.empty(len(xi))
    for i, x in enumerate(xi):
        terms = [np.log(a) + multivariate_normal(m, s).logpdf(x) for a, m, s in zip(alpha, mu, sigma, strict=True)]
        out[i] = np.logaddexp.reduce(terms)
    return out


def inclusion_probabilities(weights: np.ndarray, k: int) -> np.ndarray:
    """P(row is among k drawn one after another ∝ weight without replacement), summed over every ordered outcome."""
    out = np.zeros(len(weights))
    for outcome in itertools.permutations(range(len(weights)), k):
        probability, left = 1.0, weights.sum()
        for i in outcome:
            probability *= weights[i] / left
            left -= weights[i]
        out[list(outcome)] += probability
    return out


def largest_remainder(total: int, shares: list[int]) -> np.ndarray:
    """Whole numbers that add up to total, in proportion to shares, by the textbook procedure in exact fractions."""
    exact = [Fraction(total * s, sum(shares)) for s in shares]
    out = [int(e) for e in exact]
    for i in sorted(range(len(exact)), key=lambda i: (-(exact[i] - out[i]), i))[: total - sum(out)]:
        out[i] += 1
    return np.array(out)
