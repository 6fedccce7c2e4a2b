"""The plugin that replays what a storage policy keeps."""


class ReplayPlugin:
    """Told of the end of every experience."""

    def __init__(self, mem_size: int = 200, storage_policy=None):
        assert storage_policy.max_size == mem_size
        self.mem_size, self.storage_policy = mem_size, storage_policy

    def after_training_exp(self, strategy, **kwargs):
        self.storage_policy.update(strategy, **kwargs)
