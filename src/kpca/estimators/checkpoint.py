"""Fits that survive a kill: their state in one file, which belongs to the same data and parameters only.

Writing takes time, so it must not take much of it: the state is written after a pass if the time since the last write
is ten times what that write took. Where passes are that long, and only there it matters, every one is written, and a
kill loses at most the pass it meets; where they are shorter, it loses about ten times the time of a write.

A file that belongs to something else is refused, never overwritten. It is removed when the fit has converged; when the
fit has run out of passes it stays, so that a larger max_iter goes on from there.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from kpca import __version__
from kpca._base.config import checkpoint_path
from kpca._base.container import read_container, remove_leftovers, write_container
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca.gram import Gram, MatrixGram
from kpca.gram.operator import Moments, Precision
from kpca.spectrum import State

Fingerprint = dict[str, str]
Packed = tuple[dict[str, Any], dict[str, FloatArray]]  # a state: what JSON can hold, and arrays of numbers
# Writing may take one part in this many of a fit's time.
_PATIENCE = 10.0
_BYTES_AT_ONCE = 2**24
# Rows on which a kernel is compared with the kernel of a checkpoint, and how far its values may differ: those of
# another machine round differently.
_PROBED_ROWS, _SAME = 24, 1e-10
_PROBE = "probe"
_DIGESTS = ("data", "weights")
_STATE_ARRAYS = ("Q", "A", "H", "errors", "share")
_STATE_NUMBERS: dict[str, tuple[type, ...]] = {
    "k": (int,),
    "passes": (int,),
    "cheap": (str,),
    "best_pass": (int,),
    "guessed": (int, type(None)),
    "probed": (bool,),
    "chain": (int,),
    "images": (int,),
    "generator": (dict,),
}


# -- files that belong to something -----------------------------------------------------------------------------------


def save_state(path: str, fingerprint: Fingerprint, packed: Packed, *, kind: str = "checkpoint") -> None:
    """Write a state under a fingerprint."""
    header, arrays = packed
    write_container(path, {"kind": kind, "fingerprint": dict(fingerprint), "state": dict(header)}, arrays)


def load_state(path: str, fingerprint: Fingerprint, *, kind: str = "checkpoint") -> Packed | None:
    """Return header and arrays of the state under this fingerprint, None if there is no file; refuse any other."""
    if not os.path.lexists(path):
        return None
    header, arrays = read_container(path, kind)
    theirs, state = header.get("fingerprint"), header.get("state")
    if not isinstance(theirs, dict) or not isinstance(state, dict):
        raise _not_ours(path, "it does not say of what")
    # Data first: parameters may follow from it, such as gamma.
    for name in sorted({*theirs, *fingerprint}, key=lambda name: (name not in _DIGESTS, name)):
        if theirs.get(name) != fingerprint.get(name):
            other = f"{name} = {theirs.get(name)}, and here it is {fingerprint.get(name)}"
            raise _not_ours(path, f"it was written for {f'other {name}' if name in _DIGESTS else other}")
    return state, arrays


def _not_ours(path: str | os.PathLike[str], reason: str) -> InputError:
    wrong = f"must belong to this fit; {reason}: delete the file or choose another path"
    return InputError(f"The checkpoint {os.fspath(path)} {wrong}.")


# -- fingerprints -----------------------------------------------------------------------------------------------------


def digest(values: Any) -> str:
    """Return the SHA-256 of an array or CSR matrix, whatever its layout in memory; a memory map is read in parts."""
    total = hashlib.sha256()
    parts = [values.data, values.indices, values.indptr] if sparse.issparse(values) else [values]
    total.update(repr(tuple(values.shape)).encode())
    for part in parts:
        array = np.atleast_1d(part)
        total.update(f"{array.dtype.str} {array.shape}".encode())
        row_bytes = max(1, array.nbytes // max(1, len(array)))
        step = max(1, _BYTES_AT_ONCE // row_bytes)
        for start in range(0, len(array), step):
            total.update(np.ascontiguousarray(array[start : start + step]).view(np.uint8).data)
    return total.hexdigest()


def describe(part: object) -> str:
    """Return a kernel or a part of one in words that the next process finds too: no addresses, all digits."""
    if is_dataclass(part) and not isinstance(part, type):
        inside = ", ".join(f"{field.name}={describe(getattr(part, field.name))}" for field in fields(part))
        return f"{type(part).__name__}({inside})"
    if isinstance(part, Mapping):
        return "{" + ", ".join(f"{key!r}: {describe(part[key])}" for key in sorted(part, key=repr)) + "}"
    if isinstance(part, list | tuple):
        return "(" + ", ".join(map(describe, part)) + ")"
    if isinstance(part, np.ndarray) and part.dtype.kind in "biufc":
        return f"array {digest(part)}"
    if part is None or isinstance(part, bool | int | float | str | np.generic):
        return repr(part)
    # A function, or an object of another library: its name here, what it does in the probe.
    named = part if callable(part) and hasattr(part, "__qualname__") else type(part)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"


def _fingerprint(gram: Gram | MatrixGram, parameters: Mapping[str, object]) -> Fingerprint:
    """Return what decides on the result of a fit."""
    return {
        "data": gram.hand(lambda data: repr(tuple(data.shape)) if isinstance(data, LinearOperator) else digest(data)),
        "weights": digest(gram.scale),
        "kernel": "precomputed" if gram.kernel is None else describe(gram.kernel),
        "the version of kpca": __version__,
        **{name: describe(value) for name, value in parameters.items()},
    }


def _probe(gram: Gram | MatrixGram) -> FloatArray:
    """Return some values of the kernel, or of the products of an operator: what a name does not tell."""
    n, kernel = gram.shape[0], gram.kernel
    if kernel is None:
        if not gram.hand(lambda K: isinstance(K, LinearOperator)):
            return np.empty((0, 0))
        return gram @ np.random.default_rng(0).standard_normal((n, 1))
    rows = np.unique(np.linspace(0, n - 1, _PROBED_ROWS).astype(np.intp))
    some = gram.hand(lambda X: X[rows].astype(np.float64))
    return kernel.block(some, some)


# -- the state of a fit -----------------------------------------------------------------------------------------------


def open_checkpoint(gram: Gram | MatrixGram, **parameters: object) -> Checkpoint | None:
    """Return the checkpoint of a fit of this operator with these parameters; None where the settings name no file."""
    path = checkpoint_path()
    return None if path is None else Checkpoint(path, gram, parameters)


class StateFile:
    """A state in a file, written again when the last writing was long enough ago."""

    def __init__(self, path: str, *, kind: str = "checkpoint") -> None:
        self.path, self._kind, self._due = path, kind, -math.inf

    def write(self, fingerprint: Fingerprint, packed: Callable[[], Packed]) -> None:
        """Write the state that `packed` returns, if writing has not taken too much time lately."""
        started = time.perf_counter()
        if started < self._due:
            return
        save_state(self.path, fingerprint, packed(), kind=self._kind)
        ended = time.perf_counter()
        self._due = ended + _PATIENCE * (ended - started)


class Checkpoint(StateFile):
    """The state of one fit in a file; the solver keeps it. Nothing is read or hashed before `at` is called."""

    def __init__(self, path: str, gram: Gram | MatrixGram, parameters: Mapping[str, object]) -> None:
        super().__init__(path)
        self._gram, self._parameters = gram, parameters
        self._fingerprint: Fingerprint | None = None
        self._probe: FloatArray = np.empty(0)
        self._state: State | None = None  # the one found in the file, until somebody goes on from it
        self._count = 0  # components that are looked for

    def at(self, count: int) -> tuple[int, Checkpoint]:
        """Return how many components to look for, and the keeper for that.

        As many as asked for; more where the file is from a fit that was looking for more already.
        """
        if self._fingerprint is None:
            self._open()
        self._count = count if self._state is None else max(count, self._state.k)
        return self._count, self

    def _open(self) -> None:
        if not os.access(os.path.dirname(self.path), os.W_OK):  # better now than after an hour
            raise InputError(f"The checkpoint {self.path} must be in a writable folder: choose another path.")
        remove_leftovers(self.path)
        self._fingerprint, self._probe = _fingerprint(self._gram, self._parameters), _probe(self._gram)
        found = load_state(self.path, self._fingerprint)
        if found is None:
            return
        header, arrays = found
        theirs = arrays.get(_PROBE, np.empty(0))
        size = float(np.abs(self._probe).max(initial=0.0))
        if theirs.shape != self._probe.shape or not np.allclose(theirs, self._probe, rtol=0, atol=_SAME * size):
            raise _not_ours(self.path, "it was written for a kernel with other values")
        self._state = _unpacked(header, arrays, self._gram.shape[0], self.path)

    def load(self) -> State | None:
        """Return the state found in the file if it is of a fit for this many components; only once, it is large."""
        state = self._state
        if state is None or state.k != self._count:
            return None
        self._state = None
        return state

    def save(self, state: State) -> None:
        """Write the state, if it is time to."""
        assert self._fingerprint is not None
        self.write(self._fingerprint, lambda: _packed(state, self._probe))

    def remove(self) -> None:
        """Remove the file, if this fit has used it: there is nothing to go on from."""
        if self._fingerprint is None:
            return
        try:
            Path(self.path).unlink(missing_ok=True)
        except OSError as error:  # no reason to throw away the result of a long fit
            failed = f"its checkpoint {self.path} could not be removed ({error.strerror})"
            said = f"The fit is complete, but {failed}; delete it before another fit uses that path."
            warnings.warn(said, stacklevel=2)


def _packed(state: State, probe: FloatArray) -> Packed:
    """Return a state as what JSON can hold, and arrays; floats are among these, infinity being one of them."""
    header = {name: getattr(state, name) for name in _STATE_NUMBERS}
    arrays = {name: getattr(state, name) for name in _STATE_ARRAYS}
    arrays |= {"floats": np.array([state.single_error, state.best]), _PROBE: probe}
    for precision, moments in state.found.items():
        arrays[f"{precision} image"] = moments.image
        arrays[f"{precision} sums"] = np.array([moments.trace, moments.frobenius2])
    return header, arrays


def _unpacked(header: dict[str, Any], arrays: dict[str, FloatArray], n: int, path: str) -> State:
    """Return the state that `_packed` was given."""
    found: dict[Precision, Moments] = {}
    try:
        for precision in cast(tuple[Precision, ...], ("single", "double")):
            if f"{precision} sums" in arrays:
                trace, frobenius2 = arrays[f"{precision} sums"].tolist()
                found[precision] = Moments(arrays[f"{precision} image"], trace, frobenius2)
        single_error, best = arrays["floats"].tolist()
        numbers: dict[str, Any] = {name: header[name] for name in _STATE_NUMBERS}
        large: dict[str, Any] = {name: arrays[name] for name in _STATE_ARRAYS}
        state = State(**numbers, **large, single_error=single_error, best=best, found=found)
    except (KeyError, ValueError, TypeError) as error:
        raise _not_ours(path, "it holds something else") from error
    if not all(isinstance(numbers[name], types) for name, types in _STATE_NUMBERS.items()):
        raise _not_ours(path, "it holds something else")
    size = len(state.errors)
    shapes = [(n, size), (n, size), (size, size), (size,), (size,), *[(n,)] * len(found)]
    if shapes != [array.shape for array in [*large.values(), *(moments.image for moments in found.values())]]:
        raise _not_ours(path, "its arrays have other shapes")
    return state
