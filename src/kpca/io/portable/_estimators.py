"""Rows of the registry: the estimators of this package."""

from __future__ import annotations

from typing import Any

from kpca import inputs
from kpca.io.portable._parameters import DETECTOR, FEATURES, INCREMENTAL, JOBS, KERNEL_PCA
from kpca.io.portable.rows import Row, estimator, value
from kpca.io.portable.spec import (
    Anything,
    Count,
    Dtype,
    Either,
    Fixed,
    Flag,
    Misfit,
    Named,
    Number,
    Rows,
    Several,
    Text,
    Texts,
    floats,
    maybe,
    of,
)
from kpca.preimage.back import check_preimage

_ANY = Number()
_KERNEL = of("kernel", "d")


def _kernel_pca(model: Any) -> None:
    """What lengths alone do not say."""
    inputs.check_parameters(model)
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
