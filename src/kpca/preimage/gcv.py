"""Ridge regression on kernel values: how strong the penalty and how wide the kernel, by generalised cross-validation.

With S = diag(sqrt(weights)), M = S K S and u = S1 / |S1|, rows Y centred by their weighted mean m are fitted by
m + K C, C = S (M + alpha)^-1 S Y. The residuals are S^-1 R S Y with R = alpha (M + alpha)^-1, and the trace of the map
from rows to residuals, centring included, is tr R - u'Ru. The criterion of Golub, Heath and Wahba (1979) is then

    n |R S Y|^2 / (tr R - u'Ru)^2,

about the mean square of what is left of a row that is predicted from all others. Each row counts as one observation,
whatever its weight, so multiplying all weights by a number changes nothing but the unit of alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs, dtrtri

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.threads import single_threaded
from kpca.gram import Gram
from kpca.gram.tiles import slices
from kpca.kernels import RBF

Trial = tuple[float, float, float, int]  # gamma, alpha, criterion, rows
# All eigenpairs of more rows than this take longer than everything else together.
SPECTRAL_ROWS = 800
# Times 1 / (2 m^2), m^2 the median of the squared distances of scores; the first of equally good ones is taken.
WIDTHS = (1.0, 0.25, 4.0, 0.0625)
# Times the mean of the weights, which is the mean of the diagonal.
PENALTIES = 10.0 ** np.arange(-8.0, 1.25, 0.5)
# Better means better by more than rounding: of equals the smaller penalty is taken, which is nearer to the data.
_TIE = 1.0 - 1e-9
_STEP = math.sqrt(10.0)
_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 512
# A squared distance below this share of the largest squared norm is rounding: the two rows are the same.
_SAME = 1e-13


@dataclass(frozen=True)
class Fit:
    """A solution, the parameters it was found with, and what others were tried."""

    coefficients: FloatArray  # C, shape: (n, d)
    alpha: float
    gamma: float
    table: FloatArray  # columns: gamma, alpha, criterion, number of rows it was computed on; shape: (q, 4)


def fit(
    scores: FloatArray,
    Y: FloatArray,
    weights: FloatArray | None,
    *,
    alpha: float | None,
    gamma: float | None,
    threads: int = 1,
) -> Fit | None:
    """Return the regression of centred rows Y on scores; what is None is chosen. None if all scores are the same.

    Parameters are chosen on at most `SPECTRAL_ROWS` rows, evenly spread, where eigenpairs give the criterion for every
    penalty at once; with more rows the penalty is then compared with its neighbours on all of them.
    """
    n = len(scores)
    if n < 2 or (scores == scores[0]).all():
        return None
    exact = n <= SPECTRAL_ROWS
    roots = np.ones(n) if weights is None else np.sqrt(weights)
    table: list[Trial] = []
    asked = alpha
    # One thread for LAPACK: bits then repeat, and its own threads are slow beside anything else that is running.
    with single_threaded():
        if alpha is None or gamma is None:
            some = slice(None) if exact else np.linspace(0, n - 1, SPECTRAL_ROWS).round().astype(np.intp)
            gammas = [gamma] if gamma is not None else (np.array(WIDTHS) * 0.5 / _square(scores, some)).tolist()
            alphas = [alpha] if alpha is not None else (PENALTIES * np.mean(roots[some] ** 2)).tolist()
            gamma, alpha, table = _chosen(scores[some], Y[some], roots[some], alphas, gammas)
        scale = None if weights is None else roots
        system = Penalised(Gram(RBF(gamma=gamma), scores, scale=scale, threads=threads).matrix())
        B = np.column_stack([Y * roots[:, None], roots / np.linalg.norm(roots)])  # S Y and u, shape: (n, d + 1)
        if asked is not None or exact:
            solution, alpha = system.solve(alpha, B)
        else:
            solution, alpha = _refined(system, B, alpha, gamma, table)
    coefficients = solution[:, :-1] * roots[:, None]
    return Fit(coefficients, alpha, gamma, np.array(table, dtype=np.float64).reshape(-1, 4))


def _chosen(
    scores: FloatArray, Y: FloatArray, scale: FloatArray, alphas: list[float], gammas: list[float]
) -> tuple[float, float, list[Trial]]:
    """Return the best gamma and alpha, and all that were tried, by all eigenpairs of M for each gamma."""
    table: list[Trial] = []
    best = (math.inf, alphas[0], gammas[0])
    penalties = np.array(alphas)[:, None]
    for gamma in gammas:
        M = Gram(RBF(gamma=gamma), scores, scale=scale).matrix()
        values, vectors = eigh(M.T, lower=True, driver="evd", overwrite_a=True, check_finite=False)
        energies = np.square(vectors.T @ (Y * scale[:, None])).sum(axis=1)  # shape: (n,)
        inside = np.square(vectors.T @ scale) / np.sum(scale**2)  # of u, shape: (n,)
        # R is the identity on what M does not see, and penalty 0 takes away all that it does
        shrunk = penalties / np.maximum(np.maximum(values, 0.0) + penalties, np.finfo(np.float64).tiny)  # shape: (q, n)
        found = _criterion(len(Y), shrunk**2 @ energies, shrunk @ (1.0 - inside))
        for alpha, value in zip(alphas, found.tolist(), strict=True):
            table.append((gamma, alpha, value, len(Y)))
            if value < best[0] * _TIE:
                best = (value, alpha, gamma)
    return best[2], best[1], table


def _criterion(n: int, squares: FloatArray, traces: FloatArray) -> FloatArray:
    """Return n * squares / traces^2; infinite where nothing is left to judge by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = n * squares / np.square(traces)
    return np.where(traces > 0.0, found, np.inf)


def _refined(
    system: Penalised, B: FloatArray, alpha: float, gamma: float, table: list[Trial]
) -> tuple[FloatArray, float]:
    """Return the solution for the best of at most three penalties: this one, and next ones on the better side."""

    def tried(penalty: float) -> tuple[float, FloatArray, float]:
        solution, penalty = system.solve(penalty, B)
        trace = penalty * (system.inverse_trace() - float(B[:, -1] @ solution[:, -1]))
        squares = penalty**2 * float(np.vdot(solution[:, :-1], solution[:, :-1]))
        value = float(_criterion(len(B), np.array(squares), np.array(trace)))
        table.append((gamma, penalty, value, len(B)))
        return value, solution, penalty

    least = PENALTIES[0] * system.mean_diagonal
    best = tried(alpha)
    # More rows ask for less penalty, as a rule; where that holds the second step down is longer.
    for follower in (alpha / _STEP, alpha / _STEP**3):
        if follower < least * _TIE:
            break
        found = tried(follower)
        if not found[0] < best[0] * _TIE:
            break
        best = found
    if best[2] == alpha:
        found = tried(alpha * _STEP)
        best = found if found[0] < best[0] * _TIE else best
    return best[1], best[2]


class Penalised:
    """M + alpha, factored for one alpha after the other in one triangle of its memory; the other one keeps M."""

    def __init__(self, M: FloatArray) -> None:
        # M is symmetric, and its transpose is in LAPACK's order
        self._A = M.T
        self._diagonal = M.diagonal().copy()
        self._fresh = True
        self.mean_diagonal = float(self._diagonal.mean())
        self._norm = float(M.sum(axis=0).max())  # no entry is negative

    def solve(self, alpha: float, B: FloatArray) -> tuple[FloatArray, float]:
        """Return (M + alpha)^-1 B and alpha, which is raised tenfold until the system can be solved."""
        least = _EPS * self._norm
        for _ in range(40):
            if self._factor(alpha):
                solution, _ = dpotrs(self._A, B, lower=1)
                if np.isfinite(solution).all():
                    return solution, alpha
            alpha = max(10.0 * alpha, least)
        raise InputError(
            f"The ridge system of a pre-image must be solvable; with alpha={alpha:g} it is not: rescale the data."
        )

    def inverse_trace(self) -> float:
        """Return tr (M + alpha)^-1 = |L^-1|^2 for the alpha of the last solution; the factor L is overwritten."""
        _, info = dtrtri(self._A, lower=1, overwrite_c=1)
        total = 0.0
        for columns in self._cuts():
            on = np.tril(self._A[columns, columns])
            under = self._A[columns.stop :, columns]
            total += float(np.vdot(on, on)) + float(np.einsum("ij,ij->", under, under))
        return total if info == 0 else math.inf

    def _factor(self, alpha: float) -> bool:
        """Overwrite the lower triangle by the Cholesky factor; False if M + alpha is singular as far as one can see."""
        A = self._A
        if not self._fresh:
            for rows in self._cuts():
                for columns in self._cuts():
                    if columns.start < rows.start:
                        A[rows, columns] = A[columns, rows].T
                block = np.triu(A[rows, rows], 1)
                A[rows, rows] = block + block.T
        np.fill_diagonal(A, self._diagonal + alpha)
        self._fresh = False
        _, info = dpotrf(A, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            return False
        reciprocal, _ = dpocon(A, self._norm + alpha, uplo="L")
        return bool(reciprocal > _EPS)

    def _cuts(self) -> list[slice]:
        return slices(len(self._diagonal), _BLOCK)


def _square(scores: FloatArray, some: Any) -> float:
    """Return the median squared distance of some rows; if that is 0, the mean of those that are not."""
    T = scores[some].astype(np.float64)
    T -= T.mean(axis=0)
    norms = np.einsum("ij,ij->i", T, T)
    squares = norms[:, None] + norms - 2.0 * (T @ T.T)
    pairs = squares[np.triu_indices(len(T), 1)]
    pairs[pairs < _SAME * norms.max()] = 0.0
    median = float(np.median(pairs))
    if median == 0.0 and pairs.any():
        median = float(pairs[pairs > 0.0].mean())
    if median == 0.0:  # the rows that differ are not among these
        median = 2.0 * float(scores.var(axis=0, dtype=np.float64).sum())
    if not (math.isfinite(median) and math.isfinite(1.0 / max(median, np.finfo(np.float64).tiny))):
        raise InputError(f"Scores must have a finite spread to learn from; got {median:g} as its square: rescale X.")
    return max(median, float(np.finfo(np.float64).tiny))
