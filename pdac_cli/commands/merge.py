"""``pdac merge``: the shards of one extraction to one feature file."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from pdac_cli.console import Console
from pdac_cli.errors import UsageError
from pdac_cli.files.results.linked_shards import write_linked
from pdac_cli.files.results.shards import open_shards, write_merged
from pdac_cli.options.extract import MergeOptions
from pdac_cli.reports.table import facts
from pdac_cli.storage.atomic import check_output


@dataclass(frozen=True)
class MergeSummary:
    """What a merge reports."""

    output: str
    shards: int
    rows: int
    n_features: int
    n_skipped: int
    linked: bool
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        virtual = " (virtual: keep the shards where they are)" if self.linked else ""
        lines = {
            "features": f"{self.output}{virtual}",
            "rows, features, shards": f"{self.rows:,}, {self.n_features:,}, {self.shards:,}",
            "skipped": f"{self.n_skipped:,}" if self.n_skipped else "",
        }
        return facts({name: value for name, value in lines.items() if value})


def run(options: MergeOptions) -> MergeSummary:
    """Check that every shard is there once and copy their rows, or refer to them, in order."""
    console = Console.of(options.run)
    if not options.paths:
        raise UsageError("no shard given; expected all files of one extraction, such as part-*.h5")
    check_output(options.output, options.paths, options.run.force)
    with ExitStack() as stack:
        shards = open_shards(options.paths, stack)
        write = write_linked if options.link else write_merged
        write(options.output, shards, options.run.force)
        rows, skipped = sum(shard.rows for shard in shards), sum(shard.skipped for shard in shards)
    n_features = shards[0].columns["features"].shape[1]
    return MergeSummary(str(options.output), len(shards), rows, n_features, skipped, options.link, console.warnings)
