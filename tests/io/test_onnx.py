"""Exported models run in onnxruntime and give the scores of `transform`."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import KERNELS, gap, rows, scores_of, session, truth
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, RandomFeatures, __version__, compress
from kpca import kernels as k
from kpca.features.random import draw_features
from kpca.io.onnx import _graph, export

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
DTYPES = [np.float64, np.float32]
WAYS: dict[str, Any] = {
    "exact": None,
    "landmarks": Nystroem(40, "uniform"),
    "random": RandomFeatures(50),
    "random, odd": RandomFeatures(51, "independent"),
    "random, hadamard": RandomFeatures(70, "hadamard"),
}
# Landmarks of kernels that are nearly constant: the model itself is wrong by more than the tolerance.
ILL_POSED = {"matern32, wide", "matern52, wide", "rational_quadratic, wide"}


def has_features(name: str, way: Any) -> bool:
    """Whether the kernel has such features, and ones that rounding leaves alone."""
    if isinstance(way, RandomFeatures):
        try:
            draw_features(KERNELS[name][0], 5, way.rank, structure=way.structure)
        except InputError:
            return False
    return not (isinstance(way, Nystroem) and name in {*ILL_POSED, "additive_chi2"})  # the latter: k(z, z) = 0


PAIRS = [(name, way) for name in KERNELS for way in WAYS if has_features(name, WAYS[way])]


def fitted(name: str, way: str, dtype: Any) -> tuple[KernelPCA, Any]:
    """A model of a kernel, and rows to try it on: known ones, new ones, a row of zeros and rows far out."""
    kernel, positive = KERNELS[name]
    X = rows(150, positive=positive)
    X[3] = X[4]
    X[:, 4] *= X[:, 4] > 0.3
    X[7] = 0.0
    new = np.vstack([X[:10], rows(20, seed=1, positive=positive), rows(3, seed=2, positive=positive, spread=100.0)])
    model = KernelPCA(4, kernel=kernel, approximation=WAYS[way]).fit(X.astype(dtype))
    return model, new.astype(dtype)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_scores_are_those_of_the_model(name: str, way: str, dtype: Any) -> None:
    model, new = fitted(name, way, dtype)
    found = scores_of(model, new)
    assert found.dtype == dtype and found.shape == (len(new), model.n_components_)
    assert gap(found, truth(model, new)) < TOLERANCE[dtype]
    if dtype == np.float64:
        assert gap(found, model.transform(new)) < 1e-9


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["exact", "landmarks", "random"])
@pytest.mark.parametrize("name", ["linear", "rbf", "exponential", "matern 3/2", "rational quadratic", "laplacian"])
def test_an_offset_costs_no_digits(name: str, way: str, dtype: Any) -> None:
    X = (rows(200) + 1e4).astype(dtype)
    new = np.vstack([X[:5], (rows(40, seed=1) + 1e4).astype(dtype)])
    model = KernelPCA(3, kernel=KERNELS[name][0], approximation=WAYS[way]).fit(X)
    found = scores_of(model, new)
    assert gap(found, truth(model, new)) < TOLERANCE[dtype]
    assert gap(found, model.transform(new)) < (1e-9 if dtype == np.float64 else 2e-5)


def test_a_huge_offset_and_tight_clusters() -> None:
    """Squared distances within a cluster are 1e-12 of those from the mean, and not small for the kernel."""
    centres = 1e6 * rows(3, seed=5)
    X = (centres[:, None] + rows(120, seed=6).reshape(3, 40, 5)).reshape(-1, 5)
    for kernel in (k.RBF(0.1), k.Exponential(1.0), k.Matern(2.5, 1.0)):
        model = KernelPCA(5, kernel=kernel).fit(X)
        new = X + 0.1 * rows(120, seed=7)
        assert gap(scores_of(model, new), model.transform(new)) < 1e-9


@pytest.mark.parametrize("dtype", DTYPES)
def test_float32_scores_of_ordinary_models_are_those_of_transform(dtype: Any) -> None:
    X = rows(300).astype(dtype)
    for kernel in ("linear", "poly", "rbf", "cosine", "matern52", "laplacian"):
        model = KernelPCA(5, kernel=kernel, gamma=0.1).fit(X)
        assert gap(scores_of(model, X), model.transform(X)) < TOLERANCE[dtype], kernel


@pytest.mark.parametrize("name", KERNELS)
def test_one_feature_one_component_and_rows_of_any_number(name: str) -> None:
    kernel, positive = KERNELS[name]
    if isinstance(getattr(kernel, "gamma", getattr(kernel, "length_scale", 1.0)), tuple):
        kernel = type(kernel)(0.3) if isinstance(kernel, k.RBF) else k.Matern(2.5, (0.7,))
    X = rows(60, 1, positive=positive)
    model = KernelPCA(1, kernel=kernel).fit(X)
    file = session(model)
    for new in (X[:1], X[:0], rows(1000, 1, seed=1, positive=positive)):
        found = file.run(None, {"X": new})[0]
        assert found.shape == (len(new), 1)
        if len(new):
            assert gap(found, model.transform(new)) < 1e-9


@pytest.mark.parametrize("name", KERNELS)
def test_a_batch_of_no_rows_has_no_scores(name: str) -> None:
    kernel, positive = KERNELS[name]
    X = rows(20, positive=positive)
    model = KernelPCA(2, kernel=kernel).fit(X)
    assert session(model).run(None, {"X": X[:0]})[0].shape == (0, len(model.eigenvalues_))


def test_constant_columns_weights_and_no_centring() -> None:
    X = np.column_stack([rows(80), np.full(80, 1e6), np.zeros(80)])
    weights = np.arange(80) % 3
    model = KernelPCA(3, kernel="rbf", gamma="median", center=False).fit(X, sample_weight=weights)
    assert gap(scores_of(model, X), model.transform(X)) < 1e-9


def test_sparse_models_take_dense_rows() -> None:
    X = sparse.random(100, 30, density=0.2, random_state=0, format="csr")
    for approximation in (None, "nystroem", "rff"):
        model = KernelPCA(3, kernel="rbf", gamma=0.5, approximation=approximation).fit(X)
        assert gap(scores_of(model, X.toarray()), model.transform(X)) < 1e-9


@pytest.mark.parametrize("approximation", ["nystroem", "rff", RandomFeatures(33)])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_incremental_models(kernel: str, approximation: Any) -> None:
    model = IncrementalKernelPCA(3, kernel=kernel, gamma=0.1, approximation=approximation)
    for seed in range(3):
        model.partial_fit(rows(100, seed=seed))
    new = rows(30, seed=9)
    assert gap(scores_of(model, new), model.transform(new)) < 1e-9


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "way"), [pair for pair in PAIRS if pair[1] != "exact"])
def test_feature_maps_alone(name: str, way: str) -> None:
    kernel, positive = KERNELS[name]
    X, new = rows(60, positive=positive), rows(40, seed=1, positive=positive)
    transformer = clone(WAYS[way]).set_params(kernel=kernel).fit(X)
    # whitening and large random frequencies multiply the rounding of kernel values and of rows
    assert gap(scores_of(transformer, new), transformer.transform(new)) < 1e-8
    assert scores_of(transformer, new.astype(np.float32), np.float32).dtype == np.float32


def test_a_compressed_model() -> None:
    X = rows(200)
    small = compress(KernelPCA(3, kernel="rbf", gamma=0.1).fit(X), 50)
    assert gap(scores_of(small, X), small.transform(X)) < 1e-9


def test_a_gaussian_process_kernel_that_is_translated() -> None:
    from sklearn.gaussian_process import kernels as gp

    X = rows(60)
    model = KernelPCA(2, kernel=2.0 * gp.Matern(1.3, nu=2.5) + gp.WhiteKernel(0.1)).fit(X)
    assert gap(scores_of(model, X), model.transform(X)) < 1e-9


# -- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    import pandas as pd

    X = pd.DataFrame(rows(50, 3), columns=["a", "b", "ü"])
    model = KernelPCA(2, kernel="rbf", gamma=0.5).fit(X)
    export(model, tmp_path / "m.onnx")
    loaded = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(loaded, full_check=True)
    about = {prop.key: prop.value for prop in loaded.metadata_props}
    assert about["kpca_version"] == __version__ and about["kernel"] == "RBF(gamma=0.5)"
    assert json.loads(about["feature_names"]) == ["a", "b", "ü"]
    assert json.loads(about["eigenvalues"]) == model.eigenvalues_.tolist()
    assert [entry.domain for entry in loaded.opset_import] == [""]
    shape = [dim.dim_param or dim.dim_value for dim in loaded.graph.input[0].type.tensor_type.shape.dim]
    assert loaded.graph.input[0].name == "X" and shape == ["batch", 3]
    shape = [dim.dim_param or dim.dim_value for dim in loaded.graph.output[0].type.tensor_type.shape.dim]
    assert loaded.graph.output[0].name == "scores" and shape == ["batch", 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_of_the_file_can_be_another(dtype: Any) -> None:
    X = rows(50)
    other = np.float32 if dtype == np.float64 else np.float64
    model = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X.astype(other))
    found = scores_of(model, X.astype(dtype), dtype)
    assert found.dtype == dtype and gap(found, model.transform(X.astype(dtype))) < 1e-5


def test_the_same_model_gives_the_same_bytes() -> None:
    X = rows(60)
    model = KernelPCA(3, kernel=k.Laplacian(0.2) + k.RBF(0.1)).fit(X)
    first, second = io.BytesIO(), io.BytesIO()
    export(model, first)
    export(KernelPCA(3, kernel=k.Laplacian(0.2) + k.RBF(0.1)).fit(X), second)
    assert first.getvalue() == second.getvalue()


def test_only_old_operators_are_used() -> None:
    """A runtime of 2022 can run every file: the opset is 17, in intermediate representation 8."""
    file = io.BytesIO()
    export(KernelPCA(2, kernel=k.Product((k.Chi2(0.1), k.ArcCosine(1)))).fit(rows(30, positive=True)), file)
    loaded = onnx.load_from_string(file.getvalue())
    assert loaded.ir_version == 8 and [entry.version for entry in loaded.opset_import] == [17]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    with pytest.raises(InputError, match="Python function"):
        export(KernelPCA(2, kernel=lambda x, y: float(x @ y)).fit(rows(20)), path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    model = KernelPCA(2).fit(rows(20))
    for target, words in [(tmp_path, "folder"), (tmp_path / "none" / "m.onnx", "make it first"), (3, "int")]:
        with pytest.raises(InputError, match=words):
            export(model, target)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpca._base.files.open_new", lambda path: io.FileIO("/dev/full", "w"))
    with pytest.raises(InputError, match="it is full"):
        export(KernelPCA(2, kernel="rbf").fit(rows(200)), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_the_standard_agrees(tmp_path: Path) -> None:
    """The reference implementation of ONNX, which is not a runtime, computes the same."""
    for name in ("rbf", "exponential", "matern52, wide", "chi2", "arc_cosine1", "rational_quadratic, wide"):
        kernel, positive = KERNELS[name]
        X = rows(40, positive=positive)
        model = KernelPCA(2, kernel=kernel).fit(X)
        export(model, tmp_path / "m.onnx")
        found = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"X": X})[0]
        assert gap(found, model.transform(X)) < 1e-9


def refused(model: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        export(model, io.BytesIO(), **options)
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".")
    return text


def test_what_has_no_formula_is_refused_in_a_sentence() -> None:
    from sklearn.decomposition import PCA
    from sklearn.gaussian_process import kernels as gp

    X = rows(30)
    assert "precomputed" in refused(KernelPCA(2, kernel="precomputed").fit(X @ X.T))
    assert "'gaussian_process'" in refused(KernelPCA(2, kernel=gp.Matern(1.0, nu=0.7)).fit(X))
    assert "Python function" in refused(KernelPCA(2, kernel=k.RBF(1.0) + k.from_callable(np.dot, None, X)).fit(X))
    assert "PCA" in refused(PCA().fit(X))
    assert "None" in refused(None)
    assert "float16" in refused(KernelPCA(2).fit(X), dtype="float16")
    assert "dtype" in refused(KernelPCA(2).fit(X), dtype="no such type")


def test_a_model_must_be_fitted() -> None:
    with pytest.raises(NotFittedError):
        export(KernelPCA(2), io.BytesIO())


def test_a_file_beyond_two_gigabytes_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_graph, "LARGEST", 4000)
    text = refused(KernelPCA(2, kernel="rbf").fit(rows(200)))
    assert "kpca.compress" in text and "nystroem" in text
    wide = sparse.random(50, 2000, density=0.01, random_state=0, format="csr")
    assert "2 GiB" in refused(KernelPCA(2, kernel="rbf").fit(wide))


def test_without_onnx_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "pip install 'kpca[onnx]'" in refused(KernelPCA(2).fit(rows(20)))
