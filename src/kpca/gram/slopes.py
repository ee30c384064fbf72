"""Derivatives of kernels with respect to a row, summed with weights over known rows: GEMMs, nothing of size m n d."""

from __future__ import annotations

import numpy as np

from kpca import kernels
from kpca._base.linalg import FloatArray
from kpca.gram._nodes import Pairs, node_of
from kpca.gram.tiles import by_slices, slices
from kpca.kernels import Kernel

_NUMBERS_AT_ONCE = 2**21


def why_not(kernel: Kernel) -> str | None:
    """Return None if the kernel has gradients here, else why it has not, as part of a sentence."""
    if isinstance(kernel, kernels.Composite):
        return next((reason for reason in map(why_not, kernel.members) if reason), None)
    if isinstance(kernel, kernels.ProfileKernel | kernels.Constant | kernels.ArcCosine):
        return None
    if isinstance(kernel, kernels.GaussianProcess):
        return f"the Gaussian-process kernel {kernel.kernel} has no gradient here: only its values are known"
    return f"the {kernel.name} kernel has no gradient here: it is not a smooth function of distances or inner products"


def rows_per_tile(n: int) -> int:
    """Return how many rows are worked on at a time against n known ones; a matter of n only."""
    return max(16, min(512, _NUMBERS_AT_ONCE // max(n, 1)))


class Slopes:
    """Values, gradients and second derivatives of k(z, b_j), contracted with weights; made once for the rows b.

    All in float64. `shifted` subtracts `constant` from all kernel values, k(z, z) included: f(0) where the kernel can
    do so without cancellation (radial ones, their sums and multiples), else 0. Derivatives do not change. Everything is
    finite as long as the kernel's own values are. Where a kernel has a kink, at rows that coincide (Matern 1/2,
    exponential), or that have the same direction or none (cosine, arc-cosine), such a pair adds 0 to derivatives.
    """

    def __init__(self, kernel: Kernel, rows: FloatArray, *, shifted: bool = False) -> None:
        reason = why_not(kernel)
        if reason is not None:
            raise TypeError(reason)
        self._node = node_of(kernel, rows.astype(np.float64, copy=False), shifted)
        self._n = len(rows)
        self.constant = self._node.constant

    def contract(self, Z: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j W_ij k(z_i, b_j) and its gradient with respect to z_i.  # shapes: (m,), (m, d)"""
        Z, sums, gradients = Z.astype(np.float64, copy=False), np.empty(len(Z)), np.empty(Z.shape)
        for part in slices(len(Z), rows_per_tile(self._n)):
            local, weights = self._node.at(Z[part], exact=False), W[part].astype(np.float64, copy=False)
            sums[part] = np.einsum("ij,ij->i", weights, local.values)
            gradients[part] = local.pull(weights)
        return sums, gradients

    def jacobian(self, Z: FloatArray, A: FloatArray) -> FloatArray:
        """Return the gradients of sum_j A_jl k(z_i, b_j), one product with d columns for each l.  # shape: (m, k, d)"""
        Z, columns = Z.astype(np.float64, copy=False), np.ascontiguousarray(A.T, dtype=np.float64)
        gradients = np.empty((len(Z), A.shape[1], Z.shape[1]))
        for part in slices(len(Z), rows_per_tile(self._n)):
            local = self._node.at(Z[part], exact=False)
            for number, column in enumerate(columns):
                gradients[part, number] = local.pull(np.broadcast_to(column, (len(Z[part]), self._n)))
        return gradients

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k(z_i, z_i) and its gradient with respect to z_i.  # shapes: (m,), (m, d)"""
        return self._node.own(Z.astype(np.float64, copy=False))

    def mixed(self, Z: FloatArray, A: FloatArray, pairs: Pairs, *, threads: int = 1) -> FloatArray:
        """Return sum_l A_lj d^2 k(z_i, b_l) / dz^p dz^q for the pairs (p, q) of features.  # shape: (m, k, pairs)"""
        Z, A = Z.astype(np.float64, copy=False), A.astype(np.float64, copy=False)
        derivatives = np.empty((len(Z), A.shape[1], len(pairs)))
        if not pairs:
            return derivatives

        def work(tile: slice) -> FloatArray:
            return self._node.at(Z[tile], exact=True).contracted(A, pairs)

        return by_slices(work, derivatives, rows_per_tile(self._n), threads)
