"""Solvers on arrays that are not NumPy's: a namespace that refuses everything outside the array API standard.

An operator of such arrays raises TypeError at the first array of another namespace, so what comes through shows that
vectors stay where the operator multiplies.
"""

from __future__ import annotations

import array_api_strict as xp
import numpy as np
import pytest

import kpca.gram.engine as engine_module
import kpca.gram.operator as operator_module
from kpca.gram import Centered, CrossGram, Gram, MatrixGram, Moments
from kpca.gram._numpy import NumpyCross, NumpyTiles
from kpca.gram.engine import column_norms, engine_for, like, side_by_side, some_columns, to_host
from kpca.kernels import RBF
from kpca.spectrum import solve_dense, solve_krylov

STRICT = type(xp.asarray([0.0]))
RNG = np.random.default_rng(5)
X = RNG.standard_normal((300, 4))
WEIGHTS = RNG.uniform(0.5, 2.0, 300)


class StrictGram:
    """A MatrixGram whose vectors live in another namespace."""

    def __init__(self, K, scale=None):
        self._inside = MatrixGram(K, scale=scale)
        self.scale = xp.asarray(self._inside.scale)

    def __getattr__(self, name):
        return getattr(self._inside, name)

    def placed(self, V):
        return xp.asarray(V)

    def at(self, precision):
        return self

    def __matmul__(self, V):
        assert isinstance(V, STRICT), type(V)
        return xp.asarray(self._inside @ to_host(V))

    def moments(self):
        known = self._inside.moments()
        return Moments(xp.asarray(known.image), known.trace, known.frobenius2)


class Memory:
    """Keeps the last state."""

    def __init__(self, state=None):
        self.state = state

    def load(self):
        return self.state

    def save(self, state):
        self.state = state


@pytest.mark.parametrize("weights", [None, np.sqrt(WEIGHTS)], ids=["alike", "weighted"])
@pytest.mark.parametrize(
    "solve", [lambda M: solve_krylov(M, 5, 1e-9), lambda M: solve_dense(M, 5)], ids=["krylov", "dense"]
)
def test_vectors_live_where_the_operator_multiplies(solve, weights):
    K = RBF(gamma=0.3).block(X, X)
    K = 0.5 * (K + K.T)
    expected = solve(Centered(MatrixGram(K, scale=weights)))
    found = solve(Centered(StrictGram(K, scale=weights)))
    assert isinstance(found.vectors, STRICT)
    assert isinstance(found.values, np.ndarray)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-10)
    np.testing.assert_allclose(np.abs(to_host(found.vectors).T @ expected.vectors), np.eye(5), atol=1e-6)
    np.testing.assert_allclose(found.bounds, expected.bounds, rtol=1e-6)
    np.testing.assert_allclose(np.abs(to_host(found.head(2).scores(WEIGHTS))), np.abs(expected.head(2).scores(WEIGHTS)))
    assert found.converged


def test_a_guess_a_restart_and_a_state_live_there_too():
    K = RBF(gamma=2.0).block(X, X)
    K = 0.5 * (K + K.T)
    operator, memory = Centered(StrictGram(K)), Memory()
    whole = solve_krylov(operator, 6, 1e-9, keeper=memory, room=60)  # so short a basis that it restarts
    assert isinstance(memory.state.Q, np.ndarray)
    resumed = solve_krylov(operator, 6, 1e-9, keeper=Memory(memory.state), room=60)
    np.testing.assert_allclose(resumed.values, whole.values, rtol=1e-12)
    followed = solve_krylov(operator, 6, 1e-9, start=whole.vectors)
    np.testing.assert_allclose(followed.values, whole.values, rtol=1e-9)


def test_duplicated_columns_are_replaced_by_random_ones_there():
    K = np.diag(np.arange(40, 0, -1.0))
    start = xp.asarray(np.repeat(RNG.standard_normal((40, 1)), 4, axis=1))
    found = solve_krylov(StrictGram(K), 3, 1e-10, start=start)
    np.testing.assert_allclose(found.values, [40.0, 39.0, 38.0], rtol=1e-9)


def test_ways_between_namespaces():
    V = RNG.standard_normal((6, 3))
    assert to_host(V) is V
    assert like(V, V) is V
    strict = like(V, xp.asarray(V))
    np.testing.assert_array_equal(to_host(strict), V)
    np.testing.assert_allclose(column_norms(strict), column_norms(V))
    np.testing.assert_array_equal(to_host(some_columns(strict, np.array([2, 0]))), V[:, [2, 0]])
    np.testing.assert_array_equal(to_host(side_by_side([strict, strict])), np.hstack([V, V]))


class StrictTiles:
    """The tiles of the NumPy engine, for vectors of another namespace."""

    def __init__(self, kernel, X, dtype, **options):
        self._inside = NumpyTiles(kernel, to_host(X), dtype, **options)

    def __getattr__(self, name):
        return getattr(self._inside, name)

    @property
    def diagonal(self):
        return xp.asarray(self._inside.diagonal)

    def multiply(self, V, weights=None, *, moments=False):
        assert isinstance(V, STRICT), type(V)
        host = None if weights is None else to_host(weights)
        product, image, squares = self._inside.multiply(to_host(V), host, moments=moments)
        return xp.asarray(product), xp.asarray(image), squares

    def rows_times(self, rows, V, dtype):
        assert isinstance(V, STRICT), type(V)
        return self._inside.rows_times(rows, to_host(V), dtype)


class StrictCross:
    """The same for rows against columns."""

    def __init__(self, kernel, X, Y, dtype, **options):
        self._inside = NumpyCross(kernel, to_host(X), to_host(Y), dtype, **options)
        self.constant = self._inside.constant

    def multiply(self, V):
        assert isinstance(V, STRICT), type(V)
        return xp.asarray(self._inside.multiply(to_host(V)))


class StrictEngine:
    """What a new engine has to bring."""

    devices = ("strict",)
    tiles, cross = StrictTiles, StrictCross

    def takes(self, rows):
        return isinstance(rows, STRICT)

    def placed(self, V):
        return xp.asarray(V)

    def has_single(self, kernel, rows):
        return True


@pytest.mark.parametrize("weights", [None, np.sqrt(WEIGHTS)], ids=["alike", "weighted"])
def test_another_engine(monkeypatch, weights):
    """Rows of another namespace find their engine; operators and solvers need not know."""
    monkeypatch.setattr(engine_module, "_ENGINES", (StrictEngine(), *engine_module._ENGINES))
    monkeypatch.setattr(operator_module, "many_rows", lambda n: True)  # float32 passes, too
    kernel, rows = RBF(gamma=0.3), xp.asarray(X)
    scale = None if weights is None else xp.asarray(weights)
    gram = Gram(kernel, rows, scale=scale, shifted=True)
    found = solve_krylov(Centered(gram), 5, 1e-6)
    expected = solve_krylov(Centered(Gram(kernel, X, scale=weights, shifted=True)), 5, 1e-6)
    assert isinstance(found.vectors, STRICT)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-6)  # as asked for
    assert gram.at("single") is not gram
    whole = Gram(kernel, rows, scale=scale)
    np.testing.assert_allclose(solve_dense(Centered(whole), 5).values, expected.values, rtol=1e-6)
    scores = CrossGram(kernel, rows, rows, dtype=np.dtype(np.float64)) @ to_host(found.vectors)
    assert isinstance(scores, STRICT)


def test_engine_of_main_memory():
    assert engine_for(X) is engine_for(X, "cpu")
    with pytest.raises(ValueError, match=r"^device must be None .* or 'cpu'; got 'abacus'"):
        engine_for(X, "abacus")
