"""A failing case made as small as it gets, and printed as Python that needs nothing of the benchmark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._certificate import judge
from benchmarks._hostile import Case, draw

_SECONDS = 90.0
_WORST_FIRST = (
    *("crash", "refusal", "finite", "bounds", "tolerance", "orthogonal"),
    *("residual", "ratio", "inside", "width"),
)
# Options without which a case is simpler, in the order in which they are dropped.
_DROPPED = ("max_iter", "tol", "center", "eigen_solver", "warm_up", "degree", "coef0", "gamma", "approximation")
# Data of more numbers than this are written to a file.
_PRINTED = 400


def shrunk(seed: int, most: int, seconds: float = _SECONDS) -> str:
    """Return the case of a seed, made small as long as its worst check still fails clearly, as Python."""
    case = draw(seed, most)
    first = judge(case)
    worst = next((name for name in _WORST_FIRST if name in first.failures), None)
    if worst is None:
        return f"# the case of seed {seed} does not fail: {case.title}"
    clearly, route = min(first.failures[worst] / 2, 100.0), first.route.split(",")[0]

    def fails(simpler: Case) -> bool:
        found = judge(simpler)
        return found.failures.get(worst, 0.0) > max(clearly, 1.0) and found.route.split(",")[0] == route

    ends, smaller = time.perf_counter() + seconds, True
    while smaller:
        smaller = False
        for simpler in _simpler(case):
            if time.perf_counter() > ends:
                return _python(case)
            if fails(simpler):
                case, smaller = simpler, True
                break
    return _python(case)


def _simpler(case: Case) -> Iterator[Case]:
    """Yield cases that are a step simpler: other ways first, then options, then fewer and rounder numbers."""
    if case.how in ("saved", "resumed", "chunks"):
        yield replace(case, how="fit", options={name: text for name, text in case.options.items() if name != "stop"})
    if case.batches:
        yield replace(case, batches=())
        yield replace(case, batches=(case.batches[0] + case.batches[1], *case.batches[2:]) if case.batches[1:] else ())
    if case.weights is not None:
        yield replace(case, weights=None)
        yield replace(case, weights=np.where(case.weights < case.weights.max() / 2, case.weights.min(), 1.0))
    if case.form != "dense":
        yield replace(case, form="dense")
    for name in _DROPPED:
        if name in case.options:
            yield replace(case, options={other: text for other, text in case.options.items() if other != name})
    for name in ("n_components", "k"):
        text = case.options.get(name, "1")
        for fewer in dict.fromkeys(("1", str(int(text) // 2), str(int(text) - 1)) if text.isdigit() else ("3",)):
            if text != fewer and int(fewer) > 0:
                yield replace(case, options={**case.options, name: fewer})
    yield from _fewer(case)
    yield from _rounder(case)


def _fewer(case: Case) -> Iterator[Case]:
    """Yield cases without a part of the rows, or of the columns; parts are halves at first, then smaller."""
    n, d = case.X.shape
    parts = 2
    while parts <= 2 * n and n > 2:
        for gone in np.array_split(np.arange(n), min(parts, n)):
            rows = np.delete(np.arange(n), gone)
            if len(rows) >= 2:
                yield _rows(case, rows)
        parts *= 2
    if case.matrix or "gamma=[" in case.arguments:
        return
    for parts in dict.fromkeys((2, 4, d)):
        for gone in np.array_split(np.arange(d), min(parts, d)):
            if len(gone) < d:
                yield replace(case, X=np.delete(case.X, gone, axis=1))


def _rows(case: Case, rows: Any) -> Case:
    X = case.X[np.ix_(rows, rows)] if case.matrix else case.X[rows]
    weights = None if case.weights is None else case.weights[rows]
    batches, ends = case.batches, np.cumsum(case.batches)
    if case.batches:
        sizes = np.bincount(np.searchsorted(ends, rows, side="right"), minlength=len(ends))
        batches = tuple(int(size) for size in sizes if size)
    return replace(case, X=X, weights=weights, batches=batches)


def _rounder(case: Case) -> Iterator[Case]:
    """Yield cases whose numbers are nearer to 0, of size 1, or shorter."""
    X, kind = case.X, case.X.dtype
    if not case.matrix and X.mean(axis=0).any():
        yield replace(case, X=(X - np.rint(X.astype(np.float64).mean(axis=0))).astype(kind))
    peak = float(np.abs(X).max(initial=0.0))
    if peak > 0 and not 0.1 <= peak <= 10:
        yield replace(case, X=(X / 10.0 ** np.floor(np.log10(peak))).astype(kind))
    for digits in (0, 1, 2, 4):
        with np.errstate(all="ignore"):
            size = np.floor(np.log10(peak)) if peak > 0 else 0.0
            shorter = (np.round(X.astype(np.float64) / 10.0**size, digits) * 10.0**size).astype(kind)
        if not np.array_equal(shorter, X):
            yield replace(case, X=shorter)
            break


# -- as Python --------------------------------------------------------------------------------------------------------


def _array(name: str, A: Any, seed: int) -> str:
    if A.size <= _PRINTED:
        return f"{name} = np.array({A.tolist()}, dtype={str(A.dtype)!r})"
    os.makedirs("benchmarks/results", exist_ok=True)
    path = f"benchmarks/results/case-{seed}-{name}.npy"
    np.save(path, A)
    return f"{name} = np.load({path!r})"


_CALLS = {
    "fit": "model = kpca.KernelPCA({arguments}).fit(given{weights})",
    "saved": "kpca.save(kpca.KernelPCA({arguments}).fit(given{weights}), 'm.kpca'); model = kpca.load('m.kpca')",
    "stream": "model = kpca.IncrementalKernelPCA({arguments}).fit(given{weights})",
    "path": "found = kpca.selection.path(given, {arguments})",
}


def _python(case: Case) -> str:
    """Return lines that repeat the fit and print what was claimed; the truth and what fails are comments."""
    found = judge(case)
    lines = [
        f"# {case.title}",
        f"# {found.route}: " + ", ".join(f"{name} uses {margin:.3g} of 1" for name, margin in found.failures.items()),
        "import numpy as np, kpca; from kpca.kernels import *; from sklearn.gaussian_process import kernels as gp",
        _array("X", case.X, case.seed),
    ]
    if case.weights is not None:
        lines.append(_array("w", case.weights, case.seed))
    weights = "" if case.weights is None else ", sample_weight=w"
    forms = {"dense": "X", "csr": "scipy.sparse.csr_matrix(X)", "operator": "scipy.sparse.linalg.aslinearoperator(X)"}
    if case.form != "dense":
        lines.append("import scipy.sparse.linalg")
    lines.append(f"given = {forms[case.form]}")
    if case.batches:
        lines.append(f"model = kpca.IncrementalKernelPCA({case.arguments}); start = 0")
        part = "" if case.weights is None else ", sample_weight=w[start:start + size]"
        lines.append(f"for size in {case.batches}:")
        lines.append(f"    model.partial_fit(given[start:start + size]{part}); start += size")
    elif case.how in _CALLS:
        lines.append(_CALLS[case.how].format(arguments=case.arguments, weights=weights))
    else:  # needs parts that are not public
        lines.append(f"# then as benchmarks._ways.WAYS[{case.how!r}] does, with {case.arguments}")
    if case.how in ("fit", "saved", "stream"):
        lines.append("print(model.eigenvalues_); print(model.eigenvalue_bounds_)")
    if case.how in ("fit", "saved"):
        lines.append("print(model.residuals_)")
    lines += [f"# {line}" for line in found.crash.splitlines()]
    lines += [f"# {line}" for line in found.table]
    return "\n".join(lines)
