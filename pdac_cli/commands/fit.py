"""``pdac fit``: feature files to a model file."""

from __future__ import annotations

from dataclasses import dataclass

from pdac_cli.console import Console, size_text
from pdac_cli.engine.plan import count_classes, make_plan
from pdac_cli.files.results.model import write_model
from pdac_cli.options.fit import FitOptions
from pdac_cli.pipeline.fitting import DensitySetup, check_dim, device_of
from pdac_cli.pipeline.modelling import model_of_source
from pdac_cli.pipeline.placing import engine_of
from pdac_cli.pipeline.row_access import open_input, report_unused_rows
from pdac_cli.reports.table import facts
from pdac_cli.storage.atomic import check_output


@dataclass(frozen=True)
class FitSummary:
    """What a fit reports."""

    output: str
    rows: int
    n_features: int
    n_classes: int
    fingerprint: str
    log_likelihood: list[float]  # mean over rows, before each EM step and after the last
    model_bytes: int
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        steps = len(self.log_likelihood) - 1
        return facts({
            "model": self.output,
            "rows, features, classes": f"{self.rows:,}, {self.n_features:,}, {self.n_classes:,}",
            "mean log-likelihood": f"{self.log_likelihood[0]:.4f} -> {self.log_likelihood[-1]:.4f} in {steps} steps",
            "size of W, mu, Sigma, alpha": size_text(self.model_bytes),
        })  # fmt: skip


def run(options: FitOptions) -> FitSummary:
    """Fit the densities of the files' classes, Eqs. (1)–(8), and write them."""
    console = Console.of(options.run)
    with open_input(options.input, console, options.run.memory) as source:
        check_output(options.output, source.paths, options.run.force)
        check_dim(options.density, source)
        setup = DensitySetup(options.density, options.seed, device_of(options.run))
        key = ["fit", source.states, options.input, options.density, options.seed]
        with engine_of(options.place, key, options.run, console) as engine:
            plan = make_plan(options.input, options.run, engine)
            classes = count_classes(source, plan, options.input)
            report_unused_rows(source, options.input, console)
            made = model_of_source(source, classes, setup, plan, console)
            source.check_unchanged()
    model = made.model
    for step, value in enumerate(model.step_log_likelihood()):
        console.detail(f"step {step:3d}  mean log-likelihood {value:.6f}")
    write_model(made, options.output, options.run.force)
    return FitSummary(
        str(options.output),
        int(model.counts.sum()),
        source.n_features,
        len(model.labels),
        made.fingerprint,
        [float(value) for value in model.step_log_likelihood()],
        model.size,
        console.warnings,
    )
