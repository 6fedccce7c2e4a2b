"""Adapters to Avalanche: which exemplars its buffers keep, and a storage policy for its replay plugin."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from pdac_cli.arrays import Array
from pdac_cli.errors import UsageError

try:
    from avalanche.training.storage_policy import ExemplarsBuffer, ExemplarsSelectionStrategy
except ImportError as problem:
    raise ImportError(
        f"Avalanche cannot be loaded ({problem}); "
        "expected avalanche-lib 0.6 or later; pip install 'pdac-cli[avalanche]'"
    ) from problem

Features = str | Callable[[nn.Module, Tensor], Tensor]  # the name of a layer, or a function of (model, inputs)


class Chooses(Protocol):
    """What is asked of a selector: `CoresetSelector` is one."""

    budget: int

    @property
    def ranking_(self) -> Array:
        """The rows chosen, best first."""

    @property
    def buffer_(self) -> Any:
        """The rows kept, by `task` and `ids`."""

    def fit(self, X: Any, y: Any) -> Any:
        """Choose rows."""

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Choose rows of a new task."""

    def resize(self, budget: int) -> Any:
        """Keep fewer rows, or allow for more."""


class AvalancheExemplars(ExemplarsSelectionStrategy):  # type: ignore[misc]  # Avalanche has no types
    """Sorts exemplars by a selector, for Avalanche's `ParametricBuffer`.

    Parameters
    ----------
    selector : CoresetSelector
        Which rows come first; its budget is the most that a group can keep, the buffer's ``max_size``.
    features : str or callable
        The layer whose output the selector sees, by its name in the model; or a function of the model and inputs.
    batch_size : int
        Inputs that go through the model at once.

    Examples
    --------
    >>> from avalanche.training.storage_policy import ParametricBuffer
    >>> from pdac_cli import AvalancheExemplars, CoresetSelector
    >>> exemplars = AvalancheExemplars(CoresetSelector(budget=200), features="features")
    >>> ParametricBuffer(max_size=200, selection_strategy=exemplars).max_size
    200
    """

    def __init__(self, selector: Chooses, features: Features, batch_size: int = 128) -> None:
        self.selector, self.features, self.batch_size = selector, features, batch_size

    def make_sorted_indices(self, strategy: Any, data: Any) -> list[int]:
        """Return rows of the data, the last of which are given up first; those beyond the budget come as they are."""
        selector = deepcopy(self.selector)
        selector.budget = min(selector.budget, len(data))
        first = selector.fit(*look(strategy, data, self.features, self.batch_size)).ranking_.tolist()
        chosen = set(first)
        return [*first, *(row for row in range(len(data)) if row not in chosen)]


class AvalancheStorage(ExemplarsBuffer):  # type: ignore[misc]
    """A storage policy that chooses rows of every experience and lets earlier ones give up theirs, in proportion.

    Parameters
    ----------
    selector : CoresetSelector
        Which rows are kept; its budget is the size of the memory.
    features : str or callable
        The layer whose output the selector sees, by its name in the model; or a function of the model and inputs.
    batch_size : int
        Inputs that go through the model at once.

    Examples
    --------
    >>> from avalanche.training.plugins import ReplayPlugin
    >>> from pdac_cli import AvalancheStorage, CoresetSelector
    >>> storage = AvalancheStorage(CoresetSelector(budget=200), features="features")
    >>> ReplayPlugin(mem_size=200, storage_policy=storage).mem_size
    200
    """

    def __init__(self, selector: Chooses, features: Features, batch_size: int = 128) -> None:
        super().__init__(selector.budget)
        self.selector, self.features, self.batch_size = selector, features, batch_size
        self._tasks: list[tuple[Any, Array]] = []  # what is left of each experience, and which of its rows that is

    def update(self, strategy: Any, **_more: Any) -> None:
        """Take in the experience that was trained on."""
        self.post_adapt(strategy, strategy.experience)

    def post_adapt(self, agent: Any, exp: Any) -> None:
        """Take in an experience."""
        self.selector.partial_fit(*look(agent, exp.dataset, self.features, self.batch_size))
        self._tasks.append((exp.dataset, torch.arange(len(exp.dataset)).numpy()))
        self._gather()

    def resize(self, strategy: Any, new_size: int) -> None:  # noqa: ARG002 -- Avalanche's interface
        """Change the size of the memory."""
        self.max_size = new_size
        self.selector.resize(new_size)
        if self._tasks:
            self._gather()

    def _gather(self) -> None:
        """Put the rows kept together, and let go of the others."""
        kept, left = self.selector.buffer_, []
        for k, (data, rows) in enumerate(self._tasks):
            wanted = kept.ids[kept.task == k + 1]
            place = {int(row): at for at, row in enumerate(rows)}
            left.append((data.subset([place[int(row)] for row in wanted]), wanted))
        self._tasks = left
        whole = left[0][0]
        for data, _ in left[1:]:
            whole = whole.concat(data)
        self.buffer = whole


@torch.no_grad()
def look(strategy: Any, data: Any, features: Features, batch_size: int) -> tuple[Array, Array]:
    """Return what a strategy's model makes of data, not augmented, and the labels: (n, D), (n,)."""
    model, rows, labels = strategy.model, [], []
    training = model.training
    model.eval()
    try:
        still = data.eval() if hasattr(data, "eval") else data
        loader = DataLoader(still, batch_size=batch_size, collate_fn=getattr(still, "collate_fn", None))
        for x, y, *_ in loader:
            rows.append(_output(model, x.to(strategy.device), features).flatten(1).float().cpu())
            labels.append(torch.as_tensor(y).cpu())
    finally:
        model.train(training)
    return torch.cat(rows).numpy(), torch.cat(labels).numpy()


def _output(model: nn.Module, x: Tensor, features: Features) -> Tensor:
    """Return the output of a layer, or of a function of the model and inputs."""
    if not isinstance(features, str):
        return features(model, x)
    layers = dict(model.named_modules())
    if not features or features not in layers:
        known = ", ".join(name for name in layers if name)
        raise UsageError(f"features is {features!r}; expected a layer of the model, one of: {known}")
    found: list[Tensor] = []
    hook = layers[features].register_forward_hook(lambda _layer, _inputs, output: found.append(output))
    try:
        model(x)
    finally:
        hook.remove()
    if not found:
        raise UsageError(f"features is {features!r}, a layer that the model does not use; expected one that it does")
    return found[-1]
