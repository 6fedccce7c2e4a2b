"""scikit-learn's own checks of estimators.  None is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pdac_cli import CoresetSelector, ProjectedGaussianMixture, StreamingSelector


# The checks fit a handful of rows, of which the estimators warn: fewer rows than components, or than the budget.
@pytest.mark.filterwarnings("ignore::pdac_cli.PdacWarning", "ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([
    ProjectedGaussianMixture(), ProjectedGaussianMixture(n_components=2, n_dims=2, normalize=False),
    CoresetSelector(budget=5), StreamingSelector(budget=5),
])  # fmt: skip
def test_scikit_learns_checks_hold(estimator, check):
    check(estimator)
