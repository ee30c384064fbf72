"""What a call takes: its time, its memory, and the warnings it gives on the way."""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import functools
import gc
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.manifold import MDS, TSNE, Isomap

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.plan import size_words

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# What Python shows nobody but the author of the code that warns.
_FOR_AUTHORS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


@dataclass(frozen=True)
class Measured:
    """The result of a call, or the exception it ended in, and what it took."""

    value: Any
    error: Exception | None
    seconds: float
    peak_bytes: int | None  # above what the process held before; None where the system does not tell
    warnings: tuple[str, ...]


def measure(call: Callable[[], Any]) -> Measured:
    """Call once; an exception is part of the result, one that is none of the program's (Ctrl-C) goes on its way."""
    value, failure = None, None
    with heard() as said:
        restarted = _restart_peak()
        before = _memory("VmRSS")
        started = time.perf_counter()
        try:
            value = call()
        except Exception as error:  # whatever it is, the other methods must still be heard
            failure = error
        seconds = time.perf_counter() - started
        after = _memory("VmHWM")
    peak = max(after - before, 0) if restarted and before is not None and after is not None else None
    return Measured(value, failure, seconds, peak, tuple(said))


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
    """Return a text without its line breaks."""
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
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) * 1024 if values else None


# -- UMAP, the one method that needs a library of its own (umap-learn) ------------------------------------------------

INSTALL = "pip install 'kpca[compare]'"
# From this many rows on umap-learn looks for neighbours in another way, which numba has to compile, too.
UMAP_APPROXIMATE_FROM = 4096
FEWEST_NEIGHBOURS = 2


def umap_missing() -> str | None:
    """Return why UMAP cannot be used and what to do, None if it can; loads the library."""
    try:
        with heard():  # that TensorFlow is not there, which one of its classes would need
            from umap import UMAP  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "umap":
            return f"not installed: {INSTALL}"
        return f"cannot be loaded ({error}): {INSTALL}"
    except ImportError as error:  # of another library of this name, or with a NumPy that numba does not know
        return f"cannot be loaded ({error}): {INSTALL}"
    return None


def umap_estimator(**parameters: Any) -> Any:
    """Return an estimator that repeats: a seed leaves umap-learn one thread, which is what it is asked for here."""
    from umap import UMAP

    return UMAP(**parameters, n_jobs=1)


# -- The methods that have names, each told about the data it will meet, and what a caller may ask for ----------------

FloatArray = NDArray[Any]
_PERPLEXITY = 30.0  # scikit-learn's default
_BARNES_HUT = 3  # components for which t-SNE has its fast way; for more it needs n x n matrices
_FULL_SVD = 500  # columns (or rows) up to which PCA solves for all directions, beyond for those asked for


@dataclass
class Setting:
    """What a method is told of the data and the request; what it had to change of the request it says in `notes`."""

    n: int
    d: int
    n_components: int
    n_neighbors: int
    seed: int
    sparse: bool = False
    notes: list[str] = field(default_factory=list)

    def components(self, most: int, why: str) -> int:
        """Return how many components can be had."""
        if self.n_components > most:
            self.notes.append(f"{most} in place of {self.n_components} components: {why}")
        return min(self.n_components, most)

    def neighbours(self) -> int:
        """Return how many neighbours a row can have."""
        if self.n_neighbors > self.n - 1:
            self.notes.append(f"{self.n - 1} in place of {self.n_neighbors} neighbours: there are {self.n} rows")
        return min(self.n_neighbors, self.n - 1)


Builder = Callable[[Setting], Any]


@dataclass(frozen=True)
class Method:
    """A name and the way to its estimator; `absent` says why there is none."""

    name: str
    build: Builder
    named: bool = True  # one of ours: warmed up, and given rows about their mean where the origin is far
    matrices: float = 0.0  # n x n float64 matrices it holds at its peak
    reach: float | None = None  # rows up to which it takes part, over `max_rows`; None is any number
    one_thread: bool = False  # its sums, and so its map, change with the number of threads
    sparse: bool | None = None  # whether it takes sparse rows; None is what its tags say
    absent: str | None = None


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


def _linear_components(setting: Setting) -> int:
    return setting.components(min(setting.n, setting.d), f"there are {setting.n} rows of {setting.d} features")


def _pca(setting: Setting) -> Any:
    k, sides = _linear_components(setting), min(setting.n, setting.d)
    few = k < sides and (setting.sparse or sides > _FULL_SVD)
    # not "auto", which takes the covariance of rows that are not centred, or random directions, as it sees fit
    solver = "arpack" if few else "covariance_eigh" if setting.sparse else "full"
    return PCA(k, svd_solver=solver, random_state=setting.seed)


def _incremental_pca(setting: Setting) -> Any:
    return IncrementalPCA(_linear_components(setting))


def _randomised_pca(setting: Setting) -> Any:
    return PCA(_linear_components(setting), svd_solver="randomized", random_state=setting.seed)


def _kernel_pca(setting: Setting) -> Any:
    k = setting.components(setting.n - 1, f"there are {setting.n} rows")
    # "auto" is exact wherever an exact fit is a matter of minutes
    return KernelPCA(k, kernel="rbf", gamma="median", approximation="auto", random_state=setting.seed)


def _mds(setting: Setting) -> Any:
    return StartedMDS(setting.n_components, setting.seed)


def _isomap(setting: Setting) -> Any:
    k = setting.components(setting.n - 1, f"there are {setting.n} rows")
    return Isomap(n_components=k, n_neighbors=setting.neighbours())


def _tsne(setting: Setting) -> Any:
    perplexity = min(_PERPLEXITY, (setting.n - 1) / 3.0)
    if perplexity < _PERPLEXITY:
        setting.notes.append(f"perplexity {perplexity:.3g} in place of {_PERPLEXITY:g}: there are {setting.n} rows")
    principal = setting.n_components <= min(setting.n, setting.d) and not setting.sparse
    if not principal:
        setting.notes.append("started at random: there are too few dimensions, or sparse rows, for a start from PCA")
    exact = {"method": "exact"} if setting.n_components > _BARNES_HUT else {}
    return TSNE(
        setting.n_components,
        perplexity=perplexity,
        init="pca" if principal else "random",
        random_state=setting.seed,
        **exact,
    )


def too_large(method: Method, setting: Setting, max_rows: int) -> str:
    """Return why a method does not take part on so many rows and what to do, "" if it does."""
    n, limit, reach, matrices = setting.n, memory_budget(), method.reach, method.matrices
    if method.build is _tsne and setting.n_components > _BARNES_HUT:
        reach, matrices = 1.0, 6.0
    if reach is not None and n > reach * max_rows:
        why = "needs n x n matrices" if matrices else "would take long"
        times = "" if reach == 1 else f" = {reach:g} x max_rows"
        return f"it {why}, and takes part up to {reach * max_rows:,.0f} rows{times}: raise max_rows, or give a sample"
    size = int(8 * matrices * n * n)
    if size > limit:
        return f"it needs about {size_words(size)}, of {size_words(limit)} that may be used: give a sample of the rows"
    return ""


def _umap_build(setting: Setting) -> Any:
    k = setting.n_components
    spectral = setting.n > 2 * k + 1  # its eigenproblem asks for k + 1 of n pairs
    if not spectral:
        setting.notes.append(f"started at random: {setting.n} rows are too few for a spectral start")
    neighbours = setting.neighbours()
    if neighbours < FEWEST_NEIGHBOURS:
        neighbours = FEWEST_NEIGHBOURS
        setting.notes.append(f"{neighbours} neighbours, the fewest it takes")
    return umap_estimator(
        n_components=k,
        n_neighbors=neighbours,
        init="spectral" if spectral else "random",
        random_state=setting.seed,
    )


_METHODS = (
    Method("PCA", _pca),
    Method("incremental PCA", _incremental_pca),
    Method("randomised PCA", _randomised_pca),
    Method("kernel PCA", _kernel_pca),
    Method("MDS", _mds, matrices=6.0, reach=1.0),
    Method("Isomap", _isomap, matrices=4.0, reach=1.0),
    Method("t-SNE", _tsne, reach=2.0, one_thread=True),  # no matrix, but minutes
    Method("UMAP", _umap_build, sparse=True),
)
NAMES = tuple(method.name for method in _METHODS)


def plain(name: str) -> str:
    """Return a name as it is compared: "t-SNE", "tsne" and "TSNE" are one."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    return letters.replace("randomized", "randomised")


@functools.cache
def _by_plain_name() -> dict[str, Method]:
    return {plain(method.name): method for method in _METHODS}


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
    if methods is None:
        return [_with_absence(method) for method in _METHODS]
    if isinstance(methods, str) or not isinstance(methods, Mapping | list | tuple):
        raise InputError(
            f"methods must be a list of names and (name, estimator) pairs, or a dictionary of estimators; "
            f"got {methods!r}: write methods=['pca', 'umap']."
        )
    entries = list(methods.items()) if isinstance(methods, Mapping) else list(methods)
    if not entries:
        raise InputError("methods must name at least one method; got none: leave it out for all of them.")
    resolved = [_asked_for(entry) if isinstance(entry, str) else _own(entry) for entry in entries]
    seen: set[str] = set()
    for method in resolved:
        if plain(method.name) in seen:
            raise InputError(f"methods must have different names; got {method.name!r} twice: give one another name.")
        seen.add(plain(method.name))
    return resolved


def _with_absence(method: Method) -> Method:
    reason = umap_missing() if method.name == "UMAP" else None
    return replace(method, absent=reason)


def _asked_for(name: str) -> Method:
    method = _with_absence(find(name, _by_plain_name(), "A method"))
    if method.absent:
        raise InputError(f"methods names {method.name!r}, which is {method.absent}")
    return method


def _own(entry: Any) -> Method:
    if not (isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str) and plain(entry[0])):
        raise InputError(f"Each of the methods must be a name or a pair (name, estimator); got {entry!r}.")
    name, estimator = entry
    if isinstance(estimator, type) or not hasattr(estimator, "fit_transform"):
        raise InputError(
            f"The method {name!r} must be an estimator with fit_transform; got {estimator!r}: "
            f"{'call the class' if isinstance(estimator, type) else 'give an object of scikit-learn'}."
        )
    return Method(name, lambda setting: clone(estimator, safe=False), named=False)
