"""The inner loops that are written in C, where they could be compiled; whoever uses them can do without."""

from __future__ import annotations

try:
    from pdac_cli.density import _kernel as compiled
except ImportError:  # there was no C compiler when this was installed
    compiled = None  # type: ignore[assignment]

__all__ = ["compiled"]
