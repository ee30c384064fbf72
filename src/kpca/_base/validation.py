"""Checks of what a user hands in. Each failure is one sentence: what must hold, what arrived, what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kpca._base.config import thread_count
from kpca._base.errors import InputError, InPython, Setting
from kpca._base.threads import in_order

FloatArray = NDArray[Any]
# The centred form of a precomputed matrix may be asymmetric by this much of its largest entry.
_ASYMMETRY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-5}
_ROWS_AT_ONCE = 512
# Numbers that a thread copies and looks at; of so few BLAS uses the calling thread alone.
_NUMBERS_AT_ONCE, _FEW_NUMBERS = 200_000, 10_000
_COMPLEX = "Complex data not supported: X must hold real numbers; give real and imaginary parts as columns."
_X = Setting("X")
# How pandas, polars, narwhals and pyarrow begin the names of types of dates, times and durations; what to do with them.
_TIMES = ("date", "time", "duration", "period")
NUMBERS_OF_TIMES = "make numbers of dates and times, such as days since the first or the hour of the day, or drop them"


def check_data(estimator: Any, X: Any, *, reset: bool, copy: bool = False, threads: int | None = None) -> Any:
    """Return X as a float32/float64 array or CSR matrix without NaN or infinity, or raise InputError."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind == "c":
        raise InputError(_COMPLEX)
    check_loaded(X)
    check_mask(X)
    columns = getattr(X, "columns", None) if hasattr(X, "dtypes") else getattr(X, "column_names", None)  # of pyarrow
    names = None if columns is None else [str(name) for name in columns]
    if kind in ("m", "M"):
        raise InputError(f"must hold numbers only; got {X.dtype}", param="X", remedy=NUMBERS_OF_TIMES)
    if names is not None:
        check_times(names, X.dtypes if hasattr(X, "dtypes") else X.schema.types)
    try:
        wanted: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False}
        checked = validate_data(estimator, X, reset=reset, copy=copy and not isinstance(X, np.ndarray), **wanted)
    except TypeError as error:
        if refused := _refused_objects(error, X, names):
            raise refused from error
        raise
    except ValueError as error:
        raise _refused_values(error, X) from error
    shared = isinstance(X, np.ndarray) and not isinstance(X, np.memmap) and np.may_share_memory(X, checked)
    copied = np.empty_like(checked) if copy and shared else None
    if threads is None:
        many = checked.shape[0] * checked.shape[1] > _NUMBERS_AT_ONCE
        threads = thread_count(getattr(estimator, "n_jobs", None)) if many else 1
    check_finite(checked, names, threads=threads, copied=copied)
    return checked if copied is None else copied


def _refused_objects(error: TypeError, X: Any, names: list[str] | None) -> InputError | None:
    """Return what is to be said of objects that are no numbers; None where NumPy says it."""
    if "complex" in str(error):  # in a list, which has no dtype
        return InputError(_COMPLEX)
    if found := re.search(r"not '(datetime\.\w+|Timestamp|Timedelta|Period|NaTType)'", str(error)):
        if names is not None and hasattr(X, "iloc"):  # objects of pandas
            check_times(names, [type(next(iter(X.iloc[:, j].dropna()), None)).__name__ for j in range(len(names))])
        return InputError(f"must hold numbers only; got {found[1]}", param="X", remedy=NUMBERS_OF_TIMES)
    return None if isinstance(X, np.ndarray | list | tuple) or names is not None else _no_rows(X)


def _refused_values(error: ValueError, X: Any) -> InputError:
    text = " ".join(str(error).split())
    if "could not convert" in text or "not convertible" in text:
        said = f"must hold numbers only; {text.rstrip('.')}"
        return InputError(said, param="X", remedy="encode or drop such columns")
    if "maximum number of dimension" in text:
        return _no_rows(X)
    if "inhomogeneous" in text:
        return InputError("must have rows of one length; got some longer than others", param="X")
    return InputError(text)


def check_loaded(X: Any, name: str = "X") -> None:
    """Refuse a lazy frame, or a list of them, which has no rows yet."""
    first = X[0] if isinstance(X, list | tuple) and X else X
    if hasattr(first, "collect") and hasattr(type(first), "columns") and not hasattr(first, "__array__"):
        raise InputError(f"must be loaded; got a {type(first).__name__}", param=name, remedy="collect() it first")


def check_times(names: Sequence[str], types: Iterable[Any]) -> None:
    """Refuse columns of dates, times or durations, which would become nanoseconds, and drown all others."""
    kinds = list(types)
    times = {kind for kind in set(kinds) if str(kind).lower().startswith(_TIMES)}
    found = [place for place, kind in enumerate(kinds) if kind in times] if times else []
    if found:
        held = ", ".join(f"column {place} ({names[place]!r})" for place in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        said = f"must hold numbers only; {held}{more} hold{'s' if len(found) == 1 else ''} dates or times"
        raise InputError(said, param="X", remedy=NUMBERS_OF_TIMES)


def check_mask(values: Any, name: str = "X", entry: str = "a number in every entry") -> None:
    """Refuse an array, or a list of arrays, in which something is masked: NumPy would take what is under the mask."""
    parts = values if isinstance(values, list | tuple) else [values]
    count = sum(int(np.count_nonzero(part.mask)) for part in parts if isinstance(part, np.ma.MaskedArray))
    if count:
        said = f"must have {entry}; got {count:,} masked {'entry' if count == 1 else 'entries'}"
        raise InputError(said, param=name, remedy="fill what is masked (numpy.ma.filled), or drop such rows")


def _no_rows(X: Any) -> InputError:
    said = f"must be an array, a data frame or a list of rows; got {type(X).__name__}"
    return InputError(said, param="X", remedy="give the numbers in it, such as adata.X of an AnnData")


def all_finite(values: FloatArray, threads: int = 1, copied: FloatArray | None = None) -> bool:
    """Return False if some number is NaN or infinite; the array is written to `copied` on the way, if that is given."""
    # Cheaper than a look at each, and false alarms only cost that second look.
    return math.isfinite(_sum_of_squares(values, copied, threads)) or bool(np.isfinite(values).all())


def check_finite(
    X: Any, names: list[str] | None, numbers: Any = None, *, threads: int = 1, copied: FloatArray | None = None
) -> None:
    """Refuse NaN and infinity in an array or CSR; `numbers` are those of its rows, if a message is to name one.

    An array is written to `copied`, if that is given, on the way.
    """
    values = X.data if sparse.issparse(X) else X
    if all_finite(values, threads, copied):
        return
    bad = ~np.isfinite(values)
    places = np.argwhere(bad) if not sparse.issparse(X) else np.column_stack(X.tocoo().coords)[bad]
    column = int(places[:, 1].min())
    there = places[:, 1] == column
    found = values[bad][there][: None if numbers is None else 1]
    what = "NaN" if np.isnan(found).any() else "infinity"
    label = f"column {column}" + (f" ({names[column]!r})" if names and column < len(names) else "")
    label += "" if numbers is None else f", row {numbers[places[there][0, 0]]}"
    remedy = "remove or impute such rows (infinity, NaN)"
    raise InputError(f"must be finite; got {what} first in {label}", param="X", remedy=remedy)


def _sum_of_squares(values: FloatArray, copied: FloatArray | None, threads: int) -> float:
    if copied is None and values.size <= _FEW_NUMBERS:
        return float(np.vdot(values, values))
    if values.flags.f_contiguous:
        values, copied = values.T, None if copied is None else copied.T
    step = max(1, _NUMBERS_AT_ONCE * len(values) // max(values.size, 1))
    sums: list[float] = []

    def work(start: int) -> float:
        part = values[start : start + step]
        if copied is not None:
            copied[start : start + step] = part
        return float(np.vdot(part, part))

    in_order(list(range(0, len(values), step)), lambda: work, lambda _, found: sums.append(found), threads)
    return sum(sums)


def check_rows(n: int, what: str | Setting = _X) -> None:
    """Refuse fewer than two rows: one has no variance."""
    if n < 2:
        said = f" must have at least 2 rows, components are directions of variance; got {n} sample(s)"
        raise InputError((what, said))


def check_weights(sample_weight: Any, n: int, *, may_be_zeros: bool = False) -> FloatArray | None:
    """Return weights as float64, None if there are none or all are 1."""
    if sample_weight is None:
        return None
    check_mask(sample_weight, "sample_weight")
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        said = f"must be one number per row; got {type(sample_weight).__name__}"
        raise InputError(said, param="sample_weight") from error
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise InputError(f"sample_weight must be one number per row, {n} in all; got shape {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        row = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise InputError(f"sample_weight must be finite and not negative; got {weights[row]} in row {row}.")
    if not may_be_zeros and not (weights > 0).any():
        raise InputError("sample_weight must be positive for at least two rows; got zeros only.")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            raise InputError("sample_weight must have a finite sum; got one that overflows: divide by the largest.")
    return None if (weights == 1).all() else weights


def check_precomputed(K: Any) -> None:
    """Refuse a kernel matrix that is not square."""
    if K.shape[0] != K.shape[1]:
        raise InputError(f"A precomputed kernel matrix must be square at fit; got shape {tuple(K.shape)}.")


def check_operator_rows(K: LinearOperator, n: int, *, precomputed: bool) -> None:
    """Refuse a LinearOperator that is not the kernel values of new rows."""
    if not precomputed:
        said = "A LinearOperator can only be transformed with kernel='precomputed'"
        raise InputError(f"{said}; give rows of data instead.")
    if K.shape[1] != n:
        raise InputError(f"A LinearOperator of new rows must have {n} columns, one per training row; got {K.shape[1]}.")


def check_symmetric(K: Any, *, centred: bool) -> None:
    """Refuse a matrix whose (centred) form is asymmetric; a LinearOperator is asked about random vectors."""
    if isinstance(K, LinearOperator):
        u, v = np.random.default_rng(0).standard_normal((2, K.shape[0]))
        left, right = float(u @ np.ravel(K @ v)), float(v @ np.ravel(K @ u))
        size = float(np.linalg.norm(K @ v) * np.linalg.norm(u))
        if not math.isfinite(size):
            raise InputError(
                "A precomputed LinearOperator must give finite numbers; got NaN or infinity from a product."
            )
        if abs(left - right) > 1e-8 * size:
            said = f"u'Kv = {left:.6g} but v'Ku = {right:.6g}"
            raise InputError(f"A precomputed LinearOperator must be symmetric; {said}.")
        return
    gap, largest = _asymmetry(K, centred)
    if gap > _ASYMMETRY[K.dtype] * largest:
        form = "After centring, a" if centred else "A"
        differ = f"entries (i, j) and (j, i) differ by up to {gap:.2g} (largest entry {largest:.2g})"
        remedy = "use (K + K.T) / 2 if that is what you mean"
        raise InputError(f"{form} precomputed kernel matrix must be symmetric; {differ}", remedy=remedy)


def _asymmetry(K: Any, centred: bool) -> tuple[float, float]:
    """Return the largest |B_ij - B_ji| and the largest |B_ij|, a band of rows at a time."""
    n, is_sparse = K.shape[0], sparse.issparse(K)
    # B_ij - B_ji = (K_ij - K_ji) - (tilt_i - tilt_j): centring removes any a 1' + 1 b'.
    tilt = np.zeros(n)
    if centred:
        double = K.astype(np.float64) if is_sparse else K
        rows, columns = (np.asarray(double.sum(axis=axis, dtype=np.float64)).ravel() / n for axis in (1, 0))
        tilt = rows - columns
    gap = largest = 0.0
    for start in range(0, n, _ROWS_AT_ONCE):
        band = slice(start, start + _ROWS_AT_ONCE)
        pair = (K[band].toarray(), K[:, band].toarray()) if is_sparse else (K[band], K[:, band])
        part, other = np.asarray(pair[0], dtype=np.float64), np.asarray(pair[1], dtype=np.float64).T
        largest = max(largest, float(np.abs(part).max(initial=0.0)))
        gap = max(gap, float(np.abs(part - other - tilt[band, None] + tilt[None, :]).max(initial=0.0)))
    return gap, largest


def check_scores(scores: Any, k: int, dtype: np.dtype[Any]) -> FloatArray:
    """Return scores as `transform` gives them, to be mapped back."""
    check_mask(scores)
    try:
        checked = np.ascontiguousarray(scores, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"Scores must be numbers, as transform returns them; got {type(scores).__name__}.") from error
    if checked.ndim != 2 or checked.shape[1] != k:
        raise InputError(f"Scores must be of shape (m, {k}), as transform returns them; got {checked.shape}.")
    if not np.isfinite(checked).all():
        raise InputError("Scores must be finite; got NaN or infinity: remove such rows.")
    return checked


def whole_number(name: str, number: Any, least: int) -> int:
    """Return a whole number, or raise InputError for what is none, or too small a one."""
    if isinstance(number, bool) or not isinstance(number, Integral) or int(number) < least:
        raise InputError(f"must be a whole number from {least}", param=name, value=number)
    return int(number)


def check_jobs(jobs: Any) -> None:
    """Refuse what is no number of threads."""
    if jobs is not None and not (isinstance(jobs, Integral) and jobs != 0):
        raise InputError("must be None, -1 or a whole number of threads", param="n_jobs", value=jobs)


def seed_of(random_state: Any) -> int:
    """Return the seed that a random_state stands for; 0 for None, so that results repeat."""
    draw = _drawn_by_number if type(random_state) is int else _drawn
    try:
        return 0 if random_state is None else draw(random_state)
    except ValueError as error:
        allowed = ("must be ", InPython("None, "), "a whole number from 0 to 2**32 - 1", InPython(" or a RandomState"))
        raise InputError(allowed, param="random_state", value=random_state) from error


def _drawn(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


_drawn_by_number = lru_cache(_drawn)  # to make the generator takes a tenth of a small fit


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was where fitting it fails or is interrupted; its random_state, too."""
    before, random = dict(vars(estimator)), getattr(estimator, "random_state", None)
    drawn: Any = random.get_state() if isinstance(random, np.random.RandomState) else None
    try:
        yield
    except BaseException:
        if isinstance(random, np.random.RandomState):
            random.set_state(drawn)
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def check_n_components(k: Any, *, auto: bool = False) -> None:
    """Refuse what is neither a number of components nor a share of the variance, nor "auto" where that is known."""
    if auto and isinstance(k, str) and k == "auto":
        return
    whole = isinstance(k, Integral) and not isinstance(k, bool)
    real = isinstance(k, Real) and not whole
    if not (k is None or (whole and k >= 1) or (real and 0 < k < 1)):
        allowed = "a whole number from 1, or a fraction between 0 and 1" + (", or 'auto'" if auto else "")
        raise InputError(("must be ", InPython("None, "), allowed), param="n_components", value=k)
