"""What a report says, for models and data of every kind; and that it never breaks off."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kpca
from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, kernels
from kpca.io import Preparation, open_table
from kpca.report import DataFacts, Subject, html_of, report_on, report_on_table, write_report
from kpca.report import build as building
from kpca.report.build import plotly_script, subject_of
from kpca.report.material import Influence, Material

SECTIONS = [
    "summary",
    "data",
    "choice",
    "map",
    "spectrum",
    "findings",
    "variables",
    "preimages",
    "anomalies",
    "reproduce",
]
VOID = {"meta", "img", "br", "link", "input"}


class Reader(HTMLParser):
    """Reads a page strictly: what is opened is closed, ids are unique; keeps the text of each section."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.sections: dict[str, str] = {}
        self.handlers: list[str] = []
        self._section: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "section":
            self._section = str(found["id"])
            self.sections[self._section] = ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "section":
            self._section = None

    def handle_data(self, data: str) -> None:
        if self._section is not None:
            self.sections[self._section] += data


def read(page: str) -> dict[str, str]:
    """Return the text of each section, after a look at the page as a whole."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert reader.handlers == []
    assert list(reader.sections) == SECTIONS
    json.loads(data_of(page), parse_constant=pytest.fail)  # NaN and infinity are not JSON
    return {name: " ".join(text.split()) for name, text in reader.sections.items()}


def data_of(page: str) -> str:
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(autouse=True)
def short_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave plotly.js out: its 4.8 MB only slow down the reading."""
    monkeypatch.setattr("kpca.report.build.plotly_script", lambda: "")


RNG = np.random.default_rng(0)
ROWS = np.abs(RNG.normal(size=(60, 3))) + 0.1
COUNTS = sparse.csr_matrix(RNG.poisson(0.3, size=(80, 40)).astype(float))


def dot(x: Any, y: Any) -> float:
    return float(np.exp(-np.sum((x - y) ** 2)))


MODELS = {
    "exact": (KernelPCA(3, kernel="rbf", gamma="median"), ROWS),
    "way back": (KernelPCA(2, kernel="rbf", gamma="median", preimage="auto"), ROWS),
    "ridge": (KernelPCA(2, kernel="rbf", fit_inverse_transform=True), ROWS),
    "linear": (KernelPCA(2, kernel="linear", preimage="auto"), ROWS),
    "all components": (KernelPCA(None, kernel="rbf"), ROWS),
    "share": (KernelPCA(0.8, kernel="rbf", gamma=2.0), ROWS),
    "auto": (KernelPCA("auto", kernel="rbf", gamma="median"), ROWS),
    "one component": (KernelPCA(1, kernel="rbf"), ROWS),
    "not centred": (KernelPCA(2, kernel="rbf", center=False), ROWS),
    "float32": (KernelPCA(2, kernel="rbf"), ROWS.astype(np.float32)),
    "landmarks": (KernelPCA(3, kernel="rbf", approximation=Nystroem(rank=20)), ROWS),
    "random features": (KernelPCA(3, kernel="rbf", approximation="rff"), ROWS),
    "stream": (IncrementalKernelPCA(3, kernel="rbf", approximation=Nystroem(rank=20)), ROWS),
    "linear stream": (IncrementalKernelPCA(2), ROWS),
    "poly": (KernelPCA(2, kernel="poly", degree=2, coef0=0.5), ROWS),
    "sigmoid": (KernelPCA(2, kernel="sigmoid", gamma=0.01), ROWS),
    "cosine": (KernelPCA(2, kernel="cosine"), ROWS),
    "laplacian": (KernelPCA(2, kernel="laplacian"), ROWS),
    "chi2": (KernelPCA(2, kernel="chi2"), ROWS),
    "matern": (KernelPCA(2, kernel=kernels.Matern(2.5, 2.0)), ROWS),
    "sum": (KernelPCA(2, kernel=kernels.RBF(0.1) + 0.5 * kernels.Linear()), ROWS),
    "a gamma each": (KernelPCA(2, kernel=kernels.RBF((0.1, 0.2, 0.3))), ROWS),
    "callable": (KernelPCA(2, kernel=dot), ROWS),
    "sparse": (KernelPCA(3, kernel="cosine"), COUNTS),
    "sparse landmarks": (KernelPCA(3, kernel="rbf", approximation=Nystroem(rank=20)), COUNTS),
    "two columns": (KernelPCA(2, kernel="rbf", preimage="auto"), ROWS[:, :2]),
    "one column": (KernelPCA(2, kernel="rbf", preimage="auto"), ROWS[:, :1]),
    "constant column": (KernelPCA(2, kernel="rbf"), np.column_stack([ROWS, np.full(60, 7.0)])),
    "huge numbers": (KernelPCA(2, kernel="linear"), ROWS * 1e70),
    "tiny numbers": (KernelPCA(2, kernel="linear", preimage="auto"), ROWS * 1e-70),
    "few rows": (KernelPCA(2, kernel="rbf"), ROWS[:3]),
    "duplicates": (KernelPCA(2, kernel="rbf"), np.repeat(ROWS[:5], 6, axis=0)),
    "more columns than rows": (KernelPCA(3, kernel="rbf", gamma="median"), RNG.normal(size=(30, 400))),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_every_kind_of_model_has_all_sections(kind: str) -> None:
    model, X = MODELS[kind]
    text = read(report_on(model.fit(X), X))  # type: ignore[arg-type]
    k = int(model.n_components_)
    assert re.match(rf"In short {k} components? holds? [\d.]+ %", text["summary"])
    assert f"{X.shape[0]} rows" in text["summary"]
    assert "k(x, y) = " in text["choice"]
    for body in text.values():
        assert "None" not in body.replace("None yet", "").replace("None of the", "").replace("=None", "")
        assert "nan" not in body.lower().replace("nano", "")
        assert "(empty)" not in body and "<" not in body.replace("k(x", "")


def test_two_reports_are_the_same() -> None:
    X, y = load_iris(return_X_y=True)
    model = KernelPCA(3, kernel="rbf", gamma="median", preimage="auto").fit(X)
    assert report_on(model, X, labels=y) == report_on(model, X, labels=y)


def test_numbers_are_those_of_the_model() -> None:
    X, y = load_iris(return_X_y=True)
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    model = KernelPCA(2, kernel="rbf", gamma=0.5, preimage="auto").fit(X)
    text = read(report_on(model, X, labels=y, names=names, title="Flowers"))  # type: ignore[arg-type]
    share = 100 * float(model.explained_variance_ratio_.sum())
    assert f"2 components hold {share:.1f} %" in text["summary"]
    assert "exp(−0.5 ‖x − y‖²)" in text["choice"]
    most = kpca.explain.importance(model, X, names=names, weighted=True).top(1)[0][0]
    assert most in text["summary"]
    ends = kpca.explain.extremes(model, X, n=1)
    assert f"1, high {ends.highest[0, 0]} " in text["variables"]
    detector = kpca.KernelPCADetector(random_state=0).fit(X)
    beyond = int((detector.predict(X) < 0).sum())
    assert f"{beyond} rows are beyond the limit" in text["anomalies"]
    assert hashlib.sha256(X.tobytes()).hexdigest() in text["reproduce"]
    assert "gamma=0.5" in text["reproduce"] and kpca.__version__ in text["reproduce"]


def test_code_repeats_the_model() -> None:
    X = ROWS
    page = report_on(KernelPCA(2, kernel="rbf", gamma="median", random_state=3).fit(X), X)
    code = re.search(r"<pre tabindex=\"0\"><code>(.*?)</code></pre>", page, re.DOTALL)  # type: ignore[arg-type]
    assert code is not None
    space: dict[str, Any] = {}
    lines = code[1].replace("&#x27;", "'").replace("&quot;", '"')
    exec(re.sub(r"X = \.\.\..*", "", lines).replace("model.fit(X)", ""), space)
    again = space["model"].fit(X)
    np.testing.assert_array_equal(again.eigenvalues_, KernelPCA(2, kernel="rbf", gamma="median").fit(X).eigenvalues_)


def test_pipeline_comes_back_to_the_units_of_the_data() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf", gamma="median", preimage="auto")).fit(X)
    text = read(report_on(pipeline, X, labels=y))  # type: ignore[arg-type]
    assert "sepal length (cm) 4.3 5.8 7.9" in text["data"]  # not scaled
    assert "StandardScaler was applied." in text["data"]
    assert "from sklearn.preprocessing import StandardScaler" in text["reproduce"]
    assert "petal length (cm)" in text["preimages"]


def test_images_are_shown_as_pictures() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:150], y[:150]
    model = KernelPCA(4, kernel="rbf", gamma=0.002, preimage="auto").fit(X)
    page = report_on(model, X, labels=y, image_shape=(8, 8))
    text = read(page)  # type: ignore[arg-type]
    assert page.count('<img src="data:image/png;base64,') == 10 + 4 + 4 * 6 + 4 * 9 + 16  # type: ignore[union-attr]
    assert "Each row is a picture of 8 × 8 dots." in text["data"]


def test_sections_that_cannot_be_made_say_why() -> None:
    wide = sparse.csr_matrix(RNG.poisson(0.3, size=(50, 150)).astype(float))
    model = KernelPCA(3, kernel="cosine").fit(wide)
    text = read(report_on(model, wide))  # type: ignore[arg-type]
    assert "There is no inverse map" in text["preimages"] and "preimage='auto'" in text["preimages"]
    assert "There are no gradients here, so a bar only shows" in text["variables"]
    assert "radients" in text["anomalies"]
    few = read(report_on(KernelPCA(1, kernel="rbf").fit(ROWS[:3]), ROWS[:3]))  # type: ignore[arg-type]
    assert "A detector needs at least 5 rows" in few["anomalies"]


def test_correlations_stand_in_for_gradients() -> None:
    wide = sparse.csr_matrix(RNG.poisson(0.5, size=(70, 120)).astype(np.float64))
    model = KernelPCA(2, kernel="cosine").fit(wide)
    subject = subject_of(model, wide, ids=None, labels=None, names=None, title=None, image_shape=None)
    found = Material(subject).influence
    assert isinstance(found, Influence) and found.how == "correlated"
    truth = np.abs(np.corrcoef(wide.toarray().T, model.transform(wide).T)[120:, :120])
    np.testing.assert_allclose(found.by_component, truth, atol=1e-10)


def test_an_unexpected_error_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a fault of the program")

    monkeypatch.setattr("kpca.explain.importance", broken)
    with pytest.raises(ZeroDivisionError):
        report_on(KernelPCA(2).fit(ROWS), ROWS)


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(60) % 3,
        np.arange(60) / 7.0,
        np.where(np.arange(60) % 4, np.arange(60) / 7.0, np.nan),
        np.full(60, np.nan),
        np.array([None, "a", "b"] * 20, dtype=object),
        np.array([1, "a", None] * 20, dtype=object),
        np.array([f"class {i % 37}" for i in range(60)]),
        np.array([f"each {i}" for i in range(60)]),
        np.arange(60) % 2 == 0,
        np.array(["2024-01-01"] * 60, dtype="M8[D]"),
        np.array([b"x", b"\xff"] * 30),
        [f"label {i}" for i in range(60)],
        np.r_[np.inf, -np.inf, np.arange(58.0)],
    ],
)
def test_labels_of_every_kind(labels: Any) -> None:
    read(report_on(KernelPCA(2, kernel="rbf").fit(ROWS), ROWS, labels=labels))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(60) + 2**60,
        np.arange(60) / 3,
        [f"row {i}" for i in range(60)],
        [("a", i) for i in range(60)],
        [None] * 60,
        np.arange(60).astype("M8[D]"),
        [b"\xff"] * 60,
    ],
)
def test_ids_of_every_kind(ids: Any) -> None:
    read(report_on(KernelPCA(2, kernel="rbf").fit(ROWS), ROWS, ids=ids))  # type: ignore[arg-type]


@pytest.mark.slow
def test_20_000_rows_stay_below_8_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpca.report.build.plotly_script", plotly_script)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 3)) @ rng.normal(size=(3, 8)) + 0.3 * rng.normal(size=(20_000, 8))
    model = KernelPCA(12, kernel="rbf", gamma="median", approximation=Nystroem(rank=60)).fit(X)
    path = tmp_path / "large.html"
    ids = [f"a rather long name of a sample number {row:06d}" for row in range(20_000)]
    report_on(model, X, path, ids=ids, labels=rng.normal(size=20_000))
    assert 4e6 < path.stat().st_size < 8e6


def test_ids_of_any_length_stay_within_their_budget() -> None:
    page = report_on(KernelPCA(2, kernel="rbf").fit(ROWS), ROWS, ids=["i" * 100_000 + str(i) for i in range(60)])
    text = read(page)  # type: ignore[arg-type]
    assert "letters to keep this file small" in text["map"]
    assert len(page) < 1.5e6  # type: ignore[arg-type]


def test_more_rows_than_dots_are_sampled() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(21_000, 2))
    model = KernelPCA(2, kernel="linear").fit(X)
    text = read(report_on(model, X))  # type: ignore[arg-type]
    assert "A sample of 20,000 of the 21,000 rows, always the same" in text["map"]


def test_rows_of_a_sample_keep_their_numbers_in_the_file(tmp_path: Path) -> None:
    X = np.random.default_rng(3).normal(size=(90, 2))
    X[::9, 0] = np.nan
    file = tmp_path / "some.csv"
    file.write_text("a,b,who\n" + "".join(f"{'' if np.isnan(a) else a},{b},w{i}\n" for i, (a, b) in enumerate(X)))
    table = open_table(str(file), id="who")
    model = make_pipeline(Preparation(impute="drop"), KernelPCA(2, kernel="rbf")).fit(table)
    report_on_table(model, table, tmp_path / "some.html", max_rows=40)
    page = (tmp_path / "some.html").read_text(encoding="utf-8")
    data = json.loads(data_of(page))["embedding"]
    numbers = np.frombuffer(base64.b64decode(data["rows"]), dtype="<u4")
    assert [f"w{number}" for number in numbers] == data["ids"]
    text = read(page)
    assert f"A sample of {len(numbers)} of the 80 rows, always the same" in text["map"]
    assert f"Of {len(numbers)} rows looked at, " in text["summary"]
    assert "in feature space of 80 rows and 2 columns" in text["summary"]


def test_missing_entries_are_those_of_the_file_not_of_the_fit(tmp_path: Path) -> None:
    for name, gaps in (("old", 0), ("new", 7)):
        lines = [f"{'' if i < gaps else i * i % 17},{i},{'' if i == gaps else 'xy'[i % 2]}" for i in range(30)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c", *lines, ""]))
    old, new = (open_table(str(tmp_path / f"{name}.csv")) for name in ("old", "new"))
    model = make_pipeline(Preparation(impute="median", encode="onehot"), KernelPCA(2, kernel="rbf")).fit(old)
    about = {"data": {"sha256": old.digest()}}
    for table, words, before in (
        (old, "1 entry is missing", "Before the"),
        (new, "8 entries are missing", "The rows were"),
    ):
        report_on_table(model, table, tmp_path / "page.html", about=about)
        text = read((tmp_path / "page.html").read_text(encoding="utf-8"))["data"]
        assert words in text and before in text


def test_rows_of_a_fit_and_rows_of_a_report_are_told_apart() -> None:
    text = read(report_on(KernelPCA(2, kernel="rbf").fit(ROWS), ROWS[:20]))  # type: ignore[arg-type]
    assert "of the 60 rows and 3 columns that the model was fitted to; this report is about 20 rows." in text["summary"]


@pytest.mark.filterwarnings("ignore")
def test_fewer_components_than_asked_for_are_said_to_be_so() -> None:
    text = read(report_on(KernelPCA(10, kernel="rbf").fit(ROWS[:5]), ROWS[:5]))  # type: ignore[arg-type]
    assert "The model has 5 components: 10 were asked for, and there are no more." in text["choice"]
    assert "hold 100.0 % (exact to the digits shown)" in text["summary"].replace("100 %", "100.0 %")


def test_subject_of_a_file_is_described() -> None:
    facts = DataFacts(
        "cells.csv", "ab" * 32, 1000, 5, (("numbers", 4), ("categories", 1)), 12, ("12 gaps were filled",)
    )
    model = KernelPCA(2, kernel="rbf").fit(ROWS)
    subject = Subject(
        model=model,
        X=ROWS,
        ids=np.arange(60),
        labels=None,
        names=("a", "b", "c"),
        data=facts,
        chosen=("the bandwidth is the median distance",),
        code="model.fit(X)",
        command="kpca report cells.csv",
        seed=7,
    )
    page = html_of(subject)
    text = read(page)
    assert "<title>Kernel PCA of cells.csv</title>" in page
    assert "cells.csv has 1,000 rows and 5 columns (4 of numbers and 1 of categories)." in text["data"]
    assert "12 entries are missing, 0.2 %." in text["data"] and "12 gaps were filled." in text["data"]
    assert "This report looks at 60 rows of them." in text["data"]
    assert "The bandwidth is the median distance." in text["choice"]
    assert "kpca report cells.csv" in text["reproduce"] and "Seed 7" in text["reproduce"]
    with pytest.raises(InputError, match="restore must return rows of the 3 columns"):
        html_of(replace(subject, restore=lambda rows: rows[:, :2]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": np.arange(5)}, "ids must be one for each of the 60 rows; got 5"),
        ({"labels": np.arange(5)}, "labels must be one for each of the 60 rows; got 5"),
        ({"names": ("a",)}, "names must be one for each of the 3 columns; got 1"),
        ({"image_shape": (2, 2)}, "image_shape must have 3 dots"),
        ({"model": StandardScaler().fit(ROWS)}, "got StandardScaler"),
        ({"X": [1, 2]}, "X must be a 2-D array"),
    ],
)
def test_subjects_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    model = KernelPCA(2, kernel="rbf").fit(ROWS)
    subject = subject_of(model, ROWS, ids=None, labels=None, names=None, title=None, image_shape=None)
    with pytest.raises(InputError, match=message):
        html_of(replace(subject, **change))


def test_precomputed_kernel_is_refused() -> None:
    K = ROWS @ ROWS.T
    with pytest.raises(InputError, match="precomputed kernel has none"):
        report_on(KernelPCA(2, kernel="precomputed").fit(K), K)


def test_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = KernelPCA(2, kernel="rbf").fit(ROWS)
    subject = subject_of(model, ROWS, ids=None, labels=None, names=None, title=None, image_shape=None)
    path = tmp_path / "report.html"
    write_report(path, subject)
    before = path.read_bytes()
    assert before.decode().startswith("<!doctype html>")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"must have room for .*report.html', and it is full"):
        write_report(path, subject)
    monkeypatch.undo()
    monkeypatch.setattr(building, "html_of", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(path, subject)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["report.html"]
    with pytest.raises(InputError, match="is a folder"):
        write_report(tmp_path, subject)
    with pytest.raises(InputError, match="make it first"):
        write_report(tmp_path / "no" / "report.html", subject)


def test_progress_tells_the_sections() -> None:
    seen: list[Any] = []
    model = KernelPCA(2, kernel="rbf").fit(ROWS)
    with kpca.config(progress=seen.append):
        report_on(model, ROWS)
    assert [state["section"] for state in seen] == list(range(1, 11))
    assert {state["of"] for state in seen} == {10} and "Unusual rows" in {state["name"] for state in seen}
    with kpca.config(progress=lambda state: state["section"] < 3), pytest.raises(kpca.Cancelled):
        report_on(model, ROWS)


def test_templates_are_found_in_the_package() -> None:
    folder = files("kpca.report").joinpath("templates")
    assert {entry.name for entry in folder.iterdir()} == {"page.html", "report.js", "style.css"}
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page and "unsafe-eval" not in page and "http" not in page.replace("http-equiv", "")


def test_script_cannot_be_left_early() -> None:
    assert len(plotly_script()) > 1e6
    assert not re.search(r"</script|<!--", plotly_script(), re.IGNORECASE)


def test_rows_far_out_are_said_to_be_at_least_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Material._judged
    monkeypatch.setattr(
        Material, "_judged", lambda self: replace(found := judged(self), limit=float(found.statistic.max()) / 10)
    )
    page = report_on(KernelPCA(2, kernel="rbf").fit(ROWS), ROWS)
    colour = json.loads(data_of(page))["embedding"]["colours"][0]  # type: ignore[arg-type]
    assert colour["name"].startswith("how unusual") and colour["most"] == colour["values"]["high"] == 3.0
