"""``pdac train-cl``: continual runs with replay, and finished ones side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdac_cli.options.train_cl import TrainOptions

if TYPE_CHECKING:
    from pdac_cli.commands.train_cl.compare import Comparison
    from pdac_cli.commands.train_cl.report import TrainSummary


def run(options: TrainOptions) -> TrainSummary | Comparison | None:
    """Run what is asked for, or tabulate the run folders given; each loads only what it needs."""
    if options.compare:
        from pdac_cli.commands.train_cl.compare import compare

        return compare(options.data, options.reference)
    from pdac_cli.commands.train_cl.command import run as train

    return train(options)
