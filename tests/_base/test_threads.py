"""Thread limits of BLAS are put back, also when several fits overlap in threads."""

import threading

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
