"""What `kpca demo` does: a fit on digits that ship with scikit-learn, and a race with scikit-learn on the same task.

Every contender runs in a fresh process (`python -m kpca.demo JOB`, all in JSON), so that its memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine, make_circles
from sklearn.decomposition import PCA

from kpca._base.errors import InputError
from kpca.detector import KernelPCADetector
from kpca.estimators.kernel_pca import KernelPCA
from kpca.selection import tune

FloatArray = NDArray[Any]
DEFAULT_ROWS = 4000
N_COMPONENTS = 10
PICTURE_FORMATS = (".png", ".svg", ".pdf")
_COPIES = 5
_NOISE = 2.0  # standard deviation added to all copies but the first, in grey levels of 0 to 16
_FEWEST = 2 * N_COMPONENTS


@dataclass(frozen=True)
class Component:
    """A row of the first table; shares are of the whole variance."""

    number: int
    eigenvalue: float
    share: float
    share_bounds: tuple[float, float]
    residual: float


@dataclass(frozen=True)
class Contender:
    """Who takes part in the race: the module with its KernelPCA, and the eigensolver."""

    name: str
    module: str
    eigen_solver: str = "auto"


@dataclass(frozen=True)
class Result:
    """What a contender needed; no `peak_bytes` where the system does not tell it."""

    seconds: float
    peak_bytes: int | None
    eigenvalues: list[float]

    def difference(self, other: Result) -> float:
        """Return the largest difference of eigenvalues, over the largest eigenvalue of the other."""
        gaps = np.abs(np.subtract(self.eigenvalues, other.eigenvalues))
        return float(gaps.max()) / max(other.eigenvalues)


# scikit-learn's "auto" solves the whole matrix from 10 components on; it has an iterative solver for those who ask.
CONTENDERS = (
    Contender("kpca", "kpca.estimators.kernel_pca"),
    Contender('scikit-learn, eigen_solver="auto"', "sklearn.decomposition"),
    Contender('scikit-learn, eigen_solver="arpack"', "sklearn.decomposition", "arpack"),
)


def load(rows: int = DEFAULT_ROWS) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return images of digits and what they show: 1797 scans, then the same ones again with noise.

    # shape: (rows, 64), (rows,)
    """
    digits, labels = load_digits(return_X_y=True)
    available = _COPIES * len(digits)
    if not _FEWEST <= rows <= available:
        raise InputError(f"The demonstration has {_FEWEST} to {available} rows to offer; got a request for {rows}.")
    X = np.tile(digits, (_COPIES, 1))
    X[len(digits) :] += np.random.default_rng(0).normal(0.0, _NOISE, (available - len(digits), X.shape[1]))
    return X[:rows], np.tile(labels, _COPIES)[:rows]


def fit(X: FloatArray) -> tuple[KernelPCA, FloatArray]:
    """Return the fitted model of the demonstration, and the scores of the rows of X.  # shape: (rows, k)"""
    model = KernelPCA(n_components=N_COMPONENTS, kernel="rbf", gamma="median")
    return model, model.fit_transform(X)


def components(model: KernelPCA) -> list[Component]:
    """Return what is known about each component of a fitted model."""
    total = float(model.eigenvalues_[0] / model.explained_variance_ratio_[0])
    return [
        Component(number, float(value), float(share), (float(low) / total, float(high) / total), float(residual))
        for number, (value, share, (low, high), residual) in enumerate(
            zip(
                model.eigenvalues_,
                model.explained_variance_ratio_,
                model.eigenvalue_bounds_,
                model.residuals_,
                strict=True,
            ),
            start=1,
        )
    ]


def check_picture_path(path: Path) -> None:
    """Refuse a path that no picture can be written to, before anything is computed."""
    if path.suffix.lower() not in PICTURE_FORMATS:
        raise InputError(f"The name of the picture must end in {', '.join(PICTURE_FORMATS)}; got {str(path)!r}.")
    existed = path.exists()
    try:
        path.open("ab").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise InputError(
            f"The picture must have a place that can be written to; {str(path)!r} cannot ({error.strerror}): "
            "give another one with --output, or --no-picture."
        ) from error


# -- the race -------------------------------------------------------------------------------------------------------


def race(contender: Contender, rows: int, gamma: float) -> Result:
    """Fit in a process of its own, with the data already there and the library imported when the clock starts."""
    job = json.dumps({"contender": asdict(contender), "rows": rows, "gamma": gamma})
    done = subprocess.run([sys.executable, "-m", "kpca.cli.tour", job], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{contender.name} could not be measured: {lines[-1]}")
    return Result(**json.loads(done.stdout))


def _run_job(job: str) -> str:
    """Return the result of a job, both in JSON."""
    task = json.loads(job)
    contender = Contender(**task["contender"])
    X, _ = load(task["rows"])
    model = _estimator(contender, task["gamma"])
    _restart_peak()
    before = _memory("VmRSS")
    started = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - started
    after = _memory("VmHWM")
    peak = None if before is None or after is None else max(after - before, 0)
    return json.dumps(asdict(Result(seconds, peak, model.eigenvalues_.tolist())))


def _estimator(contender: Contender, gamma: float) -> Any:
    estimator = import_module(contender.module).KernelPCA
    return estimator(n_components=N_COMPONENTS, kernel="rbf", gamma=gamma, eigen_solver=contender.eigen_solver)


def _memory(field: str) -> int | None:
    """Return a field of Linux's account of this process, in bytes; None on other systems.

    Not `getrusage`: its peak includes that of the process that started this one.
    """
    for line in _status_lines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None


def _status_lines() -> Iterator[str]:
    try:
        yield from Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return


def _restart_peak() -> None:
    """Make the peak start from what is in use now, where the system can: imports have peaks of their own."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


if __name__ == "__main__":
    print(_run_job(sys.argv[1]))

# -- The rest of `kpca demo`: choosing a kernel, cleaning images, finding what is odd, and a page about it all --------

IMAGE_SHAPE = (8, 8)
_GREYS = 16.0
_FITTED_IMAGES = 1200
_ADDED_NOISE = 0.25
_SHOWN_IMAGES = 8
# A usual value of one column of the wines, but not in a wine that is otherwise like the first.
_BROKEN_COLUMN, _BROKEN_VALUE = "flavanoids", 0.6


def choose() -> str:
    """Tune on two rings, which no line separates; return why this kernel."""
    rings, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    return tune(rings, ring, n_components=1).reason


@dataclass(frozen=True)
class Cleaned:
    """Images without noise, with it, and cleaned; mean squared errors of grey levels from 0 to 1."""

    model: KernelPCA
    true: FloatArray
    noisy: FloatArray
    clean: FloatArray
    error_before: float
    error_after: float
    error_of_pca: float

    def rows(self) -> list[FloatArray]:
        """Return some images as the rows of a gallery: as they were, with noise, cleaned."""
        return [images[:_SHOWN_IMAGES] for images in (self.true, self.noisy, self.clean)]


def clean() -> Cleaned:
    """Learn digits from some images, take the noise out of others, and do the same by PCA at its best."""
    X = load_digits().data / _GREYS
    known, true = X[:_FITTED_IMAGES], X[_FITTED_IMAGES:]
    noisy = true + np.random.default_rng(0).normal(scale=_ADDED_NOISE, size=true.shape)
    model = KernelPCA(100, kernel="rbf", gamma="median", preimage="auto").fit(known)
    cleaned = model.denoise(noisy)
    linear = (PCA(count).fit(known) for count in range(5, 40, 2))
    by_pca = min(_error(pca.inverse_transform(pca.transform(noisy)), true) for pca in linear)
    return Cleaned(model, true, noisy, cleaned, _error(noisy, true), _error(cleaned, true), by_pca)


def _error(rows: FloatArray, true: FloatArray) -> float:
    return float(np.square(rows - true).mean())


@dataclass(frozen=True)
class Odd:
    """A row with a broken relation between its columns, judged by a detector that never saw one."""

    changed: str
    value: float
    statistic: float
    limit: float
    found: str  # the column that contributes most


def watch() -> Odd:
    """Learn what wines are like, and judge one whose flavanoids do not fit the rest of it."""
    wine = load_wine()
    names = list(wine.feature_names)
    detector = KernelPCADetector().fit(wine.data)
    row = wine.data[:1].copy()
    row[0, names.index(_BROKEN_COLUMN)] = _BROKEN_VALUE
    statistic = -float(detector.score_samples(row)[0])
    worst = int(np.argmax(detector.contributions(row).values[0]))
    return Odd(_BROKEN_COLUMN, _BROKEN_VALUE, statistic, -float(detector.offset_), names[worst])


def write_page(path: Path) -> None:
    """Write a report on the digits."""
    from kpca.report import report_on

    digits = load_digits()
    X = digits.data / _GREYS
    model = KernelPCA(6, kernel="rbf", gamma="median", preimage="ridge").fit(X)
    report_on(model, X, path, labels=digits.target, title="Handwritten digits", image_shape=IMAGE_SHAPE)
