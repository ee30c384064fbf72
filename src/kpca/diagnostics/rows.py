"""Rows that mislead: features of wildly different scale, rows that repeat, new rows unlike the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from scipy.stats import betabinom, ks_2samp

from kpca._base.linalg import FloatArray
from kpca.diagnostics.case import Case, Entries, Half, row_keys
from kpca.diagnostics.report import Look, NotLooked, Severity, graded
from kpca.kernels import ArcCosine, Cosine, Laplacian, RadialKernel
from kpca.kernels.arrays import as_float64

# What lies beyond these quantiles of a feature is brought to them: a few wild values are no scale.
_TAIL = 0.01
# Columns looked at together.
_COLUMNS = 256
# Drift: the chance of a false alarm, all comparisons of a look together.
_LEVEL = 0.001
# Components whose scores are compared one by one.
_COMPONENTS = 10
# The share of held-out rows beyond the limit of each statistic.
_BEYOND = 0.01
# The fewest new rows.
_FEWEST = 5
# A statistic of Kolmogorov and Smirnov from which the difference is large as well as certain.
_SMALL, _LARGE = 0.1, 0.5


def one_feature(case: Case) -> Look:
    """Look whether one feature makes up nearly all of the distances, as it does where units differ wildly.

    The figure is the largest feature's share of the total variance (Laplacian: of the mean absolute deviations), after
    the scaling that the kernel itself does, with the outermost 1 % on both sides clipped; constant features count for
    nothing. A warning from 99 %, a problem from 99.99 %, if other features vary at all.
    """
    case.need_rows(of_data=True)
    if case.rows.shape[1] < 2:
        raise NotLooked("there is one feature only")
    rows = case.some
    if isinstance(case.kernel, RadialKernel):
        rows = case.kernel.prepare(rows)
    elif isinstance(case.kernel, Cosine | ArcCosine):
        rows = Cosine().prepare(rows)
    spreads = _spreads(rows, absolute=isinstance(case.kernel, Laplacian))
    varying = (case.rows.max(axis=0) != case.rows.min(axis=0)).sum()
    total = float(spreads.sum())
    if total <= 0 or varying < 2:
        raise NotLooked("fewer than 2 features vary")
    largest = int(np.argmax(spreads))
    share = float(spreads[largest]) / total
    severity = graded(share, warning=0.99, problem=0.9999)
    names = getattr(case.model, "feature_names_in_", None)
    name = largest if names is None else repr(str(names[largest]))
    percent = "more than 99.99 %" if share > 0.9999 else f"{100 * share:.2f} %"
    unseen = f"the kernel hardly sees the other {case.rows.shape[1] - 1} features"
    sentence = f"Feature {name} makes up {percent} of all distances; {unseen}."
    remedy = "Scale the features, as with sklearn.preprocessing.StandardScaler, or give gamma one value per feature."
    return Look(share, severity, sentence, remedy)


def _spreads(rows: Any, *, absolute: bool) -> FloatArray:
    """Return the variance (or mean absolute deviation) of each feature without its tails.  # shape: (d,)"""
    spreads = np.zeros(rows.shape[1])
    for start in range(0, rows.shape[1], _COLUMNS):
        part = rows[:, start : start + _COLUMNS]
        part = part.toarray() if sparse.issparse(part) else np.asarray(part, dtype=np.float64)
        low, high = np.quantile(part, [_TAIL, 1.0 - _TAIL], axis=0)
        part = np.clip(part, low, high)
        part = part - part[0]  # before the mean: an offset costs no digits
        part = part - part.mean(axis=0)
        spreads[start : start + _COLUMNS] = (np.abs(part) if absolute else part**2).mean(axis=0)
    return spreads


def duplicated(case: Case) -> Look:
    """Look how many rows repeat another one, as the kernel sees them: parallel rows are the same to a cosine.

    The figure is the share of rows that could go. Nothing is wrong with the result, as each row counts as often as it
    comes; but weights give the same for less, and repeats that are an accident of how data were joined distort what is
    usual. A note from 5 %, a warning from 30 %.
    """
    case.need_rows()
    if isinstance(case.kernel, Entries) and isinstance(case.kernel.K, LinearOperator):
        raise NotLooked("a LinearOperator has no entries to compare")
    n, distinct = case.rows.shape[0], int(case.groups.max()) + 1
    share = 1.0 - distinct / n
    severity = graded(share, note=0.05, warning=0.3)
    what = "rows" if case.whole else "rows of a sample"
    repeats = f"{100 * share:.0f} % repeat another one ({distinct:,} differ)"
    sentence = f"Of {n:,} {what} {repeats}; each counts as often as it comes."
    weighted = f"sample_weight = how often each comes: the same result from {distinct:,} rows"
    remedy = f"Drop repeats that are an accident (numpy.unique); if they count, fit the different rows with {weighted}."
    return Look(share, severity, sentence, remedy)


def drift(case: Case) -> Look:
    """Look whether new rows have the scores and residuals of training rows that took no part in a fit.

    The components are those of one half of the training rows; the other half and the new rows are then strangers to
    them alike, whereas residuals of fitted rows are too small. Compared are the scores of each of the first 10
    components, T^2 = sum t_j^2 / lambda_j and the squared residual, by the two-sample test of Kolmogorov and Smirnov;
    and how many new rows lie beyond the limits that 1 % of the held-out rows exceed, by the distribution of that count
    for rows of the same kind (beta-binomial). It is a finding if one of these has a probability below 0.001 over their
    number, and a difference of 0.1 or more. The figure is the largest statistic, 0 to 1. A problem from 0.5.
    """
    if case.new is None:
        raise NotLooked("no new rows were given")
    case.need_rows(of_data=True)
    if not case.halves:
        raise NotLooked("there are fewer than 10 different training rows")
    half = case.halves[0]
    # less those that the half was fitted to, whose residuals would be too small
    known = set(row_keys(case.rows[half.fitted]))
    news = as_float64(case.new[[key not in known for key in row_keys(case.new)]])
    if news.shape[0] < _FEWEST:
        raise NotLooked(f"fewer than {_FEWEST} new rows are no training rows")
    held, weights = half.held, half.held_weights
    if case.weights is not None:  # drawn by their weights, as many as these are worth
        worth = max(2, int(weights.sum() ** 2 / (weights**2).sum()))
        drawn = np.random.default_rng([case.seed, 2]).choice(len(weights), worth, p=weights / weights.sum())
        held = held[np.sort(drawn)]
    old, new = _statistics(case, half, held), _statistics(case, half, news)
    tests = {name: ks_2samp(old[name], new[name]) for name in old}
    statistics = {name: float(test.statistic) for name, test in tests.items()}
    name = max(statistics, key=lambda key: statistics[key])
    figure = statistics[name]
    beyond = [_exceeding(old[key], new[key]) for key in ("T2", "residual")]
    outside = max(share for share, _ in beyond)
    also = {"beyond_limit": outside}
    allowed = _LEVEL / (len(tests) + len(beyond))
    moved = any(test.pvalue < allowed and statistics[key] >= _SMALL for key, test in tests.items())
    escaped = any(chance < allowed for _, chance in beyond)
    if not (moved or escaped):
        return Look(figure, also=also)
    severity: Severity = "problem" if max(figure, outside) >= _LARGE else "warning"
    called = {"T2": "T^2, the distance within the components,", "residual": "residuals, what components leave,"}
    sentence = (
        f"New rows differ from training rows: the distributions of {called.get(name, f'scores of {name}')} are "
        f"{figure:.2f} apart (0 the same, 1 without overlap), and {100 * outside:.0f} % of the new rows lie beyond "
        f"a limit that {100 * _BEYOND:.0f} % of training rows exceed."
    )
    remedy = (
        "Check how the new rows were measured and scaled; if they are right, fit again with some of them among the "
        "training rows, and trust scores of rows beyond the limit less."
    )
    return Look(figure, severity, sentence, remedy, also)


def _statistics(case: Case, half: Half, X: Any) -> dict[str, FloatArray]:
    scores, left = half.parts(X, case.threads)
    solid = half.values > 1e-12 * half.values.max(initial=0.0)
    scores, values = scores[:, solid], half.values[solid]
    found = {f"component {j + 1}": scores[:, j] for j in range(min(scores.shape[1], _COMPONENTS))}
    found["T2"] = (scores**2 * (half.mass / values)).sum(axis=1)
    found["residual"] = left
    # Rounding is no difference: it is brought to one value.
    for name, values_of in found.items():
        size = float(half.values.sum()) / half.mass if name == "residual" else float(np.abs(values_of).max(initial=0.0))
        found[name] = np.where(np.abs(values_of) <= 1e-9 * size, 0.0, values_of)
    return found


def _exceeding(old: FloatArray, new: FloatArray) -> tuple[float, float]:
    """Return the share of new values above a limit, and the probability of at least this many if they are as the old.

    The limit is the r-th largest of n old values; of m new ones c are above it with the beta-binomial distribution of
    parameters r and n + 1 - r.
    """
    r = max(1, round(_BEYOND * len(old)))
    limit = np.partition(old, len(old) - r)[len(old) - r]
    count = int(np.count_nonzero(new > limit))
    return count / len(new), float(betabinom.sf(count - 1, len(new), r, len(old) + 1 - r))
