"""A file on its way to a model: opened, treated, and what is known of it."""

from __future__ import annotations

import functools
import os
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca._base.errors import InputError
from kpca.cli._code import Script, Source, call, changed
from kpca.cli._command import check_settled

if TYPE_CHECKING:
    from kpca.cli._options import DataOptions
    from kpca.data.preparation import Preparation
    from kpca.data.rows import Table

_ROLES = ("columns", "drop", "label", "id", "text", "format", "header", "array", "delimiter", "size")


@dataclass(frozen=True)
class Data:
    """An open table, and how it is to be treated."""

    path: str
    table: Table
    options: DataOptions

    @classmethod
    def opened(cls, path: str, options: DataOptions, *, optional: tuple[str, ...] = ()) -> Data:
        """Open a file, a folder, or standard input (-); roles that are optional may name columns that are not there."""
        from kpca.data.opening import open_table

        given = {name: getattr(options, name) for name in _ROLES}
        table = open_table(path, **given, encode=options.encode, optional=optional)
        found = {role: getattr(table.layout, role) for role in optional}
        return cls(path, table, replace(options, **found))

    @property
    def name(self) -> str:
        """What the data is called in messages."""
        return "standard input" if self.path == "-" else os.path.basename(os.path.normpath(self.path))

    @property
    def scale(self) -> str:
        """How numbers are scaled: as asked, or as suits the kind of data."""
        if self.options.scale != "auto":
            return self.options.scale
        layout = self.table.layout
        return "none" if layout.text or self.table.sparse or self.table.image_shape else "standard"

    def preparation(self, *, scale: str | None = None) -> Preparation:
        """Return the treatment that was asked for, not yet fitted."""
        from kpca.data.preparation import Preparation

        return Preparation(**self._treatment(scale))

    def _treatment(self, scale: str | None) -> dict[str, Any]:
        return {
            "encode": self.options.encode,
            "impute": self.options.impute,
            "scale": self.scale if scale is None else scale,
        }

    @functools.cached_property  # the digest reads the whole file
    def facts(self) -> dict[str, Any]:
        """What is worth keeping with a model: it says which data it is from."""
        layout = self.table.layout
        return {
            "name": self.name,
            "sha256": self.table.digest(),
            "rows": self.table.n_rows,
            "numbers": len(layout.numbers),
            "categories": len(layout.categories),
            "text": layout.text,
            "label": layout.label,
            "id": layout.id,
            "image_shape": None if self.table.image_shape is None else list(self.table.image_shape),
        }

    @property
    def sentence(self) -> str:
        """The data in a sentence."""
        facts = self.facts
        kinds = [f"{facts[kind]:,} column{'s' if facts[kind] != 1 else ''} of {kind}" for kind in _KINDS if facts[kind]]
        roles = [f"{role} {facts[role]!r}" for role in ("text", "label", "id") if facts[role]]
        return f"{facts['name']}: {facts['rows']:,} rows, {', '.join([*kinds, *roles])}."

    def code(self, script: Script, name: str = "table", path: str | None = None) -> None:
        """Add the line that opens the table."""
        script.needs("from kpca.io import open_table")
        given = changed({role: getattr(self.options, role) for role in _ROLES}, {})
        if os.path.isdir(self.path) and self.table.image_shape is not None:  # names and folders have their roles
            given = {role: value for role, value in given.items() if role not in ("id", "label")}
        script.add(f"{name} = {call('open_table', self.path if path is None else path, **given)}")

    def preparation_code(self, script: Script, *, scale: str | None = None) -> Source:
        """Return the call that makes the treatment."""
        script.needs("from kpca.io import Preparation")
        usual = {"encode": None, "impute": None, "scale": "none"}
        return Source(call("Preparation", **changed(self._treatment(scale), usual)))


_KINDS = ("numbers", "categories")


def opened_for(path: str, options: DataOptions, fitted: Fitted) -> Data:
    """Open new data for a model; the id and the label of its fit are taken along where they are there."""
    from kpca.data.roles import inputs_of

    layout = fitted.preparation.layout_
    for role in ("id", "label"):
        if getattr(options, role) in inputs_of(layout):
            raise InputError(
                f"--{role} must not name a column that the model takes; {getattr(options, role)!r} is one."
            )
    unsaid = {role: getattr(layout, role) for role in ("id", "label") if getattr(options, role) is None}
    wanted = replace(options, text=layout.text, encode=fitted.preparation.encode, **unsaid)
    if fitted.preparation.image_shape_ is not None and os.path.isdir(path):
        wanted = replace(wanted, size=fitted.preparation.image_shape_)
    return Data.opened(path, wanted, optional=tuple(role for role, name in unsaid.items() if name is not None))


# -- From options to a fitted model, from a file to a model, and what is printed of one -------------------------------

if TYPE_CHECKING:
    from kpca.cli._options import DataOptions, ModelOptions
    from kpca.cli._run import Run
    from kpca.data.preparation import Preparation

_SHOWN = 10  # components in the table
STREAMED_RANK = 300  # landmarks for files beyond memory: the time grows with their square
MOST_EXACT = 20_000  # rows up to which nobody waits long for an exact fit


@dataclass(frozen=True)
class Fitted:
    """A model, the treatment of the rows before it, and what is known of where it comes from."""

    preparation: Preparation
    model: Any  # KernelPCA, IncrementalKernelPCA or KernelPCADetector
    about: dict[str, Any]

    @property
    def pipeline(self) -> Any:
        """Both in one, as it is saved and as Python uses it."""
        from sklearn.pipeline import Pipeline

        return Pipeline([("prepare", self.preparation), ("model", self.model)])

    @property
    def score_names(self) -> list[str]:
        """What the columns of scores are called."""
        return [str(name) for name in self.model.get_feature_names_out()]


def load(path: str, *, wanted: str = "model") -> Fitted:
    """Return what a .kpca file holds; a bare model from Python takes rows of numbers as they are."""
    from sklearn.pipeline import Pipeline

    from kpca import KernelPCA, KernelPCADetector
    from kpca.data.preparation import Preparation
    from kpca.estimators.incremental import IncrementalKernelPCA
    from kpca.io.models import load as load_model
    from kpca.io.models import read_about

    loaded = load_model(path)
    about = read_about(path).about or {}
    steps = [step for _, step in loaded.steps] if isinstance(loaded, Pipeline) else [loaded]
    model = steps[-1]
    kinds: tuple[type, ...] = (KernelPCADetector,) if wanted == "detector" else (KernelPCA, IncrementalKernelPCA)
    if not isinstance(model, kinds):
        other = "kpca fit" if wanted == "model" else "kpca detect --save"
        raise InputError(f"{path!r} must hold a {wanted}; it holds a {type(model).__name__}: make one with `{other}`.")
    if len(steps) == 1:
        return Fitted(untreated(model), model, dict(about))
    if len(steps) != 2 or not isinstance(steps[0], Preparation):
        raise InputError(
            f"{path!r} must hold a model as the command line saves it; its pipeline has other steps: use Python."
        )
    return Fitted(steps[0], model, dict(about))


def untreated(model: Any) -> Preparation:
    """Return a preparation that leaves the columns of a bare model as they are."""
    from kpca.data.preparation import Preparation
    from kpca.data.rows import Layout, Rows
    from kpca.data.survey import MemoryTable

    columns = getattr(model, "feature_names_in_", None)
    named = [f"x{number}" for number in range(model.n_features_in_)] if columns is None else columns
    layout = Layout(tuple(str(name) for name in named))
    return Preparation().fit(MemoryTable(Rows(layout, np.zeros((1, len(layout.numbers)))), "the model"))


@dataclass(frozen=True)
class Recipe:
    """The model that options ask for; rows that come in chunks get one that keeps nothing of each row."""

    settings: ModelOptions
    seed: int
    preimage: str | None = None
    exactly: bool = False
    streamed: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before a file is read."""
        check_kernel(self.settings.kernel)
        if self.settings.rank is not None and self.settings.approximation not in ("nystroem", "rff"):
            raise InputError("--rank needs --approximation nystroem or rff, whose rank it is.")

    def estimator(self) -> Any:
        """Return the model, not yet fitted."""
        from kpca import IncrementalKernelPCA, KernelPCA, Nystroem, RandomFeatures

        arguments = self._arguments()
        if self.rank is not None:
            kind = RandomFeatures if self.settings.approximation == "rff" else Nystroem
            arguments["approximation"] = kind(self.rank)
        return (IncrementalKernelPCA if self.streamed else KernelPCA)(arguments.pop("n_components"), **arguments)

    def code(self) -> Source:
        """Return the call that makes the same model."""
        arguments = self._arguments()
        name = "kpca.IncrementalKernelPCA" if self.streamed else "kpca.KernelPCA"
        return Source(call(name, arguments.pop("n_components"), **changed(arguments, _USUAL)))

    @property
    def rank(self) -> int | None:
        """How many landmarks or random features; None where the model has its own number of them, or none."""
        return STREAMED_RANK if self.settings.rank is None and self.streamed else self.settings.rank

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments; a `Source` stands for an object that the code makes."""
        settings = self.settings
        way = self.preimage if settings.preimage is None else settings.preimage
        approximation: Any = "nystroem" if settings.approximation == "auto" else settings.approximation
        if self.exactly and not self.streamed:
            approximation = None
        if self.rank is not None:
            name = "kpca.RandomFeatures" if approximation == "rff" else "kpca.Nystroem"
            approximation = Source(call(name, self.rank))
        arguments = {
            "n_components": settings.components,
            "kernel": settings.kernel,
            "gamma": settings.gamma,
            "degree": settings.degree,
            "coef0": settings.coef0,
            "center": settings.center,
            "approximation": approximation,
            "preimage": None if way in (None, "none") else way,
            "random_state": self.seed,
        }
        return arguments if self.streamed else {**arguments, "tol": settings.tol}


_USUAL = {"degree": 3.0, "coef0": 1.0, "center": True, "approximation": None, "preimage": None, "tol": 0.0}


def check_kernel(name: str, option: str = "--kernel") -> None:
    """Refuse a kernel that there is not, before a file is read."""
    import difflib

    from kpca import kernels

    known = [kernel for kernel in kernels.NAMES if kernel != "precomputed"]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f": did you mean {near[0]!r}?" if near else "."
        raise InputError(f"{option} must be one of {', '.join(sorted(known))}; got {name!r}{hint}")


def prepared(run: Run, data: Data, *, scale: str | None = None) -> tuple[Preparation, Any]:
    """Return a treatment fitted to a table, and the rows as a model takes them: an array, or a source of chunks."""
    run.stage(f"Reading {data.name}")
    preparation = data.preparation(scale=scale).fit(data.table)
    return preparation, preparation.transform(data.table)


def fitted_to(run: Run, data: Data, preparation: Preparation, rows: Any, model: Any) -> Fitted:
    """Fit a model to rows that were prepared."""
    run.stage("Fitting")
    model.fit(rows)
    return Fitted(preparation, model, {"data": data.facts, "seed": run.options.seed, "command": command_line()})


@dataclass(frozen=True)
class Ready:
    """A model and the data it is used on, with the code that came to both: `model` and `table`."""

    data: Data
    fitted: Fitted
    script: Script


def loaded(run: Run, path: str, file: str, options: DataOptions, *, wanted: str = "model") -> Ready:
    """Load a model, and open a file for it."""

    fitted = load(path, wanted=wanted)
    data = opened_for(file, options, fitted)
    script = started(run)
    script.add(f"model = {call('kpca.load', path)}")
    data.code(script)
    return Ready(data, fitted, script)


def fitted_or_loaded(
    run: Run,
    path: str | None,
    file: str,
    options: DataOptions,
    settings: ModelOptions,
    *,
    preimage: str | None = None,
    way_back: bool = False,
) -> Ready:
    """Load a model for a file or, where none is given, fit one to it.

    `preimage` is how it comes back to data if nothing was said of that, `way_back` whether it must.
    """
    from kpca.data.sources import in_memory

    if path is not None:
        check_settled()
        return loaded(run, path, file, options)
    recipe = Recipe(settings, run.options.seed, preimage)
    recipe.check()
    data = Data.opened(file, options)
    preparation, rows = prepared(run, data)
    if preparation.sparse_:
        recipe = _without_way_back(recipe, data, needed=way_back)
    exactly = settings.approximation == "none" or (settings.approximation == "auto" and data.table.n_rows <= MOST_EXACT)
    recipe = replace(recipe, exactly=exactly, streamed=settings.approximation != "none" and not in_memory(rows))
    script = started(run)
    data.code(script)
    pipeline_code(script, data.preparation_code(script), recipe.code())
    return Ready(data, fitted_to(run, data, preparation, rows, recipe.estimator()), script)


def _without_way_back(recipe: Recipe, data: Data, *, needed: bool) -> Recipe:
    """Return the recipe of a model of sparse rows, which there is no way back to."""
    asked = recipe.settings.preimage not in (None, "none")
    if asked or needed:
        kind = "texts" if data.table.layout.text else "sparse"
        remedy = "save them as a dense table first" if needed else "leave --preimage out"
        if kind == "texts":
            remedy = "leave --preimage out" if not needed else "texts cannot be denoised"
        raise InputError(
            f"A way back to the data needs dense rows of numbers; those of {data.name} are {kind}: {remedy}."
        )
    return replace(recipe, preimage=None)


def rows_of(run: Run, file: str, options: DataOptions) -> tuple[Data, Preparation, Any, Script]:
    """Open a file and treat its rows: those that memory has room for; with the code that comes to `rows`."""
    from kpca.io.results import rows_in_memory

    data = Data.opened(file, options)
    preparation = data.preparation().fit(data.table)
    script = started(run)
    data.code(script)
    script.needs("from kpca.io import rows_in_memory")
    made = call("rows_in_memory", Source("preparation"), Source("table"), seed=run.options.seed)
    script.add(f"preparation = {data.preparation_code(script)}.fit(table)", f"rows = {made}")
    return data, preparation, rows_in_memory(preparation, data.table, seed=run.options.seed), script


def started(run: Run) -> Script:
    """Return a program that has only its settings so far."""
    script = Script("import kpca")
    script.within(memory_limit=run.options.memory, threads=run.options.threads)
    return script


def check_way_back(fitted: Fitted, path: str | None) -> None:
    """Refuse a model that cannot come back to data, with what to do on the command line."""
    model = fitted.model
    if model._way_back() is None:
        where = "" if path is None else f"{path!r} has none: "
        raise InputError(f"This needs a model with a way back to the data; {where}fit it again with --preimage auto.")


def command_line() -> str:
    """Return the command as it was typed."""
    import shlex

    return shlex.join(["kpca", *sys.argv[1:]])


def pipeline_code(script: Script, preparation: Source, model: Source) -> None:
    """Add the line that makes a pipeline and fits it to `table`."""
    script.needs("import kpca", "from sklearn.pipeline import Pipeline")
    script.add(f"preparation = {preparation}", f"estimator = {model}")
    script.add('model = Pipeline([("prepare", preparation), ("model", estimator)]).fit(table)')


def spectrum_facts(model: Any) -> dict[str, Any]:
    """Return the spectrum of a model with its certificate."""
    return {
        "class": type(model).__name__,
        "kernel": str(model.kernel_),
        "gamma": getattr(model, "gamma_", None),
        "n_components": model.n_components_,
        "eigenvalues": model.eigenvalues_,
        "eigenvalue_bounds": model.eigenvalue_bounds_,
        "explained_variance_ratio": model.explained_variance_ratio_,
        "residuals": getattr(model, "residuals_", None),
        "solver": getattr(model, "solver_", None),
    }


def show_model(run: Run, fitted: Fitted) -> None:
    """Print which model it is, and its spectrum."""
    model = fitted.model
    shares = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    kept = f"{model.n_components_} component{'s' if model.n_components_ != 1 else ''}"
    run.say(*fitted.preparation.describe())
    reason = getattr(model, "n_components_reason_", None)
    kernel = re.sub(r"\d+\.\d{4,}(?:e-?\d+)?", lambda number: f"{float(number[0]):.4g}", str(model.kernel_))
    run.say(f"{kernel}; {kept} with {_percent(shares.sum())} of the variance in feature space.")
    if reason:
        run.say(str(reason))
    total = float(model.eigenvalues_[0] / shares[0]) if shares.size and shares[0] > 0 else np.nan
    rows = [
        [
            str(number + 1),
            f"{model.eigenvalues_[number]:.4g}",
            _percent(shares[number]),
            _percent(shares[: number + 1].sum()),
            _percent(model.eigenvalue_bounds_[number][0] / total),
            _percent(model.eigenvalue_bounds_[number][1] / total),
        ]
        for number in range(min(len(shares), _SHOWN))
    ]
    more = len(shares) - len(rows)
    run.table(
        "Components",
        ["component", "eigenvalue", "variance", "together", "at least", "at most"],
        rows,
        f"... and {more} more" if more > 0 else "",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if np.isfinite(share) else "unknown"


def default_output(path: str, suffix: str) -> str:
    """Return the name of an output from that of the data, in the current folder."""
    if path == "-":
        return f"kpca{suffix}"
    name = os.path.basename(os.path.abspath(path))
    stem = name[: -len(".gz")] if name.lower().endswith(".gz") else name
    return (os.path.splitext(stem)[0] or "kpca") + suffix
