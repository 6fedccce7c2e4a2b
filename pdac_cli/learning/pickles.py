"""Looking into a checkpoint's pickle without running it: which Python objects would it call or build?"""

from __future__ import annotations

import pickletools
import zipfile
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
    names = {name for stream in _streams(path) for name in _globals(stream)}
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
    """What the opcodes of one pickle name; they are read as text and never executed.

    Protocol 4 takes a global's two names from the stack, often by way of the memo, so strings are followed there.
    """
    found: set[str] = set()
    strings: list[str] = []  # strings pushed, newest last
    memo: dict[int, str] = {}
    last: str | None = None  # the string on top of the stack, if one is
    try:
        for code, value, _ in pickletools.genops(data):
            if code.name in ("GLOBAL", "INST"):
                found.add(str(value).replace(" ", "."))
                last = None
            elif code.name == "STACK_GLOBAL":
                found.add(".".join(strings[-2:]))
                last = None
            elif "UNICODE" in code.name or code.name in ("STRING", "BINSTRING", "SHORT_BINSTRING"):
                last = str(value)
                strings.append(last)
            elif code.name == "MEMOIZE" or code.name.endswith("PUT"):
                if last is not None:
                    memo[len(memo) if value is None else int(value)] = last
                elif value is None:
                    memo[len(memo)] = ""
            elif code.name.endswith("GET"):
                last = memo.get(int(value or 0))
                strings.append(last or "?")
            elif code.name != "PROTO":
                last = None
    except ValueError:  # no pickle, or cut off: what was named before still counts
        pass
    return found
