"""The inner loops that are written in C, where they could be compiled; `sweep` and `mixture` do without them too."""

from __future__ import annotations

try:
    from pdac_cli.density import _kernel as compiled
except ImportError:  # there was no C compiler when this was installed
    compiled = None  # type: ignore[assignment]

__all__ = ["compiled"]
