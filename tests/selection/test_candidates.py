"""What the user says should be tried becomes kernels: each way to say it, and what cannot be meant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import typical_distances
from scipy import sparse

from kpca import kernels
from kpca._base.errors import InputError
from kpca.kernels import RBF, Linear, Polynomial
from kpca.selection.candidates import DEGREES, bandwidth_grid, candidates

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
CSR = sparse.random(50, 12, density=0.3, format="csr", random_state=0)
DISTANCES = {"rbf": "squares", "matern32": "squares", "laplacian": "sums", "chi2": "chi2"}


def kernels_of(wanted, rows=X, bandwidths=4, **others):
    return [candidate.kernel for candidate in candidates(wanted, rows, bandwidths, others)]


def gammas(wanted, rows=X, bandwidths=4):
    return [candidate.parameters["gamma"] for candidate in candidates(wanted, rows, bandwidths)]


# -- every way to say it ----------------------------------------------------------------------------------------------


def test_nothing_said_tries_the_usual_four() -> None:
    found = candidates(None, X, 5)
    assert [one.name for one in found] == ["linear"] + ["rbf"] * 5 + ["poly"] * len(DEGREES) + ["cosine"]


def test_names_and_lists_of_names() -> None:
    assert kernels_of("linear") == [Linear()]
    assert kernels_of(["linear", "cosine"]) == [Linear(), kernels.Cosine()]
    assert kernels_of(name for name in ("linear", "cosine")) == [Linear(), kernels.Cosine()]
    assert kernels_of({"linear", "cosine", "rbf"}) == kernels_of(["cosine", "linear", "rbf"])


@pytest.mark.parametrize("count", [1, 4, np.int64(4), np.int32(7)])
def test_a_number_is_how_many_values(count) -> None:
    assert gammas({"rbf": count}) == bandwidth_grid("rbf", X, int(count)).tolist()


@pytest.mark.parametrize("values", [[0.1, 2], (0.1, 2), np.array([0.1, 2.0]), np.array([0.1, 2.0], np.float32)])
def test_a_list_is_the_values_of_gamma(values) -> None:
    assert np.allclose(gammas({"rbf": values}), [0.1, 2.0])
    assert all(isinstance(gamma, float) for gamma in gammas({"rbf": values}))


def test_a_single_value_and_a_rule() -> None:
    assert kernels_of({"rbf": 0.5}) == [RBF(0.5)]
    assert kernels_of({"rbf": "median"}) == [RBF(kernels.resolve_gamma("median", X))]
    assert kernels_of({"rbf": ["median", 0.5]}) == [RBF(kernels.resolve_gamma("median", X)), RBF(0.5)]
    assert kernels_of({"rbf": np.array(0.5)}) == [RBF(0.5)]


def test_degrees_of_poly() -> None:
    assert [kernel.degree for kernel in kernels_of({"poly": [1, 5]})] == [1, 5]
    assert [kernel.degree for kernel in kernels_of({"poly": range(2, 4)})] == [2, 3]


def test_a_dictionary_of_lists_is_their_product() -> None:
    found = kernels_of({"poly": {"degree": [2, 3], "gamma": [0.1, "scale"], "coef0": 1}})
    scale = kernels.resolve_gamma("scale", X)
    assert set(found) == {Polynomial(degree, gamma, 1) for degree in (2, 3) for gamma in (0.1, scale)}


def test_one_gamma_per_feature_beside_a_single_one() -> None:
    wanted = {"rbf": {"gamma": [np.array([1.0, 2.0, 3.0]), 0.1]}}
    assert kernels_of(wanted) == [RBF([1.0, 2.0, 3.0]), RBF(0.1)]


def test_kernels_as_objects_and_functions() -> None:
    sum_of_two = RBF(0.1) + Linear()
    assert kernels_of([RBF(0.3), sum_of_two]) == [RBF(0.3), sum_of_two]
    assert kernels_of(RBF(0.3)) == kernels_of({RBF(0.3): None}) == [RBF(0.3)]

    def dot(A, B):
        return A @ B.T

    (found,) = candidates(dot, X, 3)
    assert found.parameters == {"kernel": dot}
    assert np.allclose(found.kernel.block(X, X), X @ X.T)


def test_parameters_of_an_estimator_hold_where_none_are_given() -> None:
    others = {"gamma": 0.5, "degree": 5, "coef0": 2.0, "kernel_params": None, "alpha": 3.0}
    assert kernels_of({"poly": {"gamma": [0.1]}}, **others) == [Polynomial(5, 0.1, 2.0)]
    assert kernels_of({"poly": {"degree": [2]}}, **others) == [Polynomial(2, 0.5, 2.0)]
    (found,) = candidates({"poly": {"degree": [2]}}, X, 3, {"gamma": "scale"})
    assert found.parameters["gamma"] == found.kernel.gamma == kernels.resolve_gamma("scale", X)
    assert candidates("linear", X, 3, {"gamma": "scale"})[0].parameters == {"kernel": "linear"}


def test_labels_are_short() -> None:
    labels = [one.label for one in candidates({"linear": None, "rbf": [1 / 3], "poly": {"degree": 2}}, X, 3)]
    assert labels == ["linear", "rbf gamma=0.333", "poly degree=2"]
    assert candidates(RBF(0.5), X, 3)[0].label == "RBF(gamma=0.5)"


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        {},
        3,
        "rbff",
        ["rbf", "nope"],
        [None],
        [["rbf"]],
        "precomputed",
        kernels.RBF,
        {"rbf": []},
        {"rbf": 0},
        {"rbf": -2},
        {"rbf": True},
        {"rbf": [0.0]},
        {"rbf": [-1.0, 1.0]},
        {"rbf": [np.nan]},
        {"rbf": "medain"},
        {"rbf": {"gama": [1.0]}},
        {"rbf": {"gamma": [[1.0, 2.0]]}},  # X has three features
        {"poly": [-1]},
        {"poly": ["two"]},
        {"poly": {"coef0": [None]}},
        {"linear": [0.1, 0.2]},
        {RBF(0.3): [1.0]},
        lambda A, B: "no number",
    ],
)
def test_what_cannot_be_meant_is_one_sentence(wanted) -> None:
    with pytest.raises(InputError) as caught:
        candidates(wanted, X, 3)
    assert "\n" not in str(caught.value)


def test_kernels_that_do_not_take_these_rows_leave_the_others() -> None:
    found = candidates(["chi2", "linear"], X, 3)
    assert [one.name for one in found] == ["chi2", "linear"]
    with pytest.raises(InputError, match="0 or above"):
        found[0].kernel.check(X)
    assert [one.name for one in candidates(["chi2", "linear"], CSR, 3)] == ["chi2", "linear"]


# -- grids of bandwidths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", DISTANCES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_middle_is_the_median_rule_and_the_end_the_nearest_rows(kernel: str, dtype) -> None:
    rows = np.abs(X).astype(dtype)
    rows[3] = rows[7]
    typical, nearest = typical_distances(rows, DISTANCES[kernel])
    factor = 0.5 if DISTANCES[kernel] == "squares" else 1.0
    assert bandwidth_grid(kernel, rows, 1) == pytest.approx([factor / typical], rel=1e-9)
    grid = bandwidth_grid(kernel, rows, 9)
    assert grid[0] == pytest.approx(factor / typical / 16, rel=1e-9)
    narrow = np.clip(4 * typical / nearest, 16, 1000)
    assert grid[-1] == pytest.approx(narrow * factor / typical, rel=1e-6)
    assert np.allclose(np.diff(np.log(grid)), np.log(grid[1] / grid[0]))


def test_sparse_rows_have_the_grid_of_dense_ones() -> None:
    for kernel in ("rbf", "exponential", "laplacian"):
        assert np.allclose(bandwidth_grid(kernel, CSR, 6), bandwidth_grid(kernel, CSR.toarray(), 6), rtol=1e-9)


@pytest.mark.parametrize("far", [1e4, 1e7, 1e9, 1e12])
def test_a_row_far_out_does_not_hide_the_others(far: float) -> None:
    grid = bandwidth_grid("rbf", np.vstack([X, [[far, 0.0, 0.0]]]), 7)
    assert np.allclose(grid, bandwidth_grid("rbf", X, 7), rtol=0.15)


@given(
    arrays(np.float64, (12, 2), elements=st.floats(-1e3, 1e3, width=32)),
    st.sampled_from(["rbf", "laplacian"]),
    st.sampled_from([2.0**-20, 2.0**10]),
    st.integers(-4, 4),
)
def test_grids_follow_the_scale_and_not_the_place(rows, kernel, scale, shift) -> None:
    rows = np.round(rows, 2)
    grid = bandwidth_grid(kernel, rows, 5)
    assert np.isfinite(grid).all() and (grid > 0).all() and (np.diff(grid) > 0).all()
    if len(np.unique(rows, axis=0)) > 1:
        power = 2 if kernel == "rbf" else 1
        assert np.allclose(bandwidth_grid(kernel, rows * scale, 5) * scale**power, grid, rtol=1e-6)
        assert np.allclose(bandwidth_grid(kernel, rows + 64 * shift, 5), grid, rtol=1e-6)


@pytest.mark.parametrize("rows", [np.ones((20, 2)) * 0.1, np.zeros((5, 1)), np.repeat(X[:2], 9, axis=0), X[:2]])
def test_rows_without_spread_still_have_a_grid(rows) -> None:
    grid = bandwidth_grid("rbf", rows, 5)
    assert np.isfinite(grid).all() and (np.diff(grid) > 0).all()


@pytest.mark.filterwarnings("error")
def test_a_spread_beyond_numbers_is_one_sentence() -> None:
    with pytest.raises(InputError, match="rescale"):
        bandwidth_grid("rbf", X * 1e200, 5)


def test_of_many_rows_some_are_looked_at_always_the_same() -> None:
    rows = RNG.normal(size=(3000, 2))
    grid = bandwidth_grid("rbf", rows, 5)
    assert np.array_equal(grid, bandwidth_grid("rbf", rows.copy(), 5))
    assert np.allclose(grid[0], 0.5 / typical_distances(rows[:1000], "squares")[0] / 16, rtol=0.1)
