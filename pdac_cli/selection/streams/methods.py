"""The one table of streaming methods."""

from __future__ import annotations

from collections.abc import Mapping

from pdac_cli.options.stream import StreamMethod
from pdac_cli.selection.streams.er import ER
from pdac_cli.selection.streams.herding import HERDING
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.streams.spdac import SPDAC

STREAMING_METHODS: Mapping[StreamMethod, StreamingMethod] = {
    StreamMethod.SPDAC: SPDAC,
    StreamMethod.ER: ER,
    StreamMethod.HERDING: HERDING,
}
