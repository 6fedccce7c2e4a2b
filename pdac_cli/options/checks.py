"""The check every option uses."""

from __future__ import annotations

from pdac_cli.errors import UsageError


def require(condition: bool, message: str) -> None:
    """Raise a usage error unless the condition holds."""
    if not condition:
        raise UsageError(message)


def require_seed(seed: int) -> None:
    """Raise a usage error unless the seed is a whole number from 0 to 2**63 − 1."""
    require(0 <= seed < 2**63, f"--seed is {seed}; expected a whole number from 0 to 2^63 - 1")
