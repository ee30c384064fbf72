"""A plan says what a fit will do, in words and as data; and a memory limit is a promise."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import kpca
from kpca import InputError, KernelPCA
from kpca._base.config import parse_bytes
from kpca.estimators import memory
from kpca.estimators.cost import machine_rates, tile_cost, usual_passes
from kpca.estimators.plan import approximation_needed, size_words, time_words
from kpca.gram.tiles import EDGE, edges
from kpca.spectrum.krylov import basis_size, block_size, smallest_basis

SOURCE = Path(kpca.__file__).parents[1]


def data(n, d, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(4, d))[rng.integers(0, 4, n)] * 3 + rng.normal(size=(n, d))).astype(dtype)


def kpca_held(n, d):
    """The data, and for a Gaussian kernel two prepared copies in float32 and two in float64."""
    return 8 * n * d + 2 * n * (d + 2) * (4 + 8)


# -- the plan and the fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 3, 12, 40, None])
@pytest.mark.parametrize(("n", "d"), [(60, 4), (300, 30), (800, 5), (1500, 3)])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_fit_goes_the_way_that_was_planned(kernel, n, d, k, dtype):
    if k is None and n > 800:
        pytest.skip("all components of many rows take seconds and say no more than those of few")
    X = data(n, d, dtype)
    model = KernelPCA(k, kernel=kernel, gamma=0.05, tol=1e-3)
    plan = kpca.plan(X, estimator=model)
    assert plan.route == model.fit(X).solver_
    assert (plan.n, plan.d) == X.shape
    available = min(n, d) if kernel == "linear" else n
    assert plan.k == min(k or available, available)


@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_a_solver_that_is_asked_for_is_planned(solver):
    X = data(900, 6)
    model = KernelPCA(4, kernel="rbf", eigen_solver=solver)
    assert kpca.plan(X, estimator=model).route == model.fit(X).solver_ == solver


def test_blocks_tiles_and_basis_are_those_of_the_fit():
    plan = kpca.plan((9000, 20), 7, kernel="rbf")
    assert plan.block == block_size(7)
    assert plan.basis == basis_size(7, 9000)
    cuts = edges(9000, EDGE[4])
    assert (plan.tile_rows, plan.tiles) == (cuts[0].stop, len(cuts) * (len(cuts) + 1) // 2)
    assert plan.tiles_kept <= plan.tiles


@pytest.mark.parametrize(("shape", "route"), [((3000, 2000), "primal-krylov"), ((2000, 3000), "dual-krylov")])
def test_linear_routes_that_only_multiply(shape, route):
    plan = kpca.plan(shape, 5)
    assert plan.route == route
    assert plan.block == block_size(5)


def test_a_fraction_is_planned_from_the_data_and_said_to_be_a_guess():
    X = data(3000, 8)
    plan = kpca.plan(X, 0.9, kernel="rbf", gamma=0.02, tol=1e-3)
    fitted = KernelPCA(0.9, kernel="rbf", gamma=0.02, tol=1e-3).fit(X)
    assert not plan.k_known
    assert fitted.n_components_ <= plan.k
    assert "about" in str(plan).splitlines()[2]


def test_passes_are_foreseen_from_some_rows():
    rng = np.random.default_rng(0)
    easy, hard = data(3000, 5), rng.normal(size=(3000, 200))
    plans = [kpca.plan(X, 3, kernel="rbf", gamma=0.5 / X.shape[1], tol=1e-6) for X in (easy, hard)]
    fits = [KernelPCA(3, kernel="rbf", gamma=0.5 / X.shape[1], tol=1e-6).fit(X) for X in (easy, hard)]
    assert plans[0].passes < plans[1].passes
    for plan, fit in zip(plans, fits, strict=True):
        assert plan.passes_range[0] <= fit.n_passes_ <= plan.passes_range[1]


def test_a_tight_limit_keeps_fewer_tiles_and_at_last_a_shorter_basis():
    plans = []
    whole = memory.krylov_bytes(20_000, 10, basis_size(10, 20_000), kpca_held(20_000, 50), 2)
    for limit in ("4GiB", whole + 100 * 2**20, whole - 10 * 2**20):
        with kpca.config(memory_limit=limit, threads=2):
            plans.append(kpca.plan((20_000, 50), 10, kernel="rbf"))
    assert plans[1].tiles_kept < plans[1].tiles
    assert plans[2].tiles_kept <= plans[1].tiles_kept
    assert smallest_basis(10, 20_000) <= plans[2].basis < plans[1].basis == plans[0].basis
    assert all(plan.memory_bound <= plan.memory_limit for plan in plans)


def test_fits_with_a_short_basis_find_the_same():
    X = data(5000, 20)
    model = KernelPCA(10, kernel="rbf", gamma=0.02, tol=1e-6)
    whole = memory.krylov_bytes(5000, 10, basis_size(10, 5000), kpca_held(5000, 20), 2)
    with kpca.config(memory_limit=whole - 16 * 5000 * 60, threads=2):
        plan = kpca.plan(X, estimator=model)
        short = KernelPCA(**model.get_params()).fit(X)
    assert plan.basis < basis_size(10, 5000)
    np.testing.assert_allclose(short.eigenvalues_, model.fit(X).eigenvalues_, rtol=1e-5)


# -- what a plan says -------------------------------------------------------------------------------------------------


def test_words_carry_the_numbers():
    with kpca.config(memory_limit="300MiB", threads=2):
        plan = kpca.plan((20_000, 50), 10, kernel="rbf", tol=1e-6)
    text = str(plan)
    assert 4 <= len(text.splitlines()) <= 9
    for word in ("krylov", "20,000 rows", "50 columns", "10 components", "2 threads", "of the 300 MiB allowed"):
        assert word in text
    assert size_words(plan.memory_bytes) in text
    assert time_words(plan.seconds) in text
    assert f"{plan.tiles_kept:,} of them kept" in text
    assert plan.precision in text
    assert plan.reason in text and plan.tiles_reason in text and plan.profiles in text


def test_units():
    assert [time_words(s) for s in (0.0012, 0.25, 0.9999, 1.234, 42.4, 90, 600, 7300)] == [
        "1.2 ms",
        "250 ms",
        "1.0 s",
        "1.2 s",
        "42 s",
        "90 s",
        "10 minutes",
        "2.0 hours",
    ]
    assert [size_words(s) for s in (2048, 1.5 * 2**20, 260 * 2**20, 2**30, 3.25 * 2**40)] == [
        "2.00 KiB",
        "1.50 MiB",
        "260 MiB",
        "1.00 GiB",
        "3.25 TiB",
    ]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: kpca.plan((20_000, 50), 10, kernel="rbf"),
        lambda: kpca.plan(data(400, 6), 0.9, kernel="rbf"),
        lambda: kpca.plan(sparse.random(900, 700, 0.05, format="csr", random_state=0), 4),
        lambda: kpca.plan((100_000, 10), 5, kernel="rbf", approximation="nystroem"),
        lambda: kpca.plan(np.eye(50), 3, kernel="precomputed"),
        lambda: kpca.plan((2000, 2000), 3, kernel="precomputed"),
        lambda: kpca.plan((500, 5), 3, kernel="rbf", fit_inverse_transform=True),
        lambda: kpca.plan((800, 5), 3, kernel=kpca.kernels.RBF(0.1) + kpca.kernels.Polynomial(2)),
    ],
)
def test_plain_data_and_plain_words(ask):
    plan = ask()
    facts = json.loads(json.dumps(plan.as_dict()))
    assert facts["route"] == plan.route
    assert facts["precision"] == plan.precision
    assert plan.seconds > 0
    assert 0 < plan.memory_bytes <= plan.memory_limit
    assert f"Route: {plan.route}" in str(plan)


def test_a_shape_is_enough_and_takes_the_same_way_as_the_data():
    X = data(2500, 7)
    for kernel in ("rbf", "linear", "poly", "laplacian", "chi2"):
        of_shape = kpca.plan(X.shape, 4, kernel=kernel)
        of_data = kpca.plan(np.abs(X), 4, kernel=kernel)
        assert (of_shape.route, of_shape.block, of_shape.tiles) == (of_data.route, of_data.block, of_data.tiles)


def test_frames_and_memory_maps(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = data(300, 4)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    routes = {kpca.plan(rows, 2, kernel="rbf").route for rows in (X, mapped, pandas.DataFrame(X), X.tolist())}
    assert routes == {"dense"}


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: kpca.plan((100,), 2), r"must be .*shape \(n, d\); got \(100,\)"),
        (lambda: kpca.plan((1, 5), 2), "at least 2 rows.*got 1"),
        (lambda: kpca.plan((100, 0), 2), "at least 1 column.*got the shape"),
        (lambda: kpca.plan((100, 5), 0), "n_components must be .*got 0"),
        (lambda: kpca.plan((100, 5), 2, kernel="rbv"), "kernel must be one of .*Did you mean 'rbf'"),
        (lambda: kpca.plan((100, 5), 2, tol=-1), "tol must be .*got -1"),
        (lambda: kpca.plan((100, 5), 2, dtype=np.int8), "dtype must be float32 or float64; got int8"),
        (lambda: kpca.plan((100, 5), 2, kernel="precomputed"), "must be square.*got shape"),
        (lambda: kpca.plan((100, 5), estimator=3), "estimator must be a KernelPCA; got int"),
        (lambda: kpca.plan((100, 5), 2, estimator=KernelPCA()), "got n_components as well: leave it out"),
        (lambda: kpca.plan(np.full((5, 2), np.nan), 2), "X must be finite"),
    ],
)
def test_bad_questions_get_one_sentence(ask, sentence):
    with pytest.raises((InputError, ValueError), match=sentence) as caught:
        ask()
    assert str(caught.value).endswith(".") or "?" in str(caught.value)


def test_parameters_are_those_of_the_estimator():
    import inspect

    own = inspect.signature(kpca.plan).parameters
    theirs = inspect.signature(KernelPCA).parameters
    for name in set(own) - {"X", "estimator", "dtype", "approximation"}:
        assert own[name].default == theirs[name].default, name


# -- limits -----------------------------------------------------------------------------------------------------------


def test_where_a_limit_cannot_hold_it_is_said_what_is_needed():
    with kpca.config(memory_limit="20MiB"):
        for ask in (lambda: kpca.plan((50_000, 20), 5, kernel="rbf"), lambda: kpca.plan((50_000, 200), 5)):
            with pytest.raises(InputError, match=r"memory limit is 20 MiB: raise it .*memory_limit=.*nystroem"):
                ask()
        X = data(20_000, 100)
        for kernel in ("rbf", "linear"):
            with pytest.raises(InputError, match="memory limit is 20 MiB"):
                KernelPCA(5, kernel=kernel).fit(X)
    model = KernelPCA(2, kernel="rbf", fit_inverse_transform=True, tol=1e-2)
    with kpca.config(memory_limit="60MiB"), pytest.raises(InputError, match="leave fit_inverse_transform out"):
        model.fit(data(4000, 3))
    fitted = KernelPCA(2, kernel="rbf").fit(data(300, 3))
    with kpca.config(memory_limit="12MiB"), pytest.raises(InputError, match="fewer rows at a time"):
        fitted.transform(data(500_000, 3))


def test_the_limit_named_in_the_message_is_enough():
    with kpca.config(memory_limit="20MiB"), pytest.raises(InputError) as caught:
        kpca.plan((30_000, 20), 5, kernel="rbf")
    asked = str(caught.value).split('memory_limit="')[1].split('"')[0]
    with kpca.config(memory_limit=asked):
        assert kpca.plan((30_000, 20), 5, kernel="rbf").tiles_kept == 0


def tile_budget(n, k, budget, held=0):
    return memory.krylov_layout(n, k, lambda: budget, held, 1).tiles


def test_what_is_left_for_tiles_never_exceeds_the_budget():
    for n, k in ((2000, 2), (20_000, 10), (30_000, 100)):
        needed = memory.krylov_bytes(n, k, basis_size(k, n), 0, 1)
        with kpca.config(memory_limit=needed + 10**6):
            assert tile_budget(n, k, needed + 10**6) == 10**6
            assert tile_budget(n, k, 2 * needed, held=needed // 2) == needed - needed // 2


def test_without_a_limit_little_memory_is_taken_for_tiles():
    plenty = 2**40
    for n in (5000, 20_000, 60_000):
        needed = memory.krylov_bytes(n, 10, basis_size(10, n), 0, 1)
        assert tile_budget(n, 10, plenty) + needed == 2 * 2**30
        assert tile_budget(n, 10, 4 * needed + 4 * n * n) + needed <= needed * 2 + 2 * n * n  # half of what was free
    assert tile_budget(100_000, 10, plenty) == 0  # there is room for a tenth of them only
    with kpca.config(memory_limit="8GiB"):
        assert tile_budget(100_000, 10, 8 * 2**30) > 6 * 2**30


def test_approximation_is_needed_only_beyond_the_limits():
    plenty = 2**40
    assert not approximation_needed(100_000, 50, 10, 1e-6, plenty)
    assert approximation_needed(2_000_000, 50, 10, 1e-6, plenty)
    assert approximation_needed(100_000, 50, 10, 1e-6, 100 * 2**20)
    assert kpca.plan((2_000_000, 20), 5, kernel="rbf", approximation="auto", dtype="float32").route == "features"
    assert kpca.plan((3000, 20), 5, kernel="rbf", approximation="auto").route == "krylov"


def test_rates_are_sane_and_measured_once():
    rates = machine_rates()
    assert machine_rates() is rates
    assert rates.flops_single > 1e8 and rates.flops_double > 1e8 and rates.fresh > 0
    X = data(50, 6)
    cheap = tile_cost(kpca.kernels.RBF(0.1), X, 4, 16, shifted=False, threads=1)
    dear = tile_cost(kpca.kernels.Laplacian(0.1), np.tile(X, (1, 20)), 4, 16, shifted=False, threads=1)
    assert 0 < cheap.fill < dear.fill
    assert usual_passes(1e-12)[0] >= usual_passes(1e-6)[0] >= usual_passes(1e-2)[0]


# -- the promise ------------------------------------------------------------------------------------------------------

PROMISE = """
    import gc, re
    from pathlib import Path
    import numpy as np
    import kpca

    def status(field):
        return int(re.search(field + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

    rng = np.random.default_rng(0)
    X = rng.normal(size=({n}, {d})).astype({dtype!r})
    model = kpca.KernelPCA({k}, kernel={kernel!r}, gamma=0.5 / {d}, **{parameters!r})
    call = lambda: model.fit(X)
    if {new}:
        model.fit(X)
        new = rng.normal(size=({new}, {d})).astype({dtype!r})
        call = lambda: model.transform(new)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    with kpca.config(memory_limit={limit!r}, threads=2):
        call()
    print(status("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize(
    ("limit", "case"),
    {
        "dense": ("64MiB", {"n": 900, "d": 20, "k": None}),
        "krylov, tiles of float64": ("64MiB", {"n": 3500, "d": 20, "k": 5}),
        "krylov, tiles of float32": ("64MiB", {"n": 5000, "d": 30, "k": 5, "dtype": "float32"}),
        "krylov, a short basis": ("70MiB", {"n": 6000, "d": 20, "k": 8, "parameters": {"tol": 1e-3}}),
        "linear": ("64MiB", {"n": 40_000, "d": 60, "k": 10, "kernel": "linear"}),
        "inverse": ("64MiB", {"n": 1800, "d": 10, "k": 3, "parameters": {"fit_inverse_transform": True, "tol": 1e-3}}),
        "transform": ("64MiB", {"n": 500, "d": 30, "k": 4, "new": 150_000}),
    }.values(),
)
def test_the_memory_limit_is_kept(limit, case):
    usual = {"dtype": "float64", "kernel": "rbf", "parameters": {}, "new": 0}
    code = textwrap.dedent(PROMISE).format(**(usual | case), limit=limit)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(SOURCE)}
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= parse_bytes(limit)


def test_a_model_of_sparse_landmarks_plans_for_sparse_rows():
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(3000), 10), rng.integers(0, 100_000, 30_000)
    X = sparse.csr_matrix((rng.random(30_000), places), shape=(3000, 100_000))
    with kpca.config(memory_limit="200MiB"):  # the rows in full would take 2 GiB
        model = KernelPCA(2, kernel="cosine", approximation=kpca.Nystroem(50), random_state=0).fit(X)
        expected, found = kpca.plan(X, estimator=model), model.plan_
    assert (found.route, found.reason) == (expected.route, expected.reason)
    assert found.memory_bytes == pytest.approx(expected.memory_bytes, rel=0.5)
