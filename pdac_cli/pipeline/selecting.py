"""Choosing rows of a set, from files or from memory: density, selection, budgets and eviction in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from pdac_cli.arrays import Source
from pdac_cli.console import Console
from pdac_cli.density.relative import CommonSpace
from pdac_cli.engine.plan import Classes, Plan, count_classes
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import DataError, ModelError, UsageError
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.index.index_file import Index, IndexSource, SuspectRows
from pdac_cli.files.index.index_schema import Option
from pdac_cli.files.results.model import StoredModel, check_fits, read_model
from pdac_cli.options.select import Allocation, DensityKind, SelectOptions, SteerBy
from pdac_cli.pipeline.fitting import DensitySetup, check_dim, device_of
from pdac_cli.pipeline.logit_check import warn_of_chance
from pdac_cli.pipeline.origins import check_buffer_origin, check_model_origin
from pdac_cli.pipeline.replay_buffer import ShrunkBuffer, join, shrink_buffer, stored_rows
from pdac_cli.pipeline.row_access import SourceRows, logit_columns, note_directions
from pdac_cli.pipeline.stored_pools import LogitColumns
from pdac_cli.pipeline.trained_head import train_on_source
from pdac_cli.selection.interface import Answer, DrawRule, Method, Reference, Request


@dataclass(frozen=True)
class Chosen:
    """What was chosen."""

    index: Index  # the whole buffer
    task: int  # of the new rows
    classes: Classes  # of the new rows' set
    answer: Answer
    label_names: tuple[str, ...] | None  # of the new rows' set


def choose(
    source: Source,
    before: Index | None,
    options: SelectOptions,
    method: Method,
    plan: Plan,
    console: Console,
    reference: Reference | None = None,
) -> Chosen:
    """Choose rows of the source by the method as a new task and shrink the earlier ones: the paper's Algorithm 1.

    `reference` are the stored rows of the earlier tasks, for the methods that compare new rows with them; where it is
    not given, they are read from the buffer's files.
    """
    allocation = options.allocation or method.allocation
    _check_logits(source, method, options)
    classes = count_classes(source, plan, options.input)
    given = _given_model(source, classes, options, console) if method.needs_density else None
    if before is not None and options.buffer is not None:
        check_buffer_origin(before, source, options, console)
    if given is not None:  # rows are scored as they were fitted
        normalize = bool(given.options.get("normalize", False))
        options = replace(options, density=replace(options.density, normalize=normalize))
    draw = draw_rule(options, before is not None or options.task is not None)
    if given is not None and draw.relative:
        draw = replace(draw, space=_space_of(given, source, classes, options))
    shrunk = shrink_buffer(before, options, method.evict, allocation, source.fingerprint, classes.total)
    _warn_of_budget(options, classes, shrunk, console)
    rows = _rows(source, classes, method, given, options, plan, console)
    if method.uses_stored and reference is None and before is not None:
        reference = stored_rows(rows.source, rows.columns.n_logits, before, options, console)
    with one_blas_thread(), console.progress(f"selecting by {options.method}", shrunk.budget) as tick:
        request = Request(
            budget=shrunk.budget,
            counts=classes.counts,
            allocation=allocation,
            temperature=options.temperature,
            seed=options.seed,
            tick=tick,
            memory=plan.memory,
            reference=reference,
            jobs=plan.jobs,
            draw=draw,
            own=options.own,
        )
        answer = method.select(rows, request)
    _warn_of_effective_size(answer, classes, allocation, options, console)
    index = _index(answer, source, classes, shrunk, _stored_options(method, allocation, draw, options), options)
    return Chosen(index, shrunk.task, classes, answer, source.label_names)


def draw_rule(options: SelectOptions, in_tasks: bool) -> DrawRule:
    """Return how pdac draws; steered by the mean where classes come in tasks, unless the user says otherwise."""
    draw = options.draw
    by_error = not in_tasks if draw.steer_by is None else draw.steer_by is SteerBy.ERROR
    relative = draw.density_kind is DensityKind.RELATIVE
    return DrawRule(relative=relative, beta=draw.steer, by_error=by_error, normalize=options.density.normalize)


def _space_of(given: StoredModel, source: Source, classes: Classes, options: SelectOptions) -> CommonSpace:
    """Return the density of a model that all classes share, as far as the classes are here."""
    if given.space is None:
        raise ModelError(
            f"{options.model}: holds densities of single classes only; expected the one they share, too; "
            "fit it again, or add --density class"
        )
    return given.space.of_classes(np.isin(given.model.labels, classes.labels), given.fingerprint == source.fingerprint)


def _rows(
    source: Source,
    classes: Classes,
    method: Method,
    given: StoredModel | None,
    options: SelectOptions,
    plan: Plan,
    console: Console,
) -> SourceRows:
    """Return the rows with what the method needs beside them: densities or logits."""
    columns, density = LogitColumns(0, classes.labels), DensitySetup()
    if method.needs_logits:
        if options.head or not source.has_logits:
            source = train_on_source(source, classes, plan, options.seed, console)
        columns = logit_columns(source, classes, plan)
        warn_of_chance(source, classes.labels, console)
    if method.needs_density:
        model = given.model if given else None
        density = DensitySetup(options.density, options.seed, device_of(options.run), model)
    if method.squares_features:
        note_directions(source.n_features, console)
    return SourceRows(source, classes, columns, density, plan, console, method.squares_features)


def check_classes(name: str, method: Method, one_class: bool) -> None:
    """Refuse a method that tells classes apart where all rows are one class."""
    if one_class and method.needs_classes:
        raise UsageError(
            f"--method {name} keeps the rows that tell classes apart, and with --no-labels there is one class; "
            "expected a method that needs no classes, such as pdac, herding or facility; "
            "or --clusters K in place of --no-labels, which makes classes"
        )


def _check_logits(source: Source, method: Method, options: SelectOptions) -> None:
    if method.needs_logits and not source.has_logits and not options.head:
        raise DataError(
            f"{', '.join(source.files[:1]) or 'the rows'}: has no logits and --method {options.method} needs them; "
            "expected 'logits' (n, K) beside the features; add --head to train a linear head on the features first"
        )


def _given_model(source: Source, classes: Classes, options: SelectOptions, console: Console) -> StoredModel | None:
    """Return the model the user gave, if any; check what can be checked before the rows are read."""
    if options.model is None:
        if options.draw.density_kind is DensityKind.CLASS:
            check_dim(options.density, source)
        return None
    given = read_model(options.model)
    check_fits(given, options.model, source.n_features, classes.labels, source.label_names)
    check_model_origin(given, source, options, console)
    return given


def _index(
    answer: Answer,
    source: Source,
    classes: Classes,
    shrunk: ShrunkBuffer,
    stored_options: dict[str, Option],
    options: SelectOptions,
) -> Index:
    """Return the rows kept: those of earlier tasks that stay, then this task's, each in order of their ranking."""
    ranking, size = answer.ranking, len(answer.ranking.ids)
    labels, names = shrunk.labels_of(classes.labels[ranking.codes], source.label_names)
    new = Index(
        row=ranking.ids,
        source=np.zeros(size, np.int64),
        task=np.full(size, shrunk.task),
        label=labels,
        log_density=np.full(size, np.nan) if ranking.log_p is None else ranking.log_p,
        sources=(IndexSource(source.fingerprint, source.files, source.n, shrunk.task),),
        method=options.method,
        budget=options.budget,
        seed=options.seed,
        options=stored_options,
        label_names=names,
        score=ranking.score,
        suspects=_suspects(answer, classes, shrunk, source),
        ids=source.id_texts(ranking.ids) if isinstance(source, FeatureSet) and source.has_ids else None,
    )
    return new if shrunk.earlier is None else join(shrunk.earlier, new)


def _suspects(answer: Answer, classes: Classes, shrunk: ShrunkBuffer, source: Source) -> SuspectRows | None:
    """Return the suspect rows with the labels they look like, in the buffer's numbering."""
    found = answer.suspects
    if found is None:
        return None
    likely, _ = shrunk.labels_of(classes.labels[found.likely], source.label_names)
    return SuspectRows(found.ids, likely, found.share)


def _stored_options(
    method: Method, allocation: Allocation, draw: DrawRule, options: SelectOptions
) -> dict[str, Option]:
    """Return the options that decided, as the index keeps them."""
    fitted = method.needs_density and not options.model and not draw.relative
    by = SteerBy.ERROR if draw.by_error else SteerBy.MEAN
    drawn = {
        "density": options.draw.density_kind.value, "steer": draw.beta, "steer_by": by.value,
        "normalize": draw.normalize,
    }  # fmt: skip
    where = options.input
    given = {  # what most runs leave out is recorded where it is given
        "model": str(options.model) if options.model and method.needs_density else None,
        "head": options.head and method.needs_logits,
        "features_key": where.features_key,
        "labels_key": where.labels_key,
        "labels": where.labels,
        "no_labels": where.no_labels,
        "ids_key": where.ids_key,
        "drop_nonfinite": where.drop_nonfinite,
        "ignore_label": where.ignore_label,
    }
    return {
        **{name: value for name, value in given.items() if value is not None and value is not False},
        **(drawn if method.needs_density else {}),
        "allocation": allocation.value,
        "temperature": options.temperature,
        "eviction": options.eviction.value,
        **({"clusters": options.clusters} if options.clusters else {}),
        **({"no_labels": True} if options.input.no_labels and not options.clusters else {}),
        **options.own.of(options.method),
        **({f"density.{name}": value for name, value in asdict(options.density).items()} if fitted else {}),
    }


def _warn_of_budget(options: SelectOptions, classes: Classes, shrunk: ShrunkBuffer, console: Console) -> None:
    rows = classes.total
    if options.budget > rows and shrunk.earlier is None:
        found = f"--budget is {options.budget:,} and there are {rows:,} usable rows"
        if options.strict:
            raise DataError(f"{found}; --strict expects at least as many rows as the budget; lower --budget")
        console.warn(f"{found}; all are kept")
    elif shrunk.budget < len(classes.labels):
        console.warn(
            f"the budget of {shrunk.budget:,} is smaller than the number of classes, {len(classes.labels):,}: "
            "some classes are left without a row"
        )


def _warn_of_effective_size(
    answer: Answer, classes: Classes, allocation: Allocation, options: SelectOptions, console: Console
) -> None:
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
            f"few rows dominate the draw; try {_remedy(options)}"
        )
    joint = allocation is Allocation.JOINT
    if joint and answer.effective_total is not None and answer.effective_total < kept.sum() < classes.counts.sum():
        console.warn(
            f"the effective sample size over all classes is {answer.effective_total:.1f} for {kept.sum()} rows "
            f"and {np.count_nonzero(kept)} of {len(kept)} classes are kept; try --allocation per-class"
        )


def _remedy(options: SelectOptions) -> str:
    """Return the options that would widen a draw: a ridge is the fit's, and a relative density has none."""
    cooler = f"--temperature {min(0.25, abs(options.temperature) / 4):g}"
    if options.draw.density_kind is DensityKind.RELATIVE:
        return cooler
    fitted = "model" in options.given  # and not made on the way
    return f"{cooler}, or a model that pdac fit makes with --ridge 0.1" if fitted else f"--ridge 0.1 or {cooler}"
