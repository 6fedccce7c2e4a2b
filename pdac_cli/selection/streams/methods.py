"""The one table of streaming methods."""

from __future__ import annotations

from collections.abc import Mapping

from pdac_cli.options.stream import StreamMethod
from pdac_cli.selection.streams.aser import ASER
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
