"""Small pictures of rows, where there are images: beside the features, in a file, or in a folder by their ids."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.errors import DataError
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.formats.images import IMAGE_NAMES, open_images
from pdac_cli.files.formats.row_arrays import RowArray
from pdac_cli.files.formats.row_arrays import take as take_rows

TILE = 32  # pixels of a side, at most
ACROSS = 64  # pictures in a row of a sheet; the page counts on it
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
_MOST_PIXELS = 1 << 26
Take = Callable[[Array], Sequence[Array | None]]  # rows (m,) to pictures (h, w, 3) of bytes, None where there is none


@contextmanager
def open_pictures(images: Path | None, source: FeatureSet) -> Iterator[Take | None]:
    """Give what finds pictures of rows; None where there are no images."""
    if images is not None and images.is_dir():
        yield _in_folder(images, source)
    elif images is not None:
        with open_images(images, None) as stored:
            take = stored.take
            place = _places(images, stored.shape[0], stored.ids, source)
            yield lambda rows: _pictures(take, place(rows))
    elif (array := _beside(source)) is not None:
        yield lambda rows: _pictures(partial(take_rows, array), rows)
    else:
        yield None


def sheet_of(pictures: Sequence[Array]) -> str:
    """Return pictures side by side as one PNG in base64, ACROSS in a row, each scaled to a square."""
    side = min(TILE, max(max(one.shape[:2]) for one in pictures))
    rows = -(-len(pictures) // ACROSS)
    sheet = np.zeros((rows * side, ACROSS * side, 3), np.uint8)
    for k, one in enumerate(pictures):
        top, left = k // ACROSS * side, k % ACROSS * side
        sheet[top : top + side, left : left + side] = _scaled(one, side)
    return png_of(sheet)


def png_of(picture: Array) -> str:
    """Return a picture (h, w, 3) as a PNG in base64; grey ones take a third."""
    from PIL import Image

    grey = bool((picture == picture[..., :1]).all())
    memory = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture[..., 0] if grey else picture)).save(memory, "PNG", optimize=True)
    return base64.b64encode(memory.getvalue()).decode()


def _scaled(picture: Array, side: int) -> Array:
    if picture.shape[:2] == (side, side):
        return picture
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(picture))
    image.thumbnail((side, side))
    out = np.zeros((side, side, 3), np.uint8)
    small = np.asarray(image)
    top, left = (side - small.shape[0]) // 2, (side - small.shape[1]) // 2
    out[top : top + small.shape[0], left : left + small.shape[1]] = small
    return out


def _places(images: Path, count: int, names: Sequence[str], source: FeatureSet) -> Callable[[Array], Array]:
    """Return what finds the images of rows: by their numbers where there are as many, else by their ids."""
    if count == source.n:
        return lambda rows: rows
    at = {name: k for k, name in enumerate(names)}
    if source.has_ids and any(name in at for name in source.id_texts(np.arange(min(source.n, 1000)))):
        return lambda rows: np.array([at.get(name, -1) for name in source.id_texts(rows)], np.int64)
    raise DataError(
        f"{images}: has {count:,} images, {source.files[0]} has {source.n:,} rows and calls them otherwise; "
        "expected an image for each, or the same 'ids' in both"
    )


def _beside(source: FeatureSet) -> RowArray | None:
    """Return the images among the features' own arrays, if there are as many as rows."""
    container = source.container
    if container is None:
        return None
    present = container.names()
    found = (container.get(name) for name in IMAGE_NAMES if name in present)
    return next((array for array in found if len(array.shape) > 2 and array.shape[0] == source.n), None)


def _pictures(take: Callable[[Array], Array], places: Array) -> list[Array | None]:
    there = np.flatnonzero(places >= 0)
    found: list[Array | None] = [None] * len(places)
    if len(there):
        for k, picture in zip(there.tolist(), take(places[there]), strict=True):
            found[k] = _as_bytes(picture)
    return found


def _as_bytes(picture: Array) -> Array | None:
    """Return an image (h, w), (h, w, channels) or (channels, h, w) as bytes of three colours."""
    if picture.ndim == 2:
        picture = picture[..., None]
    elif picture.ndim == 3 and picture.shape[-1] not in (1, 3, 4) and picture.shape[0] in (1, 3, 4):
        picture = np.moveaxis(picture, 0, -1)
    if picture.ndim != 3 or picture.shape[-1] not in (1, 3, 4) or 0 in picture.shape:
        return None
    if picture.dtype != np.uint8:
        with np.errstate(all="ignore"):
            low, high = np.nanmin(picture), np.nanmax(picture)
            scaled = picture.astype(float) * 255 if 0 <= low <= high <= 1 else picture.astype(float)
            picture = np.nan_to_num(np.clip(scaled, 0, 255)).astype(np.uint8)
    picture = picture[..., :3] if picture.shape[-1] >= 3 else picture[..., :1]
    out: Array = np.broadcast_to(picture, (*picture.shape[:2], 3))
    return out


def _in_folder(folder: Path, source: FeatureSet) -> Take:
    """Return what opens the images of a folder that rows are called after, and no file outside it."""
    if not source.has_ids:
        raise DataError(
            f"{source.files[0]}: does not say what its rows are called; expected ids that are paths in {folder}; "
            "name them with --ids-key, or give images in one file"
        )
    root = folder.resolve()
    return lambda rows: [_opened(root, name) for name in source.id_texts(rows)]


def _opened(root: Path, name: str) -> Array | None:
    from PIL import Image

    found: Array | None = None
    with suppress(Exception):  # Pillow's decoders raise anything on files that are damaged: there is no picture then
        path = (root / name).resolve()
        if path.is_relative_to(root) and path.is_file():
            with path.open("rb") as stream, Image.open(stream, formats=_FORMATS) as image:
                if image.height * image.width <= _MOST_PIXELS:
                    image.thumbnail((4 * TILE, 4 * TILE))
                    found = np.asarray(image.convert("RGB"))
    return found
