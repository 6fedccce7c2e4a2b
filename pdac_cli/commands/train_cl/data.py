"""Opening what a continual run learns from: images or features, with a part to test on."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.console import Console
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.file_kinds import holds_images, rows_to_test
from pdac_cli.files.formats.images import open_images
from pdac_cli.learning.data.datasets import open_dataset, open_folder, scheme_of
from pdac_cli.learning.data.images import ArrayImages, Images, encoded
from pdac_cli.learning.data.samples import LoadedPart, Samples, join, load_features, load_images, preprocessing_of
from pdac_cli.learning.networks.checkpoints import Checkpoint, load_checkpoint
from pdac_cli.metrics import check_test_classes
from pdac_cli.options.extract import Split
from pdac_cli.options.shared import InputOptions
from pdac_cli.options.train_cl import TrainOptions
from pdac_cli.pipeline.row_access import open_input
from pdac_cli.storage.reading import check_readable

_CHUNK_ROWS = 1 << 14
_ARRAYS = "arrays"
_CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class _Part:
    """Images of one part of the data."""

    images: Images
    channels: int
    rows: Any  # (n,) in the source, or None: all of it
    total: int
    files: tuple[str, ...]


def open_samples(options: TrainOptions, console: Console) -> tuple[Samples, Checkpoint | None]:
    """Load the training and test samples, and the checkpoint to start from where there is one."""
    if not options.data:
        raise UsageError("no data is given; expected images or feature files, such as sample_data/digits-images.h5")
    init = None
    if options.learning.init is not None:
        check_readable(options.learning.init, "a checkpoint")
        init = load_checkpoint(options.learning.init)
    scheme, path = scheme_of(options.data[0])
    is_images = scheme is not None or path.is_dir() or (path.exists() and _is_image_file(path))
    if not is_images:
        if init is not None:
            raise UsageError("--init is given with features; expected images; a head on features starts anew")
        return _features(options, console), None
    if len(options.data) > 1:
        raise UsageError(f"{len(options.data)} sources of images are given; expected one, and others by --test")
    return _images(options, init, console), init


def _is_image_file(path: Path) -> bool:
    check_readable(path, "a data file")
    return path.suffix != ".npy" and holds_images(path)


def _features(options: TrainOptions, console: Console) -> Samples:
    train, fingerprint, files, total = _read_features(options.data, console)
    split = rows_to_test(Path(options.data[0]), total) if len(files) == 1 and not files[0].endswith(".npy") else None
    test: LoadedPart | None = None
    if options.test is not None:
        test = _read_features((options.test,), console)[0]
    elif split is not None:
        out = split[train.rows]
        train, test = _chosen(train, ~out), _chosen(train, out)
    else:
        console.note("note: no test rows in the data; a fifth of every class is held out for testing")
    _check_test(train, test, options, console)
    return join(train, test, fingerprint, files, total, None)


def _check_test(train: LoadedPart, test: LoadedPart | None, options: TrainOptions, console: Console) -> None:
    """Refuse test rows that lack classes; say which of them are left out."""
    if test is not None and test.label_names == train.label_names:
        where = options.test or options.data[0]
        warning = check_test_classes(np.unique(train.labels), np.unique(test.labels), where)
        if warning:
            console.warn(warning)


def _read_features(paths: tuple[str, ...], console: Console) -> tuple[LoadedPart, str, tuple[str, ...], int]:
    with open_input(InputOptions(paths=paths), console) as source:
        chunks = list(source.chunks(_CHUNK_ROWS))
        h, y, ids = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("h", "y", "ids"))
        loaded = load_features(h, y, ids, source.label_names)
        source.check_unchanged()
        return loaded, source.fingerprint, source.files, source.n


def _chosen(part: LoadedPart, wanted: Any) -> LoadedPart:
    rows = np.flatnonzero(wanted)
    if len(rows) == 0:
        raise DataError("'split' has no rows of one of the parts; expected 0 for train and 1 for test")
    return part.take(rows)


def _images(options: TrainOptions, init: Checkpoint | None, console: Console) -> Samples:
    resize, meta = options.learning.resize, {} if init is None else init.meta
    with ExitStack() as stack:
        train, test = _parts(options, stack, console)
        kind, channels = train.images.kind, train.channels
        geometry = preprocessing_of(kind, channels, resize, {}, None)
        loaded = load_images(train.images, train.rows, geometry)
        loaded_test = None if test is None else load_images(test.images, test.rows, geometry)
        how = preprocessing_of(kind, channels, resize, meta, loaded.x)
        how = replace(how, resize=geometry.resize, crop=geometry.crop)  # already done
        _check_test(loaded, loaded_test, options, console)
        return join(loaded, loaded_test, train.images.digest[:32], train.files, train.total, how)


def _parts(options: TrainOptions, stack: ExitStack, console: Console) -> tuple[_Part, _Part | None]:
    """Open the training and the test part; None where rows are to be held out."""
    scheme, path = scheme_of(options.data[0])
    if options.test is not None:
        return _open(options.data[0], None, options, stack), _open(options.test, None, options, stack)
    if scheme is None and path.is_file():
        divided = rows_to_test(path) is not None
    elif scheme is None:
        divided = any((path / name).is_dir() for name in ("train", "training"))
    else:
        divided = True
    if divided:
        train, test = (_open(options.data[0], split, options, stack) for split in (Split.TRAIN, Split.TEST))
        return train, test
    console.note("note: no test images in the data; a fifth of every class is held out for testing")
    return _open(options.data[0], None, options, stack), None


def _open(data: str, split: Split | None, options: TrainOptions, stack: ExitStack) -> _Part:
    scheme, path = scheme_of(data)
    if scheme is not None:
        images = open_dataset(scheme, path, split, options.download)
        return _Part(images, 3, None, len(images.labels), (str(path),))
    if not path.is_file():
        images = open_folder(path, split)
        return _Part(images, 3, None, len(images.labels), (str(path),))
    stored = stack.enter_context(open_images(path, split))
    images = ArrayImages(
        _ARRAYS, path, stored.take, stored.shape, stored.dtype, stored.rows, encoded(stored.ids), stored.labels,
        stored.label_names,
    )  # fmt: skip
    channels = _channels(stored.shape, path)
    return _Part(images, channels, stored.rows, stored.shape[0], (str(path),))


def _channels(shape: tuple[int, ...], path: Path) -> int:
    """Read the number of channels from (n, h, w), (n, h, w, channels) or (n, channels, h, w)."""
    if len(shape) == 3:
        return 1
    for channels in (shape[-1], shape[1]):
        if channels in _CHANNELS:
            return channels
    raise DataError(f"{path}: images of shape {shape}; expected 1, 3 or 4 channels")
