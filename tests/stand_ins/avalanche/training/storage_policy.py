"""Buffers of exemplars, as far as adapters see them."""

from abc import ABC, abstractmethod


class ExemplarsBuffer(ABC):
    """A buffer of at most `max_size` samples."""

    def __init__(self, max_size: int):
        self.max_size = max_size
        self.buffer = []

    @abstractmethod
    def resize(self, strategy, new_size: int): ...


class ExemplarsSelectionStrategy(ABC):
    """Which exemplars are kept; the last ones are given up first."""

    @abstractmethod
    def make_sorted_indices(self, strategy, data): ...


class ParametricBuffer(ExemplarsBuffer):
    """One group, cut off by a selection strategy after every experience."""

    def __init__(self, max_size: int, groupby=None, selection_strategy=None):
        super().__init__(max_size)
        assert groupby is None
        self.selection_strategy = selection_strategy

    def update(self, strategy):
        new = strategy.experience.dataset
        self.buffer = self.buffer.concat(new) if len(self.buffer) else new
        self.resize(strategy, self.max_size)

    def resize(self, strategy, new_size: int):
        order = self.selection_strategy.make_sorted_indices(strategy=strategy, data=self.buffer)
        self.buffer = self.buffer.subset(order[:new_size])
