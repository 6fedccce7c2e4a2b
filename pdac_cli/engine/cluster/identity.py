"""What must be the same on client and workers for the same bits, and for understanding each other at all."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import pdac_cli
from pdac_cli.density import kernel
from pdac_cli.errors import StorageError

_PACKAGES = ("numpy", "scipy", "h5py", "distributed", "cloudpickle")


@cache
def identity() -> Mapping[str, str]:
    """Return the versions of this process."""
    found = {"pdac": pdac_cli.__version__, "Python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    found["C code of pdac"] = "none" if kernel.compiled is None else "compiled"
    return found


def check_identity(client: Mapping[str, str]) -> None:
    """Refuse to work for a client of other versions."""
    own = identity()
    other = [
        f"{name} {own.get(name, 'none')} here and {client[name]} there"
        for name in client
        if own.get(name) != client[name]
    ]
    if other:
        raise StorageError(
            f"this worker differs from the client: {'; '.join(other)}; expected the same on both; "
            "install the same versions, or start the workers from the client's environment"
        )
