"""Options given on the command line and what the verb is handed for them: (arguments, where, value), by verb.

For options whose effect other tests show from the options on, and that they give to none of the verbs' commands.
"""

from pdac_cli.options.methods import Version
from pdac_cli.options.select import Allocation, DensityKind, Eviction, SteerBy
from pdac_cli.options.shared import Solver, Units
from pdac_cli.options.stream import Updates

OWN = [
    (["--method", "maxherding", "--bandwidth", "0.5"], "own.maxherding.bandwidth", 0.5),
    (["--method", "probcover", "--purity", "0.9"], "own.probcover.purity", 0.9),
    (["--method", "ocs", "--as", "code"], "own.ocs.version", Version.CODE),
    (["--method", "bcsr", "--as", "paper"], "own.bcsr.version", Version.PAPER),
    (["--method", "typiclust", "--neighbours", "7"], "own.typiclust.neighbours", 7),
    (["--method", "teal", "--neighbours", "7"], "own.teal.neighbours", 7),
    (["--method", "csrel", "--rounds", "9"], "own.csrel.rounds", 9),
]
INPUT = [
    (["--shape", "9x4:float16"], "input.shape", (9, 4, "float16")),
    (["--labels", "y.csv:kind"], "input.labels", "y.csv:kind"),
    (["--no-labels"], "input.no_labels", True),
    (["--ids-key", "name"], "input.ids_key", "name"),
]
DRAW = [
    (["--density", "class"], "draw.density_kind", DensityKind.CLASS),
    (["--steer", "3"], "draw.steer", 3.0),
    (["--steer-by", "mean"], "draw.steer_by", SteerBy.MEAN),
    (["--no-normalize"], "density.normalize", False),
    (["--density", "class", "--units", "absolute"], "density.units", Units.ABSOLUTE),
]

LABELS = [
    (["--labels", "y.npy"], "input.labels", "y.npy"),
    (["--no-labels"], "input.no_labels", True),
    (["--ids-key", "name"], "input.ids_key", "name"),
]

REACH = {
    "extract": (
        ["--data", "cifar10:d", "-o", "f.h5", "--checkpoint", "c.pt"],
        [
            (["--download"], "download", True),
            (["-v"], "run.verbose", True),
            (["--classes", "a,b"], "classes", ("a", "b")),
            (["--no-logits"], "logits", False),
        ],
    ),
    "fit": (
        ["f.h5", "-o", "m.h5"],
        [
            *INPUT,
            (["--solver", "exact"], "density.solver", Solver.EXACT),
            (["--units", "absolute"], "density.units", Units.ABSOLUTE),
        ],
    ),
    "select": (
        ["f.h5", "-n", "5"],
        [
            (["--clusters", "9"], "clusters", 9),
            *INPUT,
            *DRAW,
            *OWN,
            (["--buffer", "b.json", "--eviction", "relative"], "eviction", Eviction.RELATIVE),
        ],
    ),
    "compare": (
        ["f.h5", "--budget", "5,9"],
        [
            *INPUT,
            (["-v"], "run.verbose", True),
            (["--chunk-rows", "7"], "input.chunk_rows", 7),
            (["--seed", "4"], "seed", 4),
            (["--allocation", "joint", "--steer", "0"], "allocation", Allocation.JOINT),
            (["--iterations", "3"], "density.iterations", 3),
            (["--ridge", "0.5"], "density.ridge", 0.5),
            (["--memory", "64M"], "run.memory", 64 << 20),
            *DRAW,
            *((arguments[2:], *rest) for arguments, *rest in OWN),
        ],
    ),
    "stream": (
        ["f.h5", "-o", "b.json", "-n", "5"],
        [
            *INPUT[0:1],
            *INPUT[2:],
            (["--method", "aser", "--candidates", "9"], "settings.aser.candidates", 9),
            (["--method", "gss", "--gradient-batches", "4"], "settings.gss.gradient_batches", 4),
            (["--density", "class", "--units", "absolute"], "density.units", Units.ABSOLUTE),
            (["--density", "class", "--updates", "printed"], "density.updates", Updates.PRINTED),
        ],
    ),
    "convert": (
        ["f.h5", "-o", "g.h5"],
        [
            *INPUT,
            (["--features-key", "h"], "input.features_key", "h"),
            (["--labels-key", "y"], "input.labels_key", "y"),
            (["--ignore-label", "3"], "input.ignore_label", 3),
            (["--drop-nonfinite"], "input.drop_nonfinite", True),
            (["--allow-external"], "input.allow_external", True),
            (["--chunk-rows", "7"], "input.chunk_rows", 7),
            (["--memory", "64M"], "run.memory", 64 << 20),
            (["--verbose"], "run.verbose", True),
        ],
    ),
    "merge": (["a.h5", "b.h5", "-o", "f.h5"], [(["--verbose"], "run.verbose", True)]),
    "experiment": (["sweep.toml"], [(["--device", "cpu"], "device", "cpu"), (["-v"], "run.verbose", True)]),
    "valex": (
        ["-o", "out"],
        [
            (["--hidden", "7"], "network.hidden", 7),
            (["--lr", "0.5"], "network.lr", 0.5),
            (["--seed", "3"], "seed", 3),
            (["--json"], "run.json", True),
            (["--quiet"], "run.quiet", True),
            (["--verbose"], "run.verbose", True),
        ],
    ),
    "inspect": (
        ["f.h5"],
        [
            (["--shape", "9x4"], "input.shape", (9, 4, "float32")),
            (["--allow-external"], "input.allow_external", True),
            (["--memory", "64M"], "run.memory", 64 << 20),
            (["--verbose"], "run.verbose", True),
            *LABELS,
        ],
    ),
    "report": (
        ["f.h5", "-o", "r.html"],
        [
            *LABELS,
            (["--shape", "9x4"], "input.shape", (9, 4, "float32")),
            (["--features-key", "h"], "input.features_key", "h"),
            (["--labels-key", "y"], "input.labels_key", "y"),
            (["--drop-nonfinite"], "input.drop_nonfinite", True),
            (["--ignore-label", "3"], "input.ignore_label", 3),
            (["--allow-external"], "input.allow_external", True),
            (["--dim", "3"], "density.dim", 3),
            (["--components", "3"], "density.components", 3),
            (["--iterations", "3"], "density.iterations", 3),
            (["--ridge", "0.5"], "density.ridge", 0.5),
            (["--units", "absolute"], "density.units", "absolute"),
            (["--no-normalize"], "density.normalize", False),
            (["--memory", "64M"], "run.memory", 64 << 20),
            (["--jobs", "1"], "run.jobs", 1),
            (["--verbose"], "run.verbose", True),
        ],
    ),
    "verify": (
        ["c.json", "f.h5"],
        [
            (["--shape", "9x4"], "input.shape", (9, 4, "float32")),
            *LABELS,
            (["--features-key", "h"], "input.features_key", "h"),
            (["--labels-key", "y"], "input.labels_key", "y"),
            (["--drop-nonfinite"], "input.drop_nonfinite", True),
            (["--allow-external"], "input.allow_external", True),
            (["--chunk-rows", "7"], "input.chunk_rows", 7),
            (["--memory", "64M"], "run.memory", 64 << 20),
            (["--jobs", "1"], "run.jobs", 1),
            (["--verbose"], "run.verbose", True),
        ],
    ),
    "train-cl": (
        ["f.h5"],
        [
            (["-v"], "run.verbose", True),
            (["--eviction", "inverse"], "eviction", Eviction.INVERSE),
            (["--test", "cifar10:d", "--download"], "download", True),
            (["--setting", "online", "--method", "er-mir", "--candidates", "9"], "settings.er_mir.candidates", 9),
            (["--replay-batch", "0"], "learning.replay_batch", 0),
            (["--density", "class", "--iterations", "3"], "density.iterations", 3),
            *DRAW,
            (
                ["--setting", "online", "--steer", "0", "--density", "class", "--updates", "printed"],
                "updates",
                Updates.PRINTED,
            ),
            *(one for one in OWN if "--neighbours" not in one[0]),
            (["--setting", "online", "--density", "class", "--window", "3"], "window", 3),
            (["--pad", "2"], "learning.pad", 2),
            (["--no-flip"], "learning.flip", False),
        ],
    ),
}
