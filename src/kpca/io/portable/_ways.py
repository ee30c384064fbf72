"""Rows of the registry: ways back from scores to data, and the settings they are made from."""

from __future__ import annotations

from typing import Any

from kpca.io.portable.rows import Row, estimator, value
from kpca.io.portable.spec import BOX, Count, Dtype, Flag, Misfit, Number, Several, Text, floats, maybe, of, whole

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
