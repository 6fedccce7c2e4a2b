"""Looking into a checkpoint's pickle without running it: which Python objects would it call or build?"""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path

# What a plain state dict is made of; anything else is a reason for torch's safe loader to refuse.
_PLAIN = {
    "collections.OrderedDict",
    "torch.Size",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch.storage._load_from_bytes",
}
_MAX_PICKLE_BYTES = 1 << 28  # tensors lie outside the pickle, so a real one is far smaller


def foreign_globals(path: Path) -> list[str]:
    """Names of the objects, beyond those of plain tensors, that unpickling the file would import."""
    names = {name for data in _streams(path) for name in _globals(data)}
    return sorted(name for name in names if name not in _PLAIN and not _is_storage(name))


def _is_storage(name: str) -> bool:
    return name.startswith(("torch.", "torch.storage.")) and name.endswith("Storage")


def _streams(path: Path) -> list[bytes]:
    """The pickles of a checkpoint: the member ``data.pkl`` of an archive, else the file itself."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith("data.pkl")]
            return [archive.read(info) for info in members if info.file_size <= _MAX_PICKLE_BYTES]
    except (zipfile.BadZipFile, OSError, NotImplementedError, EOFError):
        with path.open("rb") as stream:
            return [stream.read(_MAX_PICKLE_BYTES)]


def _globals(data: bytes) -> set[str]:
    """What the opcodes of a file's pickles name; they are read as text and never executed."""
    found: set[str] = set()
    stream = io.BytesIO(data)
    try:
        while stream.tell() < len(data):  # the form before archives is several pickles in a row, then tensors
            for name in _globals_of_one(stream):
                found.add(name)
    except (ValueError, EOFError, OverflowError):  # no pickle, or cut off: what was named before still counts
        pass
    return found


def _globals_of_one(stream: io.BytesIO) -> Iterator[str]:
    """Protocol 4 takes a global's two names from the stack, often by way of the memo, so strings are followed there."""
    strings: list[str] = []  # strings pushed, newest last
    memo: dict[int, str] = {}
    last: str | None = None  # the string on top of the stack, if one is
    for code, value, _ in pickletools.genops(stream):
        if code.name in ("GLOBAL", "INST"):
            yield str(value).replace(" ", ".")
        elif code.name == "STACK_GLOBAL":
            yield ".".join(strings[-2:])
        if code.name == "MEMOIZE" or code.name.endswith("PUT"):
            memo[len(memo) if value is None else int(value)] = last or "?"
            continue
        last = None
        if code.name.endswith("GET"):
            last = memo.get(int(value or 0), "?")
        elif "UNICODE" in code.name or "STRING" in code.name:
            last = str(value)
        if last is not None:
            strings.append(last)
