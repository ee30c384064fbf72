"""Exported detectors run in onnxruntime and judge rows as the detector does."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx_models import KERNELS, rows, session
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from kpca import InputError, KernelPCADetector, Nystroem, RandomFeatures
from kpca import kernels as k
from kpca.data.preparation import Preparation
from kpca.data.rows import Layout, Rows
from kpca.detector.limits import STATISTICS
from kpca.features.projection import KernelProjection
from kpca.features.random import draw_features
from kpca.io.onnx import export

DTYPES = [np.float64, np.float32]
TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
WAYS: dict[str, Any] = {"exact": None, "landmarks": Nystroem(40, "uniform"), "random": RandomFeatures(50)}
# Kernels that are nearly constant: variances are so small beside them that rounding shows in statistics, and landmarks
# of them are wrong themselves.
WIDE = {name for name in KERNELS if "wide" in name}
ALIKE = {"constant", "poly of degree 0"}
OUTPUTS = [*STATISTICS, "decision_function", "predict"]


def can_be_fitted(name: str, way: str) -> bool:
    kernel = KERNELS[name][0]
    if way == "random":
        try:
            draw_features(kernel, 5, 50)
        except InputError:
            return False
    return name not in ALIKE and not (way == "landmarks" and name in {*WIDE, "additive_chi2"})


PAIRS = [(name, way) for name in KERNELS for way in WAYS if can_be_fitted(name, way)]


def judged(model: Any, X: NDArray[Any], dtype: Any = None) -> dict[str, NDArray[Any]]:
    """Return what an exported detector says of rows, by the name of the output."""
    file = session(model, dtype)
    return dict(zip((output.name for output in file.get_outputs()), file.run(None, {"X": X}), strict=True))


def assert_alike(
    detector: KernelPCADetector, X: NDArray[Any], found: dict[str, NDArray[Any]], tolerance: float, before: Any = None
) -> None:
    """Statistics, decisions and labels are those of the detector, but for the rounding of kernel values."""
    X = X if before is None else before.transform(X)
    assert list(found) == OUTPUTS and all(values.shape == (len(X),) for values in found.values())
    expected, projection = detector.statistics(X), detector._measure.projection
    error = {name: tolerance * float(np.abs(expected[name]).max()) for name in STATISTICS}
    off = np.abs(found["spe"] - expected.spe)
    if isinstance(projection, KernelProjection):  # the SPE is a difference of kernel values
        rounding = 64.0 * np.finfo(np.float64).eps * np.abs(projection.kernel.diagonal(detector._seen(X)[0]))
        assert (off <= error["spe"] + rounding).all()
        error["spe"], error["combined"] = error["spe"] + off, error["combined"] + off / detector.residual_variance_
    for name in STATISTICS:
        assert (np.abs(found[name] - expected[name]) <= error[name]).all(), name
    decision = detector.decision_function(X)
    bound = error[detector.statistic] + tolerance * abs(detector.offset_)
    assert (np.abs(found["decision_function"] - decision) <= bound).all()
    clear = np.abs(decision) > bound
    assert found["predict"].dtype == np.int64 and clear.any()
    np.testing.assert_array_equal(found["predict"][clear], detector.predict(X)[clear])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_every_kernel(name: str, way: str, dtype: Any) -> None:
    kernel, positive = KERNELS[name]
    X = rows(120, positive=positive)
    scale = None if positive else "standard"
    detector = KernelPCADetector(kernel=kernel, scale=scale, approximation=WAYS[way], random_state=0).fit(X)
    near = np.vstack([X[:10], rows(40, seed=1, positive=positive), np.zeros((1, 5))])
    tolerance = max(TOLERANCE[dtype], 1e-6 if name in WIDE else 0.0)
    for new in (near, rows(5, seed=2, positive=positive, spread=30.0)):
        assert_alike(detector, new.astype(dtype), judged(detector, new.astype(dtype), dtype), tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"statistic": "spe"},
        {"statistic": "t2"},
        {"contamination": 0.1},
        {"limit": "kde", "confidence": 0.8},
        {"scale": "robust"},
        {"scale": None},
        {"kernel": "linear", "n_components": 2},
    ],
)
def test_every_setting(settings: dict[str, Any], dtype: Any) -> None:
    X, new = (3.0 * rows(200, seed=seed) + 7.0 for seed in range(2))
    detector = KernelPCADetector(random_state=0, **settings).fit(X)
    new = new.astype(dtype)
    assert_alike(detector, new, judged(detector, new, dtype), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_exact_relations(kernel: str, dtype: Any) -> None:
    """Broken totals are found, and rounding to float32 is no break."""
    X, new = (np.column_stack([Z, Z.sum(axis=1)]) for Z in (rows(300), rows(200, seed=1)))
    detector = KernelPCADetector(kernel=kernel, random_state=0).fit(X)
    new[:50, -1] += 2.0
    new = new.astype(dtype)
    for broken in (True, False):
        some = new[:50] if broken else new[50:]
        found = judged(detector, some, dtype)
        assert_alike(detector, some, found, TOLERANCE[dtype])
        assert (found["predict"] == -1).all() if broken else np.mean(found["predict"] == -1) < 0.12


def test_a_stream_is_exported_as_it_is_now() -> None:
    detector = KernelPCADetector(random_state=0)
    for seed in range(3):
        detector.partial_fit(rows(100, seed=seed))
        assert_alike(detector, rows(50, seed=9), judged(detector, rows(50, seed=9)), 1e-9)


def test_pipelines_and_preparations() -> None:
    X, new = 3.0 * rows(100) + 7.0, 3.0 * rows(30, seed=1) + 7.0
    steps = make_pipeline(RobustScaler(), KernelPCADetector(random_state=0)).fit(X)
    assert_alike(steps[-1], new, judged(steps, new), 1e-9, steps[:-1])
    tables = [Rows(Layout(tuple("abcde")), values) for values in (X, new)]
    prepared = make_pipeline(Preparation(scale="minmax"), KernelPCADetector(scale=None, random_state=0)).fit(tables[0])
    np.testing.assert_allclose(judged(prepared, new)["combined"], -prepared.score_samples(tables[1]), rtol=1e-6)


def test_no_rows_and_missing_values() -> None:
    for kernel in ("rbf", "linear"):
        detector = KernelPCADetector(kernel=kernel, random_state=0).fit(rows(50))
        file = session(detector)
        assert [values.shape for values in file.run(None, {"X": np.empty((0, 5))})] == [(0,)] * 5
        found = dict(zip(OUTPUTS, file.run(None, {"X": np.full((2, 5), np.nan)}), strict=True))
        assert all(np.isnan(found[name]).all() for name in OUTPUTS[:-1])
        assert found["predict"].tolist() == [-1, -1]


def test_the_file_says_what_it_is() -> None:
    file = io.BytesIO()
    detector = KernelPCADetector(random_state=0).fit(rows(60))
    export(detector, file)
    loaded = onnx.load_from_string(file.getvalue())
    onnx.checker.check_model(loaded, full_check=True)
    about = {prop.key: prop.value for prop in loaded.metadata_props}
    assert about["model"] == "KernelPCADetector" and about["statistic"] == "combined"
    assert about["kernel"] == repr(detector.model_.kernel_)
    assert json.loads(about["limits"])["combined"] == detector.limits_.combined
    found = dict(zip(OUTPUTS, ReferenceEvaluator(loaded).run(None, {"X": rows(20, seed=1)}), strict=True))
    assert_alike(detector, rows(20, seed=1), found, 1e-9)
    again = io.BytesIO()
    export(KernelPCADetector(random_state=0).fit(rows(60)), again)
    assert again.getvalue() == file.getvalue()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_cannot_be_exported_says_so() -> None:
    X = rows(60)
    cases: list[tuple[Any, str]] = [
        (KernelPCADetector(lags=2), r"sees each with the 2 before it: export one with lags=0"),
        (KernelPCADetector(kernel=lambda x, y: float(x @ y)), "Python function"),
        (KernelPCADetector(kernel=k.Constant(1.0)), "with components"),
    ]
    for detector, message in cases:
        with pytest.raises(InputError, match=message) as caught:
            export(detector.fit(X), io.BytesIO())
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="fit again"):
        export(KernelPCADetector().fit(X).set_params(statistic="spe"), io.BytesIO())
