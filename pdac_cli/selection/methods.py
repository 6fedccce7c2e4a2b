"""The one table of selection methods.

A method turns the rows of a task into a ranking, and must answer the same however they are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from pdac_cli.errors import UsageError
from pdac_cli.selection.baselines.bcsr import BCSR
from pdac_cli.selection.baselines.csrel import CSREL
from pdac_cli.selection.baselines.facility import FACILITY
from pdac_cli.selection.baselines.gcr import GCR
from pdac_cli.selection.baselines.greedy import GREEDY
from pdac_cli.selection.baselines.kmedoids import KMEDOIDS
from pdac_cli.selection.baselines.maxherding import MAXHERDING
from pdac_cli.selection.baselines.ocs import OCS
from pdac_cli.selection.baselines.pbcs import PBCS
from pdac_cli.selection.baselines.probcover import PROBCOVER
from pdac_cli.selection.baselines.teal import TEAL
from pdac_cli.selection.baselines.typiclust import TYPICLUST
from pdac_cli.selection.baselines.voptimal import VOPTIMAL
from pdac_cli.selection.centres import KCENTER, KMEANS
from pdac_cli.selection.herding import HERDING
from pdac_cli.selection.interface import Method
from pdac_cli.selection.least_error import LEAST_ERROR
from pdac_cli.selection.steered import PDAC
from pdac_cli.selection.topk import HARDEST, HIGHEST_PROB, UNIFORM

METHODS: Mapping[str, Method] = {
    "pdac": PDAC,
    "uniform": UNIFORM,
    "least-error": LEAST_ERROR,
    "kcenter": KCENTER,
    "kmeans": KMEANS,
    "herding": HERDING,
    "maxherding": MAXHERDING,
    "facility": FACILITY,
    "kmedoids": KMEDOIDS,
    "probcover": PROBCOVER,
    "typiclust": TYPICLUST,
    "teal": TEAL,
    "voptimal": VOPTIMAL,
    "hardest": HARDEST,
    "highest-prob": HIGHEST_PROB,
    "ocs": OCS,
    "gcr": GCR,
    "bcsr": BCSR,
    "pbcs": PBCS,
    "greedy": GREEDY,
    "csrel": CSREL,
}


def method_named(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise UsageError(f"--method is {name!r}; expected one of: {', '.join(METHODS)}")
    return METHODS[name]


def check_distributed(name: str) -> None:
    """Refuse a method that cannot work on a cluster."""
    if not method_named(name).distributed:
        able = ", ".join(other for other, method in METHODS.items() if method.distributed)
        raise UsageError(
            f"--method {name} cannot work on a cluster; expected one of: {able}; "
            "or leave the cluster out, and it works here"
        )
