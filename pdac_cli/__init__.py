"""Choose which samples to keep: coresets and replay buffers for continual learning, from saved features."""

__version__ = "0.1.0"
