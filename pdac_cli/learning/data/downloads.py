"""Files that are fetched only when asked for, and checked before they are used."""

from __future__ import annotations

import urllib.error
from pathlib import Path

from torchvision.datasets.utils import download_and_extract_archive

from pdac_cli.errors import DataError

NETWORK_ERRORS = (urllib.error.URLError, OSError, RuntimeError, ValueError)


def fetched(url: str, folder: Path, md5: str) -> None:
    """Download an archive into a folder, check it and unpack it."""
    try:
        download_and_extract_archive(url, str(folder), md5=md5, remove_finished=True)
    except NETWORK_ERRORS as problem:
        raise unreachable(url, folder, problem) from None


def unreachable(url: str, folder: Path, problem: Exception) -> DataError:
    """Say that a download failed and how to do without."""
    reason = " ".join(str(problem).split())[:100]
    return DataError(
        f"{url}: cannot be fetched ({reason}); expected a network connection; "
        f"fetch it elsewhere and unpack it in {folder}"
    )
