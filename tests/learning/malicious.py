"""A pickle that does harm where it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.code = f"open({str(canary)!r}, 'w').close()"

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code,)
