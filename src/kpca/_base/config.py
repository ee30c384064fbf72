"""Settings about the machine, not the model: memory, threads, progress, checkpoints.

`kpca.set_config(...)` sets them for the process, `kpca.config(...)` for a `with` block; blocks live in a context
variable, so threads and coroutines of a program do not disturb each other.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import joblib
from scipy import sparse

from kpca._base.errors import InputError, InPython, Setting, Words

ProgressCallback = Callable[[dict[str, Any]], Any]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class Settings:
    """What the machine may be used for; None means: look at the machine."""

    memory_limit: int | None = None
    threads: int | None = None
    progress: bool | ProgressCallback = False
    checkpoint: str | None = None
    device: str | None = None


DEVICES = ("cpu",)
_process = [Settings()]  # what set_config changes, for all threads
_block: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("kpca_block", default=None)
_UNSET: Any = object()


def _now() -> Settings:
    """Return the settings in force: those of the process, changed by the `with` blocks around this call."""
    inside = _block.get()
    return replace(_process[0], **inside) if inside else _process[0]


def get_config() -> dict[str, Any]:
    """Return the settings in force as a dictionary."""
    return asdict(_now())


def set_config(
    *,
    memory_limit: Any = _UNSET,
    threads: Any = _UNSET,
    progress: Any = _UNSET,
    checkpoint: Any = _UNSET,
    device: Any = _UNSET,
) -> None:
    """Change settings of the process until they are changed again; what is not given stays as it is."""
    _process[0] = replace(_process[0], **_checked(memory_limit, threads, progress, checkpoint, device))


@contextlib.contextmanager
def config(
    *,
    memory_limit: Any = _UNSET,
    threads: Any = _UNSET,
    progress: Any = _UNSET,
    checkpoint: Any = _UNSET,
    device: Any = _UNSET,
) -> Iterator[None]:
    """Change settings within a `with` block.

    Parameters
    ----------
    memory_limit : int, str or None
        Bytes a fit or transform may take beyond what the process holds already: a number or text such as "2GiB".
        None (default) is half of the memory that is free.
    threads : int or None
        Worker threads; None (default) is one per core.
    progress : bool or callable
        True prints a line per pass to stderr. A callable gets a dictionary with `pass`, `residual`, `tol`, `elapsed`
        and `remaining`, in a pass over rows also `rows` and `of`, before each method of `kpca.compare` also `method`,
        `number` and `of`; when it returns False the work stops with `kpca.Cancelled`.
    checkpoint : path or None
        File in which a fit by block Krylov keeps its state, one for each fit that may run at the same time. Killed at
        any moment and started again with the same data and parameters, it goes on where the file says and ends with
        the same result; with others it is refused. Writing takes at most about a tenth of the time. The file is removed
        when the fit has converged. Fits that take another way (few rows, many components, the linear kernel) are short
        and do not use it.
    device : str or None
        Where to compute: None (default) is where the data are, "cpu" the main memory. There is no other device yet.

    Examples
    --------
    >>> import kpca
    >>> with kpca.config(memory_limit="2GiB", threads=2):
    ...     kpca.get_config()["memory_limit"]
    2147483648
    """
    token = _block.set({**(_block.get() or {}), **_checked(memory_limit, threads, progress, checkpoint, device)})
    try:
        yield
    finally:
        _block.reset(token)


def _checked(memory_limit: Any, threads: Any, progress: Any, checkpoint: Any, device: Any) -> dict[str, Any]:
    """Return the settings that were given, in their final form."""
    given: dict[str, Any] = {}
    if memory_limit is not _UNSET:
        given["memory_limit"] = None if memory_limit is None else parse_bytes(memory_limit)
    if threads is not _UNSET:
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, Integral) or threads < 1):
            raise InputError("must be a whole number of at least 1", param="threads", value=threads)
        given["threads"] = None if threads is None else int(threads)
    if progress is not _UNSET:
        if not (isinstance(progress, bool) or callable(progress)):
            raise InputError("must be True, False or a callable", param="progress", value=progress)
        given["progress"] = progress
    if checkpoint is not _UNSET:
        given["checkpoint"] = None if checkpoint is None else _file_path("checkpoint", checkpoint)
    if device is not _UNSET:
        given["device"] = None if device is None else check_device(device)
    return given


def check_device(device: object) -> str:
    """Return the name of a device that an engine of `kpca.gram` computes on."""
    if not isinstance(device, str) or device not in DEVICES:
        there = " or ".join(map(repr, DEVICES))
        raise InputError(f"must be None (where the data are) or {there}", param="device", value=device)
    return device


def device_setting() -> str | None:
    """Return the device setting in force; asked for each new row, so without making `Settings`."""
    device: str | None = (_block.get() or {}).get("device", _process[0].device)
    return device


def _file_path(name: str, path: object) -> str:
    """Return the absolute path of a file that exists or could: the program may change its folder later."""
    if not isinstance(path, str | os.PathLike) or not (text := os.fsdecode(path)) or "\0" in text:
        raise InputError("must be None or the path of a file", param=name, value=path)
    whole = os.path.abspath(text)
    if os.path.isdir(whole):
        raise InputError(f"must be the path of a file; got the folder {text!r}", param=name, remedy="add a name to it")
    if not os.path.isdir(os.path.dirname(whole)):
        raise InputError("must be in a folder that exists", param=name, value=text, remedy="create the folder first")
    return whole


def parse_bytes(limit: object) -> int:
    """Return a number of bytes from a number or from text such as "300MiB"."""
    given = limit
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", limit)
        if match and match[2].lower() in _UNITS:
            limit = float(match[1]) * _UNITS[match[2].lower()]
    number: Any = limit
    if isinstance(limit, bool) or not isinstance(limit, Real) or not 1 <= number < 2**63:
        must = 'must be a number of bytes or text such as "2GiB" or "300MB"'
        raise InputError(must, param="memory_limit", value=given)
    return int(number)


def progress_callback() -> bool | ProgressCallback:
    """Return the progress setting in force."""
    return _now().progress


def checkpoint_path() -> str | None:
    """Return the checkpoint setting in force."""
    return _now().checkpoint


def thread_count(n_jobs: int | None = None) -> int:
    """Return the worker threads: `n_jobs` if given (joblib's meaning), else the setting, else one per (shared) core."""
    return int(joblib.effective_n_jobs(n_jobs)) if n_jobs is not None else _now().threads or _core_share()


def memory_limit() -> int | None:
    """Return the limit that was set, None if there is none."""
    return _now().memory_limit


def memory_budget() -> int:
    """Return the bytes a fit may take: the limit set, or half of what is free, shared among joblib workers."""
    limit = _now().memory_limit
    return int(0.5 * _free_memory() * _core_share() / _cores()) if limit is None else limit


@functools.cache
def _cores() -> int:
    return int(joblib.cpu_count())


def _core_share() -> int:
    # joblib tells its worker processes their share of the cores through the variables of the BLAS libraries.
    share = os.environ.get("OPENBLAS_NUM_THREADS", "")
    in_worker = multiprocessing.current_process().name.startswith("LokyProcess")
    return max(1, min(_cores(), int(share))) if in_worker and share.isdigit() else _cores()


def _free_memory() -> int:
    """Return the bytes that can still be allocated, also inside a container with a limit of its own."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError):
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        free = int(match[1]) * 1024 if match else free
    with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        free = min(free, max(0, limit - int((group / "memory.current").read_text())))
    return free


# -- memory as a promise -----------------------------------------------------------------------------------------------

MIB = 2**20
BASE = 12 * MIB  # stacks of threads, buffers of BLAS, small arrays, and what the allocator keeps to itself
BLAS_BUFFER = 18 * MIB  # what BLAS takes per thread for products of all of the data at once
# Needs below this are not compared with the memory that is free: to ask takes longer than such a fit.
_UNASKED = 64 * MIB
_LESS_WORK = ("ask for fewer ", Setting("n_components"), ", or use ", Setting("approximation", "nystroem"))
MEMORY_LIMIT = InPython("kpca.config(memory_limit=...)", Setting("memory_limit"))  # in messages, as what to raise


def require(needed: int, budget: Callable[[], int], remedy: Words = _LESS_WORK) -> None:
    """Raise InputError if a fit needs more memory than may be used."""
    if needed <= _UNASKED and memory_limit() is None:
        return
    allowed = budget()
    if needed > allowed:
        enough = f"{-(-needed // MIB)}MiB"
        limit = InPython(f'kpca.config(memory_limit="{enough}")', Setting("memory_limit", enough))
        said = (
            f"About {needed / MIB:,.0f} MiB of memory are needed here, and the memory limit is {allowed / MIB:,.0f} MiB"
        )
        other = remedy if isinstance(remedy, tuple) else (remedy,)
        raise InputError(said, remedy=("raise it by ", limit, ", ", *other))


def rows_bytes(X: Any) -> int:
    """Return the bytes of dense or sparse rows."""
    if sparse.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes) if hasattr(X, "nbytes") else 0


def row_columns(X: Any) -> int:
    """Return the numbers in a row; of sparse rows those that are there on average, with their places."""
    if sparse.issparse(X):
        return -(-2 * int(X.nnz) // max(1, int(X.shape[0])))
    return int(X.shape[1])
