"""What a checkpoint's pickle says of its tensors, read without torch: sizes are compared before anything is allocated.

torch believes a pickle that says how many numbers a storage has.  Here the pickle is read with stand-ins for all that
it names, so that nothing runs, and every tensor must lie within bytes that are there.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

_ITEM_BYTES = {
    "DoubleStorage": 8, "FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "IntStorage": 4,
    "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1, "UntypedStorage": 1,
}  # fmt: skip
_PLAIN_TENSORS = ("_rebuild_tensor", "_rebuild_tensor_v2")
_WRAPPERS = ("_rebuild_parameter", "_rebuild_parameter_with_state")
_LEGACY_PICKLES = 4  # magic number, version, system, content; then a list of keys and the bytes
_MAX_PICKLE_BYTES = 1 << 26  # tensors lie outside the pickle, so a real one is far smaller
_MAX_DEPTH_ERRORS = (RecursionError, MemoryError, OverflowError)


def find_false_claim(stream: IO[bytes]) -> str | None:
    """What a checkpoint claims that is not so or that no plain state dict has; None if it may be loaded.

    Damage that torch reports just as well is left to it.
    """
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    try:
        if zipfile.is_zipfile(stream):
            return _in_archive(stream, size)
        stream.seek(0)
        return _in_pickles(stream, size)
    except _Refused as problem:
        return str(problem)
    except _MAX_DEPTH_ERRORS as problem:
        return f"its pickle cannot be read ({type(problem).__name__})"


class _Refused(Exception):  # noqa: N818 -- its text is the answer
    """A claim that is false."""


@dataclass(frozen=True)
class _Storage:
    """What a pickle says of one storage."""

    key: str
    item_bytes: int
    numel: int


@dataclass
class _Seen:
    storages: dict[str, _Storage] = field(default_factory=dict)


class _StandIn:
    """Takes the place of whatever a pickle names: it can be made, called and filled, and does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, *_: object, **__: object) -> _StandIn:
        return self

    def __setstate__(self, _: object) -> None:
        pass

    def __setitem__(self, _: object, __: object) -> None:
        pass

    def append(self, _: object) -> None:
        """Take an item."""

    def extend(self, _: object) -> None:
        """Take items."""


# The one in Python: that in C allocates as large a memo as an opcode asks for.
class _Reader(pickle._Unpickler):
    """Reads a pickle for what it says of tensors."""

    def __init__(self, stream: IO[bytes], seen: _Seen) -> None:
        super().__init__(stream, encoding="utf-8")
        self._seen = seen

    def find_class(self, module: str, name: str) -> Any:
        """Return an inert object for everything but ordered dictionaries."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name in _PLAIN_TENSORS:
            return _check_tensor
        if module == "torch._utils" and name in _WRAPPERS:
            return lambda tensor, *_: tensor
        if module == "torch._utils" and name.startswith("_rebuild"):
            kind = name.removeprefix("_rebuild_").replace("_", " ")
            raise _Refused(f"it holds a tensor of another kind ({kind}) than plain numbers")
        if name.endswith("Storage") and module in ("torch", "torch.storage"):
            return name
        return _StandIn

    def persistent_load(self, pid: Any) -> Any:
        """Note a storage: ``("storage", type, key, place, number of items, …)``."""
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            return _StandIn()
        _, kind, key, _, numel = pid[:5]
        if kind not in _ITEM_BYTES or not isinstance(numel, int) or numel < 0 or not isinstance(key, str):
            raise _Refused(f"it holds {str(kind)[:40]}, not plain numbers")
        found = self._seen.storages.setdefault(key, _Storage(key, _ITEM_BYTES[kind], numel))
        if found.numel * found.item_bytes != numel * _ITEM_BYTES[kind]:
            raise _Refused(f"its storage {key[:20]!r} has two sizes")
        return found


def _check_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: object) -> _StandIn:
    """Refuse a tensor that is not made of as many numbers as its storage has for it."""
    if not isinstance(storage, _Storage) or not isinstance(size, tuple) or not isinstance(stride, tuple):
        return _StandIn()  # made of something else than numbers, which torch refuses by its name
    numbers = (offset, *size, *stride)
    if not all(isinstance(number, int) and 0 <= number < 2**63 for number in numbers) or len(size) != len(stride):
        raise _Refused("it holds a tensor of an impossible shape")
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if math.prod(size) and (last >= storage.numel or math.prod(size) > storage.numel):
        raise _Refused(f"it holds a tensor of {math.prod(size):,} numbers in a storage of {storage.numel:,}")
    return _StandIn()


def _in_archive(stream: IO[bytes], size: int) -> str | None:
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            sizes = {member.filename: member.file_size for member in members}
            if any(name.endswith("constants.pkl") for name in sizes):
                return None  # a TorchScript archive, which torch refuses by that name
            if len(sizes) < len(members):
                return "it has two members of one name"
            if any(member.flag_bits & 1 for member in members):
                return "a member is encrypted"
            if any(member.compress_type != zipfile.ZIP_STORED for member in members) or sum(sizes.values()) > size:
                return "it is compressed, or declares more bytes than it has"
            if not any(member.CRC for member in members):  # torch.serialization.set_crc32_options(False)
                for member in members:
                    del member.CRC  # without which nothing is compared
            wrong = archive.testzip()
            if wrong is not None:
                return f"the checksum of its member {wrong[-40:]!r} is wrong"
            name = next((name for name in sizes if name.endswith("data.pkl")), None)
            if name is None or sizes[name] > _MAX_PICKLE_BYTES:
                return None if name is None else "its pickle is larger than any state dict's"
            content = archive.read(name)
    except (zipfile.BadZipFile, UnicodeDecodeError, OSError, NotImplementedError, RuntimeError, EOFError) as problem:
        return f"a member is damaged ({str(problem)[:60]})"
    seen = _Seen()
    _read(io.BytesIO(content), seen, 1)
    return _short(seen, {key: sizes.get(f"{name[: -len('data.pkl')]}data/{key}", 0) for key in seen.storages})


def _in_pickles(stream: IO[bytes], size: int) -> str | None:
    """The form before archives: several pickles, then the numbers."""
    seen = _Seen()
    _read(stream, seen, _LEGACY_PICKLES)
    total = sum(storage.numel * storage.item_bytes for storage in seen.storages.values())
    return f"it declares {total:,} bytes of numbers and has {size:,}" if total > size else None


def _read(stream: IO[bytes], seen: _Seen, pickles: int) -> None:
    """Read some pickles; what is not one is left to torch, which says so."""
    for _ in range(pickles):
        try:
            _Reader(stream, seen).load()
        except (_Refused, *_MAX_DEPTH_ERRORS):
            raise
        except Exception:  # noqa: BLE001 -- a pickle that is wrong may raise anything
            return


def _short(seen: _Seen, there: Mapping[str, int]) -> str | None:
    for key, storage in seen.storages.items():
        if storage.numel * storage.item_bytes > there[key]:
            return (
                f"its storage {key[:20]!r} declares {storage.numel * storage.item_bytes:,} bytes and has {there[key]:,}"
            )
    return None
