"""The slow, obvious truth: every fast path is compared with this. Plain NumPy, float64, one formula per line."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh


def over_features(X, Y, term):
    """Sum of term(x_m, y_m) over the features m, for all pairs; differences are taken before anything is squared."""
    return sum(term(X[:, m][:, None], Y[:, m][None, :]) for m in range(X.shape[1]))


def kernel_values(name, X, Y, *, gamma=None, degree=3, coef0=1.0, dtype=np.float64):
    """k(x, y) for all pairs, by the definition; gamma=None is 1 / n_features."""
    X, Y = np.asarray(X, dtype=dtype), np.asarray(Y, dtype=dtype)
    gamma = 1.0 / X.shape[1] if gamma is None else gamma
    if name == "linear":
        return X @ Y.T
    if name == "poly":
        return (gamma * (X @ Y.T) + coef0) ** degree
    if name == "sigmoid":
        return np.tanh(gamma * (X @ Y.T) + coef0)
    if name == "cosine":
        return (X / np.linalg.norm(X, axis=1)[:, None]) @ (Y / np.linalg.norm(Y, axis=1)[:, None]).T
    if name in ("arc_cosine0", "arc_cosine1"):
        lengths = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))
        # sin from |x|^2 |y|^2 - (x.y)^2 = sum over pairs of features of (x_i y_j - x_j y_i)^2 (Lagrange)
        wedge = sum((np.outer(X[:, i], Y[:, j]) - np.outer(X[:, j], Y[:, i])) ** 2 for i, j in _pairs(X.shape[1]))
        theta = np.arctan2(np.sqrt(wedge), X @ Y.T)
        if name == "arc_cosine0":
            return 1 - theta / np.pi
        return lengths / np.pi * (np.sin(theta) + (np.pi - theta) * np.cos(theta))
    if name == "laplacian":
        return np.exp(-gamma * over_features(X, Y, lambda x, y: np.abs(x - y)))
    if name == "histogram_intersection":
        return over_features(X, Y, np.minimum)
    if name in ("chi2", "additive_chi2"):
        parts = over_features(X, Y, lambda x, y: (x - y) ** 2 / np.where(x + y == 0, 1.0, x + y))
        return np.exp(-gamma * parts) if name == "chi2" else -parts
    return _radial(name, over_features(X, Y, lambda x, y: (x - y) ** 2), gamma)


def _pairs(d):
    return [(i, j) for i in range(d) for j in range(i)]


def _radial(name, s, gamma):
    if name == "rbf":
        return np.exp(-gamma * s)
    r = np.sqrt(2 * gamma * s)  # distance over length scale, l = 1 / sqrt(2 gamma)
    if name in ("exponential", "matern12"):
        return np.exp(-r)
    if name == "matern32":
        u = np.sqrt(3 * r**2)
        return (1 + u) * np.exp(-u)
    if name == "matern52":
        u = np.sqrt(5 * r**2)
        return (1 + u + u**2 / 3) * np.exp(-u)
    if name == "rational_quadratic":
        return 1 / (1 + r**2 / 2)
    raise ValueError(name)


def mixed_derivatives(name, Z, B, A, pairs, *, gamma, degree=3, coef0=1.0):
    """sum_l A_lj d^2 k(z_i, b_l) / dz^p dz^q, from the derivative of each pair of rows by hand; gamma may be many."""
    g = np.broadcast_to(np.asarray(gamma, dtype=np.float64), B.shape[1:])
    out = np.zeros((len(Z), A.shape[1], len(pairs)))
    for i, row, e in np.ndindex(len(Z), len(B), len(pairs)):
        (z, b), (p, q) = (Z[i], B[row]), pairs[e]
        if name == "rbf":  # d/dz^p e^-g.(z - b)^2 = -2 g_p (z - b)_p k, once more
            k = np.exp(-np.sum(g * (z - b) ** 2))
            value = (4 * g[p] * g[q] * (z - b)[p] * (z - b)[q] - 2 * g[p] * (p == q)) * k
        elif name == "poly":
            value = degree * (degree - 1) * g[p] * g[q] * b[p] * b[q] * (np.sum(g * z * b) + coef0) ** (degree - 2)
        elif name == "exponential":  # of r = |z - b| in units of l: e^-r (n_p n_q - ([p = q] - n_p n_q) / r) / l^2
            lengths = 1 / np.sqrt(2 * g)
            gap = (z - b) / lengths
            r = np.linalg.norm(gap)
            n = gap / r
            value = np.exp(-r) * (n[p] * n[q] - ((p == q) - n[p] * n[q]) / r) / (lengths[p] * lengths[q])
        else:
            raise ValueError(name)
        out[i, :, e] += A[row] * value
    return out


def centred(K, weights=None):
    """W^1/2 H K H' W^1/2 with H = I - 1 w'/sum(w), written out."""
    n = len(K)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    H = np.eye(n) - np.outer(np.ones(n), w) / w.sum()
    root = np.diag(np.sqrt(w))
    return root @ H @ K @ H.T @ root


def exactly_centred(K, weights=None):
    """The same in long double, K being so: where columns of H would be rounded, means are subtracted."""
    w = np.ones(len(K)) if weights is None else np.asarray(weights)
    w = w.astype(np.longdouble)
    means = K @ w / w.sum()
    return np.sqrt(w)[:, None] * (K - means[:, None] - means + w @ means / w.sum()) * np.sqrt(w)


def exact_eigenvalues(B):
    """Those of a matrix of long doubles, largest first: Rayleigh-Ritz with LAPACK's vectors, corrected to second order
    where eigenvalues are apart; so to some 1e-18 of the largest, and to 1e-16 for equal ones."""
    scale = abs(B).max()
    U = eigh(((B + B.T) / (2 * scale)).astype(np.float64))[1].astype(np.longdouble)
    for _ in range(2):  # Newton's method for U'U = I
        U = U @ (1.5 * np.eye(len(U)) - U.T @ U / 2)
    H = U.T @ (B / scale) @ U
    values = np.diag(H).copy()
    gaps = np.subtract.outer(values, values)
    apart = abs(gaps) > 1e-9
    values += np.sum(np.where(apart, H**2 / np.where(apart, gaps, 1.0), 0.0), axis=1)
    return np.sort(values)[::-1] * scale


def spectrum(B):
    """All eigenpairs, largest first."""
    values, vectors = eigh((B + B.T) / 2)
    return values[::-1], vectors[:, ::-1]


def scores(K, K_new, k, weights=None):
    """Scores of new points: A'(k_x - means), with every mean written out."""
    n = len(K)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    values, U = spectrum(centred(K, weights))
    A = np.sqrt(w)[:, None] * U[:, :k] / np.sqrt(values[:k])
    p = w / w.sum()
    centred_rows = K_new - (K_new @ p)[:, None] - (K @ p)[None, :] + p @ K @ p
    return centred_rows @ A


def projector_error(U, V, values, k, gap_floor=1e-12):
    """|UU' - VV'| of the leading k, times gap / largest eigenvalue: what a residual of 1 could explain."""
    gap = (values[k - 1] - values[k]) / values[0] if k < len(values) else 1.0
    return float(np.linalg.norm(U[:, :k] @ U[:, :k].T - V[:, :k] @ V[:, :k].T, 2)) * max(gap, gap_floor)


def expansion(kernel, X, k=None, *, floor=1e-10):
    """Where scores of centred kernel PCA point to, as the fields of kpca's Expansion; k=None is every component."""
    K = kernel.block(X, X)
    values, _ = spectrum(centred(K))
    k = int((values > floor * values[0]).sum()) if k is None else k
    return {"rows": X, **expansion_parts(K, k)}


def feature_distance(kernel, z, rows, g):
    """|phi(z) - sum_j g_j phi(b_j)|^2 less the square of the sum."""
    return kernel.diagonal(z[None])[0] - 2 * g @ kernel.block(z[None], rows)[0]


def combination(K, k, weights=None, center=True):
    """P phi(x) = sum_j (c + A t)_j phi(b_j): A, c and A'Kc, with or without centring.  # shapes: (n, k), (n,), (k,)"""
    n = len(K)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    c = w / w.sum() if center else np.zeros(n)
    root = np.sqrt(w)[:, None]
    values, U = spectrum(centred(K, weights) if center else root * K * root.T)
    A = root * U[:, :k] / np.sqrt(values[:k])  # v_j = sum_i A_ij (phi_i - mean)
    A = A - np.outer(c, A.sum(axis=0))  # v_j = sum_i A_ij phi_i
    return A, c, A.T @ K @ c


def expansion_parts(K, k, weights=None):
    """What scores t mean in feature space: P phi = mean + sum_j t_j v_j, each part written out."""
    A, c, offset = combination(K, k, weights)
    return {
        "directions": A,
        "centre": c,
        "offset": offset,
        "scores": K @ A - offset,
        "levels": K @ c,
        "diagonal": np.diag(K).copy(),
        "centre_square": float(c @ K @ c),
    }


def ridge_smoother(K, alpha, weights=None):
    """The matrix H with fitted rows = H Y, from fits of all unit vectors: mean + K (K + alpha / w)^-1 (Y - mean)."""
    n = len(K)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    columns = []
    for e in np.eye(n):
        mean = w @ e / w.sum()
        columns.append(mean + K @ np.linalg.solve(K + alpha * np.diag(1 / w), e - mean))
    return np.array(columns).T


def gcv(K, Y, alpha, weights=None):
    """Golub, Heath and Wahba: leave-one-out with every leverage replaced by their mean."""
    n = len(K)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    H = ridge_smoother(K, alpha, weights)
    left = (Y - H @ Y) / (1 - np.trace(H) / n)
    return (w[:, None] * left**2).sum() / n


def located(neighbours, squares):
    """Kwok and Tsang, one point: coordinates of the neighbours from an SVD, then -1/2 pinv(Z)' (d^2 - d0^2)."""
    X = np.asarray(neighbours).T  # shape: (d, q)
    q = X.shape[1]
    U, sizes, Vt = np.linalg.svd(X @ (np.eye(q) - 1 / q), full_matrices=False)
    Z = np.diag(sizes) @ Vt
    own = (Z**2).sum(axis=0)
    return U @ (-0.5 * np.linalg.pinv(Z, rcond=1e-10).T @ (squares - own)) + X.mean(axis=1)


def feature_error(K, K_new, own, k, weights=None, center=True):
    """|phi(x) - P phi(x)|^2 = k(x, x) - 2 g'k_x + g'Kg of each new row."""
    A, c, offset = combination(K, k, weights, center)
    G = c + (K_new @ A - offset) @ A.T
    return own - 2 * np.sum(G * K_new, axis=1) + np.sum((G @ K) * G, axis=1)


def gain(k_z, A, u, usual=1.0, most=np.inf):
    """The a >= 1 that brings m + a u nearest to phi(z), by least squares: <u, phi(z)> / |u|^2, as m and u are at right
    angles; over what is usual, and no more than makes u as long as phi(x) without m."""
    return min(most, max(1.0, float((A @ u) @ k_z / (usual * (u @ u)))))


def height(k_z, A, c, offset, t, *, rescale=False, **limits):
    """(k(z, z) + |mean|^2 - |phi(z) - (m + a u)|^2) / 2 up to what does not depend on z: what a pre-image makes
    largest. Without rescaling a = 1 and the square of u is left out."""
    u = t + offset
    m = c - A @ offset
    if not rescale:
        return float((m + A @ u) @ k_z)
    a = gain(k_z, A, u, **limits)
    return float((m + a * (A @ u)) @ k_z - 0.5 * a**2 * limits.get("usual", 1.0) * (u @ u))


def fixed_point(profile, rows, A, c, offset, t, start, *, rescale=False, penalty=0.0, steps=2000, **limits):
    """Mika et al. 1998 for one point and any f(s): z = sum_j w_j b_j / sum_j w_j, halved until it climbs; rows and
    start are in units of the kernel. Slopes are complex steps of f."""

    def kernel(z):
        return profile(np.square(rows - z).sum(axis=1)).real

    def objective(z):
        return height(kernel(z), A, c, offset, t, rescale=rescale, **limits) - penalty * np.sum((z - start) ** 2)

    z, u = np.array(start, dtype=np.float64), t + offset
    for _ in range(steps):
        a = gain(kernel(z), A, u, **limits) if rescale else 1.0
        slopes = -profile(np.square(rows - z).sum(axis=1) + 1e-20j).imag / 1e-20
        w = (c - A @ offset + a * (A @ u)) * slopes
        size = np.abs(w).sum() + penalty
        way = (w @ (rows - z) + penalty * (start - z)) / max(w.sum() + penalty, 0.05 * size)
        share = 1.0
        while objective(z + share * way) < objective(z) and share > 1e-12:
            share /= 2
        if share * np.linalg.norm(way) < 1e-10:
            break
        z = z + share * way
    return z


def participation(K, weights=None):
    """(sum of eigenvalues)^2 / sum of their squares, of the centred matrix."""
    values, _ = spectrum(centred(K, weights))
    return values.sum() ** 2 / (values**2).sum()


def alignment(A, B):
    """The cosine between two centred matrices, taken as long vectors."""
    A, B = centred(A).ravel(), centred(B).ravel()
    return float(A @ B / np.sqrt((A @ A) * (B @ B)))


def negative_mass(K):
    """The negative part of the spectrum of the centred matrix."""
    values, _ = spectrum(centred(K))
    return float(-values[values < 0].sum() / np.abs(values).sum())


def explained(K, K_new, own, k):
    """Shares of the variance that k components explain: of the rows they were fitted to, and of new ones."""
    values, _ = spectrum(centred(K))
    t = scores(K, K_new, k)
    left = feature_error(K, K_new, own, k)
    return values[:k].sum() / values.sum(), np.sum(t**2) / (np.sum(t**2) + np.sum(left))


def typical_distances(X, kind):
    """The median distance of two different rows, and the median over rows of that to the nearest different one."""
    X = np.asarray(X, dtype=np.float64)
    terms = {
        "squares": lambda x, y: (x - y) ** 2,
        "sums": lambda x, y: np.abs(x - y),
        "chi2": lambda x, y: (x - y) ** 2 / np.where(x + y == 0, 1.0, x + y),
    }
    D = over_features(X, X, terms[kind])
    pairs = [D[i, j] for i in range(len(D)) for j in range(i) if D[i, j] > 0]
    nearest = [min(d for d in row if d > 0) for row in D]
    return float(np.median(pairs)), float(np.median(nearest))


def one_standard_error(losses, linear=None):
    """Places (kernel, number of components) of the best and of the simplest as good; losses: (kernels, counts, m)."""
    means = losses.mean(axis=2)
    places = [place for place in np.ndindex(means.shape) if np.isfinite(means[place])]
    best = min(places, key=lambda place: (means[place], place))
    if losses.shape[2] < 2:
        return best, best
    good = []
    for place in places:
        gaps = losses[place] - losses[best]
        if place == best or gaps.mean() <= gaps.std(ddof=1) / math.sqrt(len(gaps)):
            good.append(place)
    fewest = min(j for _, j in good)
    good = [place for place in good if place[1] == fewest]
    if (linear, fewest) in good:
        return best, (linear, fewest)
    return best, min(good, key=lambda place: (means[place], place))


def restoration_errors(X, scores, new, new_scores, neighbours=5):
    """Squared distance of each new row from the mean of the rows with the nearest scores, one row after the other."""
    X, new = np.asarray(X, dtype=np.float64), np.asarray(new, dtype=np.float64)
    errors = []
    for row, score in zip(new, new_scores, strict=True):
        distances = [float(np.sum((score - other) ** 2)) for other in scores]
        nearest = sorted(range(len(X)), key=lambda i: distances[i])[:neighbours]
        mean = sum(X[i] for i in nearest) / len(nearest)
        errors.append(float(np.sum((row - mean) ** 2)))
    return np.array(errors)


def held_out_variance(K, K_new, own, k):
    """Share of |phi(x) - mean|^2 of new rows that k components leave, by row, over the mean of all rows."""
    n = len(K)
    p = np.full(n, 1 / n)
    total = own - 2 * K_new @ p + p @ K @ p
    return feature_error(K, K_new, own, k) / total.mean()


def classical_scaling(D, k):
    """Torgerson 1952: coordinates whose inner products are nearest to -1/2 (d_ij^2 - mean_i - mean_j + mean)."""
    S = np.asarray(D, dtype=np.float64) ** 2
    B = -(S - S.mean(axis=0)[None, :] - S.mean(axis=1)[:, None] + S.mean()) / 2
    values, U = spectrum(B)
    return U[:, :k] * np.sqrt(np.maximum(values[:k], 0.0)), values


def slow_statistics(kernel, X, new, k):
    """Return T^2, SPE and combined of new rows from the whole kernel matrix, as the definitions say."""
    n = len(X)
    both = np.vstack([X, new])
    K = kernel(both, both)
    inside = K[:n, :n]
    centred = inside - inside.mean(axis=0) - inside.mean(axis=1)[:, None] + inside.mean()
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    found = {"t2": [], "spe": [], "combined": []}
    for i in range(n, len(both)):
        row = K[i, :n]
        product = row - row.mean() - inside.mean(axis=0) + inside.mean()  # <phi(x) - mean, phi(x_j) - mean>
        scores = vectors.T @ product / np.sqrt(values)
        length = K[i, i] - 2 * row.mean() + inside.mean()
        variances = values / (n - 1)
        t2, spe = np.sum(scores**2 / variances), length - np.sum(scores**2)
        for name, value in (("t2", t2), ("spe", spe), ("combined", t2 + spe / variances[-1])):
            found[name].append(value)
    return {name: np.array(values) for name, values in found.items()}


def integrated_gradients(gradients, rows, baseline, steps=20_000):
    """D_j times the mean of ds/dx_j over the middles of many equal steps from baseline to row, one step at a time."""
    D = np.asarray(rows, dtype=np.float64) - baseline
    total = np.zeros(D.shape)
    for step in range(steps):
        total += gradients(baseline + (step + 0.5) / steps * D)
    return D * total / steps


def slopes(score, x, step=1e-6):
    """The gradient of scores at one row, by central differences.  # shape: (k, d)"""
    columns = []
    for m in range(len(x)):
        there, back = x.copy(), x.copy()
        there[m] += step
        back[m] -= step
        columns.append((score(there[None])[0] - score(back[None])[0]) / (2 * step))
    return np.array(columns).T


def importance(score, X, weights=1.0, step=1e-6):
    """Mean over rows of |dt_j/dx^m| and of its norm over j, times the standard deviation of column m: a double loop."""
    k, d = score(X[:1]).shape[1], X.shape[1]
    each, overall = np.zeros((k, d)), np.zeros(d)
    for x in X:
        slope = slopes(score, x, step)
        for m in range(d):
            each[:, m] += np.abs(slope[:, m]) / len(X)
            overall[m] += np.sqrt(np.sum(weights * slope[:, m] ** 2)) / len(X)
    return each * X.std(axis=0), overall * X.std(axis=0)


def shuffled_share(score, X, column, order):
    """Half the mean squared change of each score over its variance when a column is taken in another order."""
    moved = X.copy()
    moved[:, column] = X[order, column]
    before, after = score(X), score(moved)
    return np.array([0.5 * np.mean((after[:, j] - t) ** 2) / np.var(t) for j, t in enumerate(before.T)])
