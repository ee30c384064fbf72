"""The functions random features are made of, with their gradients: `fill` forwards, `pull` backwards.

A gradient is that of the features as drawn. Where they stand for k(x, y) + a(x) + a(y) (the `offset` of the additive
chi-squared kernel), a is in the features already, and nothing is to be added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.fft import irfft, rfft

from kpca import kernels
from kpca._base.linalg import FloatArray
from kpca.features.frequencies import Numbers, Projection


class Part(Numbers):
    """Features of one kernel, filled in by chunks of rows."""

    def fill(self, X: Any, out: FloatArray) -> None:
        """Write the features of rows, dense or CSR and in the dtype of the numbers, into `out`.  # shape: (m, r)"""
        raise NotImplementedError

    def pull(self, X: FloatArray, G: FloatArray) -> FloatArray:
        """Return sum_r G_ir grad f_r(x_i), of dense rows in float64 and numbers in float64.  # shape: (m, d)"""
        raise TypeError(self.why_no_pull())

    def why_no_pull(self) -> str | None:
        """Return None if there are gradients, else why not, as part of a sentence."""
        return None


def _pairs(angles: FloatArray, out: FloatArray, phase: float) -> None:
    """Overwrite `out`, whose first columns are `angles`, by all cosines, all sines and, if it is odd, one more cosine.

    The last has a random phase: alone it is half as much, on average, as a cosine and a sine together.
    """
    pairs = out.shape[1] // 2
    if out.shape[1] % 2:
        np.add(angles[:, pairs], phase, out=out[:, -1])
        np.cos(out[:, -1], out=out[:, -1])
    np.sin(angles[:, :pairs], out=out[:, pairs : 2 * pairs])
    np.cos(angles[:, :pairs], out=out[:, :pairs])


@dataclass(frozen=True)
class Fourier(Part):
    """sqrt(2/r) [cos(w.x), sin(w.x)]: pairs, because their error is 0 where rows agree."""

    projection: Projection
    phase: float

    def fill(self, X: Any, out: FloatArray) -> None:
        angles = out[:, : -(-out.shape[1] // 2)]
        self.projection.into(X, angles)
        _pairs(angles, out, self.phase)
        out *= math.sqrt(2.0 / out.shape[1])

    def pull(self, X: FloatArray, G: FloatArray) -> FloatArray:
        rank = G.shape[1]
        pairs, count = rank // 2, -(-rank // 2)
        angles = np.empty((len(X), count))
        self.projection.into(X, angles)
        weights = np.empty_like(angles)
        if rank % 2:
            weights[:, pairs] = -np.sin(angles[:, pairs] + self.phase) * G[:, -1]
        part = angles[:, :pairs]
        np.multiply(np.cos(part), G[:, pairs : 2 * pairs], out=weights[:, :pairs])
        np.sin(part, out=part)
        part *= G[:, :pairs]
        weights[:, :pairs] -= part
        weights *= math.sqrt(2.0 / rank)
        return self.projection.back(weights)


@dataclass(frozen=True)
class Homogeneous(Part):
    """sqrt(c x) [cos(w log x), sin(w log x)] of one feature per frequency: Fourier features in the logarithm."""

    features: NDArray[np.intp]  # shape: (frequencies,)
    frequencies: FloatArray
    roots: FloatArray  # shape: (r,)
    phase: float

    def fill(self, X: Any, out: FloatArray) -> None:
        X = X.toarray() if sparse.issparse(X) else X
        pairs, count = out.shape[1] // 2, len(self.features)
        angles = out[:, :count]
        # The logarithm of 0 may be anything finite: its features are multiplied by sqrt(0).
        np.multiply(np.log(np.maximum(X, np.finfo(X.dtype).tiny))[:, self.features], self.frequencies, out=angles)
        _pairs(angles, out, self.phase)
        roots = np.sqrt(X)[:, self.features]
        out[:, :pairs] *= roots[:, :pairs]
        out[:, pairs:] *= roots
        out *= self.roots

    def why_no_pull(self) -> str:
        # Exact kernel values, too, have gradients only for kernels of distances and inner products.
        return "features in the logarithm of a column change infinitely fast where that column is 0"


@dataclass(frozen=True)
class Activated(Part):
    """An activation of w.x, in place: none, a sign beside a constant, or what is positive."""

    projection: Projection
    activation: str
    unit_rows: bool = False

    def fill(self, X: Any, out: FloatArray) -> None:
        rank = out.shape[1]
        if self.activation == "sign":
            # 1 - theta/pi = 1/2 + E sign sign / 2: half the variance of steps at right angles, and none at 0.
            out[:, 0] = math.sqrt(0.5)
            out = out[:, 1:]
        if self.unit_rows:
            X = kernels.Cosine().prepare(X)
        self.projection.into(X, out)
        if self.activation == "sign":
            np.sign(out, out=out)
            out *= math.sqrt(0.5 / (rank - 1))
        elif self.activation == "relu":
            np.maximum(out, 0.0, out=out)
            out *= math.sqrt(2.0 / rank)
        else:
            out *= math.sqrt(1.0 / rank)

    def pull(self, X: FloatArray, G: FloatArray) -> FloatArray:
        if self.activation == "relu":
            slopes = np.empty(G.shape)
            self.projection.into(X, slopes)
            # At 0, where there is a kink, half way between both sides: as for the kernel itself.
            np.heaviside(slopes, 0.5, out=slopes)
            slopes *= G
            slopes *= math.sqrt(2.0 / G.shape[1])
        else:
            slopes = G * math.sqrt(1.0 / G.shape[1])
        pulled = self.projection.back(slopes)
        if not self.unit_rows:
            return pulled
        # Back through x / |x|, whose Jacobian is (I - u u') / |x|; rows of zeros have none and get 0.
        U = kernels.Cosine().prepare(X)
        peaks = np.abs(X).max(axis=1, initial=0.0)  # taken out, so that squares neither overflow nor vanish
        lengths = peaks * np.linalg.norm(X / np.where(peaks == 0, 1.0, peaks)[:, None], axis=1)
        tangent: FloatArray = pulled - np.einsum("ij,ij->i", U, pulled)[:, None] * U
        tangent[lengths == 0] = 0.0
        tangent /= np.where(lengths == 0, 1.0, lengths)[:, None]
        return tangent

    def why_no_pull(self) -> str | None:
        if self.activation == "sign":
            return "features that are signs of projections are steps, flat almost everywhere"
        return None


@dataclass(frozen=True)
class TensorSketch(Part):
    """The circular convolution of `degree` count sketches of [sqrt(gamma) x, sqrt(coef0)] (Pham and Pagh)."""

    sketches: tuple[Any, ...]  # sparse, shape: (r, d) each
    constants: FloatArray  # what sqrt(coef0) adds, shape: (degree,)
    places: NDArray[np.intp]  # where, shape: (degree,)

    def fill(self, X: Any, out: FloatArray) -> None:
        if len(self.sketches) == 1:
            out[...] = self._counts(X, 0).T
            return
        transformed = rfft(self._counts(X, 0), axis=0)
        for number in range(1, len(self.sketches)):
            transformed *= rfft(self._counts(X, number), axis=0)
        out[...] = irfft(transformed, n=out.shape[1], axis=0).T

    def _counts(self, X: Any, number: int) -> FloatArray:
        counts = self.sketches[number] @ X.T
        counts = counts.toarray() if sparse.issparse(counts) else counts
        counts[self.places[number]] += self.constants[number]
        return np.asarray(counts)

    def pull(self, X: FloatArray, G: FloatArray) -> FloatArray:
        if len(self.sketches) == 1:
            return np.asarray((self.sketches[0].T @ G.T).T)
        # What goes forwards as a convolution with the other sketches comes back as a correlation with them.
        factors = [rfft(self._counts(X, number), axis=0) for number in range(len(self.sketches))]
        weights = rfft(G.T, axis=0)
        pulled = np.zeros(X.shape)
        for number, sketch in enumerate(self.sketches):
            others = weights.copy()
            for factor in factors[:number] + factors[number + 1 :]:
                others *= factor.conj()
            pulled += (sketch.T @ irfft(others, n=G.shape[1], axis=0)).T
        return pulled


@dataclass(frozen=True)
class Flat(Part):
    """One feature that is the same for all rows."""

    root: float

    def fill(self, X: Any, out: FloatArray) -> None:
        out[:, 0] = self.root
        out[:, 1:] = 0.0

    def pull(self, X: FloatArray, G: FloatArray) -> FloatArray:
        return np.zeros(X.shape)


@dataclass(frozen=True)
class Beside(Part):
    """Features of the members of a sum side by side, each times the root of a factor."""

    members: tuple[Part, ...]
    ranks: tuple[int, ...]
    root: float = 1.0

    def fill(self, X: Any, out: FloatArray) -> None:
        for member, columns in zip(self.members, self._columns(out), strict=True):
            member.fill(X, columns)
        if self.root != 1.0:
            out *= self.root

    def pull(self, X: FloatArray, G: FloatArray) -> FloatArray:
        pulled = np.zeros(X.shape)
        for member, columns in zip(self.members, self._columns(G), strict=True):
            pulled += member.pull(X, columns)
        pulled *= self.root
        return pulled

    def _columns(self, features: FloatArray) -> list[FloatArray]:
        return np.split(features, np.cumsum(self.ranks)[:-1], axis=1)

    def why_no_pull(self) -> str | None:
        return next((reason for member in self.members if (reason := member.why_no_pull())), None)
