"""A stream, from files or from memory: what can be checked before its first row, and which settings decide it."""

from __future__ import annotations

from dataclasses import asdict

from pdac_cli.errors import UsageError
from pdac_cli.files.index.index_schema import Option
from pdac_cli.options.stream import StreamRule
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.streams.methods import STREAMING_METHODS


def check_has_no_network(rule: StreamRule, method: StreamingMethod) -> None:
    """Refuse a method that asks a network that learns: a stream of features has none."""
    if method.needs_network:
        able = ", ".join(name.value for name, other in STREAMING_METHODS.items() if not other.needs_network)
        name = rule.method.value
        raise UsageError(
            f"--method {name} needs {method.needs_network}, and pdac stream has no network that learns; "
            f"expected one of: {able}; for {name} use pdac train-cl --setting online"
        )


def check_dim(rule: StreamRule, method: StreamingMethod, n_features: int) -> None:
    """Refuse more dimensions than there are features."""
    if method.needs_density and rule.density.dim > n_features:
        raise UsageError(f"--dim is {rule.density.dim}, the data has {n_features} features; expected at most as many")


def outcome_options(rule: StreamRule, method: StreamingMethod) -> dict[str, Option]:
    """Return the options that decide the outcome, as they are stored."""
    density = asdict(rule.density) if method.needs_density else {}
    settings = rule.settings.of(rule.method)
    steered = {"density": rule.density_kind.value, "steer": rule.steer} if method.is_steered else {}
    return {
        "budget": rule.budget,
        "batch": rule.batch,
        "seed": rule.seed,
        "method": rule.method.value,
        "acceptance": rule.acceptance.value,
        "allocation": rule.allocation.value,
        "window": rule.window,
        "temperature": rule.temperature,
        **steered,
        **{name.replace("_", "-"): value for name, value in {**density, **settings}.items()},
    }
