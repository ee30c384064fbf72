"""Settings about the machine, not the model: memory, threads, progress.

`kpca.config(...)` sets them for a `with` block, `kpca.set_config(...)` until changed. They live in a context variable, so
threads and coroutines of a program do not disturb each other.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib

from kpca.errors import InputError

ProgressCallback = Callable[[dict[str, Any]], Any]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class Settings:
    """What the machine may be used for; None means: look at the machine."""

    memory_limit: int | None = None
    threads: int | None = None
    progress: bool | ProgressCallback = False


_current: contextvars.ContextVar[Settings] = contextvars.ContextVar("kpca_settings", default=Settings())  # noqa: B039
_UNSET: Any = object()


def get_config() -> dict[str, Any]:
    """Return the settings in force as a dictionary."""
    settings = _current.get()
    return {"memory_limit": settings.memory_limit, "threads": settings.threads, "progress": settings.progress}


def set_config(*, memory_limit: Any = _UNSET, threads: Any = _UNSET, progress: Any = _UNSET) -> None:
    """Change settings until they are changed again; what is not given stays as it is."""
    _current.set(_changed(memory_limit, threads, progress))


@contextlib.contextmanager
def config(*, memory_limit: Any = _UNSET, threads: Any = _UNSET, progress: Any = _UNSET) -> Iterator[None]:
    """Change settings within a `with` block.

    Parameters
    ----------
    memory_limit : int, str or None
        Bytes a fit or transform may take beyond what the process holds already: a number or text such as "2GiB".
        None (default) is half of the memory that is free.
    threads : int or None
        Worker threads; None (default) is one per core.
    progress : bool or callable
        True prints a line per pass to stderr. A callable gets a dictionary with `pass`, `residual`, `tol`, `elapsed` and
        `remaining`; when it returns False the fit stops with `kpca.Cancelled`.

    Examples
    --------
    >>> import kpca
    >>> with kpca.config(memory_limit="2GiB", threads=2):
    ...     kpca.get_config()["memory_limit"]
    2147483648
    """
    token = _current.set(_changed(memory_limit, threads, progress))
    try:
        yield
    finally:
        _current.reset(token)


def _changed(memory_limit: Any, threads: Any, progress: Any) -> Settings:
    settings = _current.get()
    if memory_limit is not _UNSET:
        settings = replace(settings, memory_limit=None if memory_limit is None else parse_bytes(memory_limit))
    if threads is not _UNSET:
        settings = replace(settings, threads=None if threads is None else _positive_int("threads", threads))
    if progress is not _UNSET:
        if not (isinstance(progress, bool) or callable(progress)):
            raise InputError(f"progress must be True, False or a callable; got {progress!r}.")
        settings = replace(settings, progress=progress)
    return settings


def parse_bytes(limit: object) -> int:
    """Return a number of bytes from a number or from text such as "300MiB"."""
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", limit)
        if match and match[2].lower() in _UNITS:
            limit = float(match[1]) * _UNITS[match[2].lower()]
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 1 <= limit < 2**63:
        raise InputError(f'memory_limit must be a number of bytes or text such as "2GiB" or "300MB"; got {limit!r}.')
    return int(limit)


def _positive_int(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1; got {value!r}.")
    return value


def progress_callback() -> bool | ProgressCallback:
    """Return the progress setting in force."""
    return _current.get().progress


def thread_count(n_jobs: int | None = None) -> int:
    """Return the number of worker threads: `n_jobs` if given (joblib's meaning), else the setting, else one per core.

    Inside a joblib worker process the share of the cores that joblib leaves to it counts as all there is.
    """
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs))
    return _current.get().threads or _core_share()


def memory_budget() -> int:
    """Return the bytes a fit may take: the limit set, or half of what is free, shared among joblib workers."""
    limit = _current.get().memory_limit
    if limit is not None:
        return limit
    return int(0.5 * _free_memory() * _core_share() / _cores())


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
