"""The tiled operator against the matrix it stands for."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from reference import centred, kernel_values
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import kpca.gram.operator as operator_module
from kpca._base.config import config, get_config
from kpca._base.threads import in_order
from kpca.gram import Centered, CrossGram, Gram, MatrixGram
from kpca.gram import tiles as tiles_module
from kpca.gram.tiles import TileStore, edges
from kpca.kernels import RBF, Chi2, Exponential, Laplacian, Linear, Matern, Polynomial


@pytest.fixture(autouse=True)
def float32_tiles_also_for_few_rows(monkeypatch):
    monkeypatch.setattr(operator_module, "_DOUBLE_ROWS", 0)
    monkeypatch.setattr(operator_module, "_ONE_THREAD_ROWS", 0)


RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((1400, 6)))  # three tiles of each precision
CASES = {
    "rbf": (RBF(gamma=0.2), "rbf", {"gamma": 0.2}),
    "exponential": (Exponential(length_scale=1 / np.sqrt(0.4)), "exponential", {"gamma": 0.2}),
    "poly": (Polynomial(degree=3, gamma=0.2, coef0=1.0), "poly", {"gamma": 0.2}),
    "laplacian": (Laplacian(gamma=0.2), "laplacian", {"gamma": 0.2}),
    "chi2": (Chi2(gamma=0.2), "chi2", {"gamma": 0.2}),
}
ERROR = {"single": 3e-6, "double": 1e-12}


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_products_and_moments(name, precision, weighted):
    kernel, reference, parameters = CASES[name]
    weights = RNG.uniform(0.1, 3.0, len(X)) if weighted else np.ones(len(X))
    s = np.sqrt(weights)
    M = s[:, None] * kernel_values(reference, X, X, **parameters) * s
    gram = Gram(kernel, X, scale=s if weighted else None, threads=2).at(precision)
    V = RNG.standard_normal((len(X), 5))
    size = np.abs(M).sum(axis=1).max()
    np.testing.assert_allclose(gram @ V, M @ V, atol=ERROR[precision] * size * 10)
    moments = gram.moments()
    np.testing.assert_allclose(moments.image, M @ s, atol=ERROR[precision] * size * s.max())
    np.testing.assert_allclose(moments.trace, np.trace(M), rtol=1e-12)
    np.testing.assert_allclose(moments.frobenius2, np.sum(M**2), rtol=ERROR[precision])
    np.testing.assert_allclose(gram.diagonal(), np.diag(M), rtol=1e-12)
    np.testing.assert_allclose(
        gram.block(slice(3, 9), slice(5, 800)), M[3:9, 5:800], rtol=1e-5 if precision == "single" else 1e-9
    )
    np.testing.assert_allclose(gram.matrix(), M, atol=ERROR[precision] * np.abs(M).max())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_centring(weighted, shifted):
    weights = RNG.uniform(0.1, 3.0, len(X)) if weighted else np.ones(len(X))
    B = centred(kernel_values("rbf", X, X, gamma=0.2), weights)
    gram = Gram(RBF(gamma=0.2), X, scale=np.sqrt(weights) if weighted else None, shifted=shifted, threads=2)
    operator = Centered(gram)
    V = RNG.standard_normal((len(X), 3))
    np.testing.assert_allclose(operator @ V, B @ V, atol=1e-10)
    np.testing.assert_allclose(operator.trace(), np.trace(B), rtol=1e-10)
    np.testing.assert_allclose(operator.frobenius2(), np.sum(B**2), rtol=1e-9)
    np.testing.assert_allclose(operator.matrix(), B, atol=1e-12)
    np.testing.assert_allclose(operator @ operator.null[:, None], 0, atol=1e-10)


def test_bits_do_not_depend_on_threads_or_memory():
    V = RNG.standard_normal((len(X), 7))
    first = Gram(RBF(gamma=0.2), X, precision="single") @ V
    for threads in (1, 2, 5):
        for budget in (0, 3_000_000, 100_000_000):  # nothing, some and all of the tiles kept
            gram = Gram(RBF(gamma=0.2), X, precision="single", threads=threads, budget=budget)
            for _ in range(3):
                np.testing.assert_array_equal(gram @ V, first)


def test_tiles_are_kept_as_far_as_the_budget_goes(monkeypatch):
    monkeypatch.setattr(tiles_module, "_READING", 0.0)  # some machines compute tiles of few features as fast
    V = RNG.standard_normal((len(X), 2))
    assert sum(len(range(*cut.indices(1400))) for cut in edges(1400, 640)) == 1400
    n_tiles = 6
    for budget, kept in ((0, 0), (2_000_000, 2), (10**9, n_tiles)):
        gram = Gram(RBF(gamma=0.2), X, precision="single", threads=1)
        gram.keep_tiles(budget, reuses=10**9)  # so often that it pays on any machine
        gram @ V
        once = gram.n_evaluations
        gram @ V
        assert (gram.n_evaluations - once) / once == pytest.approx(1 - kept / n_tiles, abs=0.1)


def test_tiles_are_kept_only_where_fresh_memory_costs_less_than_it_saves():
    for reuses, kept in ((0, False), (10**9, True)):
        store = TileStore(4, 800, 10_000, reuses)
        room = store.room(0, 100, np.dtype(np.float64))
        assert store.room(1, 100, np.dtype(np.float64)) is None  # not yet known
        store.keep(0, room, seconds=1e-6)
        assert (store.room(2, 100, np.dtype(np.float64)) is not None) is kept
    large = TileStore(2, 2**24, 2**26, reuses=10**9)
    assert large.room(0, 2**21, np.dtype(np.float64)) is None  # only a first look at some of it
    large.not_kept(2**24, seconds=1.0)
    assert large.room(0, 2**21, np.dtype(np.float64)).size == 2**21


def test_little_is_asked_for_before_it_is_known_that_memory_comes_fast(monkeypatch):
    """The first megabytes may have come at once because somebody had just given them back."""
    double, store = np.dtype(np.float64), TileStore(64, 2**23, 2**40)
    monkeypatch.setattr(tiles_module, "_touch", lambda memory: 1e-6)
    store.keep(0, store.room(0, 2**20, double), seconds=1e-2)

    def slow(memory):
        assert store.room(2, 2**20, double) is None  # asked for by another thread meanwhile
        return 1.0

    monkeypatch.setattr(tiles_module, "_touch", slow)
    assert store.room(1, 2**20, double) is not None
    assert store.room(3, 2**20, double) is None  # that took too long: no more is kept
    assert store.get(0) is not None


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-10)])
def test_a_few_new_rows_and_some_more(dtype, tolerance):
    """Up to 63 have tiles of their own shape; so many known rows make several of them, for several threads."""
    known, fresh = (RNG.standard_normal((m, 3)).astype(dtype) for m in (20_001, 64))
    V = RNG.standard_normal((len(known), 5)).astype(dtype)
    exact = kernel_values("rbf", fresh, known, gamma=0.5) @ V.astype(np.float64)
    for m in (1, 2, 63, 64):
        one, many = (CrossGram(RBF(0.5), fresh[:m], known, dtype=np.dtype(dtype), threads=t) @ V for t in (1, 3))
        np.testing.assert_array_equal(one, many)
        np.testing.assert_allclose(one, exact[:m], atol=tolerance * np.abs(exact).max())


def test_half_a_tile_is_never_kept():
    store = TileStore(4, 800, 10_000)
    room = store.room(0, 100, np.dtype(np.float64))
    assert store.get(0) is None
    store.keep(0, room, seconds=1.0)
    assert store.get(0) is room


@pytest.mark.slow
def test_sparse_rows_are_not_densified():
    S = sparse.random(900, 100_000, density=1e-4, random_state=0, format="csr")
    K = Gram(RBF(gamma=0.5), S, threads=2) @ np.eye(900)[:, :4]  # dense rows would be 0.7 GB
    D = S.toarray()[:, np.asarray(S.sum(axis=0)).ravel() > 0]
    np.testing.assert_allclose(K, kernel_values("rbf", D, D[:4], gamma=0.5), atol=1e-12)


def test_memory_mapped_rows(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    V = RNG.standard_normal((len(X), 2))
    np.testing.assert_array_equal(Gram(RBF(gamma=0.2), mapped) @ V, Gram(RBF(gamma=0.2), X) @ V)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("kernel", [RBF(gamma=0.3), Matern(nu=1.5), Exponential()])
def test_an_offset_changes_nothing(kernel, offset):
    moved = X + offset  # rounded: the truth is that of the rounded rows
    K = Gram(kernel, moved).matrix()
    np.testing.assert_allclose(K, kernel.block(moved - offset, moved - offset), atol=1e-12)


def test_sums_and_products():
    kernel = 0.5 * RBF(gamma=0.2) + Linear() * Matern(nu=2.5)
    np.testing.assert_allclose(Gram(kernel, X).matrix(), kernel.block(X, X), rtol=1e-11)
    np.testing.assert_allclose(
        Gram(kernel, X).at("single") @ np.ones((1400, 1)), kernel.block(X, X).sum(1)[:, None], rtol=1e-5
    )


@pytest.mark.parametrize("rows", [1, 7, 1500])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cross(rows, dtype):
    new = np.abs(RNG.standard_normal((rows, 6))).astype(dtype)
    A = RNG.standard_normal((len(X), 4))
    cross = CrossGram(RBF(gamma=0.2), new, X.astype(dtype), dtype=np.dtype(dtype), threads=2)
    expected = kernel_values("rbf", new, X.astype(dtype), gamma=0.2) @ A
    np.testing.assert_allclose(cross @ A, expected, atol=1e-10 if dtype == "float64" else 1e-3)


def test_given_matrices_agree():
    K = kernel_values("rbf", X, X, gamma=2.0)
    K[K < 0.1] = 0.0
    V = RNG.standard_normal((len(X), 3))
    for given in (K, sparse.csr_matrix(K), aslinearoperator(K)):
        operator = MatrixGram(given)
        np.testing.assert_allclose(operator @ V, K @ V, atol=1e-12)
        np.testing.assert_allclose(operator.matrix(), K)
    assert MatrixGram(sparse.csr_matrix(K)).frobenius2() == pytest.approx(np.sum(K**2))
    assert np.isnan(MatrixGram(aslinearoperator(K)).trace())


def test_single_error_is_honest():
    """The estimate of the float32 error is no smaller than the error, and of its order."""
    gram = Gram(RBF(gamma=0.2), X)
    V, _ = np.linalg.qr(RNG.standard_normal((len(X), 6)))
    actual = np.linalg.norm(gram.at("single") @ V - gram @ V, axis=0).max()
    estimate = gram.at("single").error(V)
    assert actual <= estimate <= 20 * actual


def test_results_arrive_in_order_and_errors_stop_the_rest():
    arrived = []
    in_order(list(range(50)), lambda: lambda i: time.sleep(0.001 * (i % 3)), lambda i, _: arrived.append(i), 4)
    assert arrived == list(range(50))
    done = []

    def fail(i):
        done.append(i)
        if i == 5:
            raise ValueError("broken piece")
        time.sleep(0.002)

    with pytest.raises(ValueError, match="broken piece"):
        in_order(list(range(500)), lambda: fail, lambda i, _: None, 3)
    assert len(done) < 50


def test_threads_are_used_again_and_may_use_threads_themselves():
    def work(i):
        found = []
        in_order(list(range(20)), lambda: lambda j: 20 * i + j, lambda j, number: found.append(number), 3)
        return found

    for _ in range(20):
        arrived: list[list[int]] = []
        in_order(list(range(12)), lambda: work, lambda i, found, arrived=arrived: arrived.append(found), 4)
        assert [number for found in arrived for number in found] == list(range(240))
    assert threading.active_count() < 100  # 4 x 3 work at a time, and 20 x 4 x 3 did


def test_settings_hold_in_all_threads():
    meet, seen = threading.Barrier(3), []

    def work(_):
        meet.wait(timeout=30)  # so that there are three of them
        return get_config()["memory_limit"], np.geterr()["over"], threading.get_ident()

    with config(memory_limit="77MiB"), np.errstate(over="raise"):
        in_order([0, 1, 2], lambda: work, lambda _, found: seen.append(found), 3)
    assert {found[:2] for found in seen} == {(77 * 2**20, "raise")}
    assert len({found[2] for found in seen}) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_has_threads_of_its_own():
    def total():
        found = []
        in_order(list(range(50)), lambda: lambda i: i, lambda i, number: found.append(number), 3)
        return sum(found)

    total()
    child = os.fork()
    if child == 0:
        os._exit(0 if total() == 1225 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.slow
def test_interrupt_leaves_promptly():
    """Ctrl-C in the middle of a long product ends the process within a second or so, not after the pass."""
    code = (
        "import numpy as np; from kpca.gram import Gram; from kpca.kernels import RBF\n"
        "gram = Gram(RBF(gamma=0.1), np.random.default_rng(0).standard_normal((60000, 20)), threads=2)\n"
        "print('started', flush=True)\n"
        "gram @ np.ones((60000, 8))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "started"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    began = time.perf_counter()
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert time.perf_counter() - began < 10  # the pass itself takes longer; loose, for a busy machine
