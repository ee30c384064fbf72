"""A sample of the rows of a stream that is always ready, and the same however the stream is cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kpca._base.container import remove_leftovers
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.progress import row_monitor
from kpca.data.rows import stacked
from kpca.estimators.approximate import FittedMap, not_finite
from kpca.estimators.checkpoint import Packed, StateFile, digest, load_state
from kpca.features import Scatter, scatter_of
from kpca.kernels import Kernel, Linear

Monitor = Callable[[int], None] | None
# Uniform numbers are drawn in blocks of this many rows, so that a row's number depends on its place only.
_BLOCK = 4096


@dataclass(frozen=True)
class Reservoir:
    """The rows with the largest keys log(u) / w, u uniform: each row with a chance like its weight w.

    That is weighted sampling without replacement (Efraimidis and Spirakis 2006). To forget is to divide keys by the
    factor that weights are multiplied by.
    """

    size: int
    seed: int
    seen: int = 0  # rows so far, those of weight 0 too
    rows: FloatArray | None = None  # in the order of the stream, shape: (m, d)
    keys: FloatArray | None = None  # shape: (m,)

    def added(self, rows: FloatArray, weights: FloatArray | None) -> Reservoir:
        """Return the sample with a batch taken in."""
        u = self._uniform(self.seen, self.seen + len(rows))
        with np.errstate(divide="ignore"):
            keys = np.log(u) if weights is None else np.log(u) / weights
        present = slice(None) if weights is None else weights > 0
        rows, keys = rows[present], keys[present]
        seen = self.seen + len(u)
        if self.rows is not None and self.keys is not None:
            # of the batch only what may stay is copied
            floor = self.keys.min() if len(self.keys) == self.size else -np.inf
            hopeful = keys > floor
            rows, keys = np.concatenate([self.rows, rows[hopeful]]), np.concatenate([self.keys, keys[hopeful]])
        if len(keys) > self.size:
            kept = np.sort(np.argpartition(-keys, self.size - 1)[: self.size])
            rows, keys = rows[kept], keys[kept]
        return replace(self, seen=seen, rows=np.array(rows), keys=np.array(keys))

    def faded(self, factor: float) -> Reservoir:
        """Return the sample with all weights so far multiplied by a factor."""
        return self if self.keys is None or factor == 1.0 else replace(self, keys=self.keys / factor)

    def _uniform(self, start: int, stop: int) -> FloatArray:
        """Return the numbers of the rows from start to stop, in (0, 1].  # shape: (stop - start,)"""
        blocks = range(start // _BLOCK, -(-stop // _BLOCK))
        drawn = [1.0 - np.random.default_rng((self.seed, block)).random(_BLOCK) for block in blocks]
        first = start - (start // _BLOCK) * _BLOCK
        return np.concatenate(drawn)[first : first + stop - start] if drawn else np.empty(0)

    def arrays(self) -> dict[str, FloatArray]:
        """Return what a checkpoint keeps."""
        if self.rows is None or self.keys is None:
            return {}
        return {"sample rows": self.rows, "sample keys": self.keys, "sample seen": np.array([self.seen])}

    def recalled(self, arrays: dict[str, FloatArray]) -> Reservoir:
        """Return the sample that a checkpoint kept."""
        if "sample rows" not in arrays:
            return self
        rows, keys = arrays["sample rows"], arrays["sample keys"]
        if rows.ndim != 2 or keys.shape != (len(rows),) or len(rows) > self.size:
            raise InputError("The sample of a checkpoint must be rows with a key each; it is not: delete the file.")
        return replace(self, seen=int(arrays["sample seen"][0]), rows=rows, keys=keys)


# -- What is kept of a stream of batches, and how it is written to a file so that a killed fit can go on --------------

_KIND = "stream"


@dataclass(frozen=True)
class Batch:
    """Some rows and their weights."""

    rows: Any  # shape: (m, d)
    weights: FloatArray | None = None


@dataclass(frozen=True)
class Stream:
    """All that is kept of the batches so far; a new one takes its place only when a batch has been taken whole."""

    dtype: np.dtype[Any]
    kernel: Kernel | None = None
    fitted: FittedMap | None = None  # None while rows are waited for
    basis: Batch | None = None  # the rows that the features were made for; kept for a checkpoint only
    waiting: tuple[Batch, ...] = ()
    scatter: Scatter | None = None
    before: Scatter | None = None  # the scatter before the newest batch
    batches: int = 0
    sample: Reservoir | None = None  # rows to learn the inverse map from, if anybody wants it

    @property
    def is_empty(self) -> bool:
        """True before the first row of positive weight."""
        return self.scatter is None and not self.waiting

    @cached_property
    def rows_waiting(self) -> int:
        """The number of rows that wait for features."""
        return sum(batch.rows.shape[0] for batch in self.waiting)

    def gathered(self) -> Batch:
        """Return all rows that wait, in one batch."""
        weights, waiting = None, self.waiting
        if any(batch.weights is not None for batch in waiting):
            each = (np.ones(batch.rows.shape[0]) if batch.weights is None else batch.weights for batch in waiting)
            weights = np.concatenate(list(each))
        return Batch(waiting[0].rows if len(waiting) == 1 else stacked([batch.rows for batch in waiting]), weights)

    def waited(self, batch: Batch, kernel_of: Callable[[Any], Kernel]) -> Stream:
        """Return the stream with one more batch that waits; what no features could be made with is refused now.

        Later it could not be told from the other rows that wait.
        """
        rows, weights = batch.rows, batch.weights
        # beside a row of the first batch: a bandwidth is measured between batches, too
        kernel = kernel_of(stacked([self.waiting[0].rows[:1], rows]) if self.waiting else rows)
        self._check(rows, kernel)
        with np.errstate(over="ignore", invalid="ignore"):
            own = np.asarray(kernel.diagonal(rows), dtype=np.float64)
            trace = float(own.sum() if weights is None else weights @ own)
            # rows that are their own features are taken in at once, and judged less their mean
            sizes = [_sum_of_squares(rows), 0.0 if isinstance(kernel, Linear) else trace * trace]
        if not np.isfinite(sizes).all():
            raise not_finite(kernel, "batch")
        return replace(self, waiting=(*self.waiting, Batch(rows.copy(), weights)))

    def absorbed(self, batch: Batch, fade: float, threads: int, *, centred: bool, monitor: Monitor = None) -> Stream:
        """Return the stream with a batch added to what is kept of the earlier ones, which fade."""
        assert self.fitted is not None and self.kernel is not None
        self._check(batch.rows, self.kernel)
        monitor = monitor or row_monitor(batch.rows.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            new = scatter_of(self.fitted.feature_map, batch.rows, batch.weights, threads=threads, monitor=monitor)
            scatter = new if self.scatter is None else self.scatter.faded(fade).merged(new)
            size = np.linalg.norm(scatter.matrix) + (0.0 if centred else scatter.mass * (scatter.mean @ scatter.mean))
            if not np.isfinite(size * size):
                raise not_finite(self.kernel, "batch")
        sample = self.sample
        if sample is not None:
            sample = sample.faded(fade).added(batch.rows, batch.weights)
        return replace(self, before=self.scatter, scatter=scatter, sample=sample)

    def _check(self, rows: Any, kernel: Kernel) -> None:
        kernel.check(rows)
        if self.sample is None:
            return
        if sparse.issparse(rows):
            raise InputError("preimage needs dense rows to come back to; this batch is sparse: densify it.")
        squares = _sum_of_squares(rows)
        if not np.isfinite(squares * squares):
            raise InputError("preimage needs rows with finite squares; this batch has too large numbers: scale it.")


def _sum_of_squares(rows: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.square(rows.data if sparse.issparse(rows) else rows, dtype=np.float64).sum())


class StreamCheckpoint(StateFile):
    """The state of a stream in a file, with digests of the batches in it, which are skipped when they come again."""

    def __init__(self, path: str, fingerprint: dict[str, str]) -> None:
        super().__init__(path, kind=_KIND)
        self._fingerprint = fingerprint
        remove_leftovers(path)
        self._found = load_state(path, fingerprint, kind=_KIND)
        self._seen: list[str] = [] if self._found is None else [str(mark) for mark in self._found[0]["batches"]]
        self._expected = list(self._seen)

    def skips(self, batch: Batch) -> bool:
        """Return True if this batch is in the state already; refuse one that is not the one that came before."""
        if not self._expected:
            return False
        if _mark(batch) != self._expected[0]:
            number = len(self._seen) - len(self._expected)
            remedy = "start with the first batch again, delete the file or choose another path"
            wrong = f"must belong to this stream; it was written for another batch {number}"
            raise InputError(f"The checkpoint {self.path} {wrong}: {remedy}.")
        self._expected.pop(0)
        return True

    def restored(self, empty: Stream) -> tuple[Stream, Batch | None] | None:
        """Return the stream with what was written of it, and the rows that its features were made for, if any."""
        if self._found is None:
            return None
        header, arrays = self._found
        self._found = None
        try:
            scatter = None
            if "mean" in arrays:
                mass, *shares = arrays["sums"].tolist()  # trace, unexplained, rounding
                scatter = Scatter(int(header["rows"]), mass, arrays["mean"], arrays["matrix"], *shares)
            basis = _unpacked("basis", arrays) if "basis rows 0" in arrays else None
            waiting = tuple(_unpacked(f"waiting {i}", arrays) for i in range(int(header["waiting"])))
            sample = None if empty.sample is None else empty.sample.recalled(dict(arrays))
        except (KeyError, ValueError, TypeError) as error:
            wrong = "must hold the state of a stream; it holds something else: delete it or choose another path"
            raise InputError(f"The checkpoint {self.path} {wrong}.") from error
        return replace(empty, waiting=waiting, scatter=scatter, batches=len(self._seen), sample=sample), basis

    def taken(self, batch: Batch, stream: Stream) -> None:
        """Note that a batch has been taken in, and write the state if it is time to."""
        mark = _mark(batch)
        self.write(self._fingerprint, lambda: self._state_of(stream, [*self._seen, mark]))
        self._seen.append(mark)

    def _state_of(self, stream: Stream, seen: list[str]) -> Packed:
        header: dict[str, Any] = {"batches": seen, "waiting": len(stream.waiting)}
        arrays: dict[str, FloatArray] = {}
        if stream.scatter is not None:
            scatter = stream.scatter
            header["rows"] = scatter.rows
            arrays |= {"mean": scatter.mean, "matrix": scatter.matrix}
            arrays["sums"] = np.array([scatter.mass, scatter.trace, scatter.unexplained, scatter.rounding])
        if stream.basis is not None:
            arrays |= _packed("basis", stream.basis)
        for i, part in enumerate(stream.waiting):
            arrays |= _packed(f"waiting {i}", part)
        return header, arrays if stream.sample is None else arrays | stream.sample.arrays()

    def remove(self) -> None:
        """Remove the file: there is nothing to go on from."""
        Path(self.path).unlink(missing_ok=True)


def _mark(batch: Batch) -> str:
    return digest(batch.rows) + ("" if batch.weights is None else digest(batch.weights))


def _packed(name: str, batch: Batch) -> dict[str, FloatArray]:
    rows = batch.rows
    parts = [rows.data, rows.indices, rows.indptr, np.array(rows.shape)] if sparse.issparse(rows) else [rows]
    arrays = {f"{name} rows {i}": np.asarray(part) for i, part in enumerate(parts)}
    return arrays if batch.weights is None else {**arrays, f"{name} weights": batch.weights}


def _unpacked(name: str, arrays: Mapping[str, FloatArray]) -> Batch:
    rows: Any = arrays[f"{name} rows 0"]
    if f"{name} rows 3" in arrays:
        indices, pointers, shape = (arrays[f"{name} rows {i}"] for i in (1, 2, 3))
        rows = sparse.csr_matrix((rows, indices, pointers), shape=tuple(shape.tolist()))
    return Batch(rows, arrays.get(f"{name} weights"))
