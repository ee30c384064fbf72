"""A precomputed kernel matrix as a kernel: its "rows of data" are numbers of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from kpca.kernels import Kernel

FloatArray = NDArray[Any]
# Columns of the identity that a LinearOperator multiplies at a time.
_COLUMNS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Entries(Kernel):
    """k(i, j) = K_ij, so that a look at rows serves a matrix too."""

    K: Any  # dense, CSR or a LinearOperator, shape: (n, n)
    name: ClassVar[str] = "precomputed"

    @property
    def psd(self) -> bool:
        """Nothing is known of a matrix that somebody else made."""
        return False

    def block(self, X: Any, Y: Any) -> FloatArray:
        """Return the entries of these rows and columns in float64.  # shape: (n, m)"""
        i, j = X[:, 0].astype(np.intp), Y[:, 0].astype(np.intp)
        some = self._columns(j)[i] if isinstance(self.K, LinearOperator) else self.K[i][:, j]
        block: FloatArray = np.asarray(some.toarray() if sparse.issparse(some) else some, dtype=np.float64)
        return block

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        """Return the entries (i, i).  # shape: (n,)"""
        i = X[:, 0].astype(np.intp)
        if isinstance(self.K, LinearOperator):
            diagonal: NDArray[np.float64] = self._columns(i)[i, np.arange(len(i))]
        else:
            diagonal = np.asarray(self.K.diagonal(), dtype=np.float64)[i]
        return diagonal

    def _columns(self, j: NDArray[np.intp]) -> FloatArray:
        columns = np.empty((self.K.shape[0], len(j)))
        for start in range(0, len(j), _COLUMNS_AT_ONCE):
            some = j[start : start + _COLUMNS_AT_ONCE]
            unit = np.zeros((self.K.shape[0], len(some)))
            unit[some, np.arange(len(some))] = 1.0
            columns[:, start : start + len(some)] = self.K @ unit
        return columns
