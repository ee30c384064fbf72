"""Thread limits of BLAS are put back, also when several fits overlap in threads."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
from threadpoolctl import threadpool_info

from kpca import KernelPCA
from kpca._base import threads as blas


def counts():
    return sorted(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_overlapping_blocks_restore_the_limit():
    before = counts()
    first, second = blas.single_threaded(), blas.single_threaded()
    first.__enter__()
    second.__enter__()
    assert set(counts()) == {1}
    first.__exit__(None, None, None)  # in another order than they were opened, as threads do
    assert set(counts()) == {1}
    second.__exit__(None, None, None)
    assert counts() == before


def test_all_threads_inside_a_block():
    before = counts()
    with blas.single_threaded(), blas.all_threads():
        assert counts() == before
    assert counts() == before


def test_fits_side_by_side_agree_and_leave_blas_alone():
    X = np.random.default_rng(0).standard_normal((1500, 5))
    before, alone, together = counts(), KernelPCA(3, kernel="rbf").fit(X), []
    workers = [threading.Thread(target=lambda: together.append(KernelPCA(3, kernel="rbf").fit(X))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert counts() == before
    for model in together:
        np.testing.assert_array_equal(model.eigenvectors_, alone.eigenvectors_)


def test_large_calls_stay_on_one_thread_where_that_is_kept():
    before = counts()
    with blas.kept_single_threaded(), blas.all_threads():
        assert set(counts()) == {1}
    with blas.single_threaded(), blas.all_threads():
        assert counts() == before
    assert counts() == before


def test_what_workers_hold_is_let_go_at_once():
    """Scratch memory of a worker may be as large as the data: it must not wait for a collection of garbage."""

    class Held:
        pass

    def worker_of(held):
        return lambda piece: (held, piece)[1]

    gc.collect()
    gc.disable()
    try:
        for threads in (1, 3):
            held = Held()
            last, done = weakref.ref(held), []
            make, take = (lambda held=held: worker_of(held)), (lambda _, x, done=done: done.append(x))
            blas.in_order(list(range(20)), make, take, threads)
            del make
            del held
            wait_until = time.monotonic() + 5.0  # a thread that came late may just be looking for work
            while last() is not None and time.monotonic() < wait_until:
                time.sleep(0.001)
            assert last() is None
            assert done == list(range(20))
    finally:
        gc.enable()


def test_work_is_done_where_no_thread_can_be_started(monkeypatch):
    class Full:
        def submit(self, *work):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(blas, "_idle", Full)
    done = []
    blas.in_order(list(range(20)), lambda: lambda piece: 2 * piece, lambda _, x: done.append(x), 3)
    assert done == list(range(0, 40, 2))


def test_a_fit_at_the_very_end_of_a_program():
    """Python starts no threads then."""
    said = "import atexit, numpy as np, kpca; X = np.random.default_rng(0).standard_normal((3000, 4)); "
    said += "model = kpca.KernelPCA(2, kernel='rbf', n_jobs=2).fit(X[:9]); "  # loads what can only be loaded before
    said += "atexit.register(lambda: print(model.fit(X).n_components_))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("2", 0), done.stderr


SIDE_BY_SIDE = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from sklearn.base import clone
import kpca

X = np.random.default_rng(0).standard_normal((1500, 8)) * np.linspace(3.0, 0.5, 8)
wide = np.random.default_rng(1).standard_normal((1500, 1100))
K = np.exp(-0.02 * np.square(X[:, None] - X).sum(axis=2))
models = {
    "krylov": (kpca.KernelPCA(60, kernel="rbf", gamma=0.02, eigen_solver="krylov", tol=1e-6), X),
    "krylov in float32": (kpca.KernelPCA(60, kernel="rbf", gamma=0.02, eigen_solver="krylov"), X.astype(np.float32)),
    "the whole matrix": (kpca.KernelPCA(60, kernel="rbf", gamma=0.02), X),
    "a given matrix": (kpca.KernelPCA(60, kernel="precomputed", eigen_solver="krylov", tol=1e-6), K),
    "linear": (kpca.KernelPCA(5, tol=1e-6), wide),
    "many landmarks": (kpca.KernelPCA(5, kernel="rbf", gamma=0.02, approximation=kpca.Nystroem(1100)), X),
}
for name, (model, rows) in models.items():
    def bits(_):
        fitted = clone(model).fit(rows)
        return [fitted.eigenvalues_, fitted.eigenvectors_, fitted.eigenvalue_bounds_, fitted.transform(rows[:50])]

    alone = bits(0)
    with ThreadPoolExecutor(4) as pool:
        others = list(pool.map(bits, range(4)))
    with kpca.config(threads=1):
        others.append(bits(0))
    if not all(np.array_equal(ours, theirs) for other in others for ours, theirs in zip(alone, other)):
        print(name)
"""


def test_many_components_have_the_same_bits_alone_and_side_by_side():
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "4"}  # in a process of its own: these tests have one thread
    done = subprocess.run([sys.executable, "-c", SIDE_BY_SIDE], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout.split("\n"), done.returncode) == ([""], 0), done.stdout + done.stderr


def test_blocks_of_others_keep_a_large_call_on_one_thread():
    """Their bits depend on the threads of BLAS, which are those of the process."""
    seen, before = [], counts()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with blas.single_threaded():
            inside.set()
            leave.wait(10.0)

    with blas.single_threaded(), blas.all_threads():
        seen.append(counts())
        worker = threading.Thread(target=other)
        worker.start()
        inside.wait(10.0)
        seen.append(counts())
        leave.set()
        worker.join()
        seen.append(counts())
    assert seen == [before, [1] * len(before), before]
    assert counts() == before
