"""`kpca demo`: what a user sees first, on data that ships with scikit-learn.

A fit of digits and a race with scikit-learn on the same task, a kernel chosen, images cleaned, an odd wine found, and a
page about it all.

Every contender of the race runs in a fresh process, so that its memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine, make_circles
from sklearn.decomposition import PCA

from kpca import KernelPCA, KernelPCADetector, plots, selection
from kpca._base.errors import InputError
from kpca.cli._run import Run
from kpca.comparison.runner import measure
from kpca.report import report_on

FloatArray = NDArray[Any]
DEFAULT_ROWS = 4000
N_COMPONENTS = 10
_COPIES = 5
_NOISE = 2.0  # standard deviation added to all copies but the first, in grey levels of 0 to 16
_FEWEST = 2 * N_COMPONENTS
IMAGE_SHAPE = (8, 8)
_GREYS = 16.0
_FITTED_IMAGES = 1200
_ADDED_NOISE = 0.25
_SHOWN_IMAGES = 8
# A usual value of one column of the wines, but not in a wine that is otherwise like the first.
_BROKEN_COLUMN, _BROKEN_VALUE = "flavanoids", 0.6


def show(this: Run, output: str, rows: int) -> None:
    """Take the tour, and print and write what there is to see."""
    folder = Path(output)
    X, labels = load(rows)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        said = f"The folder {str(folder)!r} must be one that can be made; the system says {error.strerror!r}"
        raise InputError(said, remedy="give another one with --output") from error
    with this.working("Fitting"):
        model, scores = fit(X)
        plots.save(plots.overview(model, scores, labels), folder / "map.png")
        results = {}
        for contender in CONTENDERS:
            this.stage(f"The same fit in a new process: {contender}")
            results[contender] = race(contender, len(X), float(model.gamma_))
    this.say(
        f"1. Fit. {len(X):,} images of handwritten digits, {X.shape[1]} pixels each; Gaussian kernel, gamma = "
        f"{model.gamma_:.3g} by the median rule; {model.n_passes_} passes over the kernel matrix."
    )
    _show_fit(this, model, results)
    with this.working("Tuning"):
        reason = choose()
    this.say(f"2. Tune. Two rings, one inside the other: {reason}", "")
    with this.working("Denoising"):
        images, errors = clean()
        names = ["as it was", "with noise", "cleaned"]
        figure = plots.gallery(images, IMAGE_SHAPE, rows=names, limits=(0.0, 1.0), inverted=True)
        plots.save(figure, folder / "denoised.png")
    this.say(
        f"3. Denoise. Images of digits with noise: mean squared error {errors['noisy']:.3f} before, "
        f"{errors['cleaned']:.3f} after; PCA reaches {errors['pca']:.3f} at best.",
        "",
    )
    with this.working("Watching"):
        odd = watch()
    this.say(
        f"4. Detect. A wine with {odd['changed']} {odd['value']:g}, which others have, too, but not wines like it: "
        f"statistic {odd['statistic']:.0f}, the limit is {odd['limit']:.0f}; most of it comes from {odd['found']}.",
        "",
    )
    with this.working("Writing the page"):
        write_page(folder / "report.html")
    this.say(
        f"5. Look. The page about the digits is {folder / 'report.html'}: open it in a browser.",
        f"   Pictures are in {folder / 'map.png'} and {folder / 'denoised.png'}.",
    )
    this.script.uses("kpca.cli:tour")
    this.script.add("X, labels = tour.load()", "model, scores = tour.fit(X)")
    this.script.add('print(tour.choose(), tour.clean()[1], tour.watch(), sep="\\n")')
    outputs = {name: str(folder / name) for name in ("report.html", "map.png", "denoised.png")}
    found = {"race": results, "tuned": reason, "errors": errors, "odd": odd, "outputs": outputs}
    this.finish(rows=len(X), eigenvalues=model.eigenvalues_, **found)


# -- 1. Fit: digits, and the race -------------------------------------------------------------------------------------


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


def components(model: KernelPCA) -> FloatArray:
    """Return of each component its eigenvalue, its share of the whole variance, bounds on that share, its residual.

    # shape: (k, 5)
    """
    values, shares = model.eigenvalues_, model.explained_variance_ratio_
    return np.column_stack([values, shares, model.eigenvalue_bounds_ * (shares[0] / values[0]), model.residuals_])


# Who takes part in the race: the module with its KernelPCA, and the eigensolver. scikit-learn's "auto" solves the whole
# matrix from 10 components on; it has an iterative solver for those who ask.
CONTENDERS = {
    "kpca": ("kpca.estimators.kernel_pca", "auto"),
    'scikit-learn, eigen_solver="auto"': ("sklearn.decomposition", "auto"),
    'scikit-learn, eigen_solver="arpack"': ("sklearn.decomposition", "arpack"),
}


def race(name: str, rows: int, gamma: float) -> dict[str, Any]:
    """Fit in a process of its own, with the data already there and the library imported when the clock starts.

    Returns seconds, peak_bytes (None where the system does not tell it) and eigenvalues.
    """
    code = "import json, sys; from kpca.cli import tour; print(json.dumps(tour._measured(*json.loads(sys.argv[1]))))"
    job = json.dumps([*CONTENDERS[name], rows, gamma])
    done = subprocess.run([sys.executable, "-c", code, job], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{name} could not be measured: {lines[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _measured(module: str, eigen_solver: str, rows: int, gamma: float) -> dict[str, Any]:
    model, (X, _) = _estimator(module, eigen_solver, gamma), load(rows)
    done, seconds, peak, _ = measure(lambda: model.fit(X))
    if isinstance(done, Exception):
        raise done
    return {"seconds": seconds, "peak_bytes": peak, "eigenvalues": done.eigenvalues_.tolist()}


def _estimator(module: str, eigen_solver: str, gamma: float) -> Any:
    estimator = import_module(module).KernelPCA
    return estimator(n_components=N_COMPONENTS, kernel="rbf", gamma=gamma, eigen_solver=eigen_solver)


def difference(values: list[float], others: list[float]) -> float:
    """Return the largest difference of eigenvalues, over the largest of the others."""
    return max(abs(mine - theirs) for mine, theirs in zip(values, others, strict=True)) / max(others)


def _show_fit(this: Run, model: KernelPCA, results: dict[str, dict[str, Any]]) -> None:
    lines = []
    for number, (value, *shares, residual) in enumerate(components(model).tolist(), start=1):
        lines.append([str(number), f"{value:.4f}", *(f"{100 * share:.4f} %" for share in shares), f"{residual:.0e}"])
    headers = ["component", "eigenvalue", "variance", "at least", "at most", "residual"]
    caption = "Bounds contain the exact value; where they are wide, an eigenvalue between them may have been missed."
    this.table("Components", headers, lines, caption)
    ours, lines = results["kpca"]["eigenvalues"], []
    for name, result in results.items():
        memory = "unknown" if result["peak_bytes"] is None else f"{result['peak_bytes'] / 2**20:,.0f} MiB"
        apart = "" if name == "kpca" else f"{difference(result['eigenvalues'], ours):.0e}"
        lines.append([name, f"{result['seconds']:.2f} s", memory, apart])
    caption = "Memory above what data and imports take; differences of eigenvalues relative to the largest."
    caption += ' From 10 components on, "auto" solves the whole matrix.'
    this.table("The same fit, each in a process of its own", ["", "time", "peak memory", "differs by"], lines, caption)


# -- 2. to 5. Choosing a kernel, cleaning images, finding what is odd, and a page -------------------------------------


def choose() -> str:
    """Tune on two rings, which no line separates; return why this kernel."""
    rings, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    return selection.tune(rings, ring, n_components=1).reason


def clean() -> tuple[list[FloatArray], dict[str, float]]:
    """Learn digits from some images, take the noise out of others, and do the same by PCA at its best.

    Returns some images as they were, with noise and cleaned, and mean squared errors of grey levels from 0 to 1.
    """
    X = load_digits().data / _GREYS
    known, true = X[:_FITTED_IMAGES], X[_FITTED_IMAGES:]
    noisy = true + np.random.default_rng(0).normal(scale=_ADDED_NOISE, size=true.shape)
    cleaned = KernelPCA(100, kernel="rbf", gamma="median", preimage="auto").fit(known).denoise(noisy)

    def error(rows: FloatArray) -> float:
        return float(np.square(rows - true).mean())

    linear = (PCA(count).fit(known) for count in range(5, 40, 2))
    by_pca = min(error(pca.inverse_transform(pca.transform(noisy))) for pca in linear)
    shown = [images[:_SHOWN_IMAGES] for images in (true, noisy, cleaned)]
    return shown, {"noisy": error(noisy), "cleaned": error(cleaned), "pca": by_pca}


def watch() -> dict[str, Any]:
    """Learn what wines are like, and judge one whose flavanoids do not fit the rest of it.

    Returns the column that was changed, its value, the statistic and its limit, and the column that contributes most.
    """
    wine = load_wine()
    names = list(wine.feature_names)
    detector = KernelPCADetector().fit(wine.data)
    row = wine.data[:1].copy()
    row[0, names.index(_BROKEN_COLUMN)] = _BROKEN_VALUE
    statistic = -float(detector.score_samples(row)[0])
    worst = int(detector.contributions(row).values[0].argmax())
    judged = {"statistic": statistic, "limit": -float(detector.offset_), "found": names[worst]}
    return {"changed": _BROKEN_COLUMN, "value": _BROKEN_VALUE, **judged}


def write_page(path: Path) -> None:
    """Write a report on the digits."""
    digits = load_digits()
    X = digits.data / _GREYS
    model = KernelPCA(6, kernel="rbf", gamma="median", preimage="ridge").fit(X)
    report_on(model, X, path, labels=digits.target, title="Handwritten digits", image_shape=IMAGE_SHAPE)
