"""Rows of the registry: the estimators and kernels of scikit-learn that a file may hold."""

from __future__ import annotations

from typing import Any

from kpca.io.portable.spec import (
    Array,
    Count,
    Dtype,
    Either,
    Fixed,
    Flag,
    Misfit,
    Named,
    Nothing,
    Number,
    Row,
    Rows,
    Several,
    Spec,
    Text,
    Texts,
    estimator,
    floats,
    maybe,
    of,
    whole,
)

_COLUMNS = Count(1, "d")
_STEP = "estimator, transformer"
# Of columns without a single value statistics are NaN.
_EACH = floats("d", finite=False)
_SEEN = Either((Number(0.0), Array("n", ("d",))))
_CATEGORIES = Several(Either((Texts(missing=True), Array("n", ("*",), finite=False))), kind=list, letter="d")
_NUMBERS = maybe(Several(maybe(whole("*", least=0)), kind=list))


def _vocabulary(vectoriser: Any) -> None:
    places = vectoriser.__dict__.get("vocabulary_")
    if places is None:
        return
    if sorted(places.values()) != list(range(len(places))):
        raise Misfit("has a vocabulary whose words do not have a column each")
    weights = vectoriser.__dict__.get("_tfidf")
    if weights is not None and weights.__dict__.get("n_features_in_", len(places)) != len(places):
        raise Misfit("has weights of another number of words")


def _weights(transformer: Any) -> None:
    if transformer.__dict__.get("idf_") is None and transformer.use_idf and hasattr(transformer, "n_features_in_"):
        raise Misfit("has no weights of words")


def _one_hot(encoder: Any) -> None:
    fitted = encoder.__dict__.get("categories_")
    outs = encoder.__dict__.get("_n_features_outs", [])
    if fitted is not None and len(outs) != len(fitted):
        raise Misfit("makes other columns than it has categories of")


def _imputer(imputer: Any) -> None:
    if imputer.__dict__.get("statistics_") is not None and imputer.add_indicator and imputer.indicator_ is None:
        raise Misfit("has no indicator of what is missing")


def _steps(pipeline: Any) -> None:
    names = [name for name, _ in pipeline.steps]
    if len(set(names)) != len(names) or any("__" in name or name in ("steps", "memory", "verbose") for name in names):
        raise Misfit("has steps whose names cannot be")


def _by_words(name: str, **also: Spec) -> Row:
    """A vectoriser; what it remembers of its list of stop words is a place in memory, and is not stored."""
    return estimator(
        f"sklearn.feature_extraction.text:{name}",
        _STEP,
        {"vocabulary_": Named(Count()), "fixed_vocabulary_": Flag()},
        also,
        left_out="_stop_words_id",
        check=_vocabulary,
        parameters={"token_pattern": maybe(Text(free=True))},
    )


STEPS: tuple[Row, ...] = (
    estimator(
        "sklearn.pipeline:Pipeline",
        _STEP,
        parameters={
            "memory": Nothing(),
            "steps": Several(
                Fixed((Text(free=True), Either((of("estimator"), Text(("passthrough",)), Nothing())))), list, 1
            ),
        },
        check=_steps,
    ),
    estimator(
        "sklearn.preprocessing:StandardScaler",
        _STEP,
        {"n_features_in_": _COLUMNS, "n_samples_seen_": _SEEN, "mean_": maybe(_EACH), "scale_": maybe(_EACH)},
        {"var_": maybe(_EACH)},
    ),
    estimator(
        "sklearn.preprocessing:RobustScaler",
        _STEP,
        {"n_features_in_": _COLUMNS, "center_": maybe(_EACH), "scale_": maybe(_EACH)},
    ),
    estimator(
        "sklearn.preprocessing:MinMaxScaler",
        _STEP,
        {
            "n_features_in_": _COLUMNS,
            "n_samples_seen_": _SEEN,
            "scale_": _EACH,
            "min_": _EACH,
            "data_min_": _EACH,
            "data_max_": _EACH,
            "data_range_": _EACH,
        },
    ),
    estimator(
        "sklearn.preprocessing:MaxAbsScaler",
        _STEP,
        {"n_features_in_": _COLUMNS, "n_samples_seen_": _SEEN, "max_abs_": _EACH, "scale_": _EACH},
    ),
    estimator("sklearn.preprocessing:Normalizer", _STEP, {"n_features_in_": _COLUMNS}),
    estimator(
        "sklearn.impute:SimpleImputer",
        _STEP,
        {
            "n_features_in_": _COLUMNS,
            "_fit_dtype": Dtype(any=True),
            "statistics_": Either((_EACH, Texts(("d",), missing=True))),
            "indicator_": maybe(of("indicator", "d")),
        },
        {"_fill_dtype": Dtype(any=True)},
        check=_imputer,
    ),
    estimator(
        "sklearn.impute:MissingIndicator",
        "indicator, estimator",
        {"features_": whole("*", least=0), "_n_features": Count(1, "d"), "_precomputed": Flag()},
        {"n_features_in_": _COLUMNS},
    ),
    estimator(
        "sklearn.preprocessing:OneHotEncoder",
        _STEP,
        {
            "n_features_in_": _COLUMNS,
            "categories_": _CATEGORIES,
            "drop_idx_": Nothing(),
            "_infrequent_enabled": Flag(),
            "_drop_idx_after_grouping": Nothing(),
            "_n_features_outs": Several(Count(), list),
        },
        {"_infrequent_indices": _NUMBERS, "_default_to_infrequent_mappings": _NUMBERS},
        check=_one_hot,
    ),
    _by_words("TfidfVectorizer", _tfidf=of("weights of words")),
    _by_words("CountVectorizer"),
    estimator(
        "sklearn.feature_extraction.text:TfidfTransformer",
        f"{_STEP}, weights of words",
        {"n_features_in_": _COLUMNS},
        {"idf_": maybe(floats("d"))},
        check=_weights,
    ),
)

_LEARNED: dict[str, Spec] = {
    "n_features_in_": _COLUMNS,
    "coef_": Either((floats("*", "d"), floats("d"))),
    "intercept_": Either((Number(), floats("*"))),
}

REGRESSORS: tuple[Row, ...] = (
    estimator(
        "sklearn.linear_model:LinearRegression",
        "regressor, estimator",
        {**_LEARNED},
        {"rank_": Count(), "singular_": floats("*")},
    ),
    estimator(
        "sklearn.linear_model:Ridge",
        "regressor, estimator",
        {**_LEARNED},
        {"n_iter_": maybe(Either((Count(), whole("*")))), "solver_": Text()},
    ),
    estimator(
        "sklearn.kernel_ridge:KernelRidge",
        "regressor, estimator",
        {
            "n_features_in_": _COLUMNS,
            "dual_coef_": Either((floats("n", "*"), floats("n"))),
            "X_fit_": Rows(("n", "d")),
        },
    ),
)

# Parameters alone: kernels of Gaussian processes, and ways to hold rows out.
_ONE = Number(finite=False)
_LENGTHS = Either((_ONE, floats("*"), Several(_ONE), Several(_ONE, list)))
_GAUSSIAN: dict[str, dict[str, Spec]] = {
    "RBF": {"length_scale": _LENGTHS},
    "Matern": {"length_scale": _LENGTHS, "nu": _ONE},
    "RationalQuadratic": {"length_scale": _ONE, "alpha": _ONE},
    "ExpSineSquared": {"length_scale": _ONE, "periodicity": _ONE},
    "DotProduct": {"sigma_0": _ONE},
    "ConstantKernel": {"constant_value": _ONE},
    "WhiteKernel": {"noise_level": _ONE},
    "PairwiseKernel": {"gamma": _ONE, "metric": Text()},
}
_MEMBER = of("Gaussian-process kernel")
GAUSSIAN: tuple[Row, ...] = (
    *(
        estimator(f"sklearn.gaussian_process.kernels:{name}", "Gaussian-process kernel", parameters=parameters)
        for name, parameters in _GAUSSIAN.items()
    ),
    *(
        estimator(
            f"sklearn.gaussian_process.kernels:{name}",
            "Gaussian-process kernel",
            parameters={"k1": _MEMBER, "k2": _MEMBER},
        )
        for name in ("Sum", "Product")
    ),
    estimator(
        "sklearn.gaussian_process.kernels:Exponentiation",
        "Gaussian-process kernel",
        parameters={"kernel": _MEMBER, "exponent": _ONE},
    ),
)
SPLITTERS: tuple[Row, ...] = (
    estimator("sklearn.model_selection:KFold", "splitter", parameters={"n_splits": Count(2), "shuffle": Flag()}),
    estimator(
        "sklearn.model_selection:TimeSeriesSplit",
        "splitter",
        {"shuffle": Flag(), "random_state": Nothing()},
        parameters={"n_splits": Count(2), "gap": Count()},
    ),
)
