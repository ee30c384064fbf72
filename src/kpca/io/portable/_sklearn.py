"""Rows of the registry: the estimators and kernels of scikit-learn that a file may hold."""

from __future__ import annotations

from typing import Any

from kpca.io.portable.rows import Row, estimator
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
    Several,
    Spec,
    Text,
    Texts,
    floats,
    maybe,
    of,
    whole,
)

_STEP = "estimator, transformer"
_D = "n_features_in_ int >=1 d"
# Of columns without a single value statistics are NaN.
_SEEN = {"n_samples_seen_": Either((Number(0.0), Array("n", ("d",))))}
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


def _by_words(name: str, optional: str = "") -> Row:
    """A vectoriser; what it remembers of its list of stop words is a place in memory, and is not stored."""
    return estimator(
        f"sklearn.feature_extraction.text:{name}",
        _STEP,
        "vocabulary_, fixed_vocabulary_ bool",
        {"vocabulary_": Named(Count()), "_tfidf": of("weights of words")},
        optional=optional,
        left_out="_stop_words_id",
        check=_vocabulary,
        parameters={"token_pattern": maybe(Text(free=True))},
    )


def _step(name: str, fitted: str, given: dict[str, Spec] | None = None, **more: Any) -> Row:
    return estimator(f"sklearn.{name}", _STEP, f"{_D}, {fitted}", given, **more)


_STEPS: tuple[Row, ...] = (
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
    _step(
        "preprocessing:StandardScaler",
        "n_samples_seen_, mean_ floats? d inf, scale_ floats? d inf",
        {**_SEEN},
        optional="var_ floats? d inf",
    ),
    _step("preprocessing:RobustScaler", "center_ floats? d inf, scale_ floats? d inf"),
    _step(
        "preprocessing:MinMaxScaler",
        "n_samples_seen_, scale_ floats d inf, min_ floats d inf, data_min_ floats d inf, data_max_ floats d inf,"
        "data_range_ floats d inf",
        {**_SEEN},
    ),
    _step("preprocessing:MaxAbsScaler", "n_samples_seen_, max_abs_ floats d inf, scale_ floats d inf", {**_SEEN}),
    _step("preprocessing:Normalizer", ""),
    _step(
        "impute:SimpleImputer",
        "_fit_dtype, statistics_, indicator_",
        {
            "_fit_dtype": Dtype(any=True),
            "_fill_dtype": Dtype(any=True),
            "statistics_": Either((floats("d", finite=False), Texts(("d",), missing=True))),
            "indicator_": maybe(of("indicator", "d")),
        },
        optional="_fill_dtype",
        check=_imputer,
    ),
    estimator(
        "sklearn.impute:MissingIndicator",
        "indicator, estimator",
        "features_ whole * >=0, _n_features int >=1 d, _precomputed bool",
        optional=_D,
    ),
    _step(
        "preprocessing:OneHotEncoder",
        "categories_, drop_idx_, _infrequent_enabled bool, _drop_idx_after_grouping, _n_features_outs",
        {
            "categories_": Several(
                Either((Texts(missing=True), Array("n", ("*",), finite=False))), kind=list, letter="d"
            ),
            **dict.fromkeys(("drop_idx_", "_drop_idx_after_grouping"), Nothing()),
            "_n_features_outs": Several(Count(), list),
            **dict.fromkeys(("_infrequent_indices", "_default_to_infrequent_mappings"), _NUMBERS),
        },
        optional="_infrequent_indices, _default_to_infrequent_mappings",
        check=_one_hot,
    ),
    _by_words("TfidfVectorizer", "_tfidf"),
    _by_words("CountVectorizer"),
    estimator(
        "sklearn.feature_extraction.text:TfidfTransformer",
        f"{_STEP}, weights of words",
        _D,
        optional="idf_ floats? d",
        check=_weights,
    ),
)

_LEARNED: dict[str, Spec] = {
    "coef_": Either((floats("*", "d"), floats("d"))),
    "intercept_": Either((Number(), floats("*"))),
    "n_iter_": maybe(Either((Count(), whole("*")))),
    "dual_coef_": Either((floats("n", "*"), floats("n"))),
}
_REGRESSORS: tuple[Row, ...] = tuple(
    estimator(f"sklearn.{name}", "regressor, estimator", f"{_D}, {fitted}", _LEARNED, optional=optional)
    for name, fitted, optional in (
        ("linear_model:LinearRegression", "coef_, intercept_", "rank_ int, singular_ floats *"),
        ("linear_model:Ridge", "coef_, intercept_", "n_iter_, solver_ str"),
        ("kernel_ridge:KernelRidge", "dual_coef_, X_fit_ rows n d", ""),
    )
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
_GAUSSIAN["Sum"] = _GAUSSIAN["Product"] = {"k1": _MEMBER, "k2": _MEMBER}
_GAUSSIAN["Exponentiation"] = {"kernel": _MEMBER, "exponent": _ONE}
_KERNELS: tuple[Row, ...] = tuple(
    estimator(f"sklearn.gaussian_process.kernels:{name}", "Gaussian-process kernel", parameters=parameters)
    for name, parameters in _GAUSSIAN.items()
)
_SPLITTERS: tuple[Row, ...] = (
    estimator("sklearn.model_selection:KFold", "splitter", parameters={"n_splits": Count(2), "shuffle": Flag()}),
    estimator(
        "sklearn.model_selection:TimeSeriesSplit",
        "splitter",
        "shuffle bool, random_state",
        {"random_state": Nothing()},
        parameters={"n_splits": Count(2), "gap": Count()},
    ),
)

ROWS: tuple[Row, ...] = (*_STEPS, *_REGRESSORS, *_KERNELS, *_SPLITTERS)
