"""Choose which samples to keep: coresets and replay buffers for continual learning, from saved features.

The names below are loaded when they are asked for: importing the package loads nothing else.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "AvalancheExemplars": "learning.avalanche",
    "AvalancheStorage": "learning.avalanche",
    "CoresetSelector": "api.selector",
    "FeatureSet": "files.featureset",
    "InputError": "api.messages",
    "ParameterError": "api.messages",
    "KeptRows": "api.kept",
    "PdacError": "errors",
    "PdacWarning": "api.messages",
    "ProjectedGaussianMixture": "api.mixture",
    "ReplayBatchSampler": "learning.replay",
    "ReplayBuffer": "learning.replay",
    "StreamingSelector": "api.streaming",
    "coreset_subset": "api.subsets",
    "load_rows": "api.subsets",
    "select_coreset": "api.choosing",
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
