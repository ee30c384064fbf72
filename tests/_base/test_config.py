"""Settings about the machine: nested, restored, private to a thread; what a long fit says, and how it is stopped."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import kpca
from kpca import InputError, KernelPCA
from kpca._base.config import checkpoint_path, memory_budget, parse_bytes, thread_count

DEFAULTS = {"memory_limit": None, "threads": None, "progress": False, "checkpoint": None, "device": None}
X = np.random.default_rng(0).standard_normal((700, 5)) * [2.0, 1.4, 1.0, 0.7, 0.5]


@pytest.fixture(autouse=True)
def settings_as_found() -> Iterator[None]:
    """Put the settings back, whatever a test has done to them."""
    before = kpca.get_config()
    yield
    kpca.set_config(**before)


# -- values -----------------------------------------------------------------------------------------------------------


def test_defaults() -> None:
    assert kpca.get_config() == DEFAULTS


def test_what_is_returned_is_a_copy() -> None:
    kpca.get_config()["threads"] = 7
    assert kpca.get_config() == DEFAULTS


def test_set_config_changes_only_what_is_given() -> None:
    kpca.set_config(threads=2)
    kpca.set_config(memory_limit="1GiB")
    assert kpca.get_config() == {**DEFAULTS, "memory_limit": 2**30, "threads": 2, "progress": False}
    kpca.set_config(threads=None)
    assert kpca.get_config()["threads"] is None


def test_blocks_nest() -> None:
    with kpca.config(threads=2, memory_limit=1000):
        with kpca.config(threads=1, progress=True):
            assert kpca.get_config() == {**DEFAULTS, "memory_limit": 1000, "threads": 1, "progress": True}
        assert kpca.get_config() == {**DEFAULTS, "memory_limit": 1000, "threads": 2, "progress": False}
        kpca.set_config(threads=5, memory_limit=500)  # for the process: the block around this still holds here
        assert kpca.get_config() == {**DEFAULTS, "memory_limit": 1000, "threads": 2, "progress": False}
    assert kpca.get_config() == {**DEFAULTS, "memory_limit": 500, "threads": 5, "progress": False}


def test_settings_are_restored_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), kpca.config(threads=2):
        1 / 0  # noqa: B018
    assert kpca.get_config() == DEFAULTS


def test_a_bad_value_changes_nothing() -> None:
    with pytest.raises(InputError):
        kpca.set_config(threads=3, memory_limit="lots")
    with pytest.raises(InputError), kpca.config(threads=3, progress=1):
        raise AssertionError("the block must not run")
    assert kpca.get_config() == DEFAULTS


def test_device() -> None:
    with kpca.config(device="cpu"):
        assert kpca.get_config()["device"] == "cpu"
        assert KernelPCA(2, kernel="rbf").fit(X[:50]).eigenvalues_.shape == (2,)
    for wrong in ("cuda", "", 0):
        with pytest.raises(InputError, match=r"^device must be None \(where the data are\) or 'cpu'; got") as caught:
            kpca.set_config(device=wrong)
        assert caught.value.param == "device"
    assert kpca.get_config() == DEFAULTS


def test_unknown_setting() -> None:
    with pytest.raises(TypeError, match="memory_limt"):
        kpca.set_config(memory_limt="1GiB")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1000, 1000),
        (1e9, 10**9),
        ("7", 7),
        ("7b", 7),
        ("2GiB", 2**31),
        ("2gib", 2**31),
        (" 300 MB ", 3 * 10**8),
        ("1.5GiB", 3 * 2**29),
        ("10kB", 10**4),
        ("10KiB", 10240),
        ("4k", 4096),
        ("4M", 4 * 2**20),
        ("4G", 2**32),
        ("1TB", 10**12),
        ("1TiB", 2**40),
        (np.int64(4096), 4096),
    ],
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_bytes(text) == size
    assert isinstance(parse_bytes(text), int)


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "2 potatoes", "-1GB", "1..5GB", "1GBit", 0, -1, 0.5, float("nan"), float("inf"), True, [1], b"1GB"],
)
def test_sizes_that_are_none(text: Any) -> None:
    with pytest.raises(InputError, match=f"memory_limit must be .*; got {re.escape(repr(text))}"):
        parse_bytes(text)


def test_a_checkpoint_is_a_path_in_a_folder_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with kpca.config(checkpoint="fit.kpca"):
        monkeypatch.chdir("/")
        assert checkpoint_path() == str(tmp_path / "fit.kpca")  # as it was meant
        with kpca.config(checkpoint=None):
            assert checkpoint_path() is None
    with kpca.config(checkpoint=tmp_path / "fit.kpca"):
        assert kpca.get_config()["checkpoint"] == str(tmp_path / "fit.kpca")
    for wrong in [3, b"", "", True, ["x"], "a\0b"]:
        with pytest.raises(InputError, match="checkpoint must be None or the path of a file; got"):
            kpca.set_config(checkpoint=wrong)
    with pytest.raises(InputError, match=r"got the folder .*: add a name"):
        kpca.set_config(checkpoint=tmp_path)
    with pytest.raises(InputError, match=r"in a folder that exists; got .*: create the folder"):
        kpca.set_config(checkpoint=tmp_path / "none" / "fit")
    assert kpca.get_config() == DEFAULTS


def test_numpy_integers_are_whole_numbers() -> None:
    with kpca.config(threads=np.int64(2)):
        assert thread_count() == 2


# -- meaning ----------------------------------------------------------------------------------------------------------


def test_threads() -> None:
    cores = joblib.cpu_count()
    assert thread_count() == cores
    with kpca.config(threads=3):
        assert thread_count() == 3
        assert thread_count(1) == 1  # n_jobs wins
        assert thread_count(-1) == cores


def test_memory() -> None:
    assert 0 < memory_budget() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with kpca.config(memory_limit="3MiB"):
        assert memory_budget() == 3 * 2**20


def test_workers_share_memory_and_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two worker processes must not each take half of what is free, nor start a thread for every core."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)  # or joblib would hand that on, not a share

    def look() -> tuple[int, int]:
        return memory_budget(), thread_count()

    alone = memory_budget()
    shares = joblib.Parallel(n_jobs=2)(joblib.delayed(look)() for _ in range(2))
    for budget, threads in shares:
        assert threads == max(1, joblib.cpu_count() // 2)
        assert budget < 0.75 * alone


def test_threads_do_not_disturb_each_other() -> None:
    barrier = threading.Barrier(2, timeout=10)

    def use(threads: int) -> list[int]:
        seen = []
        with kpca.config(threads=threads):
            for _ in range(5):
                barrier.wait()
                seen.append(kpca.get_config()["threads"])
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(use, [1, 2])) == [[1] * 5, [2] * 5]
    assert kpca.get_config() == DEFAULTS


def test_coroutines_do_not_disturb_each_other() -> None:
    async def use(threads: int) -> int:
        with kpca.config(threads=threads):
            await asyncio.sleep(0.01)
            return int(kpca.get_config()["threads"])

    async def both() -> list[int]:
        return list(await asyncio.gather(use(1), use(2)))

    assert asyncio.run(both()) == [1, 2]


def test_set_config_is_seen_by_threads_started_later() -> None:
    """A program that sets its limits once at the start means all its threads."""
    kpca.set_config(memory_limit="2GiB")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(memory_budget).result() == 2**31


# -- progress ---------------------------------------------------------------------------------------------------------


def krylov_model() -> KernelPCA:
    """A fit that needs several passes."""
    return KernelPCA(3, kernel="rbf", gamma=0.1, eigen_solver="krylov")


def test_silence_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    krylov_model().fit(X)
    assert capfd.readouterr() == ("", "")


def test_progress_prints_a_line_per_pass(capfd: pytest.CaptureFixture[str]) -> None:
    with kpca.config(progress=True):
        model = krylov_model().fit(X)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == model.n_passes_ > 1
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(
            rf"kpca: pass {number}, residual \d\.\de[-+]\d+ \(asked 1\.0e-10\), \d+\.\d s, .*left.*", line
        ), line


def test_progress_callable_hears_of_every_pass() -> None:
    heard: list[dict[str, Any]] = []
    with kpca.config(progress=heard.append):
        model = krylov_model().fit(X)
    assert [state["pass"] for state in heard] == list(range(1, model.n_passes_ + 1))
    for state in heard:
        assert set(state) == {"pass", "residual", "tol", "elapsed", "remaining"}
        assert state["residual"] >= 0 and state["tol"] == 1e-10 and state["elapsed"] > 0
    assert heard[-1]["residual"] <= 1e-10 < heard[0]["residual"]
    assert heard[-1]["remaining"] == 0
    assert [state["elapsed"] for state in heard] == sorted(state["elapsed"] for state in heard)


@pytest.mark.parametrize("answer", [None, True, 0, ""])
def test_only_false_cancels(answer: Any) -> None:
    with kpca.config(progress=lambda state: answer):
        check_is_fitted(krylov_model().fit(X))


@pytest.mark.parametrize("last", [1, 2])
def test_false_cancels_and_leaves_nothing_half_fitted(last: int) -> None:
    calls: list[int] = []

    def stop(state: dict[str, Any]) -> bool:
        calls.append(state["pass"])
        return state["pass"] < last

    model = krylov_model()
    with kpca.config(progress=stop), pytest.raises(kpca.Cancelled, match=f"cancelled.*after pass {last}"):
        model.fit(X)
    assert calls == list(range(1, last + 1))
    assert [name for name in vars(model) if name not in model.get_params()] == []
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_cancelling_a_refit_leaves_the_earlier_fit_intact() -> None:
    model = krylov_model().fit(X[:, :3])
    before = {name: value for name, value in vars(model).items()}
    with kpca.config(progress=lambda state: False), pytest.raises(kpca.Cancelled):
        model.fit(X)
    assert [name for name, value in vars(model).items() if before.get(name) is not value] == []
    assert model.transform(X[:, :3]).shape == (700, 3)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_exception_in_the_callback_comes_through(error: type[BaseException]) -> None:
    calls: list[int] = []

    def interrupt(state: dict[str, Any]) -> None:
        calls.append(state["pass"])
        raise error

    model = krylov_model()
    with kpca.config(progress=interrupt), pytest.raises(error):
        model.fit(X)
    assert calls == [1]
    assert [name for name in vars(model) if name not in model.get_params()] == []
    check_is_fitted(model.fit(X))  # nothing is left locked


@pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="This machine has no timer signal to interrupt a fit with."
)
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupt_in_the_middle_of_a_pass_is_prompt(threads: int) -> None:
    """Ctrl-C does not wait for the pass: threads stop at their next tile."""

    def slow(A: Any, B: Any) -> Any:
        if len(A) > 10:
            time.sleep(0.05)
        return A @ B.T

    def interrupt(number: int, where: Any) -> None:
        raise KeyboardInterrupt

    rows = np.random.default_rng(0).standard_normal((6000, 2))  # 105 tiles, seconds per pass
    previous = signal.signal(signal.SIGALRM, interrupt)
    model = KernelPCA(2, kernel=slow, n_jobs=threads)
    started = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert time.perf_counter() - started < 2.0
    assert [name for name in vars(model) if name not in model.get_params()] == []


def test_progress_of_the_linear_kernel() -> None:
    """The linear kernel has passes too, where its small side is only multiplied."""
    heard: list[dict[str, Any]] = []
    wide = np.random.default_rng(0).standard_normal((1100, 1200)) * 0.9 ** np.arange(1200)
    with kpca.config(progress=heard.append):
        model = KernelPCA(3).fit(wide)
    assert [state["pass"] for state in heard] == list(range(1, model.n_passes_ + 1))
