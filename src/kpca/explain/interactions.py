"""How strongly pairs of variables act together in components: three ways to make one number of mixed derivatives.

With t_j the score on component j, h_j = d^2 t_j / dx^p dx^q and g_j the gradient of t_j:

total: the mean over samples of the norm of h over components. Every pair has some in a kernel that is itself a product,
    as exp(-|x|^2) is, and how much depends on the distribution of each variable alone: so compare with a null.
net: the norm over components of the mean of h over samples: what does not average out. Variables that are merely
    independent have little, until components are included that are nothing but products of two variables.
joint: the part of net that goes along with a slope in the same component, sum_j w_j mean(h_j) mean(g_j), w_j being the
    components' shares of variance. A component x_r + x_p x_q has that; a component x_p x_q alone, which any two
    variables make up, does not. For (x.y + c)^2 the entries of this vector are the covariances of x_p x_q with x_r.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.text import data_frame, short_name, text_table
from kpca._base.validation import seed_of, whole_number
from kpca.estimators.kernel_pca import KernelPCA
from kpca.explain.subject import Explained, chosen_components, different_numbers, finite, kept_rows, number, subject_of
from kpca.features.derivatives import why_no_derivatives
from kpca.features.projection import FeatureProjection, KernelProjection, LinearProjection
from kpca.gram.engine import engine_for

FloatArray = NDArray[Any]
Indices = NDArray[np.intp]
Pairs = list[tuple[int, int]]
Measure = Literal["joint", "net", "total"]
_TITLES = {"joint": "Joint action", "net": "Net action", "total": "Total action"}
_NUMBERS_AT_ONCE = 2**22
_VARIABLES = 20  # this many variables are looked at unless others are asked for: 190 pairs
# A null is fitted to at most this many rows.
_NULL_ROWS = 2000
_ROWS_IN_PRINT = 10


@dataclass(frozen=True, eq=False)
class Interactions:
    """How strongly pairs of variables act together.

    Attributes
    ----------
    names : of the variables that were looked at.
    variables : their columns, shape (v,).
    values : strengths over all chosen components, shape (v, v); symmetric, 0 on the diagonal. With a null, what is left
        when its mean is subtracted, which may be negative.
    components : per component, shape (k, v, v), never less a null.
    measure : "joint", "net" or "total".
    partners : for "joint", the column of the variable that each pair goes along with most (-1 on the diagonal), else
        None.
    null : the mean strengths with columns permuted, shape (v, v), or None.
    """

    names: tuple[str, ...]
    variables: NDArray[np.intp]
    values: FloatArray
    components: FloatArray
    measure: Measure
    partners: NDArray[np.intp] | None = None
    null: FloatArray | None = None

    def top(self, n: int = 10) -> list[tuple[str, str, float]]:
        """Return the n strongest pairs, the strongest first."""
        rows, columns = np.triu_indices(len(self.names), 1)
        order = np.argsort(-self.values[rows, columns], kind="stable")[: whole_number("n", n, 1)]
        pairs = zip(rows[order].tolist(), columns[order].tolist(), strict=True)
        return [(self.names[i], self.names[j], float(self.values[i, j])) for i, j in pairs]

    def to_pandas(self) -> Any:
        """Return the strengths as a data frame, variables by variables."""
        return data_frame(self.values, index=self.names, index_name="variable", columns=list(self.names))

    def __str__(self) -> str:
        some = "; independent ones have some too, which `permutations` measures"
        above = some if self.null is None else ", above the null of permuted columns"
        head = f"{_TITLES[self.measure]} of pairs of {len(self.names)} variables{above}."
        pairs = self.top(_ROWS_IN_PRINT)
        cells = [[short_name(p), short_name(q), number(strength)] for p, q, strength in pairs]
        lines = text_table(["variable", "variable", "strength"], cells, left=(0, 1))
        left = len(self.names) * (len(self.names) - 1) // 2 - len(pairs)
        return "\n".join([head, "", *lines, *([f"... and {left:,} weaker pairs"] if left > 0 else [])])


def interactions(
    model: Any,
    X: Any = None,
    *,
    variables: Iterable[int | str] | None = None,
    components: Iterable[int] | None = None,
    max_rows: int = 500,
    names: Sequence[str] | None = None,
    scaled: bool = True,
    measure: Measure = "joint",
    permutations: int = 0,
    random_state: int = 0,
) -> Interactions:
    """Return how strongly each pair of variables acts together in the components of a fitted model.

    The raw material is d^2 t_j / dx^p dx^q at the samples (`max_rows` of them, by chance), times both columns' standard
    deviations if `scaled`. The default, "joint", finds products (x2 = x0 x1, exclusive or, a parabola) among variables
    that have nothing to do with each other, without a null, with at least as many components as variables (twice as
    many for bandwidths below the median distance). It does not see a structure that is symmetric in every variable,
    such as a ring; for that take measure="total", as many components as variables and not more, a bandwidth no wider
    than the median distance, and permutations=5: columns are permuted independently, the model is fitted again, and the
    mean of its strengths is subtracted. What kernel PCA spends no leading components on is not found at all, and
    variables that only separate clusters do not act together in this sense. Kernels of inner products see products with
    every column that is not centred, so centre the data for them.

    Strengths have no scale of their own, and the strongest of many pairs is strong by chance: so some pair leads in
    pure noise too. With permutations=5 look at `values / null`: in noise the first pair came to 0.4 to 0.9 (6 and 15
    columns, 150 and 500 rows), with x2 = x0 x1 and as much noise to 1.6 to 2.8. Below 1 do not believe a pair.

    Parameters
    ----------
    model : a fitted KernelPCA, IncrementalKernelPCA or KernelPCADetector, or a Pipeline that ends in one.
    X : rows at which to look; None: those that the model keeps.
    variables : columns or names; None: all, or the 20 of largest gradients if there are more.
    components : numbers of components; None: all.
    measure : "joint", "net" (the norm over components of the mean derivative) or "total" (the mean over samples of the
        norm over components).
    permutations : how many fits to permuted columns the null is the mean of; 0: none. They are fits to the rows of the
        model (at most 2000), or to X where the model does not keep them.
    """
    if not isinstance(measure, str) or measure not in _TITLES:
        raise InputError(f"measure must be one of {', '.join(map(repr, _TITLES))}; got {measure!r}.")
    most, times = whole_number("max_rows", max_rows, 1), whole_number("permutations", permutations, 0)
    subject = subject_of(model, X, names, most=most)
    if subject.copies > 1:
        raise InputError("Interactions are those of columns now; this detector has lags: explain one without.")
    projection, fitted = subject.projection, subject.model
    features = isinstance(projection, FeatureProjection)
    reason = "random features have none here" if features else why_no_derivatives(projection)
    if reason is not None:
        raise InputError(f"Interactions are second derivatives, and there are none: {reason}.")
    chosen = chosen_components(components, fitted.n_components_)
    rng = np.random.default_rng(seed_of(random_state))
    everything = subject.dense()
    sample = everything.sampled(most)
    scale = sample.scale(scaled)
    slopes, sizes = sample.slopes(chosen, "interactions", scale, _NUMBERS_AT_ONCE)
    columns = _columns(variables, subject.names, sizes)
    pairs = [(int(p), int(q)) for p, q in itertools.combinations(columns, 2)]

    how = partial(_strengths, components=chosen, scale=scale, pairs=pairs, measure=measure)
    values, each, partners = how(sample, slopes)
    null = None
    if times > 0 and not isinstance(projection, LinearProjection):
        count, whole = int(chosen.max()) + 1, everything
        # strengths depend on how many rows there are: those that the model was fitted to, or X
        if isinstance(fitted, KernelPCA) and not hasattr(fitted, "feature_map_"):
            whole = replace(everything, rows=kept_rows(fitted)).dense()
        elif X is None:
            raise InputError("permutations need rows to fit to, and this model keeps its landmarks only: give X.")
        if len(whole.rows) <= count:
            raise InputError(f"permutations need more rows than the {count} components; got {len(whole.rows)}.")
        null = np.zeros(len(pairs))
        for _ in range(times):
            permuted = rng.permuted(whole.sampled(_NULL_ROWS, rng).rows, axis=0)
            other = KernelPCA(count, kernel=fitted.kernel_, center=fitted.center, n_jobs=fitted.n_jobs).fit(permuted)
            # means over as many rows, with the same spread
            again = replace(whole, model=other, rows=permuted).sampled(len(sample.rows), rng)
            null += how(again, again.slopes(chosen, "interactions", scale, _NUMBERS_AT_ONCE)[0])[0] / times
        values = values - null
    v = len(columns)
    return Interactions(
        names=tuple(subject.names[p] for p in columns),
        variables=columns,
        values=_square(finite(values), v),
        components=np.stack([_square(row, v) for row in each]),
        measure=measure,
        partners=None if partners is None else _square(partners, v, -1),
        null=None if null is None else _square(null, v),
    )


def _strengths(
    subject: Explained,
    slopes: FloatArray,
    *,
    components: Indices,
    scale: FloatArray,
    pairs: Pairs,
    measure: Measure,
) -> tuple[FloatArray, FloatArray, NDArray[np.intp] | None]:
    """Return strengths overall and per component, and the partners of joint pairs.  # (pairs,), (c, pairs), (pairs,)"""
    projection, c = subject.projection, len(components)
    if isinstance(projection, LinearProjection) or not pairs:
        return np.zeros(len(pairs)), np.zeros((c, len(pairs))), None
    assert isinstance(projection, KernelProjection)  # others have been refused
    curvature = engine_for(projection.X).slopes(projection.kernel, projection.X)
    A = projection.coefficients[:, components]
    overall, each, means = np.empty(len(pairs)), np.empty((c, len(pairs))), np.empty((c, len(pairs)))
    step = max(1, _NUMBERS_AT_ONCE // max(len(subject.rows) * c, 1))
    for start in range(0, len(pairs), step):
        some = slice(start, start + step)
        mixed = curvature.mixed(subject.rows, A, pairs[some], threads=subject.threads)  # shape: (m, c, some)
        mixed *= [scale[p] * scale[q] for p, q in pairs[some]]
        means[:, some] = mixed.mean(axis=0)
        if measure == "total":
            overall[some] = np.sqrt(np.square(mixed).sum(axis=1)).mean(axis=0)
            each[:, some] = np.abs(mixed).mean(axis=0)
    if measure == "total":
        return overall, each, None
    if measure == "net":
        return np.sqrt(np.square(means).sum(axis=0)), np.abs(means), None
    # |sum_j w_j h_j g_j| / (sum_j w_j |g_j|^2)^1/2, at most the norm of w^1/2 h, hence in the same units
    variances = subject.model.explained_variance_[components].astype(np.float64)
    shares = variances / variances.sum() if variances.sum() > 0 else np.zeros_like(variances)
    weighted = shares[:, None] * slopes  # shape: (c, d)
    size = float(np.sqrt(np.sum(weighted * slopes)))
    if size == 0.0:
        return np.zeros(len(pairs)), np.zeros_like(means), None
    along = weighted.T @ means / size  # shape: (d, pairs)
    each = np.abs(means) * np.linalg.norm(weighted, axis=1)[:, None] / size
    return np.linalg.norm(along, axis=0), each, np.abs(along).argmax(axis=0)


def _square(values: FloatArray, v: int, diagonal: int = 0) -> FloatArray:
    """Return the values of pairs as a symmetric matrix.  # shape: (v, v)"""
    matrix = np.full((v, v), diagonal, dtype=values.dtype)
    rows, columns = np.triu_indices(v, 1)
    matrix[rows, columns] = matrix[columns, rows] = values
    return matrix


def _columns(variables: Iterable[int | str] | None, labels: tuple[str, ...], sizes: FloatArray) -> NDArray[np.intp]:
    """Return the columns that are asked for, or the most important ones, in their order."""
    if variables is None:
        return np.sort(np.argsort(-sizes, kind="stable")[:_VARIABLES])
    numbers: list[Any] = []
    if not isinstance(variables, Iterable):
        raise InputError(f"variables must be several names of columns or numbers; got {variables!r}.")
    for variable in [variables] if isinstance(variables, str) else variables:
        if isinstance(variable, str) and variable not in labels:
            raise InputError(f"variables must be names of columns or numbers; got {variable!r}: see `names`.")
        numbers.append(labels.index(variable) if isinstance(variable, str) else variable)
    return different_numbers("variables", numbers, len(labels))
