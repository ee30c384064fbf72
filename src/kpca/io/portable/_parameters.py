"""What the parameters of this package's estimators may be: the types; ranges are looked at by the estimators."""

from __future__ import annotations

from kpca.io.portable.spec import (
    Anything,
    Array,
    Count,
    Either,
    Flag,
    Named,
    Number,
    Rows,
    Several,
    Spec,
    Text,
    maybe,
    of,
)

_REAL = Number(finite=False)
_SWITCH = Either((Flag(), _REAL))
_NAME = Text(free=True)
_NUMBERS: tuple[Spec, ...] = (Array("n", ("*",), finite=False), Several(_REAL), Several(_REAL, list))
_REAL_OR_NAME = Either((_REAL, _NAME))
JOBS = maybe(Either((Count(1), Number(-1024, -1))))
METHOD = maybe(Either((_NAME, of("settings"), of("regressor"))))
FEATURES = maybe(Either((_NAME, of("approximation"))))

_KERNEL: dict[str, Spec] = {
    "kernel": maybe(Either((_NAME, of("kernel"), of("Gaussian-process kernel")))),
    "gamma": maybe(Either((_REAL, _NAME, *_NUMBERS))),
    "degree": _REAL,
    "coef0": _REAL,
    "kernel_params": maybe(Named(Anything())),
    "random_state": maybe(Count()),
    "n_jobs": JOBS,
}
NYSTROEM: dict[str, Spec] = {
    **_KERNEL,
    "rank": _REAL,
    "landmarks": Either((_NAME, Rows(("*", "*")), *_NUMBERS, Several(Anything(), list))),
}
RANDOM_FEATURES: dict[str, Spec] = {**_KERNEL, "rank": Count(), "structure": _NAME}
KERNEL_PCA: dict[str, Spec] = {
    **_KERNEL,
    "n_components": maybe(_REAL_OR_NAME),
    "alpha": _REAL,
    "fit_inverse_transform": _SWITCH,
    "eigen_solver": _NAME,
    "tol": _REAL,
    "max_iter": maybe(_REAL),
    "iterated_power": _REAL_OR_NAME,
    "remove_zero_eig": _SWITCH,
    "copy_X": _SWITCH,
    "center": _SWITCH,
    "approximation": FEATURES,
    "preimage": METHOD,
}
INCREMENTAL: dict[str, Spec] = {
    **_KERNEL,
    "n_components": maybe(_REAL_OR_NAME),
    "approximation": FEATURES,
    "warm_up": maybe(_REAL),
    "forgetting": _REAL,
    "center": _SWITCH,
    "preimage": METHOD,
}
DETECTOR: dict[str, Spec] = {
    **_KERNEL,
    "n_components": maybe(_REAL),
    "statistic": _NAME,
    "limit": _NAME,
    "confidence": _REAL,
    "contamination": _REAL_OR_NAME,
    "scale": maybe(_NAME),
    "lags": _REAL,
    "approximation": FEATURES,
    "forgetting": _REAL,
    "folds": Either((_REAL, of("splitter"))),
}
