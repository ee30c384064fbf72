"""The methods that can be compared: each builds its estimator for the data it will meet, and notes what it changed."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.manifold import MDS, TSNE, Isomap

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.plan import size_words

_PERPLEXITY = 30.0  # scikit-learn's default
_BARNES_HUT = 3  # components for which t-SNE has its fast way; for more it needs n x n matrices
_FULL_SVD = 500  # columns (or rows) up to which PCA solves for all directions, beyond for those asked for
_UMAP_NEIGHBOURS = 2  # the fewest it takes
# From this many rows on umap-learn looks for neighbours in another way, which numba has to compile, too.
UMAP_APPROXIMATE_FROM = 4096


@dataclass
class MethodTask:
    """What a method is told of the data and the request; what it had to change of the request it says in `notes`."""

    n: int
    d: int
    n_components: int
    n_neighbors: int
    seed: int
    sparse: bool = False
    notes: list[str] = field(default_factory=list)

    def components(self, *, linear: bool = False) -> int:
        """Return how many components can be had."""
        most, of = (min(self.n, self.d), f" of {self.d} features") if linear else (self.n - 1, "")
        if self.n_components > most:
            self.notes.append(f"{most} in place of {self.n_components} components: there are {self.n} rows{of}")
        return min(self.n_components, most)

    def neighbours(self) -> int:
        """Return how many neighbours a row can have."""
        if self.n_neighbors > self.n - 1:
            self.notes.append(f"{self.n - 1} in place of {self.n_neighbors} neighbours: there are {self.n} rows")
        return min(self.n_neighbors, self.n - 1)


@dataclass(frozen=True)
class Method:
    """A name and the way to its estimator; `absent` says why there is none."""

    name: str
    build: Callable[[MethodTask], Any]
    named: bool = True  # one of ours: warmed up, and given rows about their mean where the origin is far
    matrices: float = 0.0  # n x n float64 matrices it holds at its peak
    reach: float | None = None  # rows up to which it takes part, over `max_rows`; None is any number
    one_thread: bool = False  # its sums, and so its map, change with the number of threads
    sparse: bool | None = None  # whether it takes sparse rows; None is what its tags say
    absent: str | None = None


def _pca(task: MethodTask, solver: str = "") -> Any:
    k, sides = task.components(linear=True), min(task.n, task.d)
    few = k < sides and (task.sparse or sides > _FULL_SVD)
    # not "auto", which takes the covariance of rows that are not centred, or random directions, as it sees fit
    solver = solver or ("arpack" if few else "covariance_eigh" if task.sparse else "full")
    return PCA(k, svd_solver=solver, random_state=task.seed)


def _kernel_pca(task: MethodTask) -> Any:
    # "auto" is exact wherever an exact fit is a matter of minutes
    k = task.components()
    return KernelPCA(k, kernel="rbf", gamma="median", approximation="auto", random_state=task.seed)


class StartedMDS:
    """scikit-learn's metric MDS, started from PCA.

    For Euclidean distances PCA is classical MDS, which scikit-learn recommends as the start; but it takes no n x n
    eigenproblem, and where the rows have fewer dimensions than are asked for, no roots of negative rounding errors.
    """

    def __init__(self, n_components: int, seed: int) -> None:
        self.n_components = n_components
        # the name of a start, which scikit-learn 1.8 to 1.9 warn about if it is not given, is not used: it is given one
        known = {"init": "random"} if "init" in inspect.signature(MDS).parameters else {}
        self.mds = MDS(n_components, n_init=1, random_state=seed, **known)

    def fit_transform(self, X: FloatArray) -> FloatArray:
        """Return the embedding.  # shape: (n, n_components)"""
        k = min(self.n_components, *X.shape)
        start = np.zeros((X.shape[0], self.n_components))
        start[:, :k] = PCA(k, svd_solver="full").fit_transform(np.asarray(X, dtype=np.float64))
        embedding: FloatArray = self.mds.fit_transform(X, init=start)
        return embedding


def _isomap(task: MethodTask) -> Any:
    return Isomap(n_components=task.components(), n_neighbors=task.neighbours())


def _tsne(task: MethodTask) -> Any:
    perplexity = min(_PERPLEXITY, (task.n - 1) / 3.0)
    if perplexity < _PERPLEXITY:
        task.notes.append(f"perplexity {perplexity:.3g} in place of {_PERPLEXITY:g}: there are {task.n} rows")
    start = "pca" if task.n_components <= min(task.n, task.d) and not task.sparse else "random"
    if start == "random":
        task.notes.append("started at random: there are too few dimensions, or sparse rows, for a start from PCA")
    exact = {"method": "exact"} if task.n_components > _BARNES_HUT else {}
    return TSNE(task.n_components, perplexity=perplexity, init=start, random_state=task.seed, **exact)


def _umap(task: MethodTask) -> Any:
    from umap import UMAP

    k, neighbours = task.n_components, task.neighbours()
    start = "spectral" if task.n > 2 * k + 1 else "random"  # its eigenproblem asks for k + 1 of n pairs
    if start == "random":
        task.notes.append(f"started at random: {task.n} rows are too few for a spectral start")
    if neighbours < _UMAP_NEIGHBOURS:
        neighbours = _UMAP_NEIGHBOURS
        task.notes.append(f"{neighbours} neighbours, the fewest it takes")
    # a seed leaves umap-learn one thread, which is what it is asked for here
    return UMAP(n_components=k, n_neighbors=neighbours, init=start, random_state=task.seed, n_jobs=1)


def _why_no_umap() -> str | None:
    """Return why UMAP cannot be used and what to do, None if it can; loads the library."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TensorFlow is not there, which one of its classes would need
            from umap import UMAP  # noqa: F401
    except ImportError as error:  # also of another library of this name, or with a NumPy that numba does not know
        absent = isinstance(error, ModuleNotFoundError) and error.name == "umap"
        return f"{'not installed' if absent else f'cannot be loaded ({error})'}: pip install 'kpca[compare]'"
    return None


_METHODS = (
    Method("PCA", _pca),
    Method("incremental PCA", lambda task: IncrementalPCA(task.components(linear=True))),
    Method("randomised PCA", lambda task: _pca(task, "randomized")),
    Method("kernel PCA", _kernel_pca),
    Method("MDS", lambda task: StartedMDS(task.n_components, task.seed), matrices=6.0, reach=1.0),
    Method("Isomap", _isomap, matrices=4.0, reach=1.0),
    Method("t-SNE", _tsne, reach=2.0, one_thread=True),  # no matrix, but minutes
    Method("UMAP", _umap, sparse=True),
)
NAMES = tuple(method.name for method in _METHODS)


def too_large(method: Method, task: MethodTask, max_rows: int) -> str:
    """Return why a method does not take part on this many rows and what to do, "" if it does."""
    n, limit, reach, matrices = task.n, memory_budget(), method.reach, method.matrices
    if method.build is _tsne and task.n_components > _BARNES_HUT:
        reach, matrices = 1.0, 6.0
    if reach is not None and n > reach * max_rows:
        why = "needs n x n matrices" if matrices else "would take long"
        times = "" if reach == 1 else f" = {reach:g} x max_rows"
        return f"it {why}, and takes part up to {reach * max_rows:,.0f} rows{times}: raise max_rows, or give a sample"
    size = int(8 * matrices * n * n)
    if size > limit:
        return f"it needs about {size_words(size)}, of {size_words(limit)} that may be used: give a sample of the rows"
    return ""


def plain(name: str) -> str:
    """Return a name as it is compared: "t-SNE", "tsne" and "TSNE" are one."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    return letters.replace("randomized", "randomised")


def find(name: str, known: Mapping[str, Any], what: str) -> Any:
    """Return what a name stands for among names in plain form, or raise InputError with the nearest one."""
    if plain(name) in known:
        return known[plain(name)]
    close = difflib.get_close_matches(plain(name), known, n=1, cutoff=0.5)
    hint = f" Did you mean {known[close[0]].name!r}?" if close else ""
    names = ", ".join(repr(entry.name) for entry in known.values())
    raise InputError(f"{what} must be one of {names}; got {name!r}.{hint}")


def resolve_methods(methods: Any) -> list[Method]:
    """Return the methods that are meant: None is all with names, UMAP with the reason if it is not there."""
    known = {plain(method.name): method for method in _METHODS}
    if methods is None:
        return [replace(method, absent=_why_no_umap()) if method.build is _umap else method for method in _METHODS]
    if isinstance(methods, str) or not isinstance(methods, Mapping | list | tuple):
        kinds = "a list of names and (name, estimator) pairs, or a dictionary of estimators"
        raise InputError(f"methods must be {kinds}; got {methods!r}: write methods=['pca', 'umap'].")
    entries = list(methods.items()) if isinstance(methods, Mapping) else list(methods)
    if not entries:
        raise InputError("methods must name at least one method; got none: leave it out for all of them.")
    resolved: dict[str, Method] = {}
    for entry in entries:
        method = find(entry, known, "A method") if isinstance(entry, str) else _own(entry)
        if method.build is _umap and (absent := _why_no_umap()):
            raise InputError(f"methods names {method.name!r}, which is {absent}")
        if plain(method.name) in resolved:
            raise InputError(f"methods must have different names; got {method.name!r} twice: give one another name.")
        resolved[plain(method.name)] = method
    return list(resolved.values())


def _own(entry: Any) -> Method:
    if not (isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str) and plain(entry[0])):
        raise InputError(f"Each of the methods must be a name or a pair (name, estimator); got {entry!r}.")
    name, estimator = entry
    if isinstance(estimator, type) or not hasattr(estimator, "fit_transform"):
        remedy = "call the class" if isinstance(estimator, type) else "give an object of scikit-learn"
        raise InputError(f"The method {name!r} must be an estimator with fit_transform; got {estimator!r}: {remedy}.")
    return Method(name, lambda task: clone(estimator, safe=False), named=False)
