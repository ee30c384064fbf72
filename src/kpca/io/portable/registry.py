"""All classes that a file may hold. Nothing else is ever written or built: a new class is a new row."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpca.estimators.plan import check_parameters
from kpca.io.portable import _sklearn
from kpca.io.portable.spec import ESTIMATOR, PLAIN, Misfit, Row, Scope, spec_of
from kpca.kernels import RadialKernel
from kpca.kernels.base import KERNELS
from kpca.preimage.back import METHODS, check_preimage

_PART = "part of a feature map"

# -- Kernels, as their classes declare them ---------------------------------------------------------------------------

_OF_KERNELS = {
    **dict.fromkeys(("Sum", "Product"), "members tuple >=1 of Kernel"),
    "GaussianProcess": "kernel <Gaussian-process_kernel>",
}
_KERNELS: tuple[Row, ...] = tuple(
    Row(
        f"kpca.kernels:{kind.__name__}",
        "kernel, radial kernel" if issubclass(kind, RadialKernel) else "kernel",
        _OF_KERNELS.get(kind.__name__, ""),
    )
    for kind in KERNELS
)

# -- Feature maps, projections and streams ----------------------------------------------------------------------------


def _histogram_parts(part: Any) -> None:
    """A count of frequencies f has 2f columns, or one less; two columns of one frequency share a root."""
    count = len(part.frequencies)
    if len(part.features) != count or len(part.roots) not in (2 * count, 2 * count - 1):
        raise Misfit("has parts that do not fit each other")
    if count and part.features.min() < 0:
        raise Misfit("has negative numbers of columns")


def _check_columns(part: Any, d: int, rank: int) -> None:
    """Refuse a number of columns that a part of random features cannot fill."""
    least, most = 1, int(np.iinfo(np.int64).max)  # Flat fills whatever it is given
    match type(part).__name__:
        case "Fourier":
            most = 2 * _directions(part.projection, d)
            least = most - 1
        case "Homogeneous":
            if len(part.features) and int(part.features.max()) >= d:
                raise Misfit("names columns that do not exist")
            least = most = len(part.roots)
        case "Activated":
            least = most = _directions(part.projection, d) + (part.activation == "sign")
        case "TensorSketch":
            least = most = part.sketches[0].shape[0]
            if any(sketch.shape != (most, d) for sketch in part.sketches):
                raise Misfit("has sketches of another size")
        case "Beside":
            if len(part.ranks) != len(part.members):
                raise Misfit("has another number of ranks than of members")
            for member, width in zip(part.members, part.ranks, strict=True):
                _check_columns(member, d, width)
            least = most = sum(part.ranks)
    if not least <= rank <= most:
        raise Misfit(f"has {rank} features where its parts make {least} to {most}")


def _directions(projection: Any, d: int) -> int:
    if type(projection).__name__ == "DenseProjection":
        rows, count = projection.weights.shape
        if rows != d:
            raise Misfit(f"has directions of {rows} columns where {d} belong")
        return int(count)
    blocks, _, p = projection.signs.shape
    if projection.scale.shape != (d,) or p < d or p & (p - 1) or not 0 < len(projection.stretch) <= blocks * p:
        raise Misfit("has Hadamard blocks that do not fit")
    return len(projection.stretch)


def _sketch(part: Any) -> None:
    count, rank = len(part.sketches), part.sketches[0].shape[0]
    if len(part.constants) != count or len(part.places) != count:
        raise Misfit("has sketches that do not fit each other")
    if rank < 1 or part.places.min() < 0 or part.places.max() >= rank:
        raise Misfit("names places that do not exist")


def _stream(stream: Any) -> None:
    if stream.fitted is not None:
        if stream.scatter is None or stream.kernel is None or stream.waiting:
            raise Misfit("is a stream with features that lacks what was made of them")
    elif not (stream.waiting or stream.batches) or stream.scatter is not None:
        raise Misfit("is a stream without features whose rows do not wait for them")


def _reservoir(sample: Any) -> None:
    if (sample.rows is None) != (sample.keys is None):
        raise Misfit("is a sample without rows or without keys")
    if sample.rows is not None and not len(sample.rows) <= min(sample.size, sample.seen):
        raise Misfit("is a sample of more rows than it can have")


_ENGINE: tuple[Row, ...] = (
    Row(
        "kpca.features.nystroem_map:NystroemMap",
        "feature map",
        "_kernel Kernel, kept whole r >=0, _points rows r d, _whitening floats r r, _single_error float >=0 inf",
        PLAIN,
        fresh={"_memos": dict, "_forms": dict},
    ),
    Row(
        "kpca.features.random:RandomMap",
        "feature map",
        "rank >=1 r, n_features >=1 d, structure independent|orthogonal|hadamard, origin d",
        check=lambda features: _check_columns(features.part, features.n_features, features.rank),
    ),
    Row("kpca.features.identity:IdentityMap", "feature map", "rank r d"),
    Row("kpca.features._parts:Fourier", _PART),
    Row("kpca.features._parts:Homogeneous", _PART, "features c, frequencies c, roots *", check=_histogram_parts),
    Row("kpca.features._parts:Activated", _PART, "activation none|sign|relu"),
    Row(
        "kpca.features._parts:TensorSketch",
        _PART,
        "constants *, places *, sketches tuple >=1 of rows r d",
        check=_sketch,
    ),
    Row("kpca.features._parts:Flat", _PART),
    Row("kpca.features._parts:Beside", _PART, "ranks >=1"),
    Row("kpca.features._projections:DenseProjection", "random projection", "weights d c, origin d"),
    Row(
        "kpca.features._projections:HadamardProjection",
        "random projection",
        "scale d, signs b 3 p, stretch c, origin d",
    ),
    Row("kpca.features.random:KernelError", "error of a feature map", "rms >=0, largest >=0, standard_error >=0"),
    Row("kpca.approximation:FittedMap", "fitted feature map", "kernel_error >=0"),
    Row("kpca.features.scatter:Scatter", "scatter", "mean r, matrix r r, mass >=0", left_out="of_values"),
    Row("kpca.projection:Centre", "centre", "coefficients n, levels n"),
    Row("kpca.projection:LinearProjection", "projection", "components k d, mean d"),
    Row("kpca.projection:KernelProjection", "projection", "X n d, coefficients n k, offset k", left_out="memo"),
    Row("kpca.projection:MatrixProjection", "projection", "coefficients d k, offset k"),
    Row("kpca.projection:FeatureProjection", "projection", "directions r k, mean r"),
    Row("kpca.stream:Batch", "batch", "rows m d, weights m >=0"),
    Row("kpca.reservoir:Reservoir", "sample", "rows m d, size >=1, keys m inf", check=_reservoir),
    # without the rows that a checkpoint needs
    Row("kpca.stream:Stream", "stream", left_out="basis", check=_stream),
)

# -- Inverse maps, from scores to rows, and the settings they are made from -------------------------------------------


def _mixture(way: Any) -> None:
    if way.trial.shares.shape[1] != 1 + len(way.others) or not len(way.trial.gaps):
        raise Misfit("mixes another number of ways than it has shares of")


def _distance(way: Any) -> None:
    known = way.known
    if not 1 <= way.neighbours <= len(known.rows):
        raise Misfit("has fewer known rows than neighbours are asked for")
    if known.index.min() < 0 or known.index.max() >= len(way.expansion.rows):
        raise Misfit("names rows that do not exist")


_WAYS: tuple[Row, ...] = (
    *(Row(f"kpca.preimage:{method.__name__}", "settings", kind=ESTIMATOR) for method in METHODS.values()),
    Row("kpca.preimage:Learned", "settings", kind=ESTIMATOR, parameters="regressor <regressor>"),
    Row(
        "kpca.preimage.expansion:Expansion",
        "expansion",
        "rows n d, directions n k, centre n, offset k, scores n k, levels n, diagonal n",
    ),
    Row("kpca.preimage.climbing:Base", "base", "mean d, scale d, rows n d+2, radius >=0, spread >=0"),
    Row(
        "kpca.preimage.fixed_point:FixedPointWay",
        "way, search, fixed point",
        "penalty >=0, starts >=1, max_iter >=1, tol >=0",
    ),
    Row("kpca.preimage.gradient:GradientWay", "way, search", "penalty >=0, max_iter >=1, tol >=0"),
    Row(
        "kpca.preimage.distance:_Known",
        "known rows",
        "index m, rows m d, centre d, scale d, norms m, scores m k, outside m, lengths m, diagonal m, rounding m",
    ),
    Row("kpca.preimage.distance:DistanceWay", "way", "neighbours >=1, penalty >=0", check=_distance),
    Row(
        "kpca.preimage.auto:Trial",
        "trial",
        "shares l a, gaps l, restoring a, errors * * inf, penalty >=0, variance >=0",
    ),
    Row("kpca.preimage.auto:AutoWay", "way", check=_mixture),
    Row(
        "kpca.preimage.ridge:RidgeMap",
        "ridge map",
        "scores n k, dual_coef n d, mean d, kernel <kernel> k=d",  # a kernel of scores
    ),
    Row("kpca.preimage.ridge:RidgeMapWay", "way"),
    Row("kpca.preimage.learned:RidgeWay", "way", "mean d, alpha >=0, gamma >=0, gcv * 4 inf, penalty >=0"),
    Row("kpca.preimage.learned:LearnedWay", "way", "mean d, penalty >=0, regressor none or <regressor> k=d"),
    Row("kpca.preimage.linear:LinearWay", "way", "components k d, mean d, penalty >=0"),
    Row("kpca.preimage.back:Back", "inverse map"),
)

# -- The estimators of this package -----------------------------------------------------------------------------------


# Types of parameters; the estimators check the ranges.
_APPROXIMATION = "approximation none or name or <approximation>"
_OF_KERNEL = (
    "kernel none or name or <kernel> or <Gaussian-process_kernel>, gamma none or real or name or values, degree real,"
    "coef0 real, kernel_params none or dict of any, random_state none or int, n_jobs jobs"
)
_OF_MODEL = (
    f"{_OF_KERNEL}, {_APPROXIMATION}, n_components none or real or name, center switch,"
    "preimage none or name or <settings> or <regressor>"
)
_FITTED_MAP = "n_features_in_ int >=1 d, kernel_ Kernel, gamma_ float or floats d, map_ FeatureMap"


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
    spec_of("int").check(lags, Scope())
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


_ESTIMATORS: tuple[Row, ...] = (
    Row(
        "kpca:KernelPCA",
        "estimator, transformer, kernel PCA",
        "n_features_in_ int >=1 d, kernel_ none or Kernel, gamma_ float or floats d, X_fit_ none or rows * d,"
        "eigenvalues_ floats k >=0 falling, eigenvectors_ floats n k, explained_variance_ floats k >=0,"
        "explained_variance_ratio_ floats k inf, _frobenius2 float nan, residuals_ floats k inf,"
        "eigenvalue_bounds_ floats k 2 inf, solver_ str, n_passes_ int, n_components_ int k,"
        "_projection <projection> d k, _roots floats 1 or floats * 1, _back none or <inverse_map> d k,"
        "_planned shape and limit",
        ESTIMATOR,
        "feature_map_ <feature_map> d, n_components_reason_ str, compression_loss_ floats k >=0,"
        "components_ floats k d, mean_ floats d, dual_coef_ floats * d, X_transformed_fit_ floats * k",
        f"{_OF_MODEL}, fit_inverse_transform switch, remove_zero_eig switch, copy_X switch, alpha real, tol real,"
        "eigen_solver name, max_iter none or real, iterated_power real or name",
        left_out="_last_report",
        check=_kernel_pca,
    ),
    # Its components and its inverse map are found again when they are asked for, from the same numbers.
    Row(
        "kpca:IncrementalKernelPCA",
        "estimator, transformer, kernel PCA",
        "n_features_in_ int >=1 d, _stream <stream> d",
        ESTIMATOR,
        parameters=f"{_OF_MODEL}, warm_up none or real, forgetting real",
        fresh={"_found": list, "_last_report": lambda: None},
        left_out="_checkpoint _monitor",
        check=lambda model: model._check_parameters(),
    ),
    Row(
        "kpca:KernelPCADetector",
        "estimator",
        "n_features_in_ int >=1 c, scaler_ none or <transformer> c=d, _fitted_with dict lags|statistic of any,"
        "_recipe <recipe> d, model_ <kernel_PCA> d, _measure <measure> d, _calibration <calibration>,"
        "limits_ <limits>, offset_ float, _past none or rows * c, centre_ floats d, _normal rows * d",
        ESTIMATOR,
        "feature_names_in_ texts c, residual_variance_ float >=0",  # d counts the columns with their lags
        f"{_OF_KERNEL}, {_APPROXIMATION}, statistic name, limit name, confidence real, lags real, forgetting real,"
        "n_components none or real, contamination real or name, scale none or name, folds real or <splitter>",
        check=_detector,
    ),
    Row(
        "kpca.features:Nystroem",
        "estimator, transformer, approximation",
        f"{_FITTED_MAP}, landmarks_ rows r d, landmark_indices_ none or whole r >=0, rank_ int >=1 r,"
        "unexplained_ float",
        ESTIMATOR,
        parameters=f"{_OF_KERNEL}, rank real, landmarks name or rows * * or values or list of any",
    ),
    Row(
        "kpca.features:RandomFeatures",
        "estimator, transformer, approximation",
        f"{_FITTED_MAP}, rank_ int >=1 r, kernel_error_ <error_of_a_feature_map>",
        ESTIMATOR,
        parameters=f"{_OF_KERNEL}, rank int, structure name",
    ),
    Row("kpca.detector.modelling:Recipe", "recipe", f"count >=0, forgetting >=0 <=1, {_APPROXIMATION}, n_jobs jobs"),
    Row("kpca.statistics:Measure", "measure", "variances k >=0, projection <projection> d k"),
    Row("kpca.statistics:Statistics", "statistics", "t2 m inf, spe m inf, combined m inf"),
    Row("kpca.detector.limits:Calibration", "calibration", "weights m >=0"),
    Row(
        "kpca.detector.limits:Limits",
        "limits",
        "t2 nan, spe nan, combined nan, method quantile|theory|kde, confidence >=0 <=1",
    ),
    Row(
        "kpca.io.preparation:Preparation",
        "estimator, transformer",
        "n_features_in_ int >=1 d, layout_ <layout> p q, sparse_ bool, dtype_ dtype, image_shape_ none or picture,"
        "n_rows_ int, n_kept_ int, n_missing_ int, numbers_imputer_ none or <transformer> p=d,"
        "scaler_ none or <transformer> p=d, encoder_ none or <transformer> q=d, vectorizer_ none or <transformer>,"
        "notes_ tuple of name",
        ESTIMATOR,
        check=_preparation,
    ),
    Row(
        "kpca.io.rows:Layout",
        "layout",
        "text free, id free, label free, numbers tuple p of name, categories tuple q of name",
    ),
)

ROWS: tuple[Row, ...] = (*_KERNELS, *_ENGINE, *_WAYS, *_ESTIMATORS, *_sklearn.ROWS)
_BY_TAG: dict[str, Row] = {row.tag: row for row in ROWS}


def row_of_tag(tag: Any) -> Row | None:
    """Return the row that a file names."""
    return _BY_TAG.get(tag) if isinstance(tag, str) else None


def row_of(item: Any) -> Row | None:
    """Return the row of an object's very class; a subclass has none, as its code is not in a file."""
    return row_of_class(type(item))


def row_of_class(kind: type) -> Row | None:
    """Return the row of a class."""
    # classes are loaded only where their name fits: most are never needed
    return next((row for row in ROWS if row.name == kind.__name__ and row.cls is kind), None)
