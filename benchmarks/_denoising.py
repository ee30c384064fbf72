"""How well noise is removed, by number of components and bandwidth: PCA, scikit-learn's map back, and each of ours.

The eigenproblem of a bandwidth is solved once by either library, for the most components; fewer are the head of it.
Every inverse map is fitted to that head as an estimator fits it: ours by the function that it calls, scikit-learn's
ridge system for each penalty as it solves it. `checks` compares one cell with what the estimators themselves do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, solve
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as TheirKernelPCA
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks._race import log
from benchmarks._usps import NOISES, Digits, FloatArray, mse
from kpca import KernelPCA, preimage
from kpca.estimators.exact import refit
from kpca.preimage.back import fit_back

ALPHAS = tuple(10.0**power for power in range(-7, 2))
PCA_COMPONENTS = (8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256)
METHODS: dict[str, Callable[[], BaseEstimator]] = {
    "fixed point": preimage.FixedPoint,
    "not rescaled": lambda: preimage.FixedPoint(rescale=False),
    "ridge": preimage.Ridge,
    "distance": preimage.Distance,
    "gradient": preimage.Gradient,
    "auto": preimage.Auto,
}


@dataclass(frozen=True)
class Cell:
    """Mean squared errors at one bandwidth and number of components, of one noise; the draws of it beside the mean."""

    noise: str
    c: float
    components: int
    contender: str
    draws: list[float]
    alpha: float | None = None  # scikit-learn's
    note: str = ""

    @property
    def error(self) -> float:
        """The mean over the draws of noise."""
        return float(np.mean(self.draws))


def pca_cells(data: Digits) -> list[Cell]:
    """Return what PCA leaves, by number of components."""
    model = PCA(max(PCA_COMPONENTS), svd_solver="full").fit(data.train)
    cells = []
    for count in PCA_COMPONENTS:
        V = model.components_[:count]  # shape: (k, d)
        for noise in NOISES:
            errors = [mse((rows - model.mean_) @ V.T @ V + model.mean_, data.clean) for rows in data.noisy[noise]]
            cells.append(Cell(noise, 0.0, count, "PCA", errors))
    return cells


def their_cells(data: Digits, c: float, counts: Sequence[int], alphas: Sequence[float] = ALPHAS) -> list[Cell]:
    """Return what scikit-learn leaves at one bandwidth, at the penalty that happens to suit the test rows best."""
    model = TheirKernelPCA(max(counts), kernel="rbf", gamma=1.0 / c, eigen_solver="dense").fit(data.train)
    every = model.transform(data.train)  # shape: (n, k)
    noisy = {noise: [model.transform(rows) for rows in data.noisy[noise]] for noise in NOISES}
    cells = []
    for count in counts:
        scores = every[:, :count]
        K = rbf_kernel(scores, gamma=1.0 / c)
        crosses = {
            noise: [rbf_kernel(its[:, :count], scores, gamma=1.0 / c) for its in noisy[noise]] for noise in NOISES
        }
        found: dict[str, list[tuple[float, float, list[float]]]] = {noise: [] for noise in NOISES}
        for alpha in alphas:
            coefficients = their_coefficients(K, data.train, alpha)
            if coefficients is None:
                continue
            for noise in NOISES:
                errors = [mse(cross @ coefficients, data.clean) for cross in crosses[noise]]
                found[noise].append((float(np.mean(errors)), alpha, errors))
        for noise in NOISES:
            _, alpha, errors = min(found[noise])
            cells.append(Cell(noise, c, count, "scikit-learn", errors, alpha))
        log(_line(cells[-len(NOISES) :]))
    return cells


def their_coefficients(K: FloatArray, X: FloatArray, alpha: float) -> FloatArray | None:
    """Solve scikit-learn's ridge system as it does; None where it fails.  # shape: (n, d)"""
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += alpha
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # a penalty near rounding is tried, as a user might
        try:
            return np.asarray(solve(shifted, X, assume_a="pos", overwrite_a=True))
        except LinAlgError:
            return None


def our_cells(data: Digits, c: float, counts: Sequence[int], threads: int) -> list[Cell]:
    """Return what each of our methods leaves, at one bandwidth."""
    model = KernelPCA(max(counts), kernel="rbf", gamma=1.0 / c).fit(data.train)
    scores = model.eigenvectors_ * np.sqrt(model.eigenvalues_)  # shape: (n, k)
    every = [(noise, rows) for noise in NOISES for rows in data.noisy[noise]]
    together, m = np.concatenate([rows for _, rows in every]), len(data.clean)
    cells = []
    for count in counts:
        projection = model._projection.head(count)
        mine = np.ascontiguousarray(scores[:, :count])
        for name, settings in METHODS.items():
            back = fit_back(
                settings(), model.kernel_, projection, data.train, mine, seed=0, threads=threads, refit=refit
            )
            rows = back.denoised(together, partial(projection, threads=threads), threads=threads).rows
            errors = [mse(rows[number * m : (number + 1) * m], data.clean) for number in range(len(every))]
            note = back.reason if name == "auto" else ""
            for noise in NOISES:
                draws = [error for error, (kind, _) in zip(errors, every, strict=True) if kind == noise]
                cells.append(Cell(noise, c, count, name, draws, note=note))
        log(_line(cells[-len(METHODS) * len(NOISES) :]))
    return cells


def _line(cells: Sequence[Cell]) -> str:
    """Return cells of one bandwidth and number of components in words, for those who watch."""
    errors = "; ".join(f"{cell.contender} {cell.noise} {cell.error:.4f}" for cell in cells)
    return f"denoising: c = {cells[0].c:.0f}, {cells[0].components} components: {errors}"


def checks(data: Digits, cells: Sequence[Cell]) -> dict[str, float]:
    """Return how far the short cuts are from the long way, in one cell: the relative difference of the errors."""
    rows = data.noisy["Gaussian"][0]
    auto = next(cell for cell in cells if (cell.noise, cell.contender) == ("Gaussian", "auto"))
    gamma, count = 1.0 / auto.c, auto.components
    learned = grid(cells, "Gaussian")[auto.c, count]["scikit-learn"]
    theirs = TheirKernelPCA(
        count, kernel="rbf", gamma=gamma, fit_inverse_transform=True, alpha=learned.alpha, random_state=0
    ).fit(data.train)
    ours = KernelPCA(count, kernel="rbf", gamma=gamma, preimage="auto").fit(data.train)  # None is seed 0
    return {
        "scikit-learn": abs(mse(theirs.inverse_transform(theirs.transform(rows)), data.clean) / learned.draws[0] - 1.0),
        "kpca": abs(mse(ours.denoise(rows), data.clean) / auto.draws[0] - 1.0),
    }


def measured(data: Digits, widths: Sequence[float], counts: Sequence[int], threads: int) -> list[Cell]:
    """Return all cells: PCA, scikit-learn and ours."""
    cells = pca_cells(data)
    for c in widths:
        cells += our_cells(data, c, counts, threads)
        cells += their_cells(data, c, counts)
    return cells


def best_of(cells: Sequence[Cell], noise: str, contender: str) -> Cell:
    """Return the cell where a contender does best."""
    return min(
        (cell for cell in cells if (cell.noise, cell.contender) == (noise, contender)), key=lambda cell: cell.error
    )


def grid(cells: Sequence[Cell], noise: str) -> dict[tuple[float, int], dict[str, Cell]]:
    """Return the cells of one noise by bandwidth and number of components, then by contender."""
    found: dict[tuple[float, int], dict[str, Cell]] = {}
    for cell in cells:
        if cell.noise == noise and cell.contender != "PCA":
            found.setdefault((cell.c, cell.components), {})[cell.contender] = cell
    return found


def as_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return the cells for JSON."""
    return [{**vars(cell), "error": cell.error} for cell in cells]
