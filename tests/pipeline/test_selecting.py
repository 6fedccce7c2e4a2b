"""Choosing from rows in memory, and what the interface gives a method that needs several passes."""

from dataclasses import replace

import numpy as np
import pytest

from pdac_cli.console import Silent
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.engine.plan import Plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.pipeline.selecting import choose
from pdac_cli.rng import Purpose, row_gumbels
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Method, Picked, product_a_row, within_pools
from pdac_cli.selection.methods import METHODS
from tests.oracles import clustered

N, LABELS = 600, np.array([3, 4, 9])
PLAN = Plan(memory=1 << 30, jobs=1)
OTHER_PLANS = [replace(PLAN, chunk_rows=7), replace(PLAN, jobs=3), Plan(memory=1 << 15, jobs=2, chunk_rows=100)]


@pytest.fixture
def source():
    y = np.random.default_rng(0).choice(LABELS, N, p=[0.6, 0.3, 0.1])
    return MemorySource(clustered(N, 12, 4).astype("f4") + y[:, None].astype("f4"), y)


def gaussian(rows, counts):
    """The class means and the pooled covariance of unit rows, from one pass over all classes."""
    pieces = [(some.codes, unit_rows(some.h).astype("f8")) for some in rows.candidates()]
    codes, x = (np.concatenate(part) for part in zip(*pieces, strict=True))
    means = np.stack([x[codes == c].mean(axis=0) for c in range(len(counts))])
    covariance = (x - means[codes]).T @ (x - means[codes]) / len(x)
    return means, np.linalg.inv(covariance + 0.1 * np.trace(covariance) / len(covariance) * np.eye(len(covariance)))


def steered(rows, request):
    """Draw row after row from each class ∝ its density relative to all classes, towards the mean of the class."""
    means, inverse = gaussian(rows, request.counts)

    def pick(pool, quota, request):
        x = np.concatenate(pool.map(lambda a, b: unit_rows(pool.read(a, b)))).astype("f8")
        log_p = np.stack([-0.5 * np.einsum("nd,de,ne->n", x - m, inverse, x - m) for m in means], axis=1)
        log_r = log_p[np.arange(pool.count), pool.codes] - np.logaddexp.reduce(log_p, axis=1)
        total, places, free = np.zeros(x.shape[1]), [], np.ones(pool.count, bool)
        for step in range(quota):
            gain = -np.square((total + x) / (step + 1) - x.mean(axis=0)).sum(axis=1)
            noise = row_gumbels(request.seed, Purpose.DRAW, pool.ids, step)
            places.append(int(np.argmax(np.where(free, log_r + 50 * gain + noise, -np.inf))))
            free[places[-1]] = False
            total += x[places[-1]]
        return Picked(np.array(places), np.exp(log_r[places]))

    return within_pools(pick, rows, request)


STEERED = Method(steered, Allocation.BALANCED, Evict.SCORE, product_a_row)


@pytest.mark.parametrize("plan", OTHER_PLANS)
def test_moments_of_all_classes_then_pools_and_noise_of_row_and_step(source, plan):
    options = SelectOptions(budget=40, method="pdac")
    one, other = (choose(source, None, options, STEERED, given, Silent()).index for given in (PLAN, plan))
    np.testing.assert_array_equal(one.row, other.row)
    np.testing.assert_array_equal(one.score, other.score)
    assert len(set(one.row.tolist())) == 40
    assert np.unique(one.label, return_counts=True)[1].tolist() == [14, 13, 13]
    seeded = choose(source, None, replace(options, seed=1), STEERED, PLAN, Silent()).index
    assert set(seeded.row.tolist()) != set(one.row.tolist())


@pytest.mark.parametrize("name", ["pdac", "uniform", "herding", "kcenter"])
@pytest.mark.parametrize("plan", OTHER_PLANS)
def test_rows_in_memory_are_chosen_alike_whatever_the_plan(source, name, plan):
    options = SelectOptions(budget=30, method=name)
    one, other = (choose(source, None, options, METHODS[name], given, Silent()).index for given in (PLAN, plan))
    np.testing.assert_array_equal(one.row, other.row)
    np.testing.assert_array_equal(one.log_density, other.log_density)
    np.testing.assert_array_equal(one.label, source.y[one.row])
    assert np.isnan(one.log_density).any() == (not METHODS[name].needs_density)


def test_a_task_of_larger_data_keeps_its_rows_numbers(source):
    ids = 1000 + 2 * np.arange(N)
    task = replace(source, row_ids=ids, total=5000, fingerprint="of the task")
    options = SelectOptions(budget=30, method="kcenter")
    whole, part = (choose(given, None, options, METHODS["kcenter"], PLAN, Silent()).index for given in (source, task))
    np.testing.assert_array_equal(part.row, ids[whole.row])
    assert (part.sources[0].rows, part.sources[0].fingerprint) == (5000, "of the task")
