"""What a continual run will do, settled and checked before it begins."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from pdac_cli import __version__
from pdac_cli.commands.train_cl.methods import Methods
from pdac_cli.console import size_text
from pdac_cli.engine.resources import default_jobs, default_memory
from pdac_cli.errors import UsageError
from pdac_cli.learning.data.samples import Samples
from pdac_cli.learning.devices import torch_version
from pdac_cli.learning.networks.backbones import describe_state
from pdac_cli.learning.networks.checkpoints import Checkpoint
from pdac_cli.options.effect import refuse_given
from pdac_cli.options.heads import HeadLearner
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.train_cl import (
    DEFAULT_EPOCHS,
    PRESET_TASKS,
    PROPER_WIDTH,
    TINY_PIXELS,
    TINY_WIDTH,
    Setting,
    TrainOptions,
)
from pdac_cli.selection.streams.interface import StreamingMethod

_PRESET_PAD = 4
_OF_IMAGES = ("width", "pad", "flip", "resize", "init", "channels_last", "kmeans_of")
_OF_FEATURES = ("hidden",)
_WORTH_THREADS = 1 << 14  # pixels times width


def settled(options: TrainOptions, samples: Samples, init: Checkpoint | None) -> TrainOptions:
    """Return the options with everything that was left open decided: by the preset, the checkpoint or the images."""
    learning, preset = options.learning, options.preset
    if init is not None:
        width = describe_state(init.state).width
        if learning.width not in (None, width):
            raise UsageError(f"--width is {learning.width}, the checkpoint's is {width}; leave --width out")
    else:
        tiny = samples.how is not None and samples.x.shape[-1] < TINY_PIXELS
        width = learning.width or (TINY_WIDTH if tiny else PROPER_WIDTH)
    epochs = learning.epochs or (1 if options.setting is Setting.ONLINE else DEFAULT_EPOCHS)
    pad, flip = learning.pad, learning.flip
    if preset is not None:
        pad, flip = _PRESET_PAD if pad is None else pad, True if flip is None else flip
    tasks = options.tasks or (None if preset is None else PRESET_TASKS.get(preset))
    return replace(options, tasks=tasks, learning=replace(learning, width=width, epochs=epochs, pad=pad, flip=flip))


def check_plan(options: TrainOptions, samples: Samples, methods: Methods, device: str, processes: int) -> None:
    """Refuse, before long work, what could not end well."""
    for name, method in methods.items():
        asks = method.needs_network if isinstance(method, StreamingMethod) else ""
        if processes > 1 and asks:
            raise UsageError(
                f"--method {name} with {processes} processes: it needs {asks}, which one process has to compute; "
                "expected one process; run it without torchrun"
            )
    closed = next((one.value for one in options.learners if not one.has_network), None)
    if closed is not None and samples.how is not None:
        raise UsageError(
            f"--learner {closed} is a head on features, and the data are images; expected features; "
            "write them by pdac extract"
        )
    size = 16 * options.random_features**2  # two matrices of doubles
    if HeadLearner.RANPAC in options.learners and size > default_memory():
        raise UsageError(
            f"--random-features is {options.random_features:,}, whose matrices take {size_text(size)}; expected room "
            "for them in half of the free memory; lower it"
        )
    if closed is not None and processes > 1:
        raise UsageError(f"--learner {closed} with {processes} processes; expected one; run it without torchrun")
    if options.learning.channels_last and device == "cpu":
        # torch 2.15's backward pass of narrow convolutions in this format writes beyond its memory.
        raise UsageError("--channels-last on the CPU; expected a GPU; leave --channels-last out")
    images = samples.how is not None
    n_features = 8 * (options.learning.width or 1) if images else samples.x.shape[1]
    if any(method.needs_density for method in methods.values()) and options.density.dim > n_features and options.budget:
        raise UsageError(
            f"--dim is {options.density.dim}, the network has {n_features} features; "
            "expected at most as many; raise --width"
        )


def check_effect(options: TrainOptions, samples: Samples) -> None:
    """Refuse options that these samples leave without effect."""
    others, what = (_OF_IMAGES, "images") if samples.how is None else (_OF_FEATURES, "features")
    refuse_given(options, others, what)


@dataclass(frozen=True)
class Sharing:
    """How the cores are shared: so many runs side by side, each with so many threads."""

    runs: int
    threads: int


def sharing_of(options: TrainOptions, samples: Samples, device: str, processes: int) -> Sharing:
    """Share the cores among seeds where a step is small, for its threads would wait longer than work; else in it."""
    jobs = options.run.jobs or default_jobs()
    pixels = samples.x[0, 0].numel() if samples.how is not None else 1
    small = pixels * (options.learning.width or 1) < _WORTH_THREADS
    if device != "cpu" or processes > 1 or not small:
        return Sharing(1, jobs)
    return Sharing(jobs, 1)


def config_of(options: TrainOptions, samples: Samples, methods: Methods, device: str, world: int) -> dict[str, Any]:
    """Return everything that decides the results, as it is stored."""
    learning = {name: value for name, value in asdict(options.learning).items() if name not in ("init", "device")}
    init = options.learning.init
    return {
        "data": list(options.data),
        "test": options.test,
        "fingerprint": samples.origin.fingerprint,
        "train_rows": len(samples.x),
        "test_rows": len(samples.x_test),
        "classes": len(samples.labels),
        "setting": options.setting.value,
        "preset": options.preset,
        "tasks": options.tasks,
        "class_order": options.class_order,
        "budget": options.budget,
        "imbalance": options.imbalance,
        "methods": list(methods),
        "learners": [one.value for one in options.learners],
        "random_features": options.random_features,
        "seeds": options.seeds,
        "seed": options.seed,
        "feed": options.feed.value,
        "probe": options.probe,
        "kmeans_of": options.kmeans_of.value,
        "rescore": options.rescore,
        "allocation": options.allocation,
        "temperature": options.temperature,
        "density": options.draw.density_kind.value,
        "steer": options.draw.steer,
        "steer_by": None if options.draw.steer_by is None else options.draw.steer_by.value,
        "eviction": options.eviction.value,
        "acceptance": options.acceptance.value,
        "window": options.window,
        "beta": options.beta,
        "step_rows": options.step_rows,
        "updates": options.updates.value,
        "rows_per_class": options.rows_per_class,
        **_settings_of(options, methods),
        "init": None if init is None else str(init),
        **learning,
        **{f"density.{name}": value for name, value in asdict(options.density).items()},
        "device": device,
        "processes": world,
        "torch": torch_version(),
        "pdac": __version__,
    }


def _settings_of(options: TrainOptions, methods: Methods) -> dict[str, Any]:
    """Return the options that the methods have."""
    if options.setting is Setting.OFFLINE:
        return {name: value for method in methods for name, value in options.own.of(method).items()}
    streaming = [StreamMethod(name) for name, method in methods.items() if isinstance(method, StreamingMethod)]
    return {name: value for method in streaming for name, value in options.settings.of(method).items()}
