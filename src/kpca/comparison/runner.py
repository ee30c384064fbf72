"""`kpca.compare`: the same rows through every method, one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from kpca._base.config import MEMORY_LIMIT, memory_budget
from kpca._base.errors import Cancelled, InputError
from kpca._base.progress import item_monitor
from kpca._base.validation import check_data, seed_of, whole_number
from kpca.comparison.methods import (
    UMAP_APPROXIMATE_FROM,
    Method,
    Setting,
    heard,
    measure,
    one_line,
    resolve_methods,
    seeded,
    too_large,
)
from kpca.comparison.quality import Yardstick, check_targets
from kpca.comparison.result import Comparison, MethodResult
from kpca.data.rows import stacked
from kpca.data.sources import as_source, in_memory
from kpca.estimators.plan import size_words

FloatArray = NDArray[Any]
_FEWEST_ROWS = 3  # two have one distance, and no neighbours to choose from
_DENSE_BYTES = 256 << 20  # up to which sparse rows are made dense for all
_FAR = 100.0  # spreads from the origin, beyond which rounding tells
_EXTREME = 1e6  # spread beyond which (and below its inverse) methods that work in float32 lose theirs
_TINY = (24, 4)  # what methods are warmed up on


def compare(
    X: Any,
    y: Any = None,
    *,
    methods: Any = None,
    n_components: int = 2,
    n_neighbors: int = 10,
    random_state: Any = 0,
    max_rows: int = 5000,
    quality_rows: int = 2000,
    target_kind: str = "auto",
) -> Comparison:
    """Embed the rows of X in a few dimensions in many ways; return what each takes and what it keeps.

    Methods run one after the other in this process. One that fails, is not installed or is left out says so in its row;
    the others' results are not touched by it. Before the clock starts, each method with a name is fitted to tiny data,
    so that nobody is charged for what is loaded or compiled at a first call: for UMAP that compilation takes some ten
    seconds, from 4096 rows on half a minute, once in a process. t-SNE and UMAP are given one thread, as their maps
    change with the number of threads; the others take what the machine has.

    Parameters
    ----------
    X : (n, d) array, data frame, sparse matrix or file of finite numbers. Sparse rows are made dense if that takes at
        most 256 MiB; else methods that need dense ones are left out.
    y : (n,) or (n, t), what is known of the rows: classes or numbers, one column per target.
    methods : None, a list or a dictionary
        Names of `kpca.comparison.NAMES` (capitals, hyphens and spaces do not matter), pairs (name, estimator) for
        estimators with `fit_transform`, or a dictionary of such. None is all names: PCA, incremental PCA and
        randomised PCA of scikit-learn, `KernelPCA` with a Gaussian kernel and gamma="median", scikit-learn's metric
        MDS (started from PCA), Isomap and t-SNE, and UMAP.
    n_components : dimensions of the embeddings.
    n_neighbors : neighbours that Isomap and UMAP, k-NN and the measures of neighbourhood look at.
    random_state : seed of all that is random. The global generator of NumPy is seeded during each fit and put back.
    max_rows : rows up to which methods that need n x n matrices (MDS, Isomap) take part; t-SNE, which needs none but
        takes minutes, up to twice as many. Where `kpca.config(memory_limit=...)` does not allow for them they are left
        out, too.
    quality_rows : rows, the same for all methods, of which quality is measured; it takes time of the order of their
        square.
    target_kind : "auto", "classes" or "numbers"
        k-NN is judged by accuracy for classes, by R2 for numbers. "auto" takes numbers for classes if they are whole,
        and at most ten different ones or at least five rows to each.

    Returns
    -------
    comparison : with a `MethodResult` per method in `rows` and by name, `best(criterion)` and `to_dicts()`; `print`
        shows a table, `kpca.plots.comparison` the embeddings.

    Examples
    --------
    >>> import kpca
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = kpca.compare(X, y, methods=["PCA", "kernel PCA", "Isomap"])
    >>> found["kernel PCA"].embedding.shape
    (150, 2)
    >>> [row.name for row in found if row.places_new_rows]
    ['PCA', 'kernel PCA', 'Isomap']
    >>> found.best("seconds").knn[0] > 0.9
    True
    """
    whole_number("n_components", n_components, 1)
    whole_number("n_neighbors", n_neighbors, 1)
    whole_number("max_rows", max_rows, 1)
    whole_number("quality_rows", quality_rows, _FEWEST_ROWS)
    seed = int(random_state) if isinstance(random_state, Integral) else seed_of(random_state)
    data = _Data.of(X)
    n, d = data.rows.shape
    targets = check_targets(y, n, target_kind)
    chosen = resolve_methods(methods)
    yardstick = Yardstick(data.rows, targets, int(n_neighbors), int(quality_rows), seed)
    setting = Setting(n, d, int(n_components), int(n_neighbors), seed, sparse=bool(sparse.issparse(data.rows)))
    report = item_monitor(len(chosen))
    rows = []
    for number, method in enumerate(chosen, start=1):
        if report is not None:
            report(method.name, number)
        rows.append(_row(method, data, replace(setting, notes=[]), yardstick, int(max_rows)))
    return Comparison(
        tuple(rows),
        (n, d),
        setting.n_components,
        yardstick.n_neighbors,
        len(yardstick.rows),
        yardstick.n_pairs,
        tuple((target.name, target.measure) for target in targets),
        tuple(data.notes),
    )


# -- the data -------------------------------------------------------------------------------------------------------


class _Unfitted(BaseEstimator):  # type: ignore[misc]
    """Takes what scikit-learn's checks would write on an estimator."""


@dataclass(frozen=True)
class _Data:
    """The rows as they came, and as methods get them that depend on neither origin nor unit."""

    rows: Any  # shape: (n, d)
    plain: Any  # shape: (n, d)
    notes: tuple[str, ...]

    @staticmethod
    def of(X: Any) -> _Data:
        """Check the rows; make them dense, and plain, where that is needed."""
        rows = check_data(_Unfitted(), X if in_memory(X) else _loaded(X), reset=True)
        n, d = rows.shape
        if n < _FEWEST_ROWS:
            raise InputError(f"must have at least {_FEWEST_ROWS} rows to have neighbours; got {n} sample(s)", param="X")
        notes = []
        if sparse.issparse(rows) and n * d * rows.dtype.itemsize <= _DENSE_BYTES:
            rows = rows.toarray()
            notes.append(f"the sparse rows were made dense ({size_words(rows.nbytes)})")
        _check_different(rows)
        if sparse.issparse(rows):
            return _Data(rows, rows, tuple(notes))
        plain, note = _plain(rows)
        return _Data(rows, plain, (*notes, *note))


def _plain(rows: FloatArray) -> tuple[FloatArray, list[str]]:
    """Return rows whose origin or unit is extreme about their mean, in units of their size, and say so."""
    largest = max(float(np.abs(rows).max()), np.finfo(np.float64).tiny)
    # float64, and nothing overflows or vanishes on the way
    mean = largest * np.mean(rows / largest, axis=0, dtype=np.float64)
    size = float(np.maximum(rows.max(axis=0) - mean, mean - rows.min(axis=0)).max())
    spread = size * float(np.sqrt(np.mean(np.square((rows - mean) / size))))
    if float(np.abs(mean).max()) <= _FAR * spread and 1.0 / _EXTREME < spread < _EXTREME:
        return rows, []
    note = (
        f"named methods, which depend on neither origin nor unit, got rows about their mean, in units of {spread:.2g}"
    )
    return ((rows - mean) / spread).astype(rows.dtype), [note]


def _loaded(X: Any) -> Any:
    source = as_source(X)
    size = (source.n_rows or 0) * source.n_columns * source.dtype.itemsize
    if not source.sparse and size > memory_budget():
        raise InputError(
            f"compare holds all rows, {size_words(size)}; {size_words(memory_budget())} may be used",
            remedy=("give a sample of the rows, or raise ", MEMORY_LIMIT),
        )
    return stacked(list(source.chunks()))


def _check_different(rows: Any) -> None:
    """Refuse rows that are all the same: no method has anything to show, and some do not end well."""
    highest, lowest = rows.max(axis=0), rows.min(axis=0)
    different = (highest != lowest).nnz if sparse.issparse(rows) else (highest != lowest).any()
    if not different:
        raise InputError(f"X must have different rows; all {rows.shape[0]} are the same: there is nothing to compare.")


# -- one method -----------------------------------------------------------------------------------------------------


def _row(method: Method, data: _Data, setting: Setting, yardstick: Yardstick, max_rows: int) -> MethodResult:
    if method.absent:
        return MethodResult(method.name, "not installed", error=method.absent)
    if reason := too_large(method, setting, max_rows):
        return MethodResult(method.name, "left out", error=f"left out: {reason}")
    estimator = method.build(setting)
    if setting.sparse and not (_takes_sparse(estimator) if method.sparse is None else method.sparse):
        size = size_words(8 * setting.n * setting.d)
        reason = f"it needs dense rows, which take {size}: reduce the columns first, by TruncatedSVD, say"
        return MethodResult(method.name, "left out", error=f"left out: {reason}")
    if method.named:
        _warm_up(method, setting)
    rows = data.plain if method.named else data.rows
    with seeded(setting.seed), _threads(method):
        taken = measure(lambda: estimator.fit_transform(rows))
    notes = (*setting.notes, *taken.warnings)
    if isinstance(taken.error, Cancelled):
        raise taken.error
    failure = taken.error
    if failure is None:
        embedding, failure = _checked(taken.value, setting.n)
    if failure is not None:
        text = f"failed: {type(failure).__name__}: {one_line(failure)}"
        return MethodResult(method.name, "failed", taken.seconds, taken.peak_bytes, error=text, notes=notes)
    with heard() as said:
        quality = yardstick(embedding)
    return MethodResult(
        method.name,
        "done",
        taken.seconds,
        taken.peak_bytes,
        quality.trustworthiness,
        quality.continuity,
        quality.distance_correlation,
        quality.rank_correlation,
        quality.knn,
        hasattr(estimator, "transform"),
        embedding,
        None,
        (*notes, *quality.notes, *said),
    )


def _threads(method: Method) -> Any:
    # beside BLAS, whose bits are those of the last digits, OpenMP: it also spins, and small maps take a hundredfold
    return threadpool_limits(1, user_api="openmp") if method.one_thread else nullcontext()


def _takes_sparse(estimator: Any) -> bool:
    if not hasattr(estimator, "__sklearn_tags__"):
        return False
    return bool(get_tags(estimator).input_tags.sparse)


def _checked(value: Any, n: int) -> tuple[FloatArray, Exception | None]:
    """Return what fit_transform gave as an array, and what is wrong with it."""
    try:
        array = np.asarray(value.toarray() if sparse.issparse(value) else value)
        embedding = array if array.dtype.kind == "f" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        return np.empty((0, 0)), error
    if embedding.ndim != 2 or embedding.shape[0] != n or not embedding.shape[1]:
        return embedding, InputError(f"fit_transform must give a row per row of X; got shape {embedding.shape}")
    if not np.isfinite(embedding).all():
        return embedding, InputError("the embedding holds NaN or infinity")
    return embedding, None


def _warm_up(method: Method, setting: Setting) -> None:
    approximate = method.name == "UMAP" and setting.n >= UMAP_APPROXIMATE_FROM
    with _threads(method):
        _warmed_up(method.build, setting.sparse, approximate)


@functools.cache
def _warmed_up(build: Callable[[Setting], Any], is_sparse: bool, approximate: bool) -> None:
    """Let a method load and compile what it does at its first call; once in a process."""
    tiny: Any = np.random.default_rng(0).normal(size=_TINY)
    estimator = build(Setting(*_TINY, n_components=2, n_neighbors=5, seed=0, sparse=is_sparse))
    if approximate:
        estimator.set_params(force_approximation_algorithm=True)
    with heard(), seeded(0):  # what is said about tiny data means nothing
        estimator.fit_transform(sparse.csr_matrix(tiny) if is_sparse else tiny)
