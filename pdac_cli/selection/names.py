"""The methods by name, with what each does and costs: plain text, so that help can be printed without loading NumPy.

n rows of D features and K logits, m the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """What a user should know before choosing a method."""

    summary: str
    cost: str
    logits: bool = False  # needs the network's logits, or --head


ABOUT: Mapping[str, About] = {
    "pdac": About("draw in proportion to the estimated density (the paper's rule)", "one fit"),
    "uniform": About("draw uniformly at random", "nothing"),
    "least-error": About(
        "rows from which a linear classifier errs least over the whole density",
        "a product n x D x D, then m of 80,000 x D",
    ),
    "kcenter": About("the row farthest from those chosen, again and again", "m products n x D"),
    "kmeans": About("k-means++ seeding: draw by squared distance from those chosen", "m products n x D"),
    "herding": About("keep the chosen rows' mean near the class mean (iCaRL)", "m products n x D, fewer by class"),
    "hardest": About("largest cross-entropy", "one pass", logits=True),
    "highest-prob": About("largest probability of the true class", "one pass", logits=True),
    "ocs": About(
        "gradients near the mean, unlike each other, like the buffer's (OCS)", "256 products n x (D + K)", True
    ),
    "gcr": About("a few gradients that add up to all (GCR)", "m products n x (D + K), fewer by class, m³", True),
    "bcsr": About(
        "bilevel weights, drawn toward a coreset of m (BCSR)", "1,000 products n x D x C, seconds to minutes"
    ),
    "pbcs": About(
        "bilevel probabilities (PBCS)", "500 trained heads: 30,000 products m x D x C, 500 n x D x C, about a minute"
    ),
    "greedy": About(
        "bilevel, row after row (Borsos et al.)", "m solutions of a head on the coreset, below about 500 rows: minutes"
    ),
}


def method_lines() -> str:
    """Return the methods, one a line, with their costs."""
    return "\n".join(
        f"  {name:12}  {about.summary}\n                [{about.cost}{'; needs logits' if about.logits else ''}]"
        for name, about in ABOUT.items()
    )
