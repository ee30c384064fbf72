"""A whole grid of bandwidths (or degrees) for little more than one fit: spectra, and what they say, along the grid."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.progress import step_monitor
from kpca._base.threads import single_threaded
from kpca._base.validation import seed_of, whole_number
from kpca.estimators.cost import Request
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.plan import FINEST_TOL, check_parameters
from kpca.estimators.warm_start import Follower
from kpca.gram import Gram
from kpca.gram.operator import center as centred
from kpca.gram.shared import SharedArguments
from kpca.kernels import Kernel
from kpca.selection.candidates import Candidate, candidates
from kpca.selection.rows import FOLDS, Clock, folds_of, searched_rows, some_rows
from kpca.selection.trials import Bench, KernelTrial, check_criterion

GRID, MAX_ROWS = 30, 20_000
# Residual of the pairs: eigenvalues are then right to about its square.
TOL = 1e-3
_ALIGNED_ROWS = 1000
_PARAMETERS = ("gamma", "degree", "coef0")


@dataclass(frozen=True)
class Path:
    """Kernel PCA along a grid of one parameter of a kernel."""

    kernel: str
    parameter: str
    values: FloatArray  # of the parameter, shape: (g,)
    eigenvalues: FloatArray  # NaN where there are fewer components, shape: (g, k)
    explained_variance_ratio: FloatArray  # shares of the whole variance, shape: (g, k)
    participation: FloatArray  # (sum of eigenvalues)^2 / sum of their squares: 1 to n - 1, shape: (g,)
    alignment: FloatArray  # with the linear kernel, 1 is linear PCA; on at most 1000 rows, shape: (g,)
    residuals: FloatArray  # relative to the largest eigenvalue, shape: (g, k)
    criterion: str | None
    scores: FloatArray | None  # by the criterion, larger is better, shape: (g,)
    standard_errors: FloatArray | None  # of the scores, NaN where they are single numbers, shape: (g,)
    n_rows: int
    seconds: float

    @property
    def best(self) -> int:
        """The place of the best value, by the criterion."""
        if self.scores is None or not np.isfinite(self.scores).any():
            why = "a criterion; ask path for one, such as 'reconstruction'" if self.scores is None else "a finite score"
            raise InputError(f"There is no best value without {why}.")
        return int(np.nanargmax(self.scores))

    @property
    def best_value(self) -> float:
        """The best value of the parameter, by the criterion."""
        return float(self.values[self.best])

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return an entry per value, as plain data."""
        names = ("participation", "alignment", "eigenvalues", "explained_variance_ratio")
        columns = {self.parameter: self.values.tolist(), **{name: getattr(self, name).tolist() for name in names}}
        columns["score"] = [None] * len(self.values) if self.scores is None else self.scores.tolist()
        return [dict(zip(columns, entry, strict=True)) for entry in zip(*columns.values(), strict=True)]

    def __str__(self) -> str:
        best = self.best if self.scores is not None and np.isfinite(self.scores).any() else None
        lines = [f"{self.parameter:>10}  first   all {self.eigenvalues.shape[1]:>2}  participation  alignment  score"]
        for i, value in enumerate(self.values):
            shares = self.explained_variance_ratio[i]
            score = "" if self.scores is None else f"{self.scores[i]:.4f}" + (" *" if i == best else "")
            lines.append(
                f"{value:>10.4g}  {shares[0]:5.1%}  {np.nansum(shares):6.1%}  {self.participation[i]:13.1f}  "
                f"{self.alignment[i]:9.3f}  {score}".rstrip()
            )
        return "\n".join(lines)


def path(
    X: Any,
    kernel: Any = "rbf",
    *,
    grid: Any = None,
    parameter: str | None = None,
    n_components: int = 10,
    criterion: Any = None,
    y: Any = None,
    predictor: Any = None,
    cv: Any = FOLDS,
    center: bool = True,
    tol: float = TOL,
    max_rows: int = MAX_ROWS,
    n_jobs: int | None = None,
    random_state: Any = 0,
    **fixed: Any,
) -> Path:
    """Fit kernel PCA for every value of a bandwidth or degree, at little more than the cost of one.

    Distances (or inner products) are computed once for all values, and every fit starts from those before it.

    Parameters
    ----------
    X : rows of data: array, data frame or CSR matrix.
    kernel : the name of a kernel with a parameter to vary.
    grid : values of the parameter, how many of them, or None: 30 bandwidths, from all but linear to so narrow that
        rows see only their nearest neighbours; degrees 1 to 6 for "poly".
    parameter : "gamma", "degree" or "coef0"; None is the degree for "poly" and gamma for others.
    n_components : components at each value.
    criterion, y, predictor, cv : as in `tune`; None computes no score.
    center, n_jobs, random_state : as in `KernelPCA`.
    tol : residual of each component, relative to the largest eigenvalue.
    max_rows : of more rows than this a sample is used.
    fixed : other parameters of the kernel, such as coef0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import selection
    >>> X, _ = load_iris(return_X_y=True)
    >>> found = selection.path(X, "rbf", grid=[0.01, 0.1, 1, 10], n_components=3)
    >>> found.participation.round(1)
    array([ 1.3,  2. ,  8.3, 67. ])
    >>> found.alignment.round(2)
    array([1.  , 0.92, 0.65, 0.29])
    """
    clock = Clock(None)
    seed = seed_of(random_state)
    whole_number("n_components", n_components, 1)
    whole_number("max_rows", max_rows, 4)
    check_parameters(KernelPCA(tol=tol, n_jobs=n_jobs))
    rows, labels = searched_rows(X, y, max_rows, seed, cv)
    k = min(int(n_components), rows.shape[0] - 1)
    name, along = _along(kernel, parameter, grid, rows, fixed)
    tol = float(tol) or FINEST_TOL[rows.dtype]
    request = Request(k, tol=tol, center=bool(center), seed=seed, threads=thread_count(n_jobs))
    judged = None if criterion is None else check_criterion(criterion, labels, predictor)
    report = step_monitor(len(along) * (1 if judged is None else 2), "fit")
    scores = errors = None
    with clock.stopping():
        table = _spectra(along, rows, k, request, report)
        if judged is not None:
            folds = folds_of(cv, rows.shape[0], labels, seed) if judged.held_out else []
            further = replace(request, n_components=k + judged.beyond)
            bench = Bench(along, rows, labels, folds, judged, [k], further, fewer=judged.held_out)
            trials: list[KernelTrial] = []

            def found(trial: KernelTrial) -> None:
                trials.append(trial)
                if report is not None:
                    with clock.asking:
                        report(label=trial.candidate.label, score=float(judged.score(trial.means)[0]))

            bench.try_(along, found)
            if all(trial.failure for trial in trials):
                raise InputError(trials[0].failure)
            scores = np.array([judged.score(trial.means)[0] for trial in trials])
            errors = np.array([trial.error(0) for trial in trials])
    return Path(
        kernel=along[0].name,
        parameter=name,
        values=np.array([float(candidate.parameters[name]) for candidate in along]),
        alignment=_alignments([candidate.kernel for candidate in along], rows, bool(center), seed),
        criterion=None if judged is None else judged.name,
        scores=scores,
        standard_errors=errors,
        n_rows=rows.shape[0],
        seconds=clock.elapsed,
        **table,
    )


def _along(kernel: Any, parameter: str | None, grid: Any, X: Any, fixed: dict[str, Any]) -> tuple[str, list[Candidate]]:
    """Return the parameter that varies, and the kernels in the order of its values."""
    if not isinstance(kernel, str):
        raise InputError("must be a name, such as 'rbf'", param="kernel", value=kernel)
    degrees = kernel in ("poly", "polynomial")
    name = parameter or ("degree" if degrees else "gamma")
    if name not in _PARAMETERS:
        raise InputError(f"parameter must be one of {', '.join(map(repr, _PARAMETERS))}; got {parameter!r}.")
    wrong = next((given for given in fixed if given not in _PARAMETERS or given == name), None)
    if wrong is not None:
        raise InputError(f"path takes the parameters of a kernel that do not vary, {name!r} does; got {wrong!r}.")
    if grid is None or (isinstance(grid, Integral) and not isinstance(grid, bool)):
        count = (6 if name == "degree" else GRID) if grid is None else int(grid)
        whole_number("grid", count, 1)
        grid = range(1, count + 1)
        if name == "coef0":
            raise InputError("path needs a grid of values for coef0: give a list.")
        if name == "gamma":
            found = candidates({kernel: count}, X, count)
            found[0].kernel.check(X)
            if "gamma" not in found[0].parameters:
                raise InputError(f"must have a bandwidth to vary; {kernel!r} has none: try 'rbf'.", param="kernel")
            grid = [one.parameters["gamma"] for one in found]
    try:
        values = sorted({float(value) for value in grid})
    except (TypeError, ValueError):
        values = []
    if not values:
        got = f"an array of shape {grid.shape}" if isinstance(grid, np.ndarray) else repr(grid)
        raise InputError(f"grid must be a list of numbers, or how many; got {got}.")
    lists = {other: [value] for other, value in fixed.items()}
    if degrees and name == "degree":
        lists.setdefault("gamma", ["scale"])
    along = [candidates({kernel: {**lists, name: [value]}}, X, 1)[0] for value in values]
    along[0].kernel.check(X)
    if len({candidate.kernel for candidate in along}) < len(along):
        raise InputError(f"must depend on {name!r}, which varies; {kernel!r} does not", param="kernel")
    return name, along


def _spectra(along: Sequence[Candidate], X: Any, k: int, request: Request, report: Any) -> dict[str, FloatArray]:
    """Return the spectra along the grid, and what follows from them."""
    names = ("eigenvalues", "explained_variance_ratio", "residuals")
    table: dict[str, FloatArray] = {name: np.full((len(along), k), np.nan) for name in names}
    table["participation"] = np.full(len(along), np.nan)
    follower = Follower([candidate.kernel for candidate in along], X, request)
    for i, candidate in enumerate(along):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would repeat along the grid what its numbers say
            try:
                spectrum = follower(candidate.kernel).spectrum
            except InputError:
                raise
            except ValueError as error:
                said = " ".join(str(error).split())
                raise InputError(f"{candidate.label} must be a kernel of these rows; it is not: {said}") from error
        values = spectrum.values
        top = max(float(values.max(initial=0.0)), 1e-300)
        table["eigenvalues"][i, : len(values)] = values
        table["explained_variance_ratio"][i, : len(values)] = values / (spectrum.trace if spectrum.trace > 0 else 1.0)
        table["residuals"][i, : len(values)] = spectrum.residuals / top
        squares = max(spectrum.frobenius2, float(values @ values))
        table["participation"][i] = spectrum.trace**2 / squares if squares > 0 else np.nan
        if report is not None:
            report(label=candidate.label)
    return table


def _alignments(kernels: Sequence[Kernel], X: Any, center: bool, seed: int) -> FloatArray:
    """Return the alignment of each kernel matrix with that of the linear kernel, both centred, on some rows."""
    X = some_rows(X, _ALIGNED_ROWS, seed)
    rows = X.astype(np.float64)
    if not sparse.issparse(rows) and center:
        rows = rows - rows.mean(axis=0)
    family = {None if kernel.shared is None else kernel.shared[0] for kernel in kernels}
    shared = SharedArguments(kernels, X, budget=2**24) if len(family) == 1 and None not in family else None

    def prepared(K: FloatArray) -> FloatArray:
        return centred(K, np.ones(len(K))) if center else K

    with single_threaded():  # the products are small, and threads that wait would take the cores from the next
        L = prepared((rows @ rows.T).toarray() if sparse.issparse(rows) else rows @ rows.T)
        return np.array([alignment_of(prepared(Gram(one, X, arguments=shared).matrix()), L) for one in kernels])


def alignment_of(A: FloatArray, B: FloatArray) -> float:
    """Return <A, B> / (|A| |B|), NaN if one of them is 0."""
    A, B = in_unit_range(A), in_unit_range(B)
    sizes = float(np.linalg.norm(A)) * float(np.linalg.norm(B))
    return float(np.vdot(A, B)) / sizes if sizes > 0 else float("nan")


def in_unit_range(A: Any) -> Any:
    """Return A over its largest entry: squares then neither overflow nor vanish."""
    largest = float(abs(A).max()) if A.size else 0.0
    return A / largest if largest > 0 else A
