"""The methods by name, with what each does, what it costs and the options it owns; help is made from this.

n rows of D features and K logits, m the budget.  A method's code is in `selection` under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar

from pdac_cli.options.checks import Options
from pdac_cli.options.declare import Panel, group, option

DRAWN = "pdac"  # the method that draws by density, which --density, --steer and --temperature belong to
LEAST_ERROR_CANDIDATES = 20_000  # rows that least-error chooses among


@dataclass(frozen=True)
class AboutMethod:
    """What a user should know before choosing a method."""

    summary: str
    cost: str
    logits: bool = False  # needs the network's logits, or --head
    random: bool = True  # another seed gives another answer
    weighs: bool = False  # stored rows are given up by weights, which --eviction makes
    outdone: bool = False  # by the default, for heads trained on up to 20 rows a class, on every set measured

    def text(self) -> str:
        """Return it for help: what it does, and below it the cost."""
        return f"{self.summary}\n[{self.cost}{'; needs logits' if self.logits else ''}]"


ABOUT: Mapping[str, AboutMethod] = {
    "pdac": AboutMethod(
        "draw in proportion to the density, steered by the rows kept already",
        "products n x D x D and n x D x C, then m of 20,000 x D",
        weighs=True,
    ),
    "uniform": AboutMethod("draw uniformly at random", "nothing", outdone=True),
    "least-error": AboutMethod(
        "rows from which a linear classifier errs least over the whole density",
        f"a product n x D x D, then m of {LEAST_ERROR_CANDIDATES:,} x D",
        random=False,
    ),
    "kcenter": AboutMethod("the row farthest from those chosen, again and again", "m products n x D", random=False),
    "kmeans": AboutMethod("k-means++ seeding: draw by squared distance from those chosen", "m products n x D"),
    "herding": AboutMethod(
        "keep the chosen rows' mean near the class mean (iCaRL)", "m products n x D, fewer by class", random=False
    ),
    "maxherding": AboutMethod(
        "cover each class smoothly, by a Gaussian kernel", "a product n x n x D in each class", random=False
    ),
    "facility": AboutMethod(
        "facility location: a kept row like every row, by cosine", "a product n x n x D in each class", random=False
    ),
    "kmedoids": AboutMethod(
        "least total distance to the rows kept, by swaps", "about three products n x n x D in each class", random=False
    ),
    "probcover": AboutMethod(
        "cover each class by balls of one radius", "a product n x n x D of 10,000 rows, one in each class", random=False
    ),
    "typiclust": AboutMethod(
        "typical rows of the largest clusters, clustered anew for every row", "m k-means of up to m clusters"
    ),
    "teal": AboutMethod("typical rows of the largest clusters, in growing steps (TEAL)", "a k-means each 1.4 times m"),
    "voptimal": AboutMethod(
        "rows from which a regression predicts all with least variance",
        f"a product n x D x D, then m of {LEAST_ERROR_CANDIDATES:,} x D",
        random=False,
    ),
    "hardest": AboutMethod("largest cross-entropy", "one pass", outdone=True, logits=True, random=False, weighs=True),
    "highest-prob": AboutMethod(
        "largest probability of the true class", "one pass", outdone=True, logits=True, random=False, weighs=True
    ),
    "ocs": AboutMethod(
        "gradients near the mean, unlike each other, like the buffer's (OCS)",
        "256 products n x (D + K)",
        logits=True,
        weighs=True,
    ),
    "gcr": AboutMethod(
        "a few gradients that add up to all (GCR)",
        "m products n x (D + K), fewer by class, m³",
        logits=True,
        random=False,
    ),
    "bcsr": AboutMethod(
        "bilevel weights, drawn toward a coreset of m (BCSR)",
        "200 products n x D x C; as paper 1,000",
        weighs=True,
    ),
    "pbcs": AboutMethod(
        "bilevel probabilities (PBCS)",
        "500 trained heads: 30,000 products m x D x C, 500 n x D x C, about a minute",
        weighs=True,
    ),
    "greedy": AboutMethod(
        "bilevel, row after row (Borsos et al.)", "m solutions of a head on the coreset, below about 500 rows: minutes"
    ),
    "csrel": AboutMethod(
        "rows whose loss training can still reduce (CSReL)",
        "400 products n x D x C, then up to 200 trained heads",
        random=False,
    ),
}


@dataclass(frozen=True, kw_only=True)
class MaxherdingOptions(Options):
    """MaxHerding's."""

    bandwidth: float = option(
        1.0, help="maxherding: width h of its kernel exp(-|x - y|^2 / h^2).", panel=Panel.KEEP, above=0
    )


@dataclass(frozen=True, kw_only=True)
class ProbcoverOptions(Options):
    """ProbCover's."""

    purity: float = option(
        0.95, help="probcover: share of the balls that hold rows of one cluster only.", panel=Panel.KEEP, above=0,
        maximum=1, expected="a share above 0 and at most 1",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TypicalityOptions(Options):
    """Of methods that keep typical rows."""

    neighbours: int = option(
        20, help="typiclust, teal: nearest neighbours by which a row is typical.", panel=Panel.KEEP, minimum=1
    )


@dataclass(frozen=True, kw_only=True)
class TypiclustOptions(TypicalityOptions):
    """TypiClust's."""


@dataclass(frozen=True, kw_only=True)
class TealOptions(TypicalityOptions):
    """TEAL's."""


@dataclass(frozen=True, kw_only=True)
class CsrelOptions(Options):
    """CSReL's."""

    rounds: int = option(
        200, help="csrel: how often a head is trained on the rows kept so far.", panel=Panel.KEEP, minimum=1
    )


class Version(StrEnum):
    """Which of a method's two descriptions is followed, where they differ."""

    PAPER = "paper"  # the article
    CODE = "code"  # what its authors published as code, and ran


@dataclass(frozen=True, kw_only=True)
class VersionOptions(Options):
    """Of methods whose paper and code differ."""

    version: Version | None = option(
        None, help="ocs, bcsr: the method as its paper has it or as its published code.", panel=Panel.KEEP,
        flags=("--as",), otherwise="ocs: paper; bcsr: code",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OcsOptions(VersionOptions):
    """OCS's."""


@dataclass(frozen=True, kw_only=True)
class BcsrOptions(VersionOptions):
    """BCSR's."""


@dataclass(frozen=True, kw_only=True)
class OwnOptions(Options):
    """The options that single selection methods own, each under its method's name."""

    by_method: ClassVar = True

    maxherding: MaxherdingOptions = group(MaxherdingOptions)
    probcover: ProbcoverOptions = group(ProbcoverOptions)
    typiclust: TypiclustOptions = group(TypiclustOptions)
    teal: TealOptions = group(TealOptions)
    csrel: CsrelOptions = group(CsrelOptions)
    ocs: OcsOptions = group(OcsOptions)
    bcsr: BcsrOptions = group(BcsrOptions)

    def of(self, method: str) -> dict[str, Any]:
        """Return a method's own options by name; none where it has none."""
        own = getattr(self, method.replace("-", "_"), None)
        return {} if own is None else asdict(own)


class StreamMethod(StrEnum):
    """What is kept of a stream, what is replayed and how rows are weighed."""

    SPDAC = "spdac"
    ER = "er"
    ER_MIR = "er-mir"
    GSS = "gss"
    ASER = "aser"
    METASP = "metasp"
    HERDING = "herding"


@dataclass(frozen=True)
class AboutStreaming:
    """What a user should know before choosing a streaming method."""

    summary: str
    learns: bool = False  # asks a network that learns: only `pdac train-cl` has one


ABOUT_STREAMING: Mapping[StreamMethod, AboutStreaming] = {
    StreamMethod.SPDAC: AboutStreaming("by relative density, steered by the rows kept already"),
    StreamMethod.HERDING: AboutStreaming("keep each class's stored rows near its mean"),
    StreamMethod.ER: AboutStreaming("plain reservoir sampling, all rows alike"),
    StreamMethod.GSS: AboutStreaming("rows whose gradients differ, by logits"),
    StreamMethod.ASER: AboutStreaming("by nearest-neighbour Shapley values"),
    StreamMethod.ER_MIR: AboutStreaming("replay what the new rows would harm", learns=True),
    StreamMethod.METASP: AboutStreaming("by influence on old and new tasks", learns=True),
}
STREAM_CHOICES = tuple(method.value for method, about in ABOUT_STREAMING.items() if not about.learns)


def candidates_option(default: int) -> Any:
    """Declare --candidates, of methods that choose from a sample of the stored rows; each has its own default."""
    return option(
        default, help="er-mir, aser: stored rows drawn to choose from; aser's default is 128.", panel=Panel.STREAMING,
        minimum=1, expected="at least 1 row",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ErMirOptions(Options):
    """ER-MIR's."""

    candidates: int = candidates_option(50)  # as the original


@dataclass(frozen=True, kw_only=True)
class AserOptions(Options):
    """ASER's."""

    candidates: int = candidates_option(128)
    neighbours: int = option(3, help="aser: nearest neighbours K of its values.", panel=Panel.STREAMING, minimum=1)


@dataclass(frozen=True, kw_only=True)
class GssOptions(Options):
    """GSS's."""

    gradient_batches: int = option(
        10, help="gss: batches of stored rows that a gradient is compared with.", panel=Panel.STREAMING, minimum=1
    )


@dataclass(frozen=True, kw_only=True)
class MethodOptions(Options):
    """The options that single streaming methods own, each under its method's name."""

    by_method: ClassVar = True

    er_mir: ErMirOptions = group(ErMirOptions)
    aser: AserOptions = group(AserOptions)
    gss: GssOptions = group(GssOptions)

    def of(self, method: StreamMethod) -> dict[str, Any]:
        """Return a method's own options by name; none where it has none."""
        own = getattr(self, method.value.replace("-", "_"), None)
        return {} if own is None else asdict(own)
