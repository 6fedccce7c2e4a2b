"""What `pdac inspect` says of a file, for people in a screenful and for programs in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdac_cli.console import size_text
from pdac_cli.pipeline.health import Finding
from pdac_cli.reports.table import facts as lines_of
from pdac_cli.storage.reading import shape_text

Facts = dict[str, Any]
_MOST_ARRAYS, _MOST_CLASSES, _MOST_SETTINGS, _LONGEST = 12, 20, 12, 100  # shown to people; --json has all


@dataclass(frozen=True)
class ClassSize:
    """One class of a file."""

    label: int
    name: str | None
    rows: int


@dataclass(frozen=True)
class ArrayFacts:
    """One array of a file."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Description:
    """What there is to say of a file of some kind."""

    facts: Facts
    next: str  # the command to try
    arrays: tuple[ArrayFacts, ...] = ()
    per_class: tuple[ClassSize, ...] = ()
    health: tuple[Finding, ...] | None = None  # None: nothing was looked for


@dataclass(frozen=True, kw_only=True)
class FileFacts(Description):
    """What a file is."""

    path: str
    kind: str
    bytes: int

    def text(self) -> str:
        """Return it for people, in a screenful."""
        shown = {name: _value_text(value) for name, value in self.facts.items() if value not in (None, {}, [], ())}
        if self.arrays:
            named = [f"{one.name} {shape_text(one.shape)} {one.dtype}" for one in self.arrays[:_MOST_ARRAYS]]
            shown["arrays"] = ", ".join(named) + _more(len(self.arrays), _MOST_ARRAYS)
        if self.per_class:
            shown["classes"] = _classes_text(self.per_class)
        if self.health is not None:
            for k, finding in enumerate(self.health or (Finding("nothing found", "", ""),)):
                shown["health" if k == 0 else " " * (k + 1)] = finding.text().removesuffix(": ")
        shown["next"] = self.next
        body = lines_of(shown).replace("\n", "\n  ")
        return f"{lines_of({self.path: f'{self.kind}, {size_text(self.bytes)}'})}\n  {body}"


def _classes_text(classes: tuple[ClassSize, ...]) -> str:
    counts = [one.rows for one in classes]
    shown = ", ".join(f"{one.name or one.label} ({one.rows:,})" for one in classes[:_MOST_CLASSES])
    each = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    return f"{len(classes):,}, {each} rows each: {shown}{_more(len(classes), _MOST_CLASSES)}"


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{name} {_cut(each)}" for name, each in list(value.items())[:_MOST_SETTINGS]]
        return ", ".join(pairs) + _more(len(value), _MOST_SETTINGS)
    if isinstance(value, list):
        mark = "; " if value and isinstance(value[0], str) else ", "
        return mark.join(_cut(each) for each in value[:_MOST_SETTINGS]) + _more(len(value), _MOST_SETTINGS)
    return _cut(value)


def _cut(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _more(count: int, shown: int) -> str:
    return f" … and {count - shown:,} more" if count > shown else ""
