"""Pre-images by distances: the slow formula of the paper, exact where it can be, and never worse than a row."""

import pickle

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from preimage_models import scores_of, swiss, target
from scipy.spatial.distance import cdist

from kpca._base.errors import InputError
from kpca.kernels import (
    RBF,
    Cosine,
    Exponential,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Scaled,
    Sigmoid,
)
from kpca.preimage.distance import TOO_FAR, WORSE, Distance, located
from kpca.preimage.target import PreimageTarget

ARD = RBF(gamma=(0.05, 0.4, 0.1, 0.2, 0.8))
RADIAL = [RBF(gamma=0.2), Exponential(2.0), Matern(1.5, 2.0), Matern(2.5, 1.5), RationalQuadratic(0.7, 2.0), ARD]
DOT = [Linear(), Polynomial(1, 0.5, 2.0), Polynomial(3, 0.2, 1.0), Polynomial(5, 0.1, 1.0)]
ALL = [*RADIAL, Scaled(RBF(gamma=0.2), 3.0), Scaled(Polynomial(3, 0.2, 1.0), 0.5), *DOT]


def gap(model, z, t):
    """|phi(z) - P phi|^2 for one row, by the definition."""
    e = model.expansion
    g = e.directions @ t + e.centre
    B = e.rows.astype(np.float64)
    K = model.kernel.block(B, B)
    z = z[None].astype(np.float64)
    return model.kernel.diagonal(z)[0] - 2 * (model.kernel.block(z, B)[0] @ g) + g @ K @ g


def by_the_paper(model, t, neighbours):
    """Kwok and Tsang for a radial kernel with one gamma and one point, all neighbours usable."""
    e = model.expansion
    g = e.directions @ t + e.centre
    K = model.kernel.block(e.rows, e.rows)
    feature = g @ K @ g - 2 * K @ g + np.diag(K)
    near = np.argsort(feature)[:neighbours]
    squares = -np.log(1 - feature[near] / 2) / model.kernel.gamma
    return reference.located(e.rows[near], squares), e.rows[near], squares


# -- the formula ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [2, 4, 10])
def test_point_is_that_of_the_paper(neighbours):
    X = swiss(110, noise=0.1)
    model = target(RBF(gamma=0.05), X[:80], 25)
    scores = scores_of(model, X[80:])
    found = Distance(neighbours).fitted(model)(scores)
    held_back = 0
    for row, t in zip(found.rows[found.converged], scores[found.converged], strict=True):
        expected, rows, squares = by_the_paper(model, t, neighbours)
        mean = rows.mean(axis=0)
        reach = max(squares.mean() - np.square(rows - mean).sum(axis=1).mean(), 0) + 0.1 * squares.mean()
        step = expected - mean
        if step @ step > reach:
            step *= np.sqrt(reach / (step @ step))
            held_back += 1
        np.testing.assert_allclose(row, mean + step, atol=1e-7)
    assert found.converged.sum() - held_back > 20  # of 30


def test_feature_distances_are_those_of_the_expansion():
    X = swiss(80)
    model = target(RBF(gamma=0.1), X[:60], 12)
    scores = scores_of(model, X[60:])
    way = Distance(60).fitted(model)
    near, gaps = way._nearest(scores)
    expected = np.take_along_axis(model.expansion.distances(scores), near, axis=1)
    np.testing.assert_allclose(gaps, expected, atol=1e-12)
    assert (np.diff(gaps, axis=1) >= 0).all()


def test_exact_distances_give_the_point():
    rng = np.random.default_rng(0)
    X, z = rng.standard_normal((7, 8, 3)), rng.standard_normal((7, 3))
    squares = np.square(X - z[:, None]).sum(axis=2)
    everyone = np.ones((7, 8), dtype=bool)
    np.testing.assert_allclose(located(X, squares, everyone), z, atol=1e-10)
    for point, rows, its in zip(z, X, squares, strict=True):
        np.testing.assert_allclose(reference.located(rows, its), point, atol=1e-10)
    # those that are not usable may be anything
    some = everyone.copy()
    some[:, 5:] = False
    X[:, 5:], squares[:, 5:] = 1e9, 0.0
    np.testing.assert_allclose(located(X, squares, some), z, atol=1e-10)


def test_point_off_the_span_is_its_foot():
    rng = np.random.default_rng(1)
    X = np.zeros((1, 6, 4))
    X[0, :, :2] = rng.standard_normal((6, 2))
    z = rng.standard_normal(4)
    found = located(X, np.square(X - z).sum(axis=2), np.ones((1, 6), dtype=bool))
    np.testing.assert_allclose(found[0], [z[0], z[1], 0, 0], atol=1e-10)


def test_thin_directions_are_left_out():
    # what rounding adds to distances is not divided by a spread that is rounding itself
    X = np.zeros((1, 5, 2))
    X[0, :, 0] = [0.0, 1.0, 2.0, 3.0, 4.0]
    X[0, :, 1] = 1e-8 * np.array([1.0, -2.0, 2.0, -1.0, 0.0])
    z = np.array([1.5, 0.0])
    squares = np.square(X - z).sum(axis=2) * (1 + 1e-10 * np.array([1, -1, 1, -1, 1]))
    np.testing.assert_allclose(located(X, squares, np.ones((1, 5), dtype=bool))[0], z, atol=1e-6)


def test_distances_of_no_point_cannot_blow_it_up():
    # three rows nearly on a line, with distances that contradict each other
    X = np.array([[[0.0, 0.0], [1.0, 1e-5], [2.0, 0.0]]])
    squares = np.array([[0.3, 0.5, 4.0]])
    found = located(X, squares, np.ones((1, 3), dtype=bool))
    assert np.linalg.norm(found[0] - X[0].mean(axis=0)) <= np.sqrt(1.1 * squares.mean())
    assert np.linalg.norm(reference.located(X[0], squares[0])) > 1e4


# -- exact where it can be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ALL, ids=repr)
@pytest.mark.parametrize("duplicates", [1, 3])
def test_full_rank_gives_training_rows_back(kernel, duplicates):
    X = np.repeat(swiss(40), duplicates, axis=0)
    model = target(kernel, X)
    found = Distance().fitted(model)(model.scores)
    np.testing.assert_array_equal(found.rows, X)
    assert found.converged.all() and not found.fallbacks and not found.iterations.any()


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(1, 0.5, 2.0)])
def test_linear_kernel_gives_any_row_back(kernel):
    X = swiss(60)
    model = target(kernel, X[:40])
    np.testing.assert_allclose(Distance().fitted(model)(scores_of(model, X[40:])).rows, X[40:], atol=1e-6)


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_new_rows_between_known_ones_come_back_about(kernel):
    X = swiss(240, noise=0.0)
    model = target(kernel, X[:200])
    found = Distance().fitted(model)(scores_of(model, X[200:]))
    nearest = np.square(cdist(X[200:], X[:200]).min(axis=1)).mean()
    errors = np.square(found.rows - X[200:]).sum(axis=1).mean()
    if kernel.singular_at_zero:  # new rows are far from the span of known ones, and the nearest row is often taken
        assert errors < 0.95 * nearest
    else:
        assert errors < 0.6 * nearest and found.converged.mean() > 0.5


def test_point_between_two_rows_is_in_the_middle():
    model = target(RBF(gamma=0.3), np.array([[0.0, 1.0], [2.0, 1.0]]))
    np.testing.assert_allclose(Distance().fitted(model)(np.zeros((1, 1))).rows, [[1.0, 1.0]], atol=1e-7)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_never_farther_in_feature_space_than_the_nearest_row_or_a_row_with_these_scores(kernel):
    X = swiss(70, noise=0.3)
    model = target(kernel, X[:50], 6)
    scores = scores_of(model, X[50:])
    found = Distance().fitted(model)(scores)
    nearest = model.expansion.distances(scores).min(axis=1)
    outside = model.kernel.diagonal(found.rows) - model.expansion.squares(scores)
    for row, t, limit in zip(found.rows, scores, np.maximum(nearest, outside), strict=True):
        assert gap(model, row, t) <= limit + 1e-9 * max(1.0, model.expansion.diagonal.max())
    assert set(found.fallbacks) <= {WORSE}


# -- what passes through ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_constant_added_to_the_data_is_added_to_the_rows(kernel, offset):
    X = swiss(70)
    X = (X + offset) - offset  # what is left of X beside the offset
    model = target(kernel, X[:50], 15)
    moved = target(kernel, X[:50] + offset, 15)
    scores = scores_of(model, X[50:])
    here = Distance().fitted(model)(scores)
    # the same scores: signs of components are not fixed in the reference
    moved = PreimageTarget(kernel, moved.rows, model.scores, None, _with_rows(model.expansion, moved.rows))
    there = Distance().fitted(moved)(scores)
    np.testing.assert_allclose(there.rows - offset, here.rows, atol=1e-12 * offset + 1e-9)
    np.testing.assert_array_equal(there.converged, here.converged)


def _with_rows(expansion, rows):
    return type(expansion)(**{**vars(expansion), "rows": rows})


@pytest.mark.parametrize("factor", [1e-3, 1e4])
def test_units_of_the_data_are_those_of_the_rows(factor):
    X = swiss(70)
    model = target(RBF(gamma=0.1), X[:50], 15)
    scaled = target(RBF(gamma=0.1 / factor**2), X[:50] * factor, 15)
    here = Distance().fitted(model)(scores_of(model, X[50:])).rows
    there = Distance().fitted(scaled)(scores_of(scaled, X[50:] * factor)).rows
    np.testing.assert_allclose(there / factor, here, atol=1e-7)


def test_bandwidth_per_feature_is_a_change_of_units():
    X = swiss(70)
    roots = np.sqrt(ARD.gamma)
    each, one = target(ARD, X[:50], 12), target(RBF(gamma=1.0), X[:50] * roots, 12)
    here = Distance().fitted(each)(scores_of(each, X[50:])).rows
    there = Distance().fitted(one)(scores_of(one, X[50:] * roots)).rows
    np.testing.assert_allclose(here * roots, there, atol=1e-7)


def test_row_alone_is_the_row_in_company_on_any_number_of_threads():
    X = swiss(240)
    model = target(RBF(gamma=0.1), X[:100], 15)
    scores = scores_of(model, X[100:])
    way = Distance().fitted(model)
    together = way(scores)
    alone = np.vstack([way(t[None]).rows for t in scores])
    np.testing.assert_allclose(alone, together.rows, atol=1e-9)
    np.testing.assert_array_equal(way(scores, threads=2).rows, together.rows)
    assert way(scores[:0]).rows.shape == (0, 5)


def test_float32_stays_float32_and_is_about_the_same():
    X = swiss(120).astype(np.float32)
    single, double = (target(RBF(gamma=0.1), X[:100], 15, dtype=dtype) for dtype in (np.float32, np.float64))
    scores = scores_of(double, X[100:])
    rows = Distance().fitted(single)(scores.astype(np.float32)).rows
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, Distance().fitted(double)(scores).rows, atol=1e-3)
    whole = target(RBF(gamma=0.1), X[:100], dtype=np.float32)
    np.testing.assert_array_equal(Distance().fitted(whole)(whole.scores).rows, whole.rows)


def test_weighted_model_is_no_different():
    weights = np.random.default_rng(2).uniform(0.5, 3, 50)
    model = target(RBF(gamma=0.1), swiss(50), weights=weights)
    np.testing.assert_array_equal(Distance().fitted(model)(model.scores).rows, model.rows)


# -- hostile data -----------------------------------------------------------------------------------------------------


def test_duplicates_do_not_crowd_out_other_neighbours():
    X = swiss(60)
    plain, crowded = target(RBF(gamma=0.1), X[:40]), target(RBF(gamma=0.1), np.repeat(X[:40], 12, axis=0))
    here = Distance().fitted(plain)(scores_of(plain, X[40:])).rows
    there = Distance().fitted(crowded)(scores_of(crowded, X[40:])).rows
    np.testing.assert_allclose(there, here, atol=1e-5)


def test_one_distinct_row_is_given_back():
    X = np.full((5, 3), 0.1)
    model = target(RBF(gamma=1.0), np.vstack([X, X + 1]))
    only = _with_rows(model.expansion, np.full((10, 3), 0.1))
    found = Distance().fitted(PreimageTarget(model.kernel, only.rows, model.scores, None, only))(model.scores)
    np.testing.assert_array_equal(found.rows, only.rows)


@pytest.mark.parametrize("neighbours", [1, 2, 10**6])
def test_any_number_of_neighbours(neighbours):
    X = swiss(30)
    model = target(RBF(gamma=0.1), X[:20], 8)
    rows = Distance(neighbours).fitted(model)(scores_of(model, X[20:])).rows
    assert np.isfinite(rows).all()
    if neighbours == 1:
        assert cdist(rows, X[:20]).min(axis=1).max() < 1e-14


def test_distances_that_cannot_be_turned_back_are_named():
    model = target(RBF(gamma=0.1), swiss(30), 8)
    scores = model.scores.copy()
    scores[4] = 5.0
    found = Distance().fitted(model)(scores)
    np.testing.assert_array_equal(np.flatnonzero(found.fallbacks[TOO_FAR]), [4])
    assert not found.converged[4] and (found.rows[4] == model.rows).all(axis=1).any()


@pytest.mark.parametrize("huge", [1e160, 1e300])
@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_huge_scores_give_finite_rows_without_a_warning(kernel, huge):
    model = target(kernel, swiss(30), 4)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(Distance().fitted(model)(np.full((3, 4), huge)).rows).all()


@given(
    st.sampled_from(["rbf", "exponential", "matern", "quadratic", "ard", "linear", "cubic"]),
    st.integers(-3, 3),
    st.integers(2, 25),
    st.integers(1, 4),
    st.integers(1, 30),
    st.sampled_from([np.float32, np.float64]),
)
def test_whatever_comes_rows_are_finite_and_near_the_data(name, exponent, n, repeats, k, dtype):
    X = np.repeat(swiss(n, d=3, seed=n), repeats, axis=0)
    X[:, 1] = X[0, 1]
    width = float(np.median(cdist(X, X)) or 1.0) * 10.0**exponent
    kernel = {
        "rbf": RBF(sigma=width),
        "exponential": Exponential(width),
        "matern": Matern(2.5, width),
        "quadratic": RationalQuadratic(0.5, width),
        "ard": RBF(sigma=(width, 1e-3 * width, 1e3 * width)),
        "linear": Linear(),
        "cubic": Polynomial(3, 1.0 / width**2, 1.0),
    }[name]
    model = target(kernel, X, k, dtype=dtype)
    scores = np.vstack([model.scores, 0.5 * model.scores, scores_of(model, X + 0.1), 1e3 * model.scores]).astype(dtype)
    found = Distance().fitted(model)(scores)
    assert np.isfinite(found.rows).all() and found.rows.dtype == dtype
    np.testing.assert_allclose(found.rows[:, 1], X[0, 1], rtol=1e-6)  # rows that share a value have it


# -- box, penalty, refusals -------------------------------------------------------------------------------------------


def test_rows_are_in_the_box_and_pulled_towards_the_inputs():
    X = swiss(60)
    model = target(RBF(gamma=0.1), X[:40], 8)
    scores = scores_of(model, X[40:])
    free = Distance().fitted(model)(scores).rows
    boxed = Distance(box=(-0.5, 0.5)).fitted(model)(scores).rows
    np.testing.assert_array_equal(boxed, np.clip(free, -0.5, 0.5))
    way = Distance(penalty=3.0).fitted(model)
    np.testing.assert_allclose(way(scores, inputs=X[40:]).rows, (free + 3 * X[40:]) / 4)
    np.testing.assert_array_equal(way(scores).rows, free)


@pytest.mark.parametrize(
    "kernel",
    [
        Polynomial(2, 0.2, 1.0),
        Polynomial(0, 0.2, 1.0),
        Sigmoid(0.1, 0.0),
        Cosine(),
        Laplacian(0.2),
        RBF(gamma=0.2) + Linear(),
        RBF(gamma=0.2) * Linear(),
        Scaled(RBF(gamma=0.2), 0.0),
    ],
    ids=repr,
)
def test_kernel_that_cannot_be_turned_back_is_refused(kernel):
    model = target(RBF(gamma=0.2), swiss(20), 4)
    with pytest.raises(InputError, match="preimage='distance' needs a kernel whose distances can be turned back"):
        Distance().fitted(PreimageTarget(kernel, model.rows, model.scores, None, model.expansion))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (Distance(0), "neighbours must be a whole number from 1; got 0."),
        (Distance(2.5), "neighbours must be a whole number from 1; got 2.5."),
        (Distance(True), "neighbours must be a whole number from 1; got True."),
        (Distance(rescale="yes"), "rescale must be True or False; got 'yes'."),
        (Distance(box=(1, 0)), "box must have low <= high"),
        (Distance(penalty=np.nan), "penalty must be a finite number"),
    ],
)
def test_bad_parameters_are_one_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        settings.fitted(target(RBF(gamma=0.2), swiss(20), 4))


def test_model_without_rows_is_refused():
    model = target(RBF(gamma=0.2), swiss(20), 4)
    with pytest.raises(InputError, match="needs a model that is a combination of known rows"):
        Distance().fitted(PreimageTarget(model.kernel, model.rows, model.scores, None, None))


def test_way_can_be_pickled():
    model = target(RBF(gamma=0.2), swiss(30), 4)
    way = Distance().fitted(model)
    again = pickle.loads(pickle.dumps(way))
    np.testing.assert_array_equal(again(model.scores).rows, way(model.scores).rows)
