"""Choosing rows of a set, from files or from memory: density, selection, budgets and eviction in one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

from pdac_cli.commands.buffer import Room, join, make_room
from pdac_cli.commands.fit import announce_plan, check_dim, device_of, fit_model, grouped_rows
from pdac_cli.commands.head import HeadSource, head_source
from pdac_cli.commands.offering import NamedSource, OfferedRows, has_logits, logit_columns
from pdac_cli.commands.stored import stored_rows
from pdac_cli.console import Console
from pdac_cli.density.model import Model
from pdac_cli.engine import local
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.source import Classes, Plan, count_classes, make_plan
from pdac_cli.engine.unit import measured_rows
from pdac_cli.errors import DataError
from pdac_cli.files import index as index_files
from pdac_cli.files.index import Index
from pdac_cli.files.model import StoredModel, check_fits, read_model
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.selection.methods import Answer, Method, Offer, Request, method_named
from pdac_cli.selection.rows import Reference

__all__ = ["Chosen", "NamedSource", "choose", "densities"]


@dataclass(frozen=True)
class Chosen:
    """What was chosen."""

    index: Index  # the whole buffer
    task: int  # of the new rows
    classes: Classes  # of the new rows' set
    answer: Answer


def choose(
    source: NamedSource,
    before: Index | None,
    options: SelectOptions,
    console: Console,
    reference: Reference | None = None,
) -> Chosen:
    """Choose rows of the source as a new task and shrink the earlier ones: the paper's Algorithm 1.

    `reference` are the stored rows of the earlier tasks, for the methods that compare new rows with them; where it is
    not given, they are read from the buffer's files.
    """
    method = method_named(options.method)
    allocation = options.allocation or method.allocation
    plan = make_plan(source, options.input, options.run)
    _check_logits(source, method, options)
    classes = count_classes(source, plan, options.input)
    given = _given_model(source, classes, options) if method.needs_density else None
    if given is not None:  # rows are scored as they were fitted
        normalize = bool(given.options.get("normalize", False))
        options = replace(options, density=replace(options.density, normalize=normalize))
    room = make_room(before, options, method.evict, allocation, source.fingerprint, int(classes.counts.sum()))
    _warn_of_budget(options, classes, room, console)
    rows = _rows(source, classes, method, given.model if given else None, options, plan, console)
    if method.uses_stored and reference is None and before is not None:
        reference = stored_rows(rows.source, rows.logits, before, options, console)
    with one_blas_thread(), console.progress(f"selecting by {options.method}", room.budget) as tick:
        answer = method.select(
            rows,
            Request(
                room.budget,
                classes.counts,
                allocation,
                options.temperature,
                options.seed,
                tick,
                plan.memory,
                reference,
            ),
        )
    _warn_of_effective_size(answer, classes, allocation, console)
    return Chosen(_index(answer, source, classes, room, allocation, options), room.task, classes, answer)


def _rows(
    source: NamedSource,
    classes: Classes,
    method: Method,
    given: Model | None,
    options: SelectOptions,
    plan: Plan,
    console: Console,
) -> OfferedRows:
    """Return the rows with what the method needs beside them: densities or logits."""
    logits, columns = 0, classes.labels
    if method.needs_logits:
        if not has_logits(source):
            source = head_source(source, classes, plan, options.seed, console)
        if isinstance(source, HeadSource):  # its columns are the classes
            logits, columns = len(classes.labels), np.arange(len(classes.labels))
        else:
            logits = logit_columns(source, classes, plan)

    def scored() -> Iterator[Offer]:
        return densities(source, classes, given, options, console)

    return OfferedRows(
        source, classes, logits, columns, options.input, options.run, console, scored if method.needs_density else None
    )


def densities(
    source: NamedSource, classes: Classes, given: Model | None, options: SelectOptions, console: Console
) -> Iterator[Offer]:
    """Yield all rows with their densities, fitted first unless given."""
    rows = measured_rows(source, options.density.normalize)
    plan = make_plan(rows, options.input, options.run)
    device = device_of(options.run)
    if given is None:
        announce_plan(rows, classes, options.density, plan, device, console)
    with grouped_rows(rows, classes, plan, console) as stored:
        model = given or fit_model(stored, options.density, options.seed, plan, device, console)
        with console.progress("scoring", int(classes.counts.sum())) as tick:
            for scored in local.score(stored, model, plan, tick):
                yield Offer(scored.ids, scored.codes, scored.log_p)


def _check_logits(source: NamedSource, method: Method, options: SelectOptions) -> None:
    if method.needs_logits and not has_logits(source) and not options.head:
        raise DataError(
            f"{', '.join(source.files[:1]) or 'the rows'}: has no logits and --method {options.method} needs them; "
            "expected 'logits' (n, K) beside the features; add --head to train a linear head on the features first"
        )


def _given_model(source: NamedSource, classes: Classes, options: SelectOptions) -> StoredModel | None:
    """Return the model the user gave, if any; check what can be checked before the rows are read."""
    if options.model is None:
        check_dim(options.density, source)
        return None
    given = read_model(options.model)
    check_fits(given, options.model, source.dim, classes.labels, source.label_names)
    return given


def _index(
    answer: Answer, source: NamedSource, classes: Classes, room: Room, allocation: Allocation, options: SelectOptions
) -> Index:
    """Return the rows kept: those of earlier tasks that stay, then this task's, each in order of their ranking."""
    ranking, fitted = answer.ranking, method_named(options.method).needs_density
    labels, names = room.labels_of(classes.labels[ranking.codes], source.label_names)
    size = len(ranking.ids)
    new = Index(
        row=ranking.ids,
        source=np.zeros(size, np.int64),
        task=np.full(size, room.task),
        label=labels,
        log_density=ranking.log_p,
        sources=(index_files.Source(source.fingerprint, source.files, source.n, room.task),),
        method=options.method,
        budget=options.budget,
        seed=options.seed,
        options={
            "allocation": allocation.value,
            "temperature": options.temperature,
            "eviction": options.eviction.value,
            **({} if options.model or not fitted else {f"density.{k}": v for k, v in asdict(options.density).items()}),
        },
        label_names=names,
        score=ranking.score,
    )
    return new if room.earlier is None else join(room.earlier, new)


def _warn_of_budget(options: SelectOptions, classes: Classes, room: Room, console: Console) -> None:
    rows = int(classes.counts.sum())
    if options.budget > rows and room.earlier is None:
        found = f"--budget is {options.budget:,} and there are {rows:,} usable rows"
        if options.strict:
            raise DataError(f"{found}; --strict expects at least as many rows as the budget; lower --budget")
        console.warn(f"{found}; all are kept")
    elif room.budget < len(classes.labels):
        console.warn(
            f"the budget of {room.budget:,} is smaller than the number of classes, {len(classes.labels):,}: "
            "some classes are left without a row"
        )


def _warn_of_effective_size(answer: Answer, classes: Classes, allocation: Allocation, console: Console) -> None:
    """Warn where π rests on fewer rows than are drawn: the rest of the draw is then close to arbitrary."""
    if answer.effective_size is None:
        return
    kept = np.bincount(answer.ranking.codes, minlength=len(classes.labels))
    thin = np.flatnonzero((answer.effective_size < kept) & (kept < classes.counts))
    if len(thin):
        worst = thin[np.argmin(answer.effective_size[thin])]
        console.warn(
            f"the effective sample size is below the budget in {len(thin)} of {len(classes.labels)} classes "
            f"(class {classes.labels[worst]}: {answer.effective_size[worst]:.1f} for {kept[worst]} rows); "
            "few rows dominate the draw; try --ridge 0.1, a smaller --dim or --components, or --temperature 0.25"
        )
    joint = allocation is Allocation.JOINT
    if joint and answer.effective_total is not None and answer.effective_total < kept.sum() < classes.counts.sum():
        console.warn(
            f"the effective sample size over all classes is {answer.effective_total:.1f} for {kept.sum()} rows "
            f"and {np.count_nonzero(kept)} of {len(kept)} classes are kept; try --allocation per-class"
        )
