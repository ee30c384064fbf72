"""Freezes what the cases give on this machine: `python -m tests.golden.freeze`.

The last bits of results depend on the machine: which instructions NumPy and BLAS use, and which versions they are of.
So there is one file of results for each fingerprint of a machine. `OPENBLAS_CORETYPE=Haswell` with
`NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"` and `KPCA_SIMD=v3` makes a newer machine one of AVX2.

Run it where results are meant to change, and say in the commit why they do.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # its BLAS is part of the fingerprint, and is loaded with it
import sklearn
from threadpoolctl import threadpool_info

import kpca
from kpca.kernels import profiles
from tests.golden import cases

FOLDER = Path(__file__).parent
# Entries of an array that are stored: all of a small one, the first of a large one.
SMALL, FIRST = 40, 8


def fingerprint() -> dict[str, Any]:
    """Return what the last bits depend on."""
    from numpy._core import _multiarray_umath as numpy_core

    features = numpy_core.__cpu_features__
    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "machine": platform.machine(),
        "numpy dispatches to": [name for name in numpy_core.__cpu_dispatch__ if features.get(name)],
        "fused multiply-add": bool(features.get("FMA3")),  # the C library dispatches, too
        "blas": sorted(f"{pool['internal_api']} {pool['version']} {pool.get('architecture')}" for pool in blas),
        "kernel values by": profiles.in_use(),
        "c library": " ".join(platform.libc_ver()),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def results_file(machine: dict[str, Any]) -> Path:
    """Return where the results of a machine are stored, if they are."""
    text = json.dumps(machine, sort_keys=True).encode()
    return FOLDER / f"results-{hashlib.sha256(text).hexdigest()[:8]}.json"


def record(value: Any) -> Any:
    """Return a value as JSON: of an array its type, the hash of its bytes, its size and its first entries."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    array = np.asarray(value)
    entries = array.ravel()[: array.size if array.size <= SMALL else FIRST]
    finite = np.abs(array[np.isfinite(array)]).astype(np.float64)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32],
        "largest": float(finite.max(initial=0.0)),
        # the shortest text that is read as the same number
        "entries": [float(str(entry)) if array.dtype.kind == "f" else entry.item() for entry in entries],
    }


def frozen(found: cases.Found) -> dict[str, Any]:
    """Return what a case gives, as JSON."""
    return {name: record(value) for name, value in found.items()}


def one_blas_thread() -> bool:
    """Return True if BLAS was told to use one thread from the start."""
    return os.environ.get("OPENBLAS_NUM_THREADS") == "1"


if __name__ == "__main__":
    if not one_blas_thread():
        sys.exit("Set OPENBLAS_NUM_THREADS=1: the bits of some cases depend on it.")
    machine = fingerprint()
    lines = [f"{json.dumps(name)}: {json.dumps(frozen(cases.run(name)))}" for name in cases.CASES]
    # a case a line: a difference shows which one has changed
    text = (
        f'{{"machine": {json.dumps(machine)},\n"kpca": {json.dumps(kpca.__version__)},\n"cases": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )
    target = results_file(machine)
    target.write_text(text, encoding="utf-8")
    print(f"{target.name}: {len(lines)} cases, {len(text) / 1000:.0f} kB")
    print(json.dumps(machine, indent=1))
