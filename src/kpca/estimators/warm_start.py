"""Components of the same rows under one kernel after another: each fit starts from those before it.

The kernels differ in a bandwidth. Where it moves by little, the leading eigenvectors move by little, too, and those of
the last three kernels together span almost all of the next ones: Rayleigh-Ritz on that span extrapolates by itself,
whatever eigenvalues cross. What kernel values are made of, distances or inner products, is computed once for all.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kpca._base.config import config, memory_budget
from kpca._base.linalg import FloatArray
from kpca._base.threads import kept_single_threaded
from kpca.estimators.cost import Request
from kpca.estimators.exact import Decomposition, decompose
from kpca.estimators.solvers import Near
from kpca.features.projection import KernelProjection
from kpca.gram.shared import SharedArguments
from kpca.kernels import Kernel, Linear
from kpca.spectrum import Spectrum

# Kernels whose factors differ by more are strangers: eigenvectors of one say little about those of the other.
_NEIGHBOURS = math.log(2.0) * (1 + 1e-9)
# Vectors taken of the nearest kernel beyond its components, and how many kernels give theirs.
_SPARE, _REMEMBERED = 4, 3
# Rows from which on, and components up to which, eigenvectors are followed; the whole matrix is solved otherwise.
_FEWEST_ROWS, _MOST_COMPONENTS = 400, 100
# Up to this many rows fits are over before threads of BLAS have met; those of the tiles are not affected.
_FEW_ROWS = 3000
# Share of the memory budget that kept distances may take.
_KEPT = 0.5
# From this tolerance on float32 kernel values, wrong by a millionth of the largest eigenvalue, do no harm to scores.
_LOOSE = 1e-5
_BANDWIDTHS = ("gamma", "length_scale")


@dataclass(frozen=True)
class _EarlierFit:
    """What a fit has found that may help the next."""

    place: float  # logarithm of the factor with which the kernel takes its argument
    components: FloatArray  # shape: (n, k)
    spare: FloatArray  # vectors after them, shape: (n, s)
    largest: float
    probe: FloatArray | None


class Follower:
    """Fits kernel after kernel to the rows of X; those that share arguments share them here.

    `new` are rows whose scores will be asked for under every kernel.
    """

    def __init__(
        self, kernels: Sequence[Kernel], X: Any, request: Request, *, budget: int | None = None, new: Any = None
    ) -> None:
        self.X, self.request, self.new = X, request, new
        n, count = X.shape[0], request.n_components
        few = isinstance(count, int) and n >= _FEWEST_ROWS and count <= min(_MOST_COMPONENTS, n // 12)
        if request.eigen_solver == "auto" and few:  # products from a good start beat solving the whole matrix anew
            self.request = replace(request, eigen_solver="krylov")
        families: dict[str, list[Kernel]] = {}
        self._widest: dict[str, float] = {}  # the factors up to which arguments are precise
        for kernel in kernels:
            if kernel.shared is not None and not isinstance(kernel, Linear):  # which needs no pairs at all
                families.setdefault(kernel.shared[0], []).append(kernel)
                self._widest[kernel.shared[0]] = max(kernel.shared[1], self._widest.get(kernel.shared[0], 0.0))
        families = {name: members for name, members in families.items() if len(members) > 1}
        room = int(_KEPT * memory_budget()) if budget is None else budget
        self._arguments = {
            name: SharedArguments(members, X, budget=room // len(families), new=new)
            for name, members in families.items()
        }
        self._known: dict[Hashable, list[_EarlierFit]] = {}

    def __call__(self, kernel: Kernel) -> Decomposition:
        """Return the components under a kernel, one of those announced or another."""
        shared, arguments = kernel.shared, self._shared(kernel)
        calm = kept_single_threaded() if self.X.shape[0] <= _FEW_ROWS else nullcontext()
        with calm, config(checkpoint=None):  # a file holds the state of one fit
            if shared is None or arguments is None:
                return decompose(kernel, self.X, None, self.request)
            near = self._near(_kind(kernel), math.log(shared[1]))
            found = decompose(kernel, self.X, None, self.request, arguments=arguments, near=near)
        self._remember(_kind(kernel), math.log(shared[1]), found.spectrum)
        return replace(found, spectrum=replace(found.spectrum, spare=None, probe=None))

    def scores(self, found: Decomposition) -> FloatArray:
        """Return the scores of the new rows by components that were found here.  # shape: (m, k)"""
        projection, threads = found.projection, self.request.threads
        arguments = self._shared(projection.kernel) if isinstance(projection, KernelProjection) else None
        if arguments is None or not isinstance(projection, KernelProjection):
            return projection(self.new, threads=threads)
        how: dict[str, Any] = {"single": self.request.tol >= _LOOSE, "shifted": projection.shifted, "threads": threads}
        return arguments.new_times(projection.kernel, projection.coefficients, **how) - projection.offset

    def _shared(self, kernel: Kernel) -> SharedArguments | None:
        """Return the arguments that a kernel shares with others, None if it has its own or needs more precise ones."""
        shared = kernel.shared
        if shared is None or isinstance(kernel, Linear) or shared[1] > self._widest.get(shared[0], 0.0):
            return None
        return self._arguments.get(shared[0])

    def _near(self, kind: Hashable, place: float) -> Near | None:
        """Return what the nearest kernels know, if they are near enough."""
        known = sorted(self._known.get(kind, []), key=lambda one: abs(one.place - place))
        known = [one for one in known if abs(one.place - place) <= _REMEMBERED * _NEIGHBOURS][:_REMEMBERED]
        if not known or abs(known[0].place - place) > _NEIGHBOURS:
            return None
        columns = [known[0].components, known[0].spare, *(one.components for one in known[1:])]
        return Near(np.hstack(columns), known[0].largest, known[0].probe)

    def _remember(self, kind: Hashable, place: float, spectrum: Spectrum) -> None:
        if spectrum.spare is not None and len(spectrum.values):  # of the whole matrix there is nothing to save
            spare, largest = spectrum.spare[:, :_SPARE], float(spectrum.values[0])
            one = _EarlierFit(place, spectrum.vectors, spare, largest, spectrum.probe)
            self._known.setdefault(kind, []).append(one)


def _kind(kernel: Kernel) -> Hashable:
    """Return what kernels have in common that differ in their bandwidth alone."""
    others = [field.name for field in fields(kernel) if field.name not in _BANDWIDTHS]  # type: ignore[arg-type]
    return type(kernel), tuple(getattr(kernel, name) for name in others)
