"""MaxHerding, facility location, ProbCover and k-medoids against peers, naive greedy and brute force."""

import itertools

import numpy as np
import pytest

from pdac_cli.options.methods import MaxherdingOptions, OwnOptions, ProbcoverOptions
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines import cover as cover_module
from pdac_cli.selection.baselines.cover import cover, of_units
from pdac_cli.selection.baselines.facility import cosine
from pdac_cli.selection.baselines.kmedoids import swapped
from pdac_cli.selection.baselines.probcover import purest_radius
from tests.selection.arrays import ArrayRows, pool_of, request, select

PEERS = pytest.mark.filterwarnings("ignore")  # what other packages warn of is theirs


def units(n=60, dim=4, seed=0):
    h = np.random.default_rng(seed).standard_normal((n, dim)) + 1
    return h / np.linalg.norm(h, axis=1, keepdims=True)


def distances(h, g=None):
    return np.linalg.norm(h[:, None] - (h if g is None else g)[None], axis=2)


def chosen(name, h, budget, **own):
    one_class = np.zeros(len(h), int)
    return select(name, ArrayRows(h, one_class), budget, own=OwnOptions(**own)).ranking.ids.tolist()


@PEERS
@pytest.mark.parametrize("bandwidth", [1.0, 0.4])
def test_maxherding_is_scikit_activemls(bandwidth):
    from skactiveml.pool import MaxHerding

    h = units() * np.random.default_rng(1).uniform(0.5, 2, (60, 1))  # of any length
    peer = MaxHerding(metric_dict={"gamma": bandwidth**-2}, random_state=0)
    expected = peer.query(h, np.full(60, np.nan), batch_size=12)
    assert chosen("maxherding", h, 12, maxherding=MaxherdingOptions(bandwidth=bandwidth)) == expected.tolist()


@PEERS
def test_facility_is_apricots():
    from apricot import FacilityLocationSelection

    h = units(80, seed=2)
    peer = FacilityLocationSelection(12, metric="precomputed", optimizer="naive").fit(np.maximum(h @ h.T, 0))
    assert chosen("facility", h, 12) == peer.ranking.tolist()


@PEERS
def test_probcover_is_scikit_activemls_at_its_radius():
    from skactiveml.pool import ProbCover

    centres = np.eye(4)[:3]
    h = np.concatenate([c + 0.25 * units(30, seed=k) for k, c in enumerate(centres)])
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    radius = purest_radius(h, 3, 0.9)
    peer = ProbCover(n_classes=3, deltas=[np.nextafter(radius, 0)], random_state=0)
    _, utilities = peer.query(h, np.full(90, np.nan), batch_size=8, return_utilities=True)
    found = select("probcover", ArrayRows(h, np.repeat([0, 1, 2], 30)), 8, Allocation.JOINT,
                   own=OwnOptions(probcover=ProbcoverOptions(purity=0.9))).ranking.ids  # fmt: skip
    covered, near = np.zeros(90, bool), distances(h) < radius
    for step, row in enumerate(found):
        gain = (near & ~covered).sum(axis=1)
        assert gain[row] == gain.max()
        if step == 0:
            assert gain.max() == np.nanmax(utilities[0])
        covered |= near[row]
        if covered.all():
            break


def test_the_radius_is_the_largest_at_which_the_balls_are_pure():
    h = np.concatenate([np.eye(3)[k] + 0.1 * units(40, 3, seed=k) for k in range(3)])
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    label = np.repeat(np.arange(3), 40)
    other = label[:, None] != label[None]
    for purity in (0.8, 0.95, 1.0):
        radius = purest_radius(h, 3, purity)

        def pure(r):
            return 1 - ((distances(h) < r) & other).any(axis=1).mean()

        assert pure(radius) >= purity - 1e-9
        if purity < 1:
            assert pure(radius * (1 + 1e-6)) < purity
        else:
            assert radius == pytest.approx(distances(h)[other].min())


@pytest.mark.parametrize("held", [0, 4096])
@pytest.mark.parametrize("seed", range(3))
def test_lazy_is_naive(monkeypatch, held, seed):
    monkeypatch.setattr(cover_module, "_HELD", held)
    monkeypatch.setattr(cover_module, "_LOOKED_AT", 3)
    h = units(150, seed=seed)
    s = np.maximum(h @ h.T, 0)
    covered, kept = np.zeros(150), []
    for row in cover(pool_of(h), 20, request(20, 150), of_units(cosine)).places:
        gains = np.maximum(s - covered, 0).sum(axis=1)
        gains[kept] = -1
        assert gains[row] >= gains.max() - 1e-12  # two rows that only cover each other gain the same
        kept.append(row)
        covered = np.maximum(covered, s[row])


@pytest.mark.parametrize("seed", range(6))
def test_the_greedy_cover_comes_near_the_best_of_all_and_medoids_near_the_least_distance(seed):
    h = units(8, 2, seed=seed)
    s, gaps = np.maximum(h @ h.T, 0), distances(h)
    every = list(itertools.combinations(range(8), 3))
    best = max(s[list(some)].max(axis=0).sum() for some in every)
    assert s[chosen("facility", h, 3)].max(axis=0).sum() >= (1 - 1 / np.e) * best
    least = min(gaps[list(some)].min(axis=0).sum() for some in every)
    assert gaps[chosen("kmedoids", h, 3)].min(axis=0).sum() <= 1.05 * least


def test_no_swap_lowers_the_distance_to_the_medoids():
    h = np.random.default_rng(3).standard_normal((70, 5)) * [3, 1, 1, 1, 1] + 100
    kept = chosen("kmedoids", h, 6)
    gaps = distances(h)
    total = gaps[kept].min(axis=0).sum()
    for at, row in itertools.product(range(6), range(70)):
        other = [*kept[:at], row, *kept[at + 1 :]]
        assert gaps[other].min(axis=0).sum() >= total * (1 - 1e-5)


def test_swaps_mend_a_bad_start():
    h = np.concatenate([units(20, 2, seed=k) * 0.1 + 5 * k for k in range(3)])
    gaps = distances(h)
    found = swapped(lambda places: gaps[places], np.array([0, 1, 2]), 60)
    assert sorted(np.array(found) // 20) == [0, 1, 2]


def test_one_medoid_is_the_row_nearest_to_all():
    h = np.random.default_rng(4).standard_normal((50, 3))
    assert chosen("kmedoids", h, 1) == [int(distances(h).sum(axis=0).argmin())]


def test_medoids_that_do_not_fit_are_refused():
    from pdac_cli.errors import UsageError

    with pytest.raises(UsageError, match="--memory is 1,000; expected room"):
        select("kmedoids", ArrayRows(units(), np.zeros(60, int)), 5, memory=1000)
