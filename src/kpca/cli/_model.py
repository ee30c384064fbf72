"""A file on its way to a model: opened, treated, fitted or loaded, and what is known and printed of it."""

from __future__ import annotations

import difflib
import functools
import os
import re
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kpca._base.errors import InputError, Setting
from kpca.cli._command import check_settled
from kpca.cli._options import Options
from kpca.cli._run import Code, Run

if TYPE_CHECKING:
    from kpca.io import Preparation, Table

_ROLES = ("columns", "drop", "label", "id", "text", "format", "header", "array", "delimiter", "size")
_SHOWN = 10  # components in the table
STREAMED_RANK = 300  # landmarks for files beyond memory: the time grows with their square
MOST_EXACT = 20_000  # rows up to which nobody waits long for an exact fit


# -- Data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """An open table, and how it is to be treated."""

    path: str
    table: Table
    options: Options

    @property
    def name(self) -> str:
        """What the data is called in messages."""
        return "standard input" if self.path == "-" else os.path.basename(os.path.normpath(self.path))

    @property
    def code(self) -> Code:
        """The table, as code calls it."""
        return Code("table", self.table)

    @property
    def scale(self) -> str:
        """How numbers are scaled: as asked, or as suits the kind of data."""
        if self.options["scale"] != "auto":
            return str(self.options["scale"])
        return "none" if self.table.layout.text or self.table.sparse or self.table.image_shape else "standard"

    def treatment(self, run: Run, scale: str | None = None) -> Code:
        """Return the treatment that was asked for, not yet fitted, as the call that makes it."""
        given = {"encode": self.options["encode"], "impute": self.options["impute"], "scale": scale or self.scale}
        return run.script.made("kpca.io:Preparation", usual={"scale": "none"}, **given)

    @functools.cached_property  # the digest reads the whole file
    def facts(self) -> dict[str, Any]:
        """What is worth keeping with a model: it says which data it is from."""
        layout, shape = self.table.layout, self.table.image_shape
        counts = {"numbers": len(layout.numbers), "categories": len(layout.categories)}
        roles = {"text": layout.text, "label": layout.label, "id": layout.id}
        known = {"name": self.name, "sha256": self.table.digest(), "rows": self.table.n_rows}
        return {**known, **counts, **roles, "image_shape": None if shape is None else list(shape)}

    @property
    def sentence(self) -> str:
        """The data in a sentence."""
        facts, kinds = self.facts, ("numbers", "categories")
        counts = [f"{facts[kind]:,} column{'s' if facts[kind] != 1 else ''} of {kind}" for kind in kinds if facts[kind]]
        roles = [f"{role} {facts[role]!r}" for role in ("text", "label", "id") if facts[role]]
        return f"{facts['name']}: {facts['rows']:,} rows, {', '.join([*counts, *roles])}."


def open_data(run: Run, path: str, options: Options, *, optional: tuple[str, ...] = (), to: str = "table") -> Data:
    """Open a file, a folder, or standard input (-); roles that are optional may name columns that are not there."""
    from kpca.io import open_table

    given = {role: options.get(role) for role in _ROLES}
    table = open_table(path, **given, encode=options.get("encode"), optional=optional)
    given |= {role: getattr(table.layout, role) for role in optional}
    data = Data(path, table, {**options, **given})
    if os.path.isdir(path) and table.image_shape is not None:  # names and folders have their roles
        given |= {"id": None, "label": None}
    run.script.add(f"{to} = {run.script.written('kpca.io:open_table', path, **given)}")
    return data


def open_for(run: Run, path: str, options: Options, fitted: PreparedModel, *, to: str = "table") -> Data:
    """Open new data for a model; the id and the label of its fit are taken along where they are there."""
    from kpca.data.roles import inputs_of

    layout = fitted.preparation.layout_
    for role in ("id", "label"):
        if options[role] in inputs_of(layout):
            raise InputError(f"must not name a column that the model takes; {options[role]!r} is one", param=role)
    unsaid = {role: getattr(layout, role) for role in ("id", "label") if options[role] is None}
    wanted = {**options, "text": layout.text, "encode": fitted.preparation.encode, **unsaid}
    if fitted.preparation.image_shape_ is not None and os.path.isdir(path):
        wanted["size"] = fitted.preparation.image_shape_
    return open_data(run, path, wanted, optional=tuple(role for role, name in unsaid.items() if name), to=to)


def rows_of(run: Run, file: str, options: Options) -> tuple[Data, Preparation, list[Code]]:
    """Open a file, and return the numbers and the labels of its rows after treatment, where memory has room for them.

    They are `rows` in the code, and the treatment is `preparation`.
    """
    data = open_data(run, file, options)
    made = data.treatment(run)
    run.script.add(f"preparation = {made}.fit(table)")
    preparation = Code("preparation", made.value.fit(data.table))
    rows = run.script.call("kpca.io:rows_in_memory", preparation, data.code, to="rows", seed=run.seed)
    return data, preparation.value, [Code("rows.X", rows.X), Code("rows.labels", rows.labels)]


# -- Models -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PreparedModel:
    """A model, the treatment of the rows before it, and what is known of where it comes from."""

    preparation: Preparation
    model: Any  # KernelPCA, IncrementalKernelPCA or KernelPCADetector
    about: dict[str, Any]

    @functools.cached_property
    def code(self) -> Code:
        """Both in one, as it is saved and as Python uses it: `model` in the code."""
        from sklearn.pipeline import Pipeline

        return Code("model", Pipeline([("prepare", self.preparation), ("model", self.model)]))

    def save(self, run: Run, path: str) -> None:
        """Write both, and what is known of them, to a .kpca file."""
        from kpca import io

        io.save(self.code.value, path, about=self.about)
        run.script.add(run.script.written("kpca.save", self.code, path))


def loaded(run: Run, path: str, file: str, options: Options, *, wanted: str = "model") -> tuple[Data, PreparedModel]:
    """Load a model, and open a file for it: `model` and `table` in the code.

    A bare model from Python takes rows of numbers as they are.
    """
    from kpca import IncrementalKernelPCA, KernelPCA, KernelPCADetector, io

    *before, model = steps_of(run.script.call("kpca.load", path, to="model"))
    kinds: tuple[type, ...] = (KernelPCADetector,) if wanted == "detector" else (KernelPCA, IncrementalKernelPCA)
    if not isinstance(model, kinds):
        other = "kpca fit" if wanted == "model" else "kpca detect --save"
        raise InputError(f"{path!r} must hold a {wanted}; it holds a {type(model).__name__}: make one with `{other}`.")
    preparation = before[-1] if before else untreated(model)
    if len(before) > 1 or not isinstance(preparation, io.Preparation):
        raise InputError(f"{path!r} must hold a model that the command line saved; its pipeline has other steps.")
    fitted = PreparedModel(preparation, model, dict(io.read_about(path).about or {}))
    return open_for(run, file, options, fitted), fitted


def steps_of(loaded: Any) -> list[Any]:
    """Return the steps of a pipeline, or a bare model."""
    return [step for _, step in loaded.steps] if hasattr(loaded, "steps") else [loaded]


def untreated(model: Any) -> Preparation:
    """Return a preparation that leaves the columns of a bare model as they are."""
    import numpy as np

    from kpca.data.survey import MemoryTable
    from kpca.io import Layout, Preparation, Rows

    columns = getattr(model, "feature_names_in_", None)
    named = [f"x{number}" for number in range(model.n_features_in_)] if columns is None else columns
    layout = Layout(tuple(str(name) for name in named))
    return Preparation().fit(MemoryTable(Rows(layout, np.zeros((1, len(layout.numbers)))), "the model"))


def fitted_or_loaded(
    run: Run, path: str | None, file: str, options: Options, settings: Options, *, inverse: str = ""
) -> tuple[Data, PreparedModel]:
    """Load a model for a file or, where none is given, fit one to it: `model` and `table` in the code.

    `inverse` says whether an inverse map is "wanted" of the model, or "needed", if the options say nothing of it.
    """
    from kpca.data.sources import in_memory

    if path is not None:
        check_settled()
        return loaded(run, path, file, options)
    check_kernel(settings["kernel"])
    approximation = settings["approximation"]
    if settings["rank"] is not None and approximation not in ("nystroem", "rff"):
        raise InputError("--rank needs --approximation nystroem or rff, whose rank it is.")
    data = open_data(run, file, options)
    treatment, rows = treated_rows(run, data)
    if treatment.value.sparse_:  # which have no pre-images
        if inverse == "needed" or settings["preimage"] not in (None, "none"):
            said = f"An inverse map needs dense rows of numbers; those of {data.name} are "
            said += "texts" if data.table.layout.text else "sparse"
            needed = "texts cannot be denoised" if data.table.layout.text else "save them as a dense table first"
            raise InputError(said, remedy=needed if inverse == "needed" else ("leave ", Setting("preimage"), " out"))
        inverse = ""
    streamed = approximation != "none" and not in_memory(rows)
    few = approximation == "auto" and data.table.n_rows <= MOST_EXACT
    if not streamed and (few or approximation == "none"):
        approximation = None
    elif approximation == "auto":
        approximation = "nystroem"
    rank = STREAMED_RANK if settings["rank"] is None and streamed else settings["rank"]
    if rank is not None:
        approximation = run.script.made("kpca.RandomFeatures" if approximation == "rff" else "kpca.Nystroem", rank)
    way = settings["preimage"] or ("auto" if inverse else "none")
    arguments = {name: settings[name] for name in ("kernel", "gamma", "degree", "coef0", "center")}
    arguments |= {"approximation": approximation, "preimage": None if way == "none" else way}
    arguments |= {"random_state": run.seed, **({} if streamed else {"tol": settings["tol"]})}
    # rows in chunks get a model that keeps nothing of each
    kind = "kpca.IncrementalKernelPCA" if streamed else "kpca.KernelPCA"
    model = run.script.made(kind, settings["components"], usual=_USUAL, **arguments)
    return data, fitted_to(run, data, treatment, rows, model)


_USUAL = {"degree": 3.0, "coef0": 1.0, "center": True, "approximation": None, "preimage": None, "tol": 0.0}


def treated_rows(run: Run, data: Data, scale: str | None = None) -> tuple[Code, Any]:
    """Fit a treatment to a table, and return it with the rows as a model takes them: an array or a source of chunks."""
    treatment = data.treatment(run, scale)
    run.stage(f"Reading {data.name}")
    return treatment, treatment.value.fit(data.table).transform(data.table)


def fitted_to(run: Run, data: Data, treatment: Code, rows: Any, model: Code) -> PreparedModel:
    """Fit a model to treated rows."""
    run.script.uses("sklearn.pipeline:Pipeline")
    run.script.add(f"preparation = {treatment}", f"estimator = {model}")
    run.script.add('model = Pipeline([("prepare", preparation), ("model", estimator)]).fit(table)')
    run.stage("Fitting")
    return PreparedModel(treatment.value, model.value.fit(rows), origin(run, data))


def origin(run: Run, data: Data, **more: Any) -> dict[str, Any]:
    """Return what is kept with a model of where it comes from."""
    return {"data": data.facts, "seed": run.seed, "command": command_line(), **more}


def check_kernel(name: str, param: str = "kernel") -> None:
    """Refuse a kernel that does not exist, before a file is read."""
    from kpca import kernels

    known = [kernel for kernel in kernels.NAMES if kernel != "precomputed"]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        remedy = f"did you mean {near[0]!r}?" if near else None
        raise InputError(f"must be one of {', '.join(sorted(known))}", param=param, value=name, remedy=remedy)


def check_inverse(fitted: PreparedModel, path: str | None) -> None:
    """Refuse a model without an inverse map, with what to do on the command line."""
    if fitted.model._way_back() is None:
        where = "" if path is None else f"{path!r} has none: "
        raise InputError(f"This needs a model with an inverse map; {where}fit it again with --preimage auto.")


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["kpca", *sys.argv[1:]])


def default_output(path: str, suffix: str) -> str:
    """Return the name of an output from that of the data, in the current folder."""
    name = "" if path == "-" else os.path.basename(os.path.abspath(path))
    stem = name[: -len(".gz")] if name.lower().endswith(".gz") else name
    return (os.path.splitext(stem)[0] or "kpca") + suffix


# -- What is told of a model ------------------------------------------------------------------------------------------


def spectrum_facts(model: Any) -> dict[str, Any]:
    """Return the spectrum of a model with its certificate."""
    names = ("gamma", "n_components", "eigenvalues", "eigenvalue_bounds", "explained_variance_ratio")
    known = {name: getattr(model, f"{name}_", None) for name in (*names, "residuals", "solver")}
    return {"class": type(model).__name__, "kernel": str(model.kernel_), **known}


def show_model(run: Run, fitted: PreparedModel) -> None:
    """Print which model it is, and its spectrum."""
    import numpy as np

    model = fitted.model
    shares = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    kernel = re.sub(r"\d+\.\d{4,}(?:e-?\d+)?", lambda number: f"{float(number[0]):.4g}", str(model.kernel_))
    kept = f"{model.n_components_} component{'s' if model.n_components_ != 1 else ''}"
    run.say(*fitted.preparation.describe())
    run.say(f"{kernel}; {kept} with {_percent(shares.sum())} of the variance in feature space.")
    reason = getattr(model, "n_components_reason_", None)
    if reason:
        run.say(str(reason))
    total = float(model.eigenvalues_[0] / shares[0]) if shares.size and shares[0] > 0 else np.nan
    bounds = np.asarray(model.eigenvalue_bounds_) / total
    together = np.cumsum(shares)
    rows = [
        [str(i + 1), f"{model.eigenvalues_[i]:.4g}", *map(_percent, (shares[i], together[i], *bounds[i]))]
        for i in range(min(len(shares), _SHOWN))
    ]
    headers = ["component", "eigenvalue", "variance", "together", "at least", "at most"]
    run.table("Components", headers, rows, of=len(shares))


def shown_rows(fitted: PreparedModel, data: Data) -> tuple[Any, Any]:
    """Return the scores of all rows and their labels, or None, for a picture."""
    import numpy as np

    from kpca.data.rows import together as joined
    from kpca.io.results import prepared_pieces

    scores, labels = [], []
    for _, part in prepared_pieces(fitted.code.value, data.table):
        scores.append(np.asarray(fitted.model.transform(part.X)))
        labels.append(part.labels)
    return np.concatenate(scores), joined(labels)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if abs(share) < float("inf") else "unknown"
