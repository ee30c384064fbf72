"""Learned inverse maps: the criterion is the slow one, constants and units pass through, nothing breaks them."""

import pickle

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from preimage_models import scores_of, swiss, target
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR

import kpca
from kpca._base.errors import InputError
from kpca.kernels import RBF, Exponential, Linear, Polynomial
from kpca.preimage import gcv
from kpca.preimage.learned import NOT_FINITE, Learned, Ridge
from kpca.preimage.target import PreimageTarget


def plain(scores, rows, weights=None):
    return PreimageTarget(Linear(), np.asarray(rows), np.asarray(scores), weights, None)


def fixed(way, model):
    return way(model.scores).rows


# -- the criterion ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_criterion_is_the_slow_one(weighted):
    rng = np.random.default_rng(0)
    T, Y = rng.standard_normal((30, 2)), rng.standard_normal((30, 3))
    weights = rng.uniform(0.2, 5, 30) if weighted else None
    way = Ridge().fitted(plain(T, Y, weights))
    assert len(way.gcv) == len(gcv.WIDTHS) * len(gcv.PENALTIES)
    for gamma, alpha, value, rows in way.gcv:
        K = reference.kernel_values("rbf", T, T, gamma=gamma)
        assert rows == 30
        assert value == pytest.approx(reference.gcv(K, Y, alpha, weights), rel=1e-5)
    best = way.gcv[way.gcv[:, 2].argmin()]
    assert (way.gamma, way.alpha) == (best[0], best[1])


def test_criterion_is_leave_one_out_where_all_leverages_are_the_same():
    angles = 2 * np.pi * np.arange(24) / 24
    T = np.column_stack([np.cos(angles), np.sin(angles)])
    Y = np.random.default_rng(1).standard_normal((24, 2))
    way = Ridge(gamma=1.3).fitted(plain(T, Y))
    for gamma, alpha, value, _ in way.gcv[6:]:
        H = reference.ridge_smoother(reference.kernel_values("rbf", T, T, gamma=gamma), alpha)
        left_out = (Y - H @ Y) / (1 - np.diag(H))[:, None]
        assert value == pytest.approx(np.square(left_out).sum() / 24, rel=1e-7)


def test_criterion_on_all_rows_is_the_slow_one(monkeypatch):
    monkeypatch.setattr(gcv, "SPECTRAL_ROWS", 20)
    monkeypatch.setattr(gcv, "_BLOCK", 16)
    rng = np.random.default_rng(2)
    T = rng.standard_normal((70, 2))
    Y = np.sin(T) + 0.1 * rng.standard_normal((70, 2))
    weights = rng.uniform(0.5, 2, 70)
    way = Ridge().fitted(plain(T, Y, weights))
    refined = way.gcv[way.gcv[:, 3] == 70]
    assert 2 <= len(refined) <= 3 and set(way.gcv[:, 3]) == {20, 70}
    for gamma, alpha, value, _ in refined:
        K = reference.kernel_values("rbf", T, T, gamma=gamma)
        assert value == pytest.approx(reference.gcv(K, Y, alpha, weights), rel=1e-8)
    assert way.alpha == refined[refined[:, 2].argmin(), 1]
    # and the solution is that of the alpha it names
    K = reference.kernel_values("rbf", T, T, gamma=way.gamma)
    H = reference.ridge_smoother(K, way.alpha, weights)
    np.testing.assert_allclose(way(T).rows, H @ Y, atol=1e-9)


def test_factor_is_computed_anew_from_the_triangle_that_is_left(monkeypatch):
    monkeypatch.setattr(gcv, "_BLOCK", 16)
    rng = np.random.default_rng(3)
    M = reference.kernel_values("rbf", *(2 * [rng.standard_normal((50, 3))]), gamma=0.5)
    B = rng.standard_normal((50, 4))
    system = gcv.Penalised(M.copy())
    for alpha in (1e-3, 10.0, 1e-2):
        solution, used = system.solve(alpha, B)
        inverse = np.linalg.inv(M + alpha * np.eye(50))
        assert used == alpha
        np.testing.assert_allclose(solution, inverse @ B, rtol=1e-8, atol=1e-9)
        assert system.inverse_trace() == pytest.approx(np.trace(inverse), rel=1e-9)


def test_chosen_map_predicts_new_rows_about_as_well_as_the_best_on_the_grid():
    X = swiss(700, seed=4)
    model = target(RBF(gamma=0.2), X[:400], 20)
    new = scores_of(model, X[400:])
    way = Ridge().fitted(model)
    chosen = np.square(way(new).rows - X[400:]).mean()
    errors = [
        np.square(Ridge(alpha=alpha, gamma=gamma).fitted(model)(new).rows - X[400:]).mean()
        for gamma, alpha in {(g, a) for g, a, _, _ in way.gcv[::3]}
    ]
    assert chosen < 1.5 * min(errors)
    assert chosen < 0.5 * np.median(errors)  # there was something to choose


# -- what passes through ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("settings", [Ridge(), Ridge(alpha=1e-3), Learned(KNeighborsRegressor(3))])
def test_constant_added_to_the_data_is_added_to_the_rows(settings, offset):
    model = target(RBF(gamma=0.2), swiss(80), 10)
    moved = PreimageTarget(model.kernel, model.rows + offset, model.scores, None, None)
    here, there = fixed(settings.fitted(model), model), fixed(settings.fitted(moved), moved)
    np.testing.assert_allclose(there - offset, here, atol=1e-12 * offset + 1e-9)


@pytest.mark.parametrize("factor", [1e-3, 1e4])
def test_units_of_the_data_are_those_of_the_rows(factor):
    X = swiss(80)
    model = target(RBF(gamma=0.2), X, 10)
    scaled = target(RBF(gamma=0.2 / factor**2), X * factor, 10)
    np.testing.assert_allclose(
        fixed(Ridge().fitted(scaled), scaled),
        factor * fixed(Ridge().fitted(model), model),
        rtol=1e-6,
        atol=1e-6 * factor,
    )


@pytest.mark.parametrize("kernel", [RBF(gamma=0.2), Exponential(2.0), Polynomial(2, 1.0, 1.0)])
def test_full_rank_gives_training_rows_back(kernel):
    model = target(kernel, swiss(60, d=4))
    way = Ridge(alpha=1e-10).fitted(model)
    assert way.alpha == 1e-10
    np.testing.assert_allclose(fixed(way, model), model.rows, atol=1e-4)  # alpha times the coefficients is left


def test_weights_are_repetitions():
    X = swiss(40)
    counts = np.random.default_rng(5).integers(1, 4, 40)
    model = target(RBF(gamma=0.2), X, 8, weights=counts)
    again = np.repeat(np.arange(40), counts)
    repeated = PreimageTarget(model.kernel, X[again], model.scores[again], None, None)
    settings = Ridge(alpha=0.1, gamma=0.7)
    np.testing.assert_allclose(
        settings.fitted(repeated)(model.scores).rows, settings.fitted(model)(model.scores).rows, atol=1e-9
    )


def test_unit_of_the_weights_does_not_matter():
    model = target(RBF(gamma=0.2), swiss(60), 8, weights=np.random.default_rng(6).uniform(0.5, 2, 60))
    tiny = PreimageTarget(model.kernel, model.rows, model.scores, model.weights * 1e-6, None)
    np.testing.assert_allclose(fixed(Ridge().fitted(tiny), model), fixed(Ridge().fitted(model), model), atol=1e-7)


@pytest.mark.parametrize("settings", [Ridge(), Learned(LinearRegression())])
def test_row_alone_is_the_row_in_company(settings):
    model = target(RBF(gamma=0.2), swiss(90), 12)
    way = settings.fitted(model)
    far = np.vstack([model.scores, 1e3 * model.scores[:3]])
    together = way(far, threads=2).rows
    alone = np.vstack([way(far[i : i + 1]).rows for i in range(len(far))])
    # BLAS adds the products of one row in another order than those of many, so the two agree to rounding of the sum of
    # |k(t, t_j) c_j|. The penalty chosen here is 1e-7 and coefficients reach 1e6: that is 1e-8 for rows of spread 2.
    sizes = np.abs(way.map.dual_coef).sum(axis=0).max() if isinstance(settings, Ridge) else 1.0
    np.testing.assert_allclose(alone, together, atol=max(1e-9, 4 * np.finfo(np.float64).eps * sizes))
    assert way(far[:0]).rows.shape == (0, 5)


def test_far_from_all_scores_ridge_gives_the_mean():
    model = target(RBF(gamma=0.2), swiss(50), 5)
    np.testing.assert_allclose(Ridge().fitted(model)(np.full((1, 5), 1e6)).rows[0], model.rows.mean(axis=0))


@pytest.mark.parametrize("settings", [Ridge(), Ridge(alpha=1e-8), Learned(KNeighborsRegressor(2))])
def test_float32_stays_float32_and_is_about_the_same(settings):
    X = swiss(150).astype(np.float32)
    single = target(RBF(gamma=0.2), X, 20, dtype=np.float32)
    double = target(RBF(gamma=0.2), X, 20)
    rows = fixed(settings.fitted(single), single)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, fixed(settings.fitted(double), double), atol=5e-2)
    np.testing.assert_allclose(rows, single.rows, atol=0.5)


def test_large_coefficients_are_not_summed_in_float32():
    X = swiss(150).astype(np.float32)
    single = target(RBF(gamma=0.05), X, 20, dtype=np.float32)
    assert Ridge(alpha=1e-9, gamma=0.05).fitted(single).map.scores.dtype == np.float64
    assert Ridge(alpha=1.0, gamma=1.0).fitted(single).map.scores.dtype == np.float32


def test_small_components_matter_less():
    # the second score is noise a thousand times smaller: the map is the one without it
    rng = np.random.default_rng(7)
    t = rng.standard_normal((100, 1))
    noise = 1e-3 * rng.standard_normal((100, 1))
    rows = np.hstack([t, np.sin(t)])
    way, bare = Ridge().fitted(plain(np.hstack([t, noise]), rows)), Ridge().fitted(plain(t, rows))
    np.testing.assert_allclose(way(np.hstack([t, noise])).rows, bare(t).rows, atol=0.01)
    np.testing.assert_allclose(way(np.hstack([t, -noise])).rows, rows, atol=0.02)


# -- hostile data -----------------------------------------------------------------------------------------------------

DEGENERATE = {
    "no components": (np.empty((6, 0)), np.arange(12.0).reshape(6, 2)),
    "equal scores": (np.full((6, 2), 3.0), np.arange(12.0).reshape(6, 2)),
    "one row": (np.ones((1, 2)), np.array([[4.0, 5.0]])),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_nothing_to_learn_is_the_mean(name):
    scores, rows = DEGENERATE[name]
    found = Ridge().fitted(plain(scores, rows))(scores)
    np.testing.assert_array_equal(found.rows, np.tile(rows.mean(axis=0), (len(rows), 1)))
    assert found.converged.all() and not found.fallbacks


def test_two_rows_are_given_back():
    rows = np.array([[1.0, 7.0], [3.0, 7.0]])
    found = Ridge().fitted(plain([[-1.0], [1.0]], rows))([[-1.0], [1.0]])
    np.testing.assert_allclose(found.rows, rows, atol=1e-6)


def test_constant_columns_and_duplicates_stay_what_they_are():
    X = np.repeat(swiss(20), 3, axis=0)
    X[:, 2] = 1e5
    model = target(RBF(gamma=0.2), X)
    rows = fixed(Ridge().fitted(model), model)
    np.testing.assert_array_equal(rows[:, 2], 1e5)
    np.testing.assert_allclose(rows, X, atol=1e-3)


def test_rows_all_the_same_are_given_back():
    rows = np.full((30, 3), 0.1)
    found = Ridge().fitted(plain(np.random.default_rng(8).standard_normal((30, 2)), rows))(np.zeros((2, 2)))
    np.testing.assert_array_equal(found.rows, rows[:2])


def test_mostly_duplicates_still_have_a_bandwidth(monkeypatch):
    scores = np.zeros((60, 1))
    scores[-1] = 2.0
    rows = np.hstack([scores, scores + 1])
    found = Ridge().fitted(plain(scores, rows))(scores)
    np.testing.assert_allclose(found.rows, rows, atol=0.05)
    # the one that differs may not be among those looked at
    monkeypatch.setattr(gcv, "SPECTRAL_ROWS", 10)
    scores = np.roll(scores, 3)
    assert np.isfinite(Ridge().fitted(plain(scores, rows))(scores).rows).all()


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-18])
def test_singular_system_raises_the_penalty_and_says_so(alpha):
    scores = np.repeat(np.random.default_rng(9).standard_normal((10, 2)), 4, axis=0)
    rows = np.hstack([scores, scores**2, 1e-9 * np.arange(40)[:, None]])  # alike by their scores, yet different rows
    way = Ridge(alpha=alpha, gamma=1.0).fitted(plain(scores, rows))
    assert 1e-17 < way.alpha < 1e-10
    np.testing.assert_allclose(way(scores).rows, rows, atol=1e-4)


def test_system_that_factors_but_has_no_digits_left_counts_as_singular():
    # a wide kernel on a line: Cholesky may succeed by luck of rounding, the solution would be noise
    scores = np.linspace(0, 1, 8)[:, None]
    M = np.exp(-0.03 * np.square(scores - scores.T))
    solution, alpha = gcv.Penalised(M.copy()).solve(1e-17, np.eye(8))
    assert alpha > 1e-17
    assert np.abs(solution @ (M + alpha * np.eye(8)) - np.eye(8)).max() < 1


def test_penalty_zero_is_kept_where_it_can_be():
    scores = np.arange(5.0)[:, None]
    way = Ridge(alpha=0.0, gamma=1.0).fitted(plain(scores, scores))
    assert way.alpha == 0.0
    np.testing.assert_allclose(way(scores).rows, scores, atol=1e-12)


@given(
    st.sampled_from([RBF, lambda gamma: Exponential(float(1 / np.sqrt(2 * gamma))), lambda gamma: Linear()]),
    st.integers(-3, 3),
    st.integers(2, 30),
    st.integers(1, 4),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 10),
)
def test_whatever_comes_rows_are_finite(kernel, exponent, n, repeats, dtype, seed):
    X = np.repeat(swiss(n, d=3, seed=seed), repeats, axis=0)
    model = target(kernel(0.1 * 10.0**exponent), X, dtype=dtype)
    found = Ridge().fitted(model)(np.vstack([model.scores, 1e3 * model.scores]).astype(dtype))
    assert np.isfinite(found.rows).all() and found.rows.dtype == dtype
    spread = np.abs(X - X.mean(axis=0)).max()
    assert np.abs(found.rows[: len(X)] - X).max() < 2 * spread


# -- box, penalty, regressors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [Ridge(box=(-0.5, 0.5)), Learned(LinearRegression(), box=(-0.5, 0.5))])
def test_rows_are_in_the_box(settings):
    model = target(RBF(gamma=0.2), swiss(50), 8)
    rows = fixed(settings.fitted(model), model)
    assert rows.min() == -0.5 and rows.max() == 0.5


def test_penalty_pulls_towards_the_inputs():
    model = target(RBF(gamma=0.2), swiss(50), 8)
    inputs = model.rows + 10
    free = fixed(Ridge().fitted(model), model)
    way = Ridge(penalty=3.0).fitted(model)
    np.testing.assert_allclose(way(model.scores, inputs=inputs).rows, (free + 3 * inputs) / 4)
    np.testing.assert_array_equal(fixed(way, model), free)


def test_regressor_is_copied_and_fitted_to_rows():
    model = target(Linear(), swiss(60), 3)
    regressor = LinearRegression()
    way = Learned(regressor).fitted(model)
    assert not hasattr(regressor, "coef_")
    np.testing.assert_allclose(
        fixed(way, model), LinearRegression().fit(model.scores, model.rows).predict(model.scores)
    )


def test_weights_go_to_regressors_that_take_them():
    weights = np.random.default_rng(10).uniform(0, 5, 60) + 0.1
    model = target(Linear(), swiss(60), 2, weights=weights)
    expected = LinearRegression().fit(model.scores, model.rows, sample_weight=weights).predict(model.scores)
    np.testing.assert_allclose(fixed(Learned(LinearRegression()).fitted(model), model), expected)
    assert np.isfinite(fixed(Learned(KNeighborsRegressor()).fitted(model), model)).all()


def test_random_regressor_repeats():
    model = target(RBF(gamma=0.2), swiss(60), 4)
    settings = Learned(RandomForestRegressor(5))
    first, again, other = (fixed(settings.fitted(model, seed=seed), model) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert settings.regressor.random_state is None


def test_one_feature_is_learned_as_one_column():
    model = target(RBF(gamma=1.0), swiss(60, d=1), 4)
    found = Learned(SVR(C=100, epsilon=0.01, gamma=1.0)).fitted(model)(model.scores)
    assert found.rows.shape == (60, 1)
    assert np.abs(found.rows - model.rows).mean() < 0.2


def test_several_columns_need_a_regressor_for_them():
    model = target(RBF(gamma=0.2), swiss(40), 4)
    with pytest.raises(InputError, match=r"SVR predicts one: wrap it in sklearn\.multioutput\.MultiOutputRegressor"):
        Learned(SVR()).fitted(model)
    assert fixed(Learned(MultiOutputRegressor(SVR())).fitted(model), model).shape == (40, 5)


class Faulty(DummyRegressor):
    """Predicts infinity for large scores."""

    def predict(self, X):
        predicted = super().predict(X)
        predicted[np.abs(X).max(axis=1) > 100] = np.inf
        return predicted


def test_predictions_that_are_not_finite_become_the_mean_and_are_named():
    model = target(RBF(gamma=0.2), swiss(40), 4)
    scores = model.scores.copy()
    scores[[3, 7]] = 1e3
    found = Learned(Faulty(strategy="median"), box=(-100, 100)).fitted(model)(scores)
    np.testing.assert_allclose(found.rows[[3, 7]], np.tile(model.rows.mean(axis=0), (2, 1)))
    assert list(found.fallbacks) == [NOT_FINITE]
    np.testing.assert_array_equal(np.flatnonzero(found.fallbacks[NOT_FINITE]), [3, 7])
    np.testing.assert_array_equal(found.converged, ~found.fallbacks[NOT_FINITE])


class Narrow(DummyRegressor):
    """Fits several columns, predicts one."""

    def predict(self, X):
        return super().predict(X)[:, 0]


class Wide(DummyRegressor):
    """Predicts a column too many."""

    def predict(self, X):
        return np.hstack([super().predict(X), np.zeros((len(X), 1))])


BAD = [
    (Ridge(alpha=-1.0), "alpha must be None, to have it chosen, or a finite number from 0; got -1.0."),
    (Ridge(alpha=True), "alpha must be None"),
    (Ridge(alpha=np.inf), "alpha must be None"),
    (Ridge(gamma=0.0), "gamma must be None, to have it chosen, or a finite number above 0; got 0.0."),
    (Ridge(gamma="scale"), "gamma must be None"),
    (Ridge(rescale=2), "rescale must be True or False; got 2."),
    (Ridge(box=(1, 0)), "box must have low <= high"),
    (Ridge(penalty=-1), "penalty must be a finite number"),
    (Learned(KNeighborsRegressor), "regressor must be an estimator with fit and predict"),
    (Learned(None), "regressor must be an estimator with fit and predict"),
    (Learned(Narrow()), "Narrow predicts one: wrap it"),
    (Learned(Wide()), r"regressor must predict an array of shape \(1, 5\); Wide predicted \(1, 6\)"),
    (Learned(KNeighborsRegressor(-3)), "regressor must learn rows from scores; KNeighborsRegressor says"),
    (Learned(LinearRegression(), box=3), "box must be None or a pair"),
]


@pytest.mark.parametrize(("settings", "sentence"), BAD)
def test_bad_parameters_are_one_sentence(settings, sentence):
    model = target(RBF(gamma=0.2), swiss(30), 4)
    with pytest.raises(InputError, match=sentence):
        settings.fitted(model)


def test_memory_is_asked_for():
    model = plain(np.zeros((6000, 1)), np.arange(12_000.0).reshape(6000, 2))
    with kpca.config(memory_limit="100MiB"), pytest.raises(InputError, match="or learn from fewer rows"):
        Ridge().fitted(model)


def test_settings_are_parameters_and_ways_can_be_pickled():
    settings = Ridge(alpha=0.5, box=(0, 1))
    assert clone(settings).get_params() == settings.get_params()
    assert clone(Learned(SVR(C=3))).regressor.C == 3
    model = target(RBF(gamma=0.2), swiss(30), 4)
    way = Ridge().fitted(model)
    np.testing.assert_array_equal(fixed(pickle.loads(pickle.dumps(way)), model), fixed(way, model))


def test_a_regressor_that_refuses_for_another_reason_is_heard():
    model = plain(np.arange(12.0).reshape(6, 2), np.arange(18.0).reshape(6, 3))
    with pytest.raises(InputError, match="MLPRegressor says: The 'alpha' parameter"):
        Learned(MLPRegressor(alpha=-1.0)).fitted(model)
    with pytest.raises(InputError, match="SVR predicts one: wrap it in"):
        Learned(SVR()).fitted(model)
