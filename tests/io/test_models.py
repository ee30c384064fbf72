"""Models that leave the process: what is loaded gives the same bits, and goes on as what was saved."""

from __future__ import annotations

import warnings
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import kpca
from kpca import IncrementalKernelPCA, KernelPCA, KernelPCADetector, Nystroem
from kpca.io import models
from kpca.io.models import load, read_about, save
from kpca.io.portable.registry import ROWS, row_of
from kpca.io.portable.spec import annotated
from tests.golden import make_models
from tests.io.saved_models import CASES, NEW, UNFITTED, X, results

quiet = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.kpca"


def travelled(model: Any, path: Path) -> Any:
    save(model, path)
    return load(path)


def assert_same(first: Any, second: Any) -> None:
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first:
            assert_same(first[name], second[name])
    elif sparse.issparse(first):
        assert_same(first.toarray(), second.toarray())
    elif isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        assert first.tobytes() == second.tobytes() if first.dtype != object else first.tolist() == second.tolist()
    else:
        assert first == second


@quiet
@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_gives_the_same_bits(name: str, path: Path) -> None:
    model, new = CASES[name]()
    before = path.with_name("before.kpca")
    save(model, before)  # before anything is computed that a model remembers
    loaded = load(before)
    assert type(loaded) is type(model)
    expected = results(model, new)
    assert any(isinstance(value, np.ndarray) for value in expected.values())
    assert_same(results(loaded, new), expected)
    save(load(before), path)
    assert path.read_bytes() == before.read_bytes()


@quiet
@pytest.mark.parametrize("name", CASES)
def test_parameters_travel_too(name: str, path: Path) -> None:
    model, _ = CASES[name]()
    loaded = travelled(model, path)
    assert repr(loaded) == repr(model)
    assert repr(clone(loaded)) == repr(clone(model))
    assert vars(loaded).get("feature_names_in_") is None
    assert loaded.get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize("name", UNFITTED)
def test_unfitted_models_are_parameters(name: str, path: Path) -> None:
    model = UNFITTED[name]()
    loaded = travelled(model, path)
    assert repr(loaded) == repr(model)
    for key, value in model.get_params(deep=False).items():
        assert type(loaded.get_params(deep=False)[key]) is type(value)
    assert not read_about(path).fitted
    assert vars(loaded).keys() == vars(model).keys() - {"_stop_words_id"}
    with pytest.raises(ValueError, match="not fitted"):
        check_is_fitted(loaded.steps[-1][1] if hasattr(loaded, "steps") else loaded)


def test_what_is_shared_stays_shared_and_is_stored_once(path: Path) -> None:
    model = KernelPCA(2, kernel="rbf").fit(np.random.default_rng(0).normal(size=(500, 20)))
    loaded = travelled(model, path)
    assert loaded.X_fit_ is loaded._projection.X
    assert loaded.kernel_ is loaded._projection.kernel
    assert path.stat().st_size < 1.4 * model.X_fit_.nbytes


def test_caches_are_not_stored(path: Path) -> None:
    model = KernelPCA(2, kernel="rbf", approximation=Nystroem(20), preimage="fixed-point").fit(X)
    save(model, path)
    size = path.stat().st_size
    model.transform(NEW)
    model.denoise(NEW)
    save(model, path)
    assert path.stat().st_size == size


@quiet
def test_a_stream_goes_on_with_the_same_bits(path: Path) -> None:
    for name in ("stream linear", "stream rbf", "stream share", "stream under way", "stream that waits"):
        model, new = CASES[name]()
        loaded = travelled(model, path)
        for part in (X[:10], X[10:40], X[3:50]):
            model.partial_fit(part)
            loaded.partial_fit(part)
            assert_same(results(loaded, new), results(model, new))
        assert loaded.n_samples_seen_ == model.n_samples_seen_
        assert_same(loaded.drift_, model.drift_)


@quiet
def test_a_detector_goes_on_with_the_same_bits(path: Path) -> None:
    for name in ("detector", "detector lags", "detector that goes on", "detector landmarks"):
        model, new = CASES[name]()
        loaded = travelled(model, path)
        watched = [list(kpca.detector.monitor(each, [X[:30], X[30:]], adapt=True)) for each in (model, loaded)]
        assert watched[0] == watched[1]
        assert_same(results(loaded.partial_fit(X[:20]), new), results(model.partial_fit(X[:20]), new))
        assert loaded.limits_ == model.limits_


@quiet
def test_diagnoses_and_explanations_are_the_same(path: Path) -> None:
    with kpca.config(memory_limit="1GiB"):  # a plan says how much memory is allowed: by default half of what is free
        model = KernelPCA(3, kernel="rbf", gamma="median", preimage="auto").fit(X)
    loaded = travelled(model, path)
    assert str(kpca.diagnostics.check(loaded, X)) == str(kpca.diagnostics.check(model, X))
    assert_same(kpca.explain.importance(loaded, X).values, kpca.explain.importance(model, X).values)
    assert str(loaded.plan_) == str(model.plan_)
    assert str(loaded.preimage_report_) == str(model.preimage_report_)


def test_a_loaded_model_can_be_changed_and_fitted_again(path: Path) -> None:
    model = KernelPCA(2, kernel="rbf").fit(X)
    loaded = travelled(model, path).set_params(n_components=3, gamma=0.5).fit(X)
    again = KernelPCA(3, kernel="rbf", gamma=0.5).fit(X)
    assert_same(loaded.eigenvalues_, again.eigenvalues_)
    assert loaded.X_fit_.flags.writeable


def test_names_of_columns_and_the_kind_of_output_travel(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["size", "grün | x\n", "<b>"])
    model = KernelPCA(2, kernel="rbf").set_output(transform="pandas").fit(frame)
    loaded = travelled(model, path)
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    pandas.testing.assert_frame_equal(loaded.transform(frame), model.transform(frame))
    detector = KernelPCADetector(lags=1).fit(frame)
    assert travelled(detector, path).feature_names_in_.tolist() == list(frame.columns)


def test_memory_maps_and_views_become_arrays(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    model = KernelPCA(2, kernel="rbf", copy_X=False).fit(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    assert_same(travelled(model, path).transform(NEW), model.transform(NEW))
    model = KernelPCA(2, kernel="rbf", copy_X=False).fit(np.asfortranarray(X)[::2])
    assert_same(travelled(model, path).transform(NEW), model.transform(NEW))


def test_the_header_says_what_is_in_a_file(path: Path) -> None:
    about = {"data": {"name": "a.csv", "rows": 60}, "command": "kpca fit", "note": None, "list": [1, 2.5, "ü"]}
    model, _ = CASES["pipeline of scalers"]()
    save(model, path, about=about)
    header = read_about(path)
    assert (header.kind, header.fitted) == ("KernelPCA", True)
    assert header.steps == ("SimpleImputer", "RobustScaler", "MinMaxScaler", "MaxAbsScaler", "KernelPCA")
    assert (header.rows, header.columns, header.components) == (60, 3, 2)
    assert header.about == about
    assert header.n_bytes == path.stat().st_size
    assert header.saved_with["kpca"] == kpca.__version__
    assert set(header.saved_with) == {"kpca", "numpy", "scipy", "scikit-learn"}
    for name, sizes in {"detector": (60, 3), "stream that waits": (35, 3), "Nystroem": (None, 3)}.items():
        save(CASES[name]()[0], path)
        assert (read_about(path).rows, read_about(path).columns) == sizes


def test_reading_the_header_reads_no_arrays(path: Path) -> None:
    save(KernelPCA(2, kernel="rbf").fit(X), path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1  # within the arrays
    path.write_bytes(content)
    assert read_about(path).rows == 60
    with pytest.raises(kpca.InputError, match="damaged"):
        load(path)


def test_files_do_not_depend_on_when_they_are_written(path: Path) -> None:
    for name in ("kernel rbf", "pipeline of words", "stream under way", "detector lags"):
        contents = []
        for _ in range(2):
            save(CASES[name]()[0], path, about={"seed": 1})
            contents.append(path.read_bytes())
        assert contents[0] == contents[1], name


def test_a_large_vocabulary_is_no_large_header(path: Path) -> None:
    words = [f"w{i} w{i + 1} w{i + 2}" for i in range(30_000)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kpca.Nystroem(5, kernel="cosine")
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline

        pipeline = make_pipeline(TfidfVectorizer(), model).fit(words)
    loaded = travelled(pipeline, path)
    assert loaded[0].vocabulary_ == pipeline[0].vocabulary_
    length = int.from_bytes(path.read_bytes()[8:16], "little")
    assert length < 10_000


# -- the registry -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.tag)
def test_rows_declare_what_their_class_has(row: Any) -> None:
    pytest.importorskip(row.tag.partition(":")[0])
    assert row.cls.__name__ == row.name
    assert row_of(object.__new__(row.cls)) is row
    if is_dataclass(row.cls):
        free = {each.name for each in fields(row.cls)} - set(row.stored)
        assert set(row.stored) <= {each.name for each in fields(row.cls)}
        assert free <= {"memo", "basis", "of_values"}
    elif row.kind == "estimator":
        assert {entry.split()[0] for entry in row.parameters.split(",") if entry} <= set(row.arguments)
        assert row.stored


@pytest.mark.parametrize(("annotation", "words"), [("Mystery", "n"), ("FloatArray", ""), ("Any", ""), ("object", "")])
def test_annotations_that_say_too_little_are_refused(annotation: str, words: str) -> None:
    with pytest.raises(LookupError, match="does not say what is stored"):
        annotated(annotation, words)


def test_every_kernel_is_in_the_registry() -> None:
    found = {row.name for row in ROWS if "kernel" in row.roles}
    public = {name for name in kpca.kernels.__all__ if isinstance(getattr(kpca.kernels, name), type)}
    abstract = {"Composite", "DotKernel", "Kernel", "ProfileKernel", "RadialKernel"}
    assert public - abstract - {"PairwiseCallable", "VectorisedCallable"} == found


def test_tags_are_unique() -> None:
    assert len({row.tag for row in ROWS}) == len(ROWS)
    assert IncrementalKernelPCA in {row.cls for row in ROWS if row.tag.startswith("kpca:")}


_SIMPLE = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats() | st.text(st.characters(codec="utf-8"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.recursive(
        _SIMPLE,
        lambda inner: (
            st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
        ),
        max_leaves=30,
    )
)
def test_parameters_of_all_types_travel(path: Path, value: Any) -> None:
    loaded = travelled(KernelPCA(kernel_params={"given": value}), path)
    assert repr(loaded.kernel_params["given"]) == repr(value)  # types and the sign of zero included


def test_a_file_that_does_not_fit_in_memory_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(KernelPCA(2, kernel="rbf").fit(X), path)
    monkeypatch.setattr(models, "_LARGE", 1000)
    with kpca.config(memory_limit=2000), pytest.raises(kpca.InputError, match="must fit in memory to be loaded"):
        load(path)
    with kpca.config(memory_limit="1GiB"):
        load(path)


# -- files of all versions --------------------------------------------------------------------------------------------


def test_there_are_golden_files_of_this_version() -> None:
    """tests/golden checks that they stay readable, and that no frozen tag has left the registry."""
    assert {file.stem.partition("-")[0] for file in make_models.FOLDER.glob("*.kpca")} >= {f"v{models._VERSION}"}


def test_older_versions_are_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next version, as it will be: each step turns a header into one of the version after."""
    model = KernelPCA(2, kernel="rbf").fit(X)
    save(model, path)

    def upgrade(header: dict[str, Any]) -> dict[str, Any]:
        return {**header, "model version": header["model version"] + 1, "about": {"upgraded": True}}

    monkeypatch.setattr(models, "_VERSION", 3)
    monkeypatch.setattr(models, "_UPGRADES", {1: upgrade, 2: upgrade})
    assert read_about(path).about == {"upgraded": True}
    assert_same(load(path).transform(NEW), model.transform(NEW))
