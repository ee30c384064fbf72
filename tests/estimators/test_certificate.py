"""No certificate is wrong: a fixed slice of the hostile search, and the truth that it is held against."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, getcontext

import numpy as np
import pytest

from benchmarks._certificate import Outcome, check, judge
from benchmarks._exact import LD, good_enough, leading, product, truth_of
from benchmarks._hostile import SPECTRA, draw
from benchmarks._ways import Claim
from kpca import KernelPCA
from kpca.kernels import RBF, Constant, Laplacian, Linear, Matern, Polynomial, RationalQuadratic

CASES, BLOCK, QUICK = 2000, 50, 8  # in blocks, of which the first run in `make test`
slow = pytest.mark.slow
needs_long_double = pytest.mark.skipif(not good_enough(), reason="the truth needs a long double longer than double")


@needs_long_double
@pytest.mark.parametrize(
    "block", [pytest.param(i, marks=slow if i >= QUICK else ()) for i in range(CASES // BLOCK)], ids=str
)
def test_no_certificate_is_wrong(block):
    found = [judge(draw(seed, 1000)) for seed in range(block * BLOCK, (block + 1) * BLOCK)]
    wrong = [f"{one.seed}: {one.failures} {one.title} {one.crash}" for one in found if one.failures]
    assert not wrong, "\n".join(wrong)
    judged = [one for one in found if one.margins]
    assert len(judged) >= 0.8 * BLOCK  # the rest is refused, with a sentence


def claimed():
    """What a fit says of its components, and the fit as a claim."""
    X = np.random.default_rng(0).standard_normal((30, 3))
    model = KernelPCA(3, kernel="rbf", gamma=0.3, eigen_solver="dense").fit(X)
    parts = {"values": model.eigenvalues_, "bounds": model.eigenvalue_bounds_, "vectors": model.eigenvectors_}
    residuals = np.full(3, 1e-14)
    return Claim(model.kernel_, X, None, True, route="", tol=1e-10, residuals=residuals, **parts)


def failing(**changes):
    found = Outcome(0, "")
    check(replace(claimed(), **changes), found)
    return set(found.failures)


@needs_long_double
def test_every_wrong_claim_is_found():
    claim = claimed()
    width = np.ptp(claim.bounds, axis=1)[:, None]
    last = np.array([0.0, 0.0, 1e-8])
    assert failing() == set()
    assert failing(bounds=claim.bounds + 2 * width) == {"bounds", "inside"}
    assert failing(bounds=claim.bounds - 2 * width) == {"bounds", "inside"}
    assert failing(bounds=claim.bounds[:, ::-1]) == failing(bounds=np.full((3, 2), np.nan)) == {"finite"}
    assert failing(values=claim.values + last, bounds=claim.bounds + last[:, None]) == {
        "bounds",
        "tolerance",
        "residual",
    }
    assert failing(vectors=claim.vectors * (1 + 1e-13)) == {"orthogonal"}
    assert failing(vectors=np.linalg.qr(claim.vectors + 1e-12)[0]) == {"residual"}
    assert failing(values=claim.values.astype(np.float32)) >= {"inside", "width"}
    assert failing(ratio=np.full(3, 0.5)) == {"ratio"}
    missed = {"values": claim.values[1:], "vectors": claim.vectors[:, 1:], "residuals": claim.residuals[1:]}
    assert failing(**missed, bounds=claim.bounds[1:]) == {"bounds", "tolerance"}  # eigenpairs all, but not the first


# -- the truth itself, beside arithmetic of fifty digits --------------------------------------------------------------


def decimal_matrix(kernel, X):
    """Kernel values from their definitions, one pair after another."""
    rows = [[Decimal(float(x)) for x in row] for row in X]
    return [[decimal_value(kernel, x, y) for y in rows] for x in rows]


def decimal_value(kernel, x, y):
    squares = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    dots = sum(a * b for a, b in zip(x, y, strict=True))
    number = {name: Decimal(float(value)) for name, value in vars(kernel).items() if np.isscalar(value)}
    if isinstance(kernel, RBF):
        return (-number["gamma"] * squares).exp()
    if isinstance(kernel, Laplacian):
        return (-number["gamma"] * sum(abs(a - b) for a, b in zip(x, y, strict=True))).exp()
    if isinstance(kernel, Matern):
        u = (2 * number["nu"] * squares).sqrt() / number["length_scale"]
        return {0.5: 1, 1.5: 1 + u, 2.5: 1 + u + u * u / 3}[kernel.nu] * (-u).exp()
    if isinstance(kernel, RationalQuadratic):
        base = 1 + squares / (2 * number["alpha"] * number["length_scale"] ** 2)
        return (-number["alpha"] * base.ln()).exp()
    if isinstance(kernel, Polynomial):
        return (number["gamma"] * dots + number["coef0"]) ** int(kernel.degree)
    return dots


def decimal_centred(K, weights):
    """s_i (K - means)_ij s_j with s the roots of the weights."""
    w = [Decimal(float(weight)) for weight in weights]
    mean = [sum(p * k for p, k in zip(w, row, strict=True)) / sum(w) for row in K]
    total = sum(p * m for p, m in zip(w, mean, strict=True)) / sum(w)
    n = range(len(K))
    return [[(w[i] * w[j]).sqrt() * (K[i][j] - mean[i] - mean[j] + total) for j in n] for i in n]


def decimal_eigenvalues(A):
    """Jacobi's method: turn one plane after another until nothing is left off the diagonal."""
    A, n = [list(row) for row in A], len(A)
    size = max(abs(a) for row in A for a in row)
    for _ in range(60):
        if max((abs(A[i][j]) for i in range(n) for j in range(i)), default=0) <= size * Decimal("1e-40"):
            break
        for i in range(n):
            for j in range(i):
                if A[i][j] == 0:
                    continue
                tau = (A[j][j] - A[i][i]) / (2 * A[i][j])
                t = (1 if tau >= 0 else -1) / (abs(tau) + (1 + tau * tau).sqrt())
                c = 1 / (1 + t * t).sqrt()
                s = t * c
                for m in range(n):
                    A[m][i], A[m][j] = c * A[m][i] - s * A[m][j], s * A[m][i] + c * A[m][j]
                for m in range(n):
                    A[i][m], A[j][m] = c * A[i][m] - s * A[j][m], s * A[i][m] + c * A[j][m]
    return sorted((A[i][i] for i in range(n)), reverse=True)


def gap(found, exact):
    """|found - exact| of a long double and a decimal number."""
    near = float(found)
    return abs(Decimal(near) + Decimal(float(found - LD(near))) - exact)


@needs_long_double
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("width", [1e-4, 1.0, 1e6])
@pytest.mark.parametrize("kind", ["rbf", "laplacian", "matern12", "matern32", "matern52", "rational", "poly", "linear"])
def test_the_truth_is_that_of_fifty_digits(kind, width, weighted):
    getcontext().prec = 50
    kernel = {
        "rbf": RBF(1 / width**2),
        "laplacian": Laplacian(1 / width),
        "matern12": Matern(0.5, width),
        "matern32": Matern(1.5, width),
        "matern52": Matern(2.5, width),
        "rational": RationalQuadratic(0.7, width),
        "poly": Polynomial(3, 1 / width, 1.0),
        "linear": Linear(),
    }[kind]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 3))
    X[1], X[2] = X[0], X[0] * (1 + 1e-9)
    if kind == "linear":
        X += 1e7
    weights = 10.0 ** rng.uniform(-12, 0, 6) if weighted else np.ones(6)
    truth = truth_of(kernel, X, weights, 6)
    exact = decimal_eigenvalues(decimal_centred(decimal_matrix(kernel, X), weights))
    assert max(gap(*pair) for pair in zip(truth.values, exact, strict=True)) <= truth.error
    assert truth.error <= truth.rounding / 100  # far below what float64 could do


def test_what_is_nearly_constant_keeps_its_digits():
    """A constant beside a wide kernel is nothing to centring."""
    X = np.random.default_rng(0).standard_normal((9, 2))
    alone, beside = (truth_of(kernel, X, None, 3) for kernel in (RBF(1e-12), RBF(1e-12) + Constant(1e3)))
    np.testing.assert_array_equal(alone.values, beside.values)


@needs_long_double
@pytest.mark.parametrize("n", [2, 40, 420])
@pytest.mark.parametrize("which", SPECTRA)
def test_known_spectra(which, n):
    """Repeated and clustered eigenvalues too; reflections in long double hide them."""
    rng, k = np.random.default_rng(1), min(n, 12)
    values = -np.sort(-SPECTRA[which](rng, n, min(k, n // 2 + 1))[:n].astype(LD))
    Q = np.eye(n, dtype=LD)
    for _ in range(3):
        v = rng.standard_normal(n).astype(LD)
        Q -= np.outer(Q @ v, v) * (2 / (v @ v))
    B = product(Q * values, Q.T)
    found, error = leading((B + B.T) / 2, k)
    made = 20 * n * float(np.finfo(LD).eps) * float(np.abs(values).max())  # what making B has cost
    assert np.abs(found - values[:k]).max() <= error + made
    assert error <= 1e-15 * float(np.abs(values).max())


def test_nothing_has_no_eigenvalues_but_zero():
    np.testing.assert_array_equal(leading(np.zeros((5, 5), dtype=LD), 3)[0], np.zeros(3))


@needs_long_double
def test_products_have_the_digits_of_long_double():
    rng = np.random.default_rng(0)
    A = (rng.standard_normal((90, 80)).astype(LD) / 3) * 10.0 ** rng.integers(-300, 300, (90, 1))
    B = rng.standard_normal((80, 70)).astype(LD) / 7
    scale = np.abs(A).max(axis=1, keepdims=True) * np.abs(B).max(axis=0)
    assert float((np.abs(product(A, B) - A @ B) / scale).max()) <= 80 * float(np.finfo(LD).eps)
