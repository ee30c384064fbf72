"""What runs in a fresh process: read a job from stdin, run it, print what it measured as JSON."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import json
import os
import re
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
MIB = 2.0**20
# Threads of BLAS go on spinning for some 0.1 s after a call: those of making the data must not take a core from what is
# measured.
_REST = 0.25


def memory_now() -> float:
    """Return the resident memory of this process in bytes; its peak so far where the system does not tell."""
    return _status("VmRSS") or _usage()


def memory_peak() -> float:
    """Return the largest resident memory in bytes since `reset_peak`."""
    # Not ru_maxrss where it can be helped: a new process inherits the peak of the one that started it.
    return _status("VmHWM") or _usage()


def reset_peak() -> None:
    """Forget the peak of imports and of making data."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(field: str) -> float:
    with contextlib.suppress(OSError):
        match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return float(match[1]) * 1024 if match else 0.0
    return 0.0


def _usage() -> float:
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


class OtherWork:
    """How much of the machine other programs took meanwhile: times measured on a busy machine mean little."""

    def __init__(self) -> None:
        self._start = self._cpu_seconds()

    def share(self, seconds: float) -> float:
        """Return the part of all cores that others used in the last `seconds`, from the start on."""
        now = self._cpu_seconds()
        others = (now[0] - self._start[0]) - (now[1] - self._start[1])
        return max(0.0, others / (seconds * (os.cpu_count() or 1)))

    @staticmethod
    def _cpu_seconds() -> tuple[float, float]:
        """Return the time all programs have used, and this one."""
        own = time.process_time()
        with contextlib.suppress(OSError):
            user, nice, system = map(int, Path("/proc/stat").read_text().split(maxsplit=4)[1:4])
            return (user + nice + system) / os.sysconf("SC_CLK_TCK"), own
        return own, own


def measure(call: Callable[[], Result]) -> tuple[Result, dict[str, Any]]:
    """Call once, and return the result, the seconds, and the peak memory above what the process held before."""
    gc.collect()
    time.sleep(_REST)
    reset_peak()
    before = memory_now()
    others = OtherWork()
    start, cpu = time.perf_counter(), time.process_time()
    result = call()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    share, peak = others.share(seconds), (memory_peak() - before) / MIB
    return result, {"seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak, "others_share": share}


def measure_many(call: Callable[[], Result], *, at_least: int, budget: float) -> tuple[Result, dict[str, Any]]:
    """Call `at_least` times, and on until `budget` seconds are spent; return the last result, best and median time."""
    result, first = measure(call)
    times: list[float] = []
    others, cpu = OtherWork(), time.process_time()
    while len(times) < at_least or sum(times) < budget:
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, {
        "seconds": min(times),
        "median_seconds": statistics.median(times),
        "cpu_seconds": (time.process_time() - cpu) / len(times),
        "first_seconds": first["seconds"],
        "calls": len(times),
        "peak_mib": first["peak_mib"],
        "others_share": others.share(sum(times)),
    }


def bits(*arrays: Any) -> str:
    """Return a hash of arrays, the same only if every bit is."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def touch(gib: float) -> dict[str, float]:
    """Allocate, fill and free memory."""
    import numpy as np

    held = [np.ones(2**27) for _ in range(int(gib))]  # 1 GiB each, all held at the same time
    return {"gib": float(len(held))}


def function(task: str) -> Callable[..., dict[str, Any]]:
    """Return the function that a task "module:function" names."""
    module, name = task.split(":")
    found: Callable[..., dict[str, Any]] = getattr(importlib.import_module(module), name)
    return found


def bind(cores: int) -> None:
    """Bind this process, and all threads it will start, to so many cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0), key=_turn)[:cores])


def _turn(cpu: int) -> tuple[bool, int]:
    """Return when a CPU's turn comes: where a core counts as two, its second half comes after all first ones."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    with contextlib.suppress(OSError):
        return re.split("[,-]", siblings.read_text().strip())[0] != str(cpu), cpu
    return False, cpu


def main() -> None:
    """Run the job on stdin: {"task": "module:function", "args": {...}, "cores": None or a number}."""
    job = json.load(sys.stdin)
    if job["cores"]:
        bind(job["cores"])  # before any library is loaded: threads that run already stay where they are
    # Whatever a library prints must not get into the JSON.
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        result = function(job["task"])(**job["args"])
    if caught:
        result["warnings"] = sorted({str(warning.message) for warning in caught})
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
