"""Components that cannot be trusted: approximate, indefinite, close together, unstable, or fitted to noise."""

from __future__ import annotations

import math

import numpy as np

from kpca._base.linalg import FloatArray
from kpca.diagnostics.bandwidth import in_words, usual_factor
from kpca.diagnostics.case import Case
from kpca.diagnostics.report import Look, NotLooked, Severity, graded
from kpca.features import IdentityMap
from kpca.kernels import AdditiveChi2, Composite, Kernel, Polynomial, Sigmoid
from kpca.kernels.base import has_bandwidth
from kpca.selection.stability import bootstrap_stability

# Components that are looked at.
_COMPONENTS = 10
# Relative errors of an eigenvalue from which it is uncertain, and from which of the first it is a problem.
_UNCERTAIN, _WRONG = 0.1, 0.25
_NO_VARIANCE = 1e-10
# Pivoted landmarks leave about what half as many of the best possible features leave.
_LANDMARKS_PER_FEATURE = 2
# Negative eigenvalues up to this part of the largest are rounding, in matrices that came in either precision.
_ROUNDING = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
# Groups of components that are named one by one.
_NAMED = 5
# Less than half of the variance of a component's scores comes back.
_UNSTABLE = 0.5
# A span that comes back to this degree holds the same rows, whatever its components do inside.
_SPAN = 0.8
# The share of variance explained of new rows over that of fitted rows: below these a warning, a problem.
_OVERFIT, _OVERFIT_PROBLEM = 0.5, 0.1
# With more of the spectrum negative, shares of variance mean nothing.
_INDEFINITE = 0.01
# With less variance than this beside k(x, x), residuals are rounding.
_DIGITS = 1e-10


def approximation_error(case: Case) -> Look:
    """Look how far eigenvalues of explicit features are from exact ones, for the first 10 components.

    With rows it is measured, on a sample: eigenvalues of the features' matrix against those of the kernel's. Without,
    it is the width of the bounds over the eigenvalue; those of landmarks hold for certain and are wide, those of random
    features are an estimate. The figure is the largest relative error. A warning from 10 %, a problem if the first
    component is wrong by 25 %.
    """
    if case.feature_map is None or isinstance(case.feature_map, IdentityMap):
        raise NotLooked("the model is exact")
    count = min(_COMPONENTS, len(case.solid))
    if count == 0:
        raise NotLooked("there is no variance")
    bounds = np.asarray(case.model.eigenvalue_bounds_, dtype=np.float64)[:count]
    exact: FloatArray | None = None
    errors = (bounds[:, 1] - bounds[:, 0]) / case.values[:count]
    how = "may be wrong by" if case.feature_map.exact else "are estimated to be wrong by"
    if case.rows is not None and case.center:
        exact = case.spectrum
        count = min(count, int(np.count_nonzero(exact > _NO_VARIANCE * exact[0])))
        errors, how = _measured(case, exact[:count]), "are wrong by"
    worst = float(errors.max())
    certain = int(np.argmax(np.append(errors > _UNCERTAIN, True)))
    also = {"certain_components": float(certain)}
    if worst <= _UNCERTAIN:
        return Look(worst, also=also)
    severity: Severity = "problem" if errors[0] > _WRONG and exact is not None else "warning"
    sentence = (
        f"Eigenvalues from {case.feature_map.rank:,} features {how} up to {100 * worst:.0f} %"
        f"{'' if exact is None else case.sampled}; the first {certain} of {len(errors)} components looked at are "
        "certain to 10 %."
    )
    remedy = _more_features(case, exact, worst, count)
    return Look(worst, severity, sentence, remedy, also)


def _measured(case: Case, exact: FloatArray) -> FloatArray:
    """Return |lambda_features - lambda| / lambda on the sampled rows.  # shape: (k,)"""
    rows = case.rows[case.sample]
    features = np.asarray(case.feature_map(rows, threads=case.threads), dtype=np.float64) * case.roots[:, None]
    features -= np.multiply.outer(case.roots, (case.roots @ features) / float(case.roots @ case.roots))
    small = features.T @ features if features.shape[1] <= len(features) else features @ features.T
    values = np.maximum(np.linalg.eigvalsh(small)[::-1][: len(exact)], 0.0)
    return np.asarray(np.abs(np.pad(values, (0, len(exact) - len(values))) - exact) / exact)


def _more_features(case: Case, exact: FloatArray | None, worst: float, count: int) -> str:
    rank = case.feature_map.rank
    if not case.feature_map.exact and case.psd:  # random: error like rank^(-1/2)
        wanted = int(np.ceil(rank * (worst / _UNCERTAIN) ** 2))
        return f"Take about {_round(wanted):,} random features, or landmarks (approximation='nystroem'), or none."
    if exact is not None:
        tails = np.append(np.cumsum(exact[::-1])[::-1][1:], 0.0)  # what the first 1, 2, ... leave
        enough = _LANDMARKS_PER_FEATURE * (1 + int(np.argmax(tails <= _UNCERTAIN * exact[count - 1])))
        if rank < enough < len(exact) // 2:
            return f"Take about {_round(enough):,} landmarks, or keep fewer components."
    measure = "" if exact is not None else " Bounds are wide: give X, and the error is measured."
    return f"Take more than {rank:,} landmarks, twice as many to begin with, or keep fewer components.{measure}"


def _round(number: int) -> int:
    """Return two leading digits, rounded up."""
    step: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // step) * step


def indefinite(case: Case) -> Look:
    """Look for negative eigenvalues: their share of the sum of all absolute ones.

    Positive semidefinite kernels have none. For the others they are computed, for many rows on a sample of them. Such
    directions carry no variance and are left out, so up to 1 % hardly matters (a note from 0.1 %); from 10 % on
    distances in feature space mean little, and it is a problem.
    """
    if case.psd:
        return Look(0.0)
    case.need_rows()
    values = case.spectrum if case.center else np.linalg.eigvalsh(case.matrix_of(case.kernel, centred=False))
    dtype = getattr(getattr(case.kernel, "K", case.rows), "dtype", np.dtype(np.float64))
    mass = negative_mass(values, _ROUNDING.get(np.dtype(dtype), 1e-9))
    severity = graded(mass, note=0.001, warning=0.01, problem=0.1)
    sentence = (
        f"The kernel is not positive semidefinite: {100 * mass:.2g} % of its spectrum{case.sampled} is negative, and "
        "has no place in a feature space; shares of variance and reconstruction errors leave it out."
    )
    remedy = "Take a kernel that is an inner product, or clip the negative eigenvalues of its matrix before the fit."
    match case.kernel:
        case Sigmoid():
            remedy = "Take a smaller gamma with coef0 of 0 or above, or kernel='rbf', which is an inner product."
        case Polynomial(degree=degree):
            change = "a coef0 of 0 or above" if isinstance(degree, int) else "a whole degree"
            remedy = f"Take {change}: the kernel is then an inner product."
        case AdditiveChi2() if not case.center:
            remedy = "Take center=True: centred, this kernel has no negative part."
    return Look(mass, severity, sentence, remedy)


def negative_mass(values: FloatArray, rounding: float) -> float:
    """Return sum |negative eigenvalues| / sum |eigenvalues|, without what rounding has made negative."""
    total = float(np.abs(values).sum())
    below = values[values < -rounding * float(np.abs(values).max(initial=0.0))]
    return float(-below.sum()) / total if total > 0 else 0.0


def near_equal(case: Case) -> Look:
    """Look for neighbouring eigenvalues whose gap is within their sampling error.

    An eigenvalue of n rows has a standard deviation of about sqrt(2/n) of itself; components closer than that are mixed
    at random (the rule of thumb of North, Bell, Cahalan and Moeng, 1982). The figure is the smallest relative gap. A
    note: their span is as good as ever, only its axes are not.
    """
    values = case.solid
    if len(values) < 2:
        raise NotLooked("there are fewer than 2 components with variance")
    gaps = 1.0 - values[1:] / values[:-1]
    limit = math.sqrt(2.0 / max(case.effective, 1.0))
    smallest = float(gaps.min())
    if smallest >= limit:
        return Look(smallest)
    # where runs of close neighbours begin and end, counted from 1
    groups = 1 + np.flatnonzero(np.diff(np.r_[0, gaps < limit, 0])).reshape(-1, 2)
    named = [f"{first} {'and' if last == first + 1 else 'to'} {last}" for first, last in groups[:_NAMED]]
    if len(groups) > _NAMED:
        named.append(f"{len(groups) - _NAMED} further groups")
    sentence = (
        f"Eigenvalues of components {_listed(named)} differ by as little as {100 * smallest:.2g} %, less than "
        f"sampling error ({100 * limit:.2g} %): within a group, components may rotate into each other."
    )
    remedy = "Interpret such components together, not one by one, and cut between groups; or use more rows."
    return Look(smallest, "note", sentence, remedy)


def unstable(case: Case) -> Look:
    """Look which of the first 10 components change when the rows are drawn again, by the bootstrap.

    The figure is the lowest mean squared cosine between a component and its resampled self; below 0.5 less than half of
    the variance of its scores comes back. A note if there are several and the span of all stays (0.8 or more): they
    rotate among themselves. A warning otherwise, and a problem if not even the first component stays and all
    rows were used.
    """
    case.need_rows()
    count = min(len(case.solid), _COMPONENTS)
    distinct = len(np.unique(case.groups[case.sample]))
    if count == 0 or distinct < 5:
        raise NotLooked("there are fewer than 5 different rows with variance")
    how = {name: getattr(case, name) for name in ("center", "resamples", "seed", "threads")}
    found = bootstrap_stability(case.kernel, case.some, min(count, distinct - 1), **how)
    lowest = float(found.components.min())
    low = np.flatnonzero(found.components < _UNSTABLE)
    plural, firm = len(low) > 1, int(low[0]) if len(low) else len(found.components)
    also = {"stable_components": float(firm)}
    if not len(low):
        return Look(lowest, also=also)
    trusted = {0: "none of them", 1: "the first"}.get(firm, f"the first {firm}")
    stays = plural and float(found.subspaces[-1]) >= _SPAN
    sentence = (
        f"Component{'s' if plural else ''} {_listed([str(j + 1) for j in low])} of {len(found.components)} looked at "
        f"change{'' if plural else 's'} when the rows are drawn again: as little as {100 * lowest:.2g} % of the "
        f"variance of {'their' if plural else 'its'} scores comes back{case.sampled}; {trusted} can be trusted."
    )
    # more rows than were drawn from may hold what these do not
    severity: Severity = "note" if stays else "warning" if firm or case.sampled else "problem"
    if stays:
        remedy = "They rotate among each other, and their span stays: interpret them together."
    elif firm:
        remedy = f"Keep n_components={firm}, or use more rows."
    else:
        remedy = "Use more rows, or another kernel or bandwidth: there is nothing here that other rows confirm."
    return Look(lowest, severity, sentence, remedy, also)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def overfitting(case: Case) -> Look:
    """Look what the components of one half of the rows explain of the other half.

    The figure is the share of the variance explained of rows that were held out over that of rows the components were
    fitted to, both in feature space. It is 0.8 to 1 for digits, wine and breast cancer with Gaussians of usual width,
    and below 0.4 for polynomials of degree 6 on wine. A warning below 0.5, a problem below 0.1. Of more than
    4000 rows 4000 are used, so for more the figure is on the safe side; it is then a warning at most.
    """
    case.need_rows()
    if not case.psd and negative_mass(case.spectrum, 1e-9) > _INDEFINITE:
        raise NotLooked("the kernel is indefinite, so shares of variance mean nothing")
    if not case.halves:
        raise NotLooked("there are fewer than 10 different rows")
    if case.halves[0].variance < _DIGITS * case.halves[0].length:
        raise NotLooked("the variance is too small beside k(x, x) for residuals to have digits left")
    inside = float(np.mean([half.explained for half in case.halves]))
    outside = float(np.mean([half.explained_outside(case.threads) for half in case.halves]))
    if not (inside > 0 and np.isfinite(outside)):
        raise NotLooked("there is no variance")
    ratio, count = outside / inside, len(case.halves[0].values)
    if ratio >= _OVERFIT:
        return Look(ratio)
    used = sum(half.held.shape[0] for half in case.halves) * (1 if len(case.halves) > 1 else 2)
    all_used = case.whole and used >= case.rows.shape[0] - 1
    sentence = (
        f"The first {'component' if count == 1 else f'{count} components'} of one half of "
        f"{'the' if all_used else f'{used:,}'} rows explain{'s' if count == 1 else ''} {_percent(inside)} of its "
        f"variance, but {_percent(outside)} of the other half's: {_percent(ratio)} as much."
    )
    severity: Severity = "problem" if ratio < _OVERFIT_PROBLEM and all_used else "warning"
    degree, factor = _degree(case.kernel), None
    if not case.precomputed and has_bandwidth(case.kernel):
        factor = usual_factor(case.kernel, case.some)
    remedy = "Keep fewer components, use more rows, or drop features that are noise."
    if degree > 1:
        remedy = f"Lower the degree (now {degree:g}), keep fewer components, or use more rows."
    elif factor is not None and factor > 2:
        remedy = f"Take a wider bandwidth ({in_words(case, factor)}), keep fewer components, or use more rows."
    return Look(ratio, severity, sentence, remedy)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _degree(kernel: Kernel) -> float:
    """Return the highest degree of a polynomial in a kernel, 0 if there is none; those of a product add up."""
    if isinstance(kernel, Polynomial):
        return float(kernel.degree)
    if isinstance(kernel, Composite):
        degrees = [_degree(member) for member in kernel.members]
        return float(max(degrees) if kernel.name == "sum" else sum(degrees))
    return 0.0
