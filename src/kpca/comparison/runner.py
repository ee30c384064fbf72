"""`kpca.compare`: the same rows through every method, one after the other, with the time and memory each takes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from kpca._base.config import MEMORY_LIMIT, memory_budget
from kpca._base.errors import Cancelled, InputError
from kpca._base.linalg import FloatArray
from kpca._base.progress import item_monitor
from kpca._base.validation import check_data, seed_of, whole_number
from kpca.comparison.methods import UMAP_APPROXIMATE_FROM, Method, MethodTask, resolve_methods, too_large
from kpca.comparison.result import Comparison, MethodResult, Yardstick, check_targets
from kpca.data.rows import stacked
from kpca.data.sources import as_source, in_memory
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.plan import size_words

_FEWEST_ROWS = 3  # two have one distance, and no neighbours to choose from
_DENSE_BYTES = 256 << 20  # up to which sparse rows are made dense for all
_FAR = 100.0  # spreads from the origin, beyond which rounding tells
_EXTREME = 1e6  # spread beyond which (and below its inverse) methods that work in float32 lose theirs
_TINY = (24, 4)  # what methods are warmed up on
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# What Python shows nobody but the author of the code that warns.
_FOR_AUTHORS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


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
    rows, plain, notes = _checked_rows(X)
    n, d = rows.shape
    targets = check_targets(y, n, target_kind)
    chosen = resolve_methods(methods)
    yardstick = Yardstick(rows, targets, int(n_neighbors), int(quality_rows), seed)
    task = MethodTask(n, d, int(n_components), int(n_neighbors), seed, sparse=bool(sparse.issparse(rows)))
    report = item_monitor(len(chosen))
    results = []
    for number, method in enumerate(chosen, start=1):
        if report is not None:
            report(method.name, number)
        results.append(_row(method, (rows, plain), replace(task, notes=[]), yardstick, int(max_rows)))
    measures = tuple((target.name, target.measure) for target in targets)
    looked_at = (yardstick.n_neighbors, len(yardstick.rows), len(yardstick.pairs[0]))
    return Comparison(tuple(results), (n, d), task.n_components, *looked_at, measures, notes)


def _checked_rows(X: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """Return the rows, the rows for methods that depend on neither origin nor unit, and notes of what was done."""
    if not in_memory(X):
        source, budget = as_source(X), memory_budget()
        held = (source.n_rows or 0) * source.n_columns * source.dtype.itemsize
        if not source.sparse and held > budget:
            message = f"compare holds all rows, {size_words(held)}; {size_words(budget)} may be used"
            raise InputError(message, remedy=("give a sample of the rows, or raise ", MEMORY_LIMIT))
        X = stacked(list(source.chunks()))
    rows = check_data(KernelPCA(), X, reset=True)
    n, d = rows.shape
    if n < _FEWEST_ROWS:
        raise InputError(f"must have at least {_FEWEST_ROWS} rows to have neighbours; got {n} sample(s)", param="X")
    notes = []
    if sparse.issparse(rows) and n * d * rows.dtype.itemsize <= _DENSE_BYTES:
        rows = rows.toarray()
        notes.append(f"the sparse rows were made dense ({size_words(rows.nbytes)})")
    different = rows.max(axis=0) != rows.min(axis=0)
    if not different.sum():  # no method has anything to show, and some do not end well
        raise InputError(f"X must have different rows; all {n} are the same: there is nothing to compare.")
    if sparse.issparse(rows):
        return rows, rows, tuple(notes)
    largest = max(float(np.abs(rows).max()), np.finfo(np.float64).tiny)
    # float64, and nothing overflows or vanishes on the way
    mean = largest * np.mean(rows / largest, axis=0, dtype=np.float64)
    size = float(np.maximum(rows.max(axis=0) - mean, mean - rows.min(axis=0)).max())
    spread = size * float(np.sqrt(np.mean(np.square((rows - mean) / size))))
    if float(np.abs(mean).max()) <= _FAR * spread and 1.0 / _EXTREME < spread < _EXTREME:
        return rows, rows, tuple(notes)
    notes.append(f"named methods, which ignore origin and unit, got rows about their mean, in units of {spread:.2g}")
    return rows, ((rows - mean) / spread).astype(rows.dtype), tuple(notes)


def _row(method: Method, data: tuple[Any, Any], task: MethodTask, yardstick: Yardstick, max_rows: int) -> MethodResult:
    if method.absent:
        return MethodResult(method.name, "not installed", error=method.absent)
    reason = too_large(method, task, max_rows)
    estimator = None if reason else method.build(task)
    if task.sparse and not reason:
        known = hasattr(estimator, "__sklearn_tags__") and get_tags(estimator).input_tags.sparse
        if not (known if method.sparse is None else method.sparse):
            size = size_words(8 * task.n * task.d)
            reason = f"it needs dense rows, which take {size}: reduce the columns first, by TruncatedSVD, say"
    if estimator is None or reason:
        return MethodResult(method.name, "left out", error=f"left out: {reason}")
    X = data[1] if method.named else data[0]
    with _threads(method):
        if method.named:
            _warmed_up(method.build, task.sparse, method.name == "UMAP" and task.n >= UMAP_APPROXIMATE_FROM)
        with seeded(task.seed):
            value, seconds, peak, said = measure(lambda: estimator.fit_transform(X))
    if isinstance(value, Cancelled):
        raise value
    result = MethodResult(method.name, "failed", seconds, peak, notes=(*task.notes, *said))
    try:
        if isinstance(value, Exception):
            raise value
        array = np.asarray(value.toarray() if sparse.issparse(value) else value)
        embedding: FloatArray = array if array.dtype.kind == "f" else array.astype(np.float64)
        if embedding.ndim != 2 or embedding.shape[0] != task.n or not embedding.shape[1]:
            raise InputError(f"fit_transform must give a row per row of X; got shape {embedding.shape}")
        if not np.isfinite(embedding).all():
            raise InputError("the embedding holds NaN or infinity")
    except Exception as failure:
        return replace(result, error=f"failed: {type(failure).__name__}: {one_line(failure)}")
    with heard() as said:
        figures, why_not = yardstick(embedding)
    notes, places = (*result.notes, *why_not, *said), hasattr(estimator, "transform")
    return replace(result, outcome="done", **figures, places_new_rows=places, embedding=embedding, notes=notes)


def _threads(method: Method) -> Any:
    # beside BLAS, whose bits are those of the last digits, OpenMP: it also spins, and small maps take a hundredfold
    return threadpool_limits(1, user_api="openmp") if method.one_thread else contextlib.nullcontext()


@functools.cache
def _warmed_up(build: Callable[[MethodTask], Any], is_sparse: bool, approximate: bool) -> None:
    """Let a method load and compile what it does at its first call; once in a process."""
    tiny: Any = np.random.default_rng(0).normal(size=_TINY)
    estimator = build(MethodTask(*_TINY, n_components=2, n_neighbors=5, seed=0, sparse=is_sparse))
    if approximate:
        estimator.set_params(force_approximation_algorithm=True)
    with heard(), seeded(0):  # what is said about tiny data means nothing
        estimator.fit_transform(sparse.csr_matrix(tiny) if is_sparse else tiny)


def measure(call: Callable[[], Any]) -> tuple[Any, float, int | None, list[str]]:
    """Call once; return the result or the exception it ended in, the seconds, the peak of memory and the warnings.

    The peak is in bytes above what the process held before, None where the system does not tell. An exception that is
    none of the program's (Ctrl-C) goes on its way.
    """
    with heard() as said:
        restarted = _restart_peak()
        before = _memory("VmRSS")
        started = time.perf_counter()
        try:
            value = call()
        except Exception as error:  # whatever it is, the other methods must still be heard
            value = error
        seconds = time.perf_counter() - started
        after = _memory("VmHWM")
    peak = max(after - before, 0) if restarted and before is not None and after is not None else None
    return value, seconds, peak, said


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect, in place of printing, what is warned of: each text once, on one line."""
    said: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield said
    finally:
        texts = (one_line(w.message) for w in caught if not issubclass(w.category, _FOR_AUTHORS))
        said.extend(dict.fromkeys(texts))


def one_line(message: object) -> str:
    return " ".join(str(message).split())


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator: Isomap, and others without a random_state, take their start from it."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _restart_peak() -> bool:
    """Make the peak start from what is in use now; return False where the system cannot."""
    gc.collect(1)  # what the call before left behind; a full search takes a second once numba is loaded
    # What earlier calls freed may still be held by the C library; whoever came next would get it without being charged.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def _memory(field: str) -> int | None:
    """Return a field of Linux's account of this process, in bytes; None on other systems."""
    try:
        found = re.search(rf"^{field}:\s*(\d+)", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024
