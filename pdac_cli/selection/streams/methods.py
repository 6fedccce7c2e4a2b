"""The one table of streaming methods, and beside it what differs with --density class."""

from __future__ import annotations

from collections.abc import Mapping

from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.select import DensityKind
from pdac_cli.selection.streams.aser import ASER
from pdac_cli.selection.streams.density_reservoir import PRINTED_SPDAC
from pdac_cli.selection.streams.er import ER
from pdac_cli.selection.streams.er_mir import ER_MIR
from pdac_cli.selection.streams.gss import GSS
from pdac_cli.selection.streams.herding import HERDING
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.streams.metasp import METASP
from pdac_cli.selection.streams.spdac import SPDAC

STREAMING_METHODS: Mapping[StreamMethod, StreamingMethod] = {
    StreamMethod.SPDAC: SPDAC,
    StreamMethod.ER: ER,
    StreamMethod.ER_MIR: ER_MIR,
    StreamMethod.GSS: GSS,
    StreamMethod.ASER: ASER,
    StreamMethod.METASP: METASP,
    StreamMethod.HERDING: HERDING,
}
BY_CLASS_DENSITY: Mapping[StreamMethod, StreamingMethod] = {StreamMethod.SPDAC: PRINTED_SPDAC}


def streaming_method(name: StreamMethod, kind: DensityKind) -> StreamingMethod:
    """Return the method of a name, by the kind of density it is to use."""
    other = BY_CLASS_DENSITY.get(name) if kind is DensityKind.CLASS else None
    return other or STREAMING_METHODS[name]
