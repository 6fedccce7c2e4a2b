"""The inner loops in C, beside plain NumPy and closed forms."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from pdac_cli.density import kernel
from pdac_cli.density.blocks import ROWS, empty_blocks, fill
from pdac_cli.density.mixture import coefficients_of
from pdac_cli.errors import DataError
from tests.density.mixtures import fit
from tests.oracles import clustered

SOURCE = Path(kernel.__file__).with_name("_kernel.c")
COMPILER = shutil.which(os.environ.get("CC", "cc"))
HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()
can_compile = pytest.mark.skipif(not (COMPILER and HEADERS), reason="no C compiler or no Python headers")


@can_compile
def test_it_is_built_where_there_is_a_compiler():
    assert kernel.compiled is not None


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Compile the kernel with other options, all warnings as errors."""
    if not (COMPILER and HEADERS):
        pytest.skip("no C compiler or no Python headers")

    def compiled(*options):
        target = tmp_path_factory.mktemp("built") / "_kernel.so"
        flags = ["-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", *options]
        include = f"-I{sysconfig.get_path('include')}"
        subprocess.run([COMPILER, *flags, include, str(SOURCE), "-o", str(target), "-lm"], check=True)
        loader = importlib.machinery.ExtensionFileLoader("_kernel", str(target))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_kernel", loader))
        loader.exec_module(module)
        return module

    return compiled


@pytest.fixture(scope="module")
def plain(build):
    """As on processors without AVX2."""
    return build("-DNO_AVX2")


@pytest.fixture(scope="module")
def without_avx512(build):
    return build("-DNO_AVX512")


@pytest.fixture(params=["best", "plain"])
def built(request):
    if request.param == "plain":
        return request.getfixturevalue("plain")
    return kernel.compiled or pytest.skip("not compiled")


def blocks_of(classes):
    dim = classes[0].shape[1]
    blocks = empty_blocks([len(xi) for xi in classes], dim)
    for c, xi in enumerate(classes):
        padded = np.zeros((-len(xi) // ROWS * -ROWS, dim))
        padded[: len(xi)] = xi
        fill(blocks, c, 0, padded.reshape(-1, ROWS, dim).swapaxes(1, 2))
    return blocks


def quadratic_rows(xi):
    """[1, x_i, x_i x_j (i ≤ j)] of each row: (n, K)."""
    z = np.column_stack([np.ones(len(xi)), xi])
    i, j = np.triu_indices(z.shape[1])
    return z[:, i] * z[:, j]


def swept(built, classes, theta, comps):
    blocks = blocks_of(classes)
    sums, likelihood = np.full(theta.shape, np.nan), np.full(len(classes), np.nan)
    starts, counts = blocks.starts[:-1].astype(np.int64), blocks.counts.astype(np.int64)
    built.sweep(blocks.xi, starts, counts, theta, sums, likelihood, classes[0].shape[1], comps, theta.shape[1])
    return sums[:, :comps], likelihood


@pytest.mark.parametrize("comps", [1, 2, 3, 4, 6, 7, 8, 9, 15, 23])
@pytest.mark.parametrize("dim", [1, 2, 5, 10])
def test_a_pass_is_the_sums_written_out(built, comps, dim):
    rng = np.random.default_rng(comps * 100 + dim)
    classes = [rng.standard_normal((n, dim)) for n in (1, 127, 128, 129, 700)]
    theta = rng.standard_normal((len(classes), -(-comps // 4) * 4, (dim + 1) * (dim + 2) // 2))
    sums, likelihood = swept(built, classes, theta, comps)
    for c, xi in enumerate(classes):
        phi = quadratic_rows(xi)
        log_p = phi @ theta[c, :comps].T
        r = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        np.testing.assert_allclose(sums[c], r.T @ phi, rtol=1e-11, atol=1e-12 * len(xi))
        np.testing.assert_allclose(likelihood[c], logsumexp(log_p, axis=1).sum(), rtol=1e-13, atol=1e-13 * len(xi))


def test_responsibilities_are_right_to_the_last_digits_over_the_whole_range(built):
    apart = np.concatenate([np.geomspace(1e-9, 700, 500), np.linspace(0, 700, 501)])
    theta = np.zeros((len(apart), 4, 3))
    theta[:, 1, 0] = -apart
    sums, likelihood = swept(built, [np.zeros((1, 1))] * len(apart), theta, 2)
    np.testing.assert_allclose(sums[:, 1, 0], expit(-apart), rtol=3e-15)
    np.testing.assert_allclose(likelihood, np.log1p(np.exp(-apart)), atol=3e-16)


@pytest.mark.parametrize("apart", [709.0, 1e4, 1e30, np.inf])
def test_a_component_out_of_reach_gets_nothing(built, apart):
    theta = np.zeros((1, 4, 3))
    theta[0, 1, 0] = -apart
    sums, likelihood = swept(built, [np.zeros((3, 1))], theta, 2)
    assert sums[0, 1, 0] == 0.0
    assert sums[0, 0, 0] == 3.0
    assert likelihood[0] == 0.0


def test_what_is_not_a_number_is_not_hidden(built):
    theta = np.zeros((1, 4, 3))
    theta[0, 0, 0] = np.nan
    sums, _ = swept(built, [np.zeros((3, 1))], theta, 2)
    assert np.isnan(sums).any()


def test_a_row_counts_the_same_wherever_it_stands(built):
    rng = np.random.default_rng(0)
    theta, row = rng.standard_normal((1, 8, 21)), rng.standard_normal(5)
    found = set()
    for at in (0, 1, 5, 127, 128, 200):
        xi = np.zeros((at + 1, 5))
        xi[at] = row
        shifted = theta.copy()
        shifted[0, :, 0] = 0.0
        _, likelihood = swept(built, [xi[at:]], shifted, 7)
        together, _ = swept(built, [xi], shifted, 7)
        alone, _ = swept(built, [xi[:at]], shifted, 7) if at else (np.zeros((1, 7, 21)), None)
        found.add(likelihood.tobytes())
        np.testing.assert_allclose((together - alone)[0, :, 20], swept(built, [row[None]], shifted, 7)[0][0, :, 20])
    assert len(found) == 1


@pytest.mark.parametrize("width", [1, 2, 3, 11, 40])
@pytest.mark.parametrize("count", [1, 3, 4, 70])
def test_inverses_are_lapacks(built, width, count):
    root = np.random.default_rng(width).standard_normal((count, width, width + 3))
    matrices = root @ root.swapaxes(1, 2)
    i, j = np.triu_indices(width)
    inverses, half_logs = np.empty((count, len(i))), np.empty(count)
    assert built.inverses(matrices, inverses, half_logs, width)
    np.testing.assert_allclose(inverses, np.linalg.inv(matrices)[:, i, j], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(half_logs, np.linalg.slogdet(matrices)[1] / 2, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize("wrong", [-1.0, 0.0, np.nan])
def test_a_matrix_without_an_inverse_is_told_wherever_it_stands(built, place, wrong):
    matrices = np.tile(np.eye(3), (7, 1, 1))
    matrices[place, 2, 2] = wrong
    assert not built.inverses(matrices, np.empty((7, 6)), np.empty(7), 3)


def test_a_collapsed_component_is_the_same_error_with_and_without():
    moments = np.tile(np.eye(3), (1, 2, 1, 1))
    moments[0, 1, 2, 2] = -0.25
    with pytest.raises(DataError, match=r"the eigenvalue -0.25, expected more than 0; raise --ridge"):
        coefficients_of(np.full((1, 2), 0.5), moments, np.array([2]))


@pytest.mark.parametrize("change", [
    {"theta": np.zeros((2, 4, 5))}, {"sums": np.zeros((1, 4, 6))}, {"likelihood": np.zeros(1)},
    {"counts": np.array([128])}, {"counts": np.array([128, 129])}, {"counts": np.array([-1, 5])},
    {"firsts": np.array([0, 2])}, {"firsts": np.array([-1, 0])}, {"firsts": np.array([2**62, 0])},
    {"counts": np.array([2**63 - 1, 5])},
    {"xi": np.zeros((1, 2, ROWS))}, {"dim": 3}, {"dim": 0}, {"comps": 5}, {"comps": 0}, {"padded": 3},
])  # fmt: skip
def test_arrays_that_do_not_go_together_are_refused(built, change):
    right = {
        "xi": np.zeros((2, 2, ROWS)), "firsts": np.array([0, 1]), "counts": np.array([128, 5]),
        "theta": np.zeros((2, 4, 6)), "sums": np.zeros((2, 4, 6)), "likelihood": np.zeros(2),
        "dim": 2, "comps": 4, "padded": 4,
    }  # fmt: skip
    built.sweep(*right.values())
    with pytest.raises(ValueError, match="do not go together"):
        built.sweep(*(right | change).values())


def test_arrays_that_cannot_be_written_or_are_not_in_order_are_refused(built):
    matrices, inverses, half_logs = np.tile(np.eye(2), (4, 1, 1)), np.empty((4, 3)), np.empty(4)
    with pytest.raises(ValueError, match="do not go together"):
        built.inverses(matrices, inverses, half_logs, 3)
    with pytest.raises(ValueError, match="do not go together"):
        built.inverses(matrices[:0], inverses[:0], half_logs[:0], 0)
    half_logs.flags.writeable = False
    with pytest.raises((BufferError, TypeError, ValueError)):
        built.inverses(matrices, inverses, half_logs, 2)
    with pytest.raises((BufferError, TypeError, ValueError)):
        built.inverses(matrices[::2], inverses[:2], np.empty(2), 2)


@pytest.mark.parametrize("size", [1, 7, 16, 100, 203])
def test_steps_of_lanczos_give_an_orthonormal_basis_in_which_the_matrix_is_tridiagonal(built, size):
    rng, steps = np.random.default_rng(size), min(size - 1, 30) or 1
    h = rng.standard_normal((2 * size, size))
    A = (h.T @ h).astype("f4")
    V, T = np.zeros((steps + 1, size), "f4"), np.zeros((2, steps))
    V[0] = 1 / np.sqrt(size)
    half = steps // 2
    first, diagonals = V[: half + 1].copy(), T[:, :half].copy()
    if half:
        assert built.lanczos(A, first, diagonals[0], diagonals[1], 0, half) == half
        V[: half + 1], T[:, :half] = first, diagonals
    done = built.lanczos(A, V, T[0], T[1], half, steps)
    assert done == (steps if size > 1 else 0)
    V, T = V.astype("f8"), T[:, :steps]
    np.testing.assert_allclose(V[: done + 1] @ V[: done + 1].T, np.eye(done + 1), atol=1e-5)
    tridiagonal = np.diag(T[0]) + np.diag(T[1, :-1], 1) + np.diag(T[1, :-1], -1)
    np.testing.assert_allclose(V[:steps] @ A @ V[:steps].T, tridiagonal, atol=1e-5 * np.linalg.norm(A, 2))


def test_lanczos_tells_where_the_matrix_does_not_lead_out_of_the_span(built):
    A = np.diag(np.arange(1.0, 101.0)).astype("f4")
    V = np.zeros((21, 100), "f4")
    V[0, :3] = 1 / np.sqrt(3)  # three eigenvectors: the third step leads nowhere
    assert built.lanczos(A, V, np.zeros(20), np.zeros(20), 0, 20) == 2
    assert built.lanczos(np.full_like(A, np.nan), V, np.zeros(20), np.zeros(20), 0, 20) == 0


@pytest.mark.parametrize("change", [
    {"A": np.zeros((9, 10), "f4")}, {"V": np.zeros((5, 10), "f4")}, {"diagonal": np.zeros(4)}, {"beside": np.zeros(6)},
    {"first": -1}, {"first": 6}, {"last": 4}, {"last": 0}, {"last": -1}, {"V": np.zeros((6, 10), "f8")},
])  # fmt: skip
def test_matrices_that_do_not_go_together_are_refused(built, change):
    right = {
        "A": np.eye(10, dtype="f4"), "V": np.ones((6, 10), "f4"), "diagonal": np.zeros(5), "beside": np.zeros(5),
        "first": 0, "last": 5,
    }  # fmt: skip
    built.lanczos(*right.values())
    with pytest.raises(ValueError, match="do not go together"):
        built.lanczos(*(right | change).values())


@pytest.mark.parametrize("features", [1, 7, 16, 33, 512])
@pytest.mark.parametrize("n", [1, 15, 16, 300])
def test_shifted_rows_and_their_sum(built, n, features):
    rng = np.random.default_rng(n)
    h, point = rng.standard_normal((n, features), dtype="f4"), rng.standard_normal(features, dtype="f4")
    rows, total = h.copy(), np.full(features, 7.0)
    built.shift(rows, point, 1 / n, total)
    np.testing.assert_array_equal(rows, h - point)
    np.testing.assert_allclose(total, 7 + rows.mean(axis=0, dtype="f8"), atol=1e-6)


def test_a_sum_does_not_overflow_where_the_mean_does_not(built):
    rows, total = np.full((100, 20), 3e38, "f4"), np.zeros(20)
    built.shift(rows, np.zeros(20, "f4"), 1 / 100, total)
    np.testing.assert_allclose(total, 3e38, rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 3, 10])
@pytest.mark.parametrize("features", [1, 7, 8, 100, 513])
def test_projected_rows_are_the_products_and_the_same_wherever_they_stand(built, features, dim):
    rng = np.random.default_rng(features)
    rows, W = rng.standard_normal((2 * ROWS, features), dtype="f4"), rng.standard_normal((dim, features), dtype="f4")
    out, turned = np.empty((2, dim, ROWS), "f4"), np.empty((2, dim, ROWS), "f4")
    built.project(rows, W, out, features)
    flat = out.swapaxes(1, 2).reshape(-1, dim)
    np.testing.assert_allclose(flat, rows.astype("f8") @ W.T.astype("f8"), atol=1e-5 * np.sqrt(features))
    built.project(np.roll(rows, 5, axis=0), W, turned, features)
    np.testing.assert_array_equal(turned.swapaxes(1, 2).reshape(-1, dim), np.roll(flat, 5, axis=0))


@pytest.mark.parametrize("places", [[], [4], [0, 9, 3, 3, 1, 9]])
def test_gathered_rows_are_those_at_the_places(built, places):
    rows, places = np.arange(70, dtype="f4").reshape(10, 7), np.array(places, np.int64)
    out = np.empty((len(places), 7), "f4")
    built.gather(rows, places, out, 7)
    np.testing.assert_array_equal(out, rows[places])


@pytest.mark.parametrize(("name", "arguments"), [
    ("gather", (np.zeros((3, 2), "f4"), np.array([3]), np.zeros((1, 2), "f4"), 2)),
    ("gather", (np.zeros((3, 2), "f4"), np.array([-1]), np.zeros((1, 2), "f4"), 2)),
    ("gather", (np.zeros((3, 2), "f4"), np.array([0, 1]), np.zeros((1, 2), "f4"), 2)),
    ("gather", (np.zeros((3, 2), "f4"), np.array([0]), np.zeros((1, 2), "f4"), 0)),
    ("gather", (np.zeros((3, 3), "f4"), np.array([0]), np.zeros((1, 2), "f4"), 2)),
    ("shift", (np.zeros((3, 2), "f4"), np.zeros(3, "f4"), 1.0, np.zeros(2))),
    ("shift", (np.zeros((3, 2), "f4"), np.zeros(2, "f4"), 1.0, np.zeros(3))),
    ("shift", (np.zeros((3, 3), "f4"), np.zeros(2, "f4"), 1.0, np.zeros(2))),
    ("shift", (np.zeros((3, 2), "f4"), np.zeros(2, "f4"), 1.0, np.zeros(2, "f4"))),
    ("shift", (np.zeros(0, "f4"), np.zeros(0, "f4"), 1.0, np.zeros(0))),
    ("project", (np.zeros((ROWS - 1, 2), "f4"), np.zeros((1, 2), "f4"), np.zeros((1, 1, ROWS), "f4"), 2)),
    ("project", (np.zeros((ROWS, 2), "f4"), np.zeros((1, 3), "f4"), np.zeros((1, 1, ROWS), "f4"), 2)),
    ("project", (np.zeros((ROWS, 2), "f4"), np.zeros((2, 2), "f4"), np.zeros((1, 1, ROWS), "f4"), 2)),
    ("project", (np.zeros((ROWS, 2), "f4"), np.zeros((1, 2), "f4"), np.zeros((1, 1, ROWS), "f4"), -2)),
])  # fmt: skip
def test_rows_that_do_not_go_together_are_refused(built, name, arguments):
    with pytest.raises(ValueError, match="do not go together"):
        getattr(built, name)(*arguments)


def test_processors_with_more_registers_give_the_same_bits(without_avx512):
    """Where this processor has no AVX-512, both are the same code."""
    best = kernel.compiled or pytest.skip("not compiled")
    rng = np.random.default_rng(0)
    for comps, dim in ((1, 3), (4, 1), (7, 10), (9, 6), (23, 2)):
        classes = [rng.standard_normal((n, dim)) for n in (1, 129, 700)]
        theta = rng.standard_normal((len(classes), -(-comps // 4) * 4, (dim + 1) * (dim + 2) // 2))
        for ours, theirs in zip(
            swept(best, classes, theta, comps), swept(without_avx512, classes, theta, comps), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    h = rng.standard_normal((ROWS, 77), dtype="f4")
    A = h.T @ h
    found = []
    for module in (best, without_avx512):
        V, T, rows, total = np.zeros((21, 77), "f4"), np.zeros((2, 20)), h.copy(), np.zeros(77)
        V[0] = 1 / np.sqrt(77)
        module.lanczos(A, V, T[0], T[1], 0, 20)
        module.shift(rows, h[0], 1 / ROWS, total)
        out, inverses, half_logs = np.empty((1, 21, ROWS), "f4"), np.empty((1, 77 * 39)), np.empty(1)
        module.project(rows, V, out, 77)
        module.inverses(A.astype("f8"), inverses, half_logs, 77)
        found.append([V, T, rows, total, out, inverses, half_logs])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_em_with_and_without_are_the_same_but_for_rounding(monkeypatch):
    classes = [clustered(n, 3, 3, seed=n) for n in (40, 700, 1030)]
    ours, history = fit(classes, 4, 8)
    monkeypatch.setattr(kernel, "compiled", None)
    theirs, their_history = fit(classes, 4, 8)
    np.testing.assert_allclose(ours.sigma, theirs.sigma, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(history, their_history, rtol=1e-6)
