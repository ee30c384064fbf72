"""The obvious way in float64, independent of kpca: what the contenders' answers are checked against.

Errors are relative to the largest eigenvalue: the residual of a pair is |B u - lambda u| / lambda_1, B the centred
matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

FloatArray = NDArray[Any]
_SAMPLE = 4096
_CHUNK = 1024


def rbf_rows(X: FloatArray, gamma: float, rows: NDArray[np.intp]) -> FloatArray:
    """Return some rows of the Gaussian kernel matrix; X is float64 and centred.  # shape: (len(rows), n)"""
    norms = np.einsum("ij,ij->i", X, X)
    K: FloatArray = X[rows] @ X.T
    K *= 2.0
    K -= norms[rows, None]
    K -= norms
    np.minimum(K, 0.0, out=K)
    K *= gamma
    np.exp(K, out=K)
    K[np.arange(len(rows)), rows] = 1.0
    return K


def rbf_residual(X: FloatArray, gamma: float, values: FloatArray, vectors: FloatArray) -> float:
    """Return the largest residual of eigenpairs of the centred Gaussian matrix.

    Of many rows a sample is looked at, which gives the norm to a few per cent: it tells 1e-6 from 2e-6, and costs n
    instead of n^2.
    """
    n = X.shape[0]
    X = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    values, vectors = values.astype(np.float64), vectors.astype(np.float64)
    mean = vectors.mean(axis=0)
    some = np.sort(np.random.default_rng(1).choice(n, min(n, _SAMPLE), replace=False))
    R = np.empty((len(some), len(values)))
    for start in range(0, len(some), _CHUNK):
        rows = some[start : start + _CHUNK]
        R[start : start + _CHUNK] = rbf_rows(X, gamma, rows) @ (vectors - mean) - vectors[rows] * values
    # B u has mean 0 over all rows, so the mean of the residual is known: no need for the rows that were not drawn.
    R -= R.mean(axis=0) + mean * values
    norms = np.sqrt(np.einsum("ij,ij->j", R, R) * n / len(some))
    return float(norms.max() / values[0])


def rbf_row_means(X: FloatArray, gamma: float) -> FloatArray:
    """Return the mean of every row of the Gaussian matrix; a whole pass.  # shape: (n,)"""
    X = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    every = np.arange(X.shape[0])
    return np.concatenate([rbf_rows(X, gamma, rows).mean(axis=1) for rows in np.split(every, every[_CHUNK::_CHUNK])])


def rbf_eigenvalues(X: FloatArray, gamma: float, k: int, *, steps: int = 40) -> FloatArray:
    """Return the k largest eigenvalues of the centred Gaussian matrix, which is built: 8 n^2 bytes.  # shape: (k,)"""
    n = X.shape[0]
    X = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    K = np.empty((n, n))
    for start in range(0, n, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, n))
        K[rows[0] : rows[-1] + 1] = rbf_rows(X, gamma, rows)
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(_centred(rng.normal(size=(n, min(2 * k + 12, n // 3)))))[0]
    basis, images = Q, np.empty((n, 0))
    for _ in range(steps):  # block Krylov, everything kept
        images = np.hstack([images, _centred(K @ _centred(Q))])
        H = basis.T @ images
        theta, Y = eigh(0.5 * (H + H.T), subset_by_index=(H.shape[0] - k, H.shape[0] - 1))
        residual = np.linalg.norm(images @ Y - (basis @ Y) * theta, axis=0).max() / theta[-1]
        if residual < 1e-12 or basis.shape[1] + Q.shape[1] > n - 1:
            break
        W = images[:, -Q.shape[1] :]
        for _ in range(2):
            W = W - basis @ (basis.T @ W)
            W = np.linalg.qr(_centred(W))[0]
        Q = W
        basis = np.hstack([basis, Q])
    return np.asarray(theta[::-1])


def _centred(V: FloatArray) -> FloatArray:
    centred: FloatArray = V - V.mean(axis=0)
    return centred


def eigenvalue_error(values: FloatArray | list[float], truth: FloatArray | list[float]) -> float:
    """Return the largest error of the eigenvalues both have, relative to the largest."""
    k = min(len(values), len(truth))
    found, exact = np.asarray(values[:k], dtype=np.float64), np.asarray(truth[:k], dtype=np.float64)
    return float(np.abs(found - exact).max() / exact[0])


def centred_matrix(K: FloatArray) -> FloatArray:
    """Return H K H.  # shape: (n, n)"""
    rows = K.mean(axis=1)
    B: FloatArray = K - rows[:, None] - rows + rows.mean()
    return B


def matrix_residual(B: FloatArray, values: FloatArray, vectors: FloatArray) -> float:
    """Return the largest residual of eigenpairs of an explicit matrix."""
    values, vectors = values.astype(np.float64), vectors.astype(np.float64)
    return float(np.linalg.norm(B @ vectors - vectors * values, axis=0).max() / values[0])
