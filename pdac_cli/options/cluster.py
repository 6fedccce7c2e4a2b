"""Where units of work run: options of the verbs that a cluster can take over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import Options, require
from pdac_cli.options.declare import Applies, Panel, option
from pdac_cli.options.text import parse_unit


class ClusterKind(StrEnum):
    """Clusters whose workers are asked for when they are needed."""

    SLURM = "slurm"


_ELSEWHERE = (Applies("a cluster: --scheduler, --scheduler-file, --workers or --cluster", lambda o: o.place.wanted),)
_REMOTE = (Applies("a running scheduler: --scheduler or --scheduler-file", lambda o: o.place.is_running),)


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Options):
    """Workers elsewhere; nothing here changes the answer."""

    scheduler: str | None = option(
        None, help="Work on the workers of this Dask scheduler.", panel=Panel.CLUSTER, metavar="tcp://HOST:PORT",
        otherwise="work in this process",
    )  # fmt: skip
    scheduler_file: Path | None = option(
        None, help="The same, by the file that the scheduler has written.", panel=Panel.CLUSTER, metavar="FILE"
    )
    workers: int | None = option(
        None, help="Work on so many processes of this machine.", panel=Panel.CLUSTER, minimum=1
    )  # fmt: skip
    cluster: ClusterKind | None = option(
        None, help="Ask SLURM for workers, as dask-jobqueue is configured.", panel=Panel.CLUSTER, metavar="slurm"
    )
    worker_timeout: float = option(
        300.0, help="Seconds to wait for a worker while there is none.", panel=Panel.CLUSTER, metavar="SECONDS",
        above=0, applies=_ELSEWHERE,
    )  # fmt: skip
    scratch: Path | None = option(
        None, help="Folder that all workers share, for rows on their way.", panel=Panel.CLUSTER,
        otherwise="the current one; TMPDIR where the workers are on this machine", applies=_ELSEWHERE,
    )  # fmt: skip
    unit: int = option(
        1 << 28, help="About how much a worker reads at once.", panel=Panel.CLUSTER, metavar="SIZE", parse=parse_unit,
        applies=_ELSEWHERE,
    )  # fmt: skip
    tls_ca_file: Path | None = option(
        None, help="Certificate of the authority that signed the scheduler's.", panel=Panel.CLUSTER, metavar="FILE",
        applies=_REMOTE,
    )  # fmt: skip
    tls_cert: Path | None = option(
        None, help="Certificate of this client.", panel=Panel.CLUSTER, metavar="FILE", applies=_REMOTE
    )
    tls_key: Path | None = option(None, help="Its key.", panel=Panel.CLUSTER, metavar="FILE", applies=_REMOTE)

    def __post_init__(self) -> None:
        """Refuse two places at once, and half of what TLS needs."""
        super().__post_init__()
        named = {
            "--scheduler": self.scheduler, "--scheduler-file": self.scheduler_file, "--workers": self.workers,
            "--cluster": self.cluster,
        }  # fmt: skip
        given = [flag for flag, value in named.items() if value is not None]
        require(len(given) < 2, f"{' and '.join(given)} are given; expected one place to work; leave one out")
        address = self.scheduler or "tcp://h:1"
        known = address.startswith(("tcp://", "tls://")) and address.rpartition(":")[2].isdigit()
        require(known, f"--scheduler is {address!r}; expected tcp://HOST:PORT or tls://HOST:PORT")
        tls = [self.tls_ca_file, self.tls_cert, self.tls_key]
        require(
            all(tls) or not any(tls), "TLS needs all of --tls-ca-file, --tls-cert and --tls-key; expected all or none"
        )
        require(
            not address.startswith("tls://") or all(tls),
            "--scheduler is a tls:// address; expected --tls-ca-file, --tls-cert and --tls-key with it",
        )

    def check(self, *, device: bool, clusters: bool = False) -> None:
        """Refuse what is of this process only."""
        for flag, given in {"--device": device, "--clusters": clusters}.items():
            require(
                not (given and self.wanted),
                f"{flag} is of this process; expected none where the work is sent elsewhere; leave it out",
            )

    @property
    def wanted(self) -> bool:
        """Whether work is to be sent anywhere."""
        return bool(self.scheduler or self.scheduler_file or self.workers or self.cluster)

    @property
    def is_running(self) -> bool:
        """Whether there is a scheduler already, which may ask for certificates."""
        return bool(self.scheduler or self.scheduler_file)
