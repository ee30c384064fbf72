"""Broken and hostile model files: one sentence that names the file, bounded memory, nothing executed."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from kpca import IncrementalKernelPCA, InputError, KernelPCA, KernelPCADetector, kernels
from kpca.io.models import load, read_about, save
from tests.io.broken_models import CHANGES, CONTENTS, PLACES, X, good_files, joined, parts, sealed

# What a small file may make `load` use: JSON of a long header, and no more.
_MEMORY = 250 * 2**20


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return good_files(tmp_path_factory.mktemp("good"))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "broken.kpca"


def refused(path: Path, says: str) -> None:
    """Assert that a file is met with one sentence, that names it."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            load(path)
        assert tracemalloc.get_traced_memory()[1] < _MEMORY
    finally:
        tracemalloc.stop()
    text = str(caught.value)
    assert says in text
    assert text.startswith(str(path))
    assert text.isprintable() and "\n" not in text
    assert len(text) < 500
    assert text.endswith(".") and ": " in text
    assert not (path.parent / "unpickled").exists()


def quietly_read(path: Path) -> None:
    """`read_about` may not look at what is broken, but must not fail in another way."""
    try:
        read_about(path)
    except InputError as error:
        assert str(path) in str(error)


def test_the_corpus_is_large() -> None:
    assert len(CHANGES) + len(CONTENTS) + len(PLACES) > 150


def test_good_files_are_taken_apart_and_put_together_as_they_are(good: dict[str, bytes], path: Path) -> None:
    for content in good.values():
        assert joined(*parts(content)) == content
        path.write_bytes(content)
        load(path)


@pytest.mark.parametrize("name", CHANGES)
def test_changed_models_are_refused(name: str, good: dict[str, bytes], path: Path) -> None:
    model, change, says = CHANGES[name]
    header, arrays = parts(good[model])
    change(header, arrays)
    path.write_bytes(joined(header, arrays))
    refused(path, says)
    quietly_read(path)


@pytest.mark.parametrize("name", CONTENTS)
def test_changed_bytes_are_refused(name: str, good: dict[str, bytes], path: Path) -> None:
    make, says = CONTENTS[name]
    path.write_bytes(make(good["exact"]))
    refused(path, says)
    quietly_read(path)


@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_file_is_refused(name: str, path: Path) -> None:
    make, says = PLACES[name]
    make(path)
    refused(path, says)
    quietly_read(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="The superuser may read everything.")
def test_a_file_without_permission_is_refused(good: dict[str, bytes], path: Path) -> None:
    path.write_bytes(good["exact"])
    path.chmod(0)
    refused(path, "no permission")


def test_the_header_alone_shows_what_it_can(good: dict[str, bytes], path: Path) -> None:
    header, arrays = parts(good["exact"])
    for change in (
        {"sizes": {}},
        {"classes": ["os:system"]},
        {"classes": []},
        {"about": 1},
        {"saved with": {"a": "\x1b"}},
    ):
        path.write_bytes(joined({**header, **change}, arrays))
        with pytest.raises(InputError, match="must hold a model"):
            read_about(path)
    path.write_bytes(joined(header, arrays)[:-40])
    with pytest.raises(InputError, match="damaged"):
        read_about(path)


def test_a_long_text_in_a_file_is_no_long_sentence(good: dict[str, bytes], path: Path) -> None:
    header, arrays = parts(good["stream"])
    [node] = [node for node in header["objects"] if "approximation" in node["has"]]
    node["has"]["approximation"] = "\u202e" * 100_000
    path.write_bytes(joined(header, arrays))
    refused(path, "approximation must be")


# -- what cannot be saved ---------------------------------------------------------------------------------------------


class OwnKernelPCA(KernelPCA):
    """A subclass, whose code is not in a file."""


class OwnKernel(kernels.RBF):
    """A subclass of a kernel."""


def own(X: Any, Y: Any) -> Any:
    return X @ Y.T


def circular() -> KernelPCA:
    model = KernelPCA(2)
    return model.set_params(kernel_params={"model": model})


def tampered(**attributes: Any) -> KernelPCA:
    model = KernelPCA(2, kernel="rbf").fit(X)
    vars(model).update(attributes)
    return model


def operator() -> KernelPCA:
    from scipy.sparse.linalg import aslinearoperator

    return KernelPCA(2, kernel="precomputed").fit(aslinearoperator(X @ X.T))


CANNOT: dict[str, tuple[Any, str]] = {
    "a function as kernel": (lambda: KernelPCA(2, kernel=own).fit(X), "files hold no code; it is own"),
    "a lambda": (lambda: KernelPCA(2, kernel=lambda a, b: a @ b.T), "files hold no code"),
    "a function in a sum": (
        lambda: KernelPCA(2, kernel=kernels.from_callable(own, None, X) + kernels.RBF(1.0)),
        "no code",
    ),
    "a subclass": (lambda: OwnKernelPCA(2), "a subclass whose code would not be in the file: use KernelPCA"),
    "a kernel of a subclass": (lambda: KernelPCA(kernel=OwnKernel(1.0)), "use RBF"),
    "a LinearOperator": (operator, "fit to the matrix itself"),
    "a RandomState": (lambda: KernelPCA(random_state=np.random.RandomState(0)), "set a seed"),
    "another regressor": (lambda: KernelPCA(preimage=RandomForestRegressor()), "class that kpca can store"),
    "another step": (lambda: make_pipeline(FunctionTransformer(np.log1p), KernelPCA()), "class that kpca can store"),
    "another estimator": (lambda: KMeans(2), "class that kpca can store"),
    "an array": (lambda: X, "save needs a model"),
    "a number": (lambda: 1, "save needs a model"),
    "nothing": (lambda: None, "save needs a model"),
    "a kernel alone": (lambda: kernels.RBF(1.0), "save needs a model"),
    "a class": (lambda: KernelPCA, "the class KernelPCA"),
    "a class in a model": (lambda: KernelPCA(kernel=dict), "must not be a class"),
    "itself": (circular, "part of itself"),
    "objects in an array": (lambda: KernelPCA(gamma=np.array([object()])), "texts only"),
    "texts in two dimensions": (lambda: KernelPCA(gamma=np.array([["a"]])), "2 dimensions"),
    "dates": (lambda: KernelPCA(gamma=np.array(["2020"], dtype="M8[Y]")), "numbers or texts"),
    "complex numbers": (lambda: KernelPCA(gamma=np.array([1j])), "numbers or texts"),
    "huge numbers": (lambda: KernelPCA(random_state=2**70), "63 bits"),
    "a set": (lambda: KernelPCA(kernel_params={"a": {1}}), "class that kpca can store"),
    "numbers as keys": (lambda: KernelPCA(kernel_params={1: 2}), "texts as keys"),
    "broken Unicode": (lambda: KernelPCA(kernel_params={"a": [f"{i}\ud800" for i in range(20)]}), "Unicode"),
    "attributes of others": (lambda: tampered(extra_=1), "'extra_'"),
    "NaN eigenvalues": (lambda: tampered(eigenvalues_=np.array([np.nan, 1.0])), "fit it again"),
    "a part of another model": (lambda: tampered(n_components_=5), "fit it again"),
    "half a fit": (lambda: vars(model := tampered()).pop("solver_") and model, "lacks solver_"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_saved_is_refused_and_nothing_is_written(name: str, path: Path) -> None:
    make, says = CANNOT[name]
    model = make()
    with pytest.raises(InputError) as caught:
        save(model, path)
    assert says in str(caught.value)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    assert os.listdir(path.parent) == []


def test_a_refused_model_leaves_the_older_file_alone(good: dict[str, bytes], path: Path) -> None:
    path.write_bytes(good["exact"])
    with pytest.raises(InputError):
        save(KernelPCA(kernel=own), path)
    with pytest.raises(InputError, match="about must"):
        save(KernelPCA(), path, about={"a": float("nan")})
    assert path.read_bytes() == good["exact"]


@pytest.mark.parametrize("about", [1, [1], {"a": object()}, {"a": float("inf")}, {"a": {1, 2}}, {"a": b"x"}])
def test_about_must_be_json(about: Any, path: Path) -> None:
    with pytest.raises(InputError, match="about must"):
        save(KernelPCA(), path, about=about)
    assert not path.exists()


def test_nested_and_circular_about_is_refused(path: Path) -> None:
    deep: Any = {}
    for _ in range(30):
        deep = {"a": deep}
    circle: dict[str, Any] = {}
    circle["self"] = circle
    for about in (deep, circle):
        with pytest.raises(InputError, match="about must"):
            save(KernelPCA(), path, about=about)


# -- fuzzing ----------------------------------------------------------------------------------------------------------


def tried(path: Path, content: bytes) -> None:
    """Load a file; a model that comes out of it is used, and may refuse to work in its own words."""
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except InputError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            return
        assert isinstance(model, BaseEstimator)
        repr(model)
        with np.errstate(all="ignore"):
            _use(model)


def _use(model: Any) -> None:
    try:
        if isinstance(model, KernelPCADetector):
            model.score_samples(X[:3])
        else:
            model.transform(X[:3])
        if isinstance(model, KernelPCA | IncrementalKernelPCA):
            model.denoise(X[:3])
    except (ValueError, AttributeError):  # InputError, NotFittedError
        pass


slow = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


@slow
@given(content=st.binary(max_size=400))
def test_random_bytes(path: Path, content: bytes) -> None:
    tried(path, content)
    tried(path, sealed(content))


@slow
@given(data=st.data())
def test_changed_bytes_with_a_repaired_checksum(path: Path, good: dict[str, bytes], data: st.DataObject) -> None:
    content = bytearray(good[data.draw(st.sampled_from(sorted(good)))][:-32])
    length = int.from_bytes(content[8:16], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        # the header is what is worth changing
        place = data.draw(
            st.integers(0, min(16 + length, len(content)) - 1 if data.draw(st.booleans()) else len(content) - 1)
        )
        content[place] = data.draw(st.integers(0, 255))
    tried(path, bytes(content) + hashlib.sha256(content).digest())


_VALUES = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        -1,
        2**62,
        10**30,
        0.0,
        -1.5,
        "",
        "rbf",
        "precomputed",
        [],
        {},
        [1, 2],
        {"node": 0},
        {"node": 3},
        {"array": "0"},
        {"array": "1"},
        {"tuple": []},
        {"tuple": [1.0, 2.0]},
        {"list": [None]},
        {"number": "nan"},
        {"number": "inf"},
        {"dtype": "f4"},
        {"dtype": "O"},
        {"scalar": ["f8", 1.0]},
        {"dict": [["a", 1]]},
        {"type": "float"},
    ]
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All (container, key) in a JSON value."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        here = stack.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else []
        found += [(here, key) for key in keys]
        stack += [here[key] for key in keys]
    return found


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_structure_with_a_repaired_checksum(path: Path, good: dict[str, bytes], data: st.DataObject) -> None:
    header, arrays = parts(good[data.draw(st.sampled_from(sorted(good)))])
    for _ in range(data.draw(st.integers(1, 2))):
        places = _places(header)
        container, key = places[data.draw(st.integers(0, len(places) - 1))]
        match data.draw(st.sampled_from(["replace", "delete", "copy", "swap"])):
            case "replace":
                container[key] = data.draw(_VALUES)
            case "delete":
                del container[key]
            case "copy":
                other, where = places[data.draw(st.integers(0, len(places) - 1))]
                container[key] = json.loads(json.dumps(other[where]))
            case "swap" if arrays:
                names = sorted(arrays)
                first, second = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
                arrays[first], arrays[second] = arrays[second], arrays[first]
    tried(path, joined(header, arrays))
