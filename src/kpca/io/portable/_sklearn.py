"""Rows of the registry: the estimators and kernels of scikit-learn that a file may hold."""

from __future__ import annotations

from typing import Any

from kpca.io.portable.spec import ESTIMATOR, Misfit, Row

_STEP = "estimator, transformer"
_D = "n_features_in_ int >=1 d"
# Of columns without a single value statistics are NaN.
_SEEN = "n_samples_seen_ float >=0 or numbers d"


def _vocabulary(vectoriser: Any) -> None:
    places, weights = vectoriser.vocabulary_, vars(vectoriser).get("_tfidf")
    if sorted(places.values()) != list(range(len(places))):
        raise Misfit("has a vocabulary whose words do not have a column each")
    if weights is not None and getattr(weights, "n_features_in_", len(places)) != len(places):
        raise Misfit("has weights of another number of words")


def _weights(transformer: Any) -> None:
    if transformer.use_idf and vars(transformer).get("idf_") is None:
        raise Misfit("has no weights of words")


def _one_hot(encoder: Any) -> None:
    if len(encoder._n_features_outs) != len(encoder.categories_):
        raise Misfit("makes other columns than it has categories of")


def _imputer(imputer: Any) -> None:
    if imputer.add_indicator and imputer.indicator_ is None:
        raise Misfit("has no indicator of what is missing")


def _steps(pipeline: Any) -> None:
    names = [name for name, _ in pipeline.steps]
    if len(set(names)) != len(names) or any("__" in name or name in ("steps", "memory", "verbose") for name in names):
        raise Misfit("has steps whose names cannot be")


def _step(name: str, fitted: str = "", **more: Any) -> Row:
    return Row(f"sklearn.{name}", _STEP, f"{_D}, {fitted}", ESTIMATOR, **more)


# What a vectoriser remembers of its list of stop words is a place in memory, and is not stored.
_WORDS: dict[str, Any] = {
    "role": _STEP,
    "said": "vocabulary_ dict of int, fixed_vocabulary_ bool",
    "kind": ESTIMATOR,
    "parameters": "token_pattern none or name",
    "left_out": "_stop_words_id",
    "check": _vocabulary,
}
_STEPS: tuple[Row, ...] = (
    Row(
        "sklearn.pipeline:Pipeline",
        _STEP,
        kind=ESTIMATOR,
        parameters="memory none, steps list >=1 of step",
        check=_steps,
    ),
    _step(
        "preprocessing:StandardScaler",
        f"{_SEEN}, mean_ none or floats d inf, scale_ none or floats d inf",
        optional="var_ none or floats d inf",
    ),
    _step("preprocessing:RobustScaler", "center_ none or floats d inf, scale_ none or floats d inf"),
    _step(
        "preprocessing:MinMaxScaler",
        f"{_SEEN}, scale_ floats d inf, min_ floats d inf, data_min_ floats d inf, data_max_ floats d inf,"
        "data_range_ floats d inf",
    ),
    _step("preprocessing:MaxAbsScaler", f"{_SEEN}, max_abs_ floats d inf, scale_ floats d inf"),
    _step("preprocessing:Normalizer"),
    _step(
        "impute:SimpleImputer",
        "_fit_dtype dtype any, statistics_ floats d inf or texts d missing, indicator_ none or <indicator> d",
        optional="_fill_dtype dtype any",
        check=_imputer,
    ),
    Row(
        "sklearn.impute:MissingIndicator",
        "indicator, estimator",
        "features_ whole * >=0, _n_features int >=1 d, _precomputed bool",
        ESTIMATOR,
        _D,
    ),
    _step(
        "preprocessing:OneHotEncoder",
        "categories_ list d of category, drop_idx_ none, _infrequent_enabled bool, _drop_idx_after_grouping none,"
        "_n_features_outs list of int",
        optional="_infrequent_indices none or list of places, _default_to_infrequent_mappings none or list of places",
        check=_one_hot,
    ),
    Row("sklearn.feature_extraction.text:TfidfVectorizer", **_WORDS, optional="_tfidf <weights_of_words>"),
    Row("sklearn.feature_extraction.text:CountVectorizer", **_WORDS),
    Row(
        "sklearn.feature_extraction.text:TfidfTransformer",
        f"{_STEP}, weights of words",
        _D,
        ESTIMATOR,
        "idf_ none or floats d",
        check=_weights,
    ),
)

_LINEAR = f"{_D}, coef_ floats * d or floats d, intercept_ float or floats *"
_REGRESSORS: tuple[Row, ...] = tuple(
    Row(f"sklearn.{name}", "regressor, estimator", fitted, ESTIMATOR, optional)
    for name, fitted, optional in (
        ("linear_model:LinearRegression", _LINEAR, "rank_ int, singular_ floats *"),
        ("linear_model:Ridge", _LINEAR, "n_iter_ none or int or whole *, solver_ str"),
        ("kernel_ridge:KernelRidge", f"{_D}, dual_coef_ floats n * or floats n, X_fit_ rows n d", ""),
    )
)

# Parameters alone: kernels of Gaussian processes, and ways to hold rows out.
_LENGTHS = "length_scale real or floats * or tuple of real or list of real"
_MEMBER = "<Gaussian-process_kernel>"
_KERNELS: tuple[Row, ...] = tuple(
    Row(f"sklearn.gaussian_process.kernels:{name}", "Gaussian-process kernel", kind=ESTIMATOR, parameters=parameters)
    for name, parameters in {
        "RBF": _LENGTHS,
        "Matern": f"{_LENGTHS}, nu real",
        "RationalQuadratic": "length_scale real, alpha real",
        "ExpSineSquared": "length_scale real, periodicity real",
        "DotProduct": "sigma_0 real",
        "ConstantKernel": "constant_value real",
        "WhiteKernel": "noise_level real",
        "PairwiseKernel": "gamma real, metric str",
        **dict.fromkeys(("Sum", "Product"), f"k1 {_MEMBER}, k2 {_MEMBER}"),
        "Exponentiation": f"kernel {_MEMBER}, exponent real",
    }.items()
)
_SPLITTERS: tuple[Row, ...] = (
    Row("sklearn.model_selection:KFold", "splitter", kind=ESTIMATOR, parameters="n_splits int >=2, shuffle bool"),
    Row(
        "sklearn.model_selection:TimeSeriesSplit",
        "splitter",
        "shuffle bool, random_state none",
        ESTIMATOR,
        parameters="n_splits int >=2, gap int",
    ),
)

ROWS: tuple[Row, ...] = (*_STEPS, *_REGRESSORS, *_KERNELS, *_SPLITTERS)
