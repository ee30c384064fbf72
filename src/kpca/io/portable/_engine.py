"""Rows of the registry: kernels, feature maps, projections, streams."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpca.io.portable.spec import (
    NYSTROEM,
    RANDOM_FEATURES,
    Count,
    Dtype,
    Either,
    Flag,
    Misfit,
    Number,
    Row,
    Rows,
    Several,
    Text,
    estimator,
    floats,
    maybe,
    of,
    plain,
    value,
    whole,
)

_ANY = Number()
_NOT_NEGATIVE = Number(0.0)
# One number, or one per column. Kernels check the range of their parameters themselves.
_EACH = Either((_ANY, Several(_ANY, letter="d")))
_KERNEL = of("kernel", "d")


def _histogram_parts(part: Any) -> None:
    """A count of frequencies f has 2f columns, or one less; two columns of one frequency share a root."""
    count = len(part.frequencies)
    if len(part.features) != count or len(part.roots) not in (2 * count, 2 * count - 1):
        raise Misfit("has parts that do not fit each other")
    if count and part.features.min() < 0:
        raise Misfit("has negative numbers of columns")


def _random_map(features: Any) -> None:
    least, most = _columns(features.part, features.n_features)
    if not least <= features.rank <= most:
        raise Misfit(f"has {features.rank} features where its parts make {least} to {most}")
    if features.rank < 1:
        raise Misfit("has no features")


def _columns(part: Any, d: int) -> tuple[int, int]:
    """Return how many columns a part of random features can fill, at least and at most."""
    match type(part).__name__:
        case "Fourier":
            count = _directions(part.projection, d)
            return 2 * count - 1, 2 * count
        case "Homogeneous":
            if len(part.features) and int(part.features.max()) >= d:
                raise Misfit("has numbers of columns that there are not")
            return len(part.roots), len(part.roots)
        case "Activated":
            count = _directions(part.projection, d) + (part.activation == "sign")
            return count, count
        case "TensorSketch":
            rank = part.sketches[0].shape[0]
            if any(sketch.shape != (rank, d) for sketch in part.sketches):
                raise Misfit("has sketches of another size")
            return rank, rank
        case "Beside":
            _beside(part, d)
            return sum(part.ranks), sum(part.ranks)
    return 1, np.iinfo(np.int64).max  # Flat fills whatever it is given


def _beside(part: Any, d: int) -> None:
    if len(part.ranks) != len(part.members):
        raise Misfit("has as many ranks as it has no members")
    for member, rank in zip(part.members, part.ranks, strict=True):
        least, most = _columns(member, d)
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
        raise Misfit("has places that there are not")


def _stream(stream: Any) -> None:
    if stream.fitted is not None:
        if stream.scatter is None or stream.kernel is None or stream.waiting:
            raise Misfit("is a stream with features that lacks what was made of them")
    elif not stream.waiting or stream.scatter is not None:
        raise Misfit("is a stream without features whose rows do not wait for them")


def _reservoir(sample: Any) -> None:
    if (sample.rows is None) != (sample.keys is None):
        raise Misfit("is a sample without rows or without keys")
    if sample.rows is not None and not len(sample.rows) <= min(sample.size, sample.seen):
        raise Misfit("is a sample of more rows than it can have")


KERNELS: tuple[Row, ...] = (
    value("kpca.kernels:Linear", "kernel"),
    value("kpca.kernels:Polynomial", "kernel", degree=_ANY, gamma=_ANY, coef0=_ANY),
    value("kpca.kernels:Sigmoid", "kernel", gamma=_ANY, coef0=_ANY),
    value("kpca.kernels:Cosine", "kernel"),
    value("kpca.kernels:RBF", "kernel, radial kernel", gamma=_EACH),
    value("kpca.kernels:Exponential", "kernel, radial kernel", length_scale=_EACH),
    value("kpca.kernels:Matern", "kernel, radial kernel", nu=_ANY, length_scale=_EACH),
    value("kpca.kernels:RationalQuadratic", "kernel, radial kernel", alpha=_ANY, length_scale=_EACH),
    value("kpca.kernels:Laplacian", "kernel", gamma=_ANY),
    value("kpca.kernels:Chi2", "kernel", gamma=_ANY),
    value("kpca.kernels:AdditiveChi2", "kernel"),
    value("kpca.kernels:HistogramIntersection", "kernel"),
    value("kpca.kernels:ArcCosine", "kernel", order=Count()),
    value("kpca.kernels:Constant", "kernel", constant=_ANY),
    value("kpca.kernels:Sum", "kernel", members=Several(_KERNEL, least=1)),
    value("kpca.kernels:Product", "kernel", members=Several(_KERNEL, least=1)),
    value("kpca.kernels:Scaled", "kernel", kernel=_KERNEL, factor=_ANY),
    value("kpca.kernels:GaussianProcess", "kernel", kernel=of("Gaussian-process kernel")),
)

FEATURES: tuple[Row, ...] = (
    plain(
        "kpca.features.nystroem_map:NystroemMap",
        "feature map",
        _kernel=_KERNEL,
        kept=whole("r", least=0),
        _points=Rows(("r", "d")),
        _whitening=floats("r", "r"),
        _single_error=Number(0.0, finite=False),
        fresh={"_memos": dict, "_forms": dict},
    ),
    value(
        "kpca.features.random:RandomMap",
        "feature map",
        kernel=_KERNEL,
        rank=Count(1, "r"),
        n_features=Count(1, "d"),
        structure=Text(("independent", "orthogonal", "hadamard")),
        origin=maybe(floats("d")),
        part=of("part of a feature map"),
        check=_random_map,
    ),
    value("kpca.features.identity:IdentityMap", "feature map", rank=Count(0, "r d"), kernel=_KERNEL, exact=Flag()),
    value("kpca.features._parts:Fourier", "part of a feature map", projection=of("random projection"), phase=_ANY),
    value(
        "kpca.features._parts:Homogeneous",
        "part of a feature map",
        features=whole("c"),
        frequencies=floats("c"),
        roots=floats("*"),
        phase=_ANY,
        check=_histogram_parts,
    ),
    value(
        "kpca.features._parts:Activated",
        "part of a feature map",
        projection=of("random projection"),
        activation=Text(("none", "sign", "relu")),
        unit_rows=Flag(),
    ),
    value(
        "kpca.features._parts:TensorSketch",
        "part of a feature map",
        sketches=Several(Rows(("r", "d")), least=1),
        constants=floats("*"),
        places=whole("*"),
        check=_sketch,
    ),
    value("kpca.features._parts:Flat", "part of a feature map", root=_ANY),
    value(
        "kpca.features._parts:Beside",
        "part of a feature map",
        members=Several(of("part of a feature map")),
        ranks=Several(Count(1)),
        root=_ANY,
    ),
    value(
        "kpca.features._projections:DenseProjection",
        "random projection",
        weights=floats("d", "c"),
        origin=maybe(floats("d")),
    ),
    value(
        "kpca.features._projections:HadamardProjection",
        "random projection",
        scale=floats("d"),
        signs=floats("b", "3", "p"),
        stretch=floats("c"),
        origin=maybe(floats("d")),
    ),
    value(
        "kpca.features.random:KernelError",
        "error of a feature map",
        rms=_NOT_NEGATIVE,
        largest=_NOT_NEGATIVE,
        standard_error=_NOT_NEGATIVE,
        pairs=Count(),
        label=Text(),
    ),
    value(
        "kpca.approximation:FittedMap",
        "fitted feature map",
        feature_map=of("feature map", "r d"),
        kernel_error=_NOT_NEGATIVE,
        solver=Text(),
    ),
    value(
        "kpca.features.scatter:Scatter",
        "scatter",
        rows=Count(),
        mass=_NOT_NEGATIVE,
        mean=floats("r"),
        matrix=floats("r", "r"),
        trace=_ANY,
        unexplained=_ANY,
        rounding=_ANY,
    ),
    estimator(
        "kpca.features:Nystroem",
        "estimator, transformer, approximation",
        {
            "n_features_in_": Count(1, "d"),
            "kernel_": _KERNEL,
            "gamma_": Either((_ANY, floats("d"))),
            "map_": of("feature map", "r d"),
            "landmarks_": Rows(("r", "d")),
            "landmark_indices_": maybe(whole("r", least=0)),
            "rank_": Count(1, "r"),
            "unexplained_": _ANY,
        },
        parameters=NYSTROEM,
    ),
    estimator(
        "kpca.features:RandomFeatures",
        "estimator, transformer, approximation",
        {
            "n_features_in_": Count(1, "d"),
            "kernel_": _KERNEL,
            "gamma_": Either((_ANY, floats("d"))),
            "map_": of("feature map", "r d"),
            "rank_": Count(1, "r"),
            "kernel_error_": of("error of a feature map"),
        },
        parameters=RANDOM_FEATURES,
    ),
)

PROJECTIONS: tuple[Row, ...] = (
    value("kpca.projection:Centre", "centre", coefficients=floats("n"), levels=floats("n")),
    value("kpca.projection:LinearProjection", "projection", components=floats("k", "d"), mean=floats("d")),
    value(
        "kpca.projection:KernelProjection",
        "projection",
        kernel=_KERNEL,
        X=Rows(("n", "d")),
        coefficients=floats("n", "k"),
        offset=floats("k"),
        shifted=Flag(),
        centre=maybe(of("centre", "n")),
        precision=maybe(Dtype()),
    ),
    value("kpca.projection:MatrixProjection", "projection", coefficients=floats("d", "k"), offset=floats("k")),
    value(
        "kpca.projection:FeatureProjection",
        "projection",
        feature_map=of("feature map", "r d"),
        directions=floats("r", "k"),
        mean=floats("r"),
    ),
)

STREAMS: tuple[Row, ...] = (
    value("kpca.stream:Batch", "batch", rows=Rows(("m", "d")), weights=maybe(floats("m", least=0.0))),
    value(
        "kpca.reservoir:Reservoir",
        "sample",
        size=Count(1),
        seed=Count(),
        seen=Count(),
        rows=maybe(floats("m", "d")),
        keys=maybe(floats("m", finite=False)),
        check=_reservoir,
    ),
    # without the rows that a checkpoint needs
    value(
        "kpca.stream:Stream",
        "stream",
        dtype=Dtype(),
        kernel=maybe(_KERNEL),
        fitted=maybe(of("fitted feature map", "r d")),
        waiting=Several(of("batch", "d")),
        scatter=maybe(of("scatter", "r")),
        before=maybe(of("scatter", "r")),
        batches=Count(),
        sample=maybe(of("sample", "d")),
        check=_stream,
    ),
)
