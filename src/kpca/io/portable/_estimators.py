"""Rows of the registry: ways back from scores to data, and the settings they are made from."""

from __future__ import annotations

from typing import Any

from kpca._base.validation import check_parameters
from kpca.io.portable.spec import (
    BOX,
    DETECTOR,
    FEATURES,
    INCREMENTAL,
    JOBS,
    KERNEL_PCA,
    Anything,
    Count,
    Dtype,
    Either,
    Fixed,
    Flag,
    Misfit,
    Named,
    Number,
    Row,
    Rows,
    Several,
    Text,
    Texts,
    estimator,
    floats,
    maybe,
    of,
    value,
    whole,
)
from kpca.preimage.back import check_preimage

_ANY = Number()
_NOT_NEGATIVE = Number(0.0)


def _mixture(way: Any) -> None:
    if way.trial.shares.shape[1] != 1 + len(way.others) or not len(way.trial.gaps):
        raise Misfit("mixes another number of ways than it has shares of")


def _distance(way: Any) -> None:
    known = way.known
    if not 1 <= way.neighbours <= len(known.rows):
        raise Misfit("has fewer known rows than neighbours are asked for")
    if known.index.min() < 0 or known.index.max() >= len(way.expansion.rows):
        raise Misfit("has numbers of rows that there are not")


_METHODS = ("Auto", "Ridge", "FixedPoint", "Distance", "Gradient")
SETTINGS: tuple[Row, ...] = (
    *(estimator(f"kpca.preimage:{name}", "settings") for name in _METHODS),
    estimator("kpca.preimage:Learned", "settings", parameters={"regressor": of("regressor")}),
)

WAYS: tuple[Row, ...] = (
    value(
        "kpca.preimage.expansion:Expansion",
        "expansion",
        kernel=of("kernel", "d"),
        rows=floats("n", "d"),
        directions=floats("n", "k"),
        centre=floats("n"),
        offset=floats("k"),
        scores=floats("n", "k"),
        levels=floats("n"),
        diagonal=floats("n"),
        centre_square=_ANY,
    ),
    value(
        "kpca.preimage.climbing:Base",
        "base",
        kernel=of("radial kernel", "d"),
        mean=floats("d"),
        scale=floats("d"),
        rows=floats("n", "d+2"),
        radius=_NOT_NEGATIVE,
        spread=_NOT_NEGATIVE,
    ),
    value(
        "kpca.preimage.fixed_point:FixedPointWay",
        "way, search, fixed point",
        expansion=of("expansion", "n d k"),
        base=of("base", "n d"),
        factor=_ANY,
        box=BOX,
        penalty=_NOT_NEGATIVE,
        rescale=Flag(),
        starts=Count(1),
        max_iter=Count(1),
        tol=_NOT_NEGATIVE,
        usual=_ANY,
    ),
    value(
        "kpca.preimage.gradient:GradientWay",
        "way, search",
        expansion=of("expansion", "n d k"),
        box=BOX,
        penalty=_NOT_NEGATIVE,
        max_iter=Count(1),
        tol=_NOT_NEGATIVE,
    ),
    value(
        "kpca.preimage.distance:_Known",
        "known rows",
        index=whole("m"),
        rows=floats("m", "d"),
        centre=floats("d"),
        scale=floats("d"),
        norms=floats("m"),
        scores=floats("m", "k"),
        outside=floats("m"),
        lengths=floats("m"),
        diagonal=floats("m"),
        rounding=floats("m"),
    ),
    value(
        "kpca.preimage.distance:DistanceWay",
        "way",
        expansion=of("expansion", "n d k"),
        known=of("known rows", "d k"),
        neighbours=Count(1),
        dtype=Dtype(),
        box=BOX,
        penalty=_NOT_NEGATIVE,
        check=_distance,
    ),
    value(
        "kpca.preimage.auto:Trial",
        "trial",
        shares=floats("l", "a"),
        gaps=floats("l"),
        restoring=floats("a"),
        errors=floats("*", "*", finite=False),
        penalty=_NOT_NEGATIVE,
        variance=_NOT_NEGATIVE,
        held_out=Count(),
    ),
    value(
        "kpca.preimage.auto:AutoWay",
        "way",
        search=of("search", "d k"),
        others=Several(of("way", "d k")),
        trial=of("trial"),
        check=_mixture,
    ),
    value(
        "kpca.preimage.ridge:RidgeMap",
        "ridge map",
        kernel=of("kernel", k="d"),  # of scores
        scores=floats("n", "k"),
        dual_coef=floats("n", "d"),
        mean=floats("d"),
    ),
    value("kpca.preimage.ridge:RidgeMapWay", "way", map=of("ridge map", "d k")),
    value(
        "kpca.preimage.learned:RidgeWay",
        "way",
        map=maybe(of("ridge map", "d k")),
        mean=floats("d"),
        dtype=Dtype(),
        alpha=_NOT_NEGATIVE,
        gamma=_NOT_NEGATIVE,
        gcv=floats("*", "4", finite=False),
        box=BOX,
        penalty=_NOT_NEGATIVE,
    ),
    value(
        "kpca.preimage.learned:LearnedWay",
        "way",
        regressor=maybe(of("regressor", k="d")),
        mean=floats("d"),
        dtype=Dtype(),
        box=BOX,
        penalty=_NOT_NEGATIVE,
    ),
    value(
        "kpca.preimage.linear:LinearWay",
        "way",
        components=floats("k", "d"),
        mean=floats("d"),
        box=BOX,
        penalty=_NOT_NEGATIVE,
    ),
    value(
        "kpca.preimage.back:Back",
        "way back",
        way=of("way", "d k"),
        method=Text(),
        reason=Text(),
        lengthen=maybe(of("fixed point", "d k")),
    ),
)

# -- Rows of the registry: the estimators of this package -------------------------------------------------------------

_KERNEL = of("kernel", "d")


def _kernel_pca(model: Any) -> None:
    """What lengths alone do not say."""
    check_parameters(model)
    check_preimage(model.preimage)
    n = len(model.eigenvectors_)
    if model._roots.shape not in ((1,), (n, 1)):
        raise Misfit("has weights of another number of rows")
    precomputed = isinstance(model.kernel, str) and model.kernel == "precomputed"
    if (model.kernel_ is None) != precomputed:
        raise Misfit("has a kernel where its matrix was given, or none where it was not")
    by_matrix = type(model._projection).__name__ == "MatrixProjection"
    if by_matrix != precomputed:
        raise Misfit("has a projection that does not go with its kernel")
    if precomputed and model.X_fit_.shape[0] != model.X_fit_.shape[1]:
        raise Misfit("has a kernel matrix that is not square")
    by_landmarks = hasattr(model, "feature_map_") or hasattr(model, "compression_loss_")
    if not by_landmarks and (model.X_fit_ is None or model.X_fit_.shape[0] != n):
        raise Misfit("has eigenvectors of another number of rows than it has rows")
    if model._planned[0][1] != model.n_features_in_:
        raise Misfit("was planned for other columns")
    for name in ("eigenvectors_", "explained_variance_", "explained_variance_ratio_"):
        if getattr(model, name).dtype != model.eigenvalues_.dtype:
            raise Misfit(f"has {name} in another precision than eigenvalues_")


def _detector(model: Any) -> None:
    model._check_parameters()
    lags = model._fitted_with["lags"]
    Count().check(lags, None)  # type: ignore[arg-type]  # has no lengths to compare
    if len(model.centre_) != model.n_features_in_ * (lags + 1):
        raise Misfit("has a centre of another number of columns")
    if (model._past is not None) != bool(lags):
        raise Misfit("remembers rows that it has no lags for, or the other way round")


def _preparation(model: Any) -> None:
    model._check_parameters()
    layout = model.layout_
    if model.n_features_in_ != len(layout.numbers) + len(layout.categories) + (layout.text is not None):
        raise Misfit("has another number of columns than its layout")
    coded, worded = model.encoder_ is not None, model.vectorizer_ is not None
    if coded != bool(layout.categories) or worded != (layout.text is not None):
        raise Misfit("has categories or documents without an encoder, or the other way round")


ESTIMATORS: tuple[Row, ...] = (
    estimator(
        "kpca:KernelPCA",
        "estimator, transformer, kernel PCA",
        {
            "n_features_in_": Count(1, "d"),
            "kernel_": maybe(_KERNEL),
            "gamma_": Either((_ANY, floats("d"))),
            "X_fit_": maybe(Rows(("*", "d"))),
            "eigenvalues_": floats("k", least=0.0, falling=True),
            "eigenvectors_": floats("n", "k"),
            "explained_variance_": floats("k", least=0.0),
            "explained_variance_ratio_": floats("k", finite=False),
            "_frobenius2": Number(nan=True, finite=False),
            "residuals_": floats("k", finite=False),
            "eigenvalue_bounds_": floats("k", "2", finite=False),
            "solver_": Text(),
            "n_passes_": Count(),
            "n_components_": Count(0, "k"),
            "_projection": of("projection", "d k"),
            "_roots": Either((floats("1"), floats("*", "1"))),
            "_back": maybe(of("way back", "d k")),
            "_planned": Fixed((Fixed((Count(), Count())), maybe(Count()))),
        },
        {
            "feature_map_": of("feature map", "d"),
            "n_components_reason_": Text(),
            "compression_loss_": floats("k", least=0.0),
            "components_": floats("k", "d"),
            "mean_": floats("d"),
            "dual_coef_": floats("*", "d"),
            "X_transformed_fit_": floats("*", "k"),
        },
        left_out="_last_report",
        parameters=KERNEL_PCA,
        check=_kernel_pca,
    ),
    # Its components and its way back are found again when they are asked for, from the same numbers.
    estimator(
        "kpca:IncrementalKernelPCA",
        "estimator, transformer, kernel PCA",
        {"n_features_in_": Count(1, "d"), "_stream": of("stream", "d")},
        fresh={"_found": list, "_last_report": lambda: None},
        left_out="_checkpoint _monitor",
        parameters=INCREMENTAL,
        check=lambda model: model._check_parameters(),
    ),
    estimator(
        "kpca:KernelPCADetector",
        "estimator",
        {
            "n_features_in_": Count(1, "c"),
            "scaler_": maybe(of("transformer", c="d")),
            "_fitted_with": Named(Anything(), ("lags", "statistic")),
            "_recipe": of("recipe", "d"),
            "model_": of("kernel PCA", "d"),
            "_measure": of("measure", "d"),
            "_calibration": of("calibration"),
            "limits_": of("limits"),
            "offset_": _ANY,
            "_past": maybe(Rows(("*", "c"))),
            "centre_": floats("d"),
            "_normal": Rows(("*", "d")),
        },
        {"feature_names_in_": Texts(("c",))},  # d counts the columns with their lags
        parameters=DETECTOR,
        check=_detector,
    ),
    value(
        "kpca.detector.modelling:Recipe",
        "recipe",
        kernel=_KERNEL,
        count=Number(0.0),
        approximation=FEATURES,
        forgetting=Number(0.0, 1.0),
        seed=Count(),
        n_jobs=JOBS,
    ),
    value("kpca.statistics:Measure", "measure", projection=of("projection", "d k"), variances=floats("k", least=0.0)),
    value(
        "kpca.statistics:Statistics",
        "statistics",
        t2=floats("m", finite=False),
        spe=floats("m", finite=False),
        combined=floats("m", finite=False),
    ),
    value(
        "kpca.detector.limits:Calibration",
        "calibration",
        statistics=of("statistics", "m"),
        weights=floats("m", least=0.0),
    ),
    value(
        "kpca.detector.limits:Limits",
        "limits",
        t2=Number(finite=False, nan=True),
        spe=Number(finite=False, nan=True),
        combined=Number(finite=False, nan=True),
        method=Text(("quantile", "theory", "kde")),
        confidence=Number(0.0, 1.0),
        rows=Count(),
    ),
    estimator(
        "kpca.io.preparation:Preparation",
        "estimator, transformer",
        {
            "n_features_in_": Count(1, "d"),
            "layout_": of("layout", "p q"),
            "sparse_": Flag(),
            "dtype_": Dtype(),
            "image_shape_": maybe(Fixed((Count(1), Count(1)))),
            "n_rows_": Count(),
            "n_kept_": Count(),
            "n_missing_": Count(),
            "numbers_imputer_": maybe(of("transformer", p="d")),
            "scaler_": maybe(of("transformer", p="d")),
            "encoder_": maybe(of("transformer", q="d")),
            "vectorizer_": maybe(of("transformer")),
            "notes_": Several(Text(free=True)),
        },
        check=_preparation,
    ),
    value(
        "kpca.io.rows:Layout",
        "layout",
        numbers=Several(Text(free=True), letter="p"),
        categories=Several(Text(free=True), letter="q"),
        text=maybe(Text(free=True)),
        id=maybe(Text(free=True)),
        label=maybe(Text(free=True)),
    ),
)
