"""A fit that is killed goes on from its checkpoint and ends with the same bits; any other fit is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as gp

import kpca
import kpca.estimators.checkpoint as checkpoint_module
import kpca.gram.operator as operator_module
from kpca import InputError, KernelPCA
from kpca._base.container import read_container, write_container
from kpca.estimators.checkpoint import Checkpoint, describe, digest, load_state, open_checkpoint, save_state
from kpca.gram import Gram
from kpca.kernels import RBF, Cosine, Exponential, Polynomial

X = np.random.default_rng(0).standard_normal((1300, 6)) * 0.8 ** np.arange(6)
RESULTS = ["eigenvalues_", "eigenvectors_", "residuals_", "eigenvalue_bounds_", "explained_variance_ratio_"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fit.kpca"


@pytest.fixture
def every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write after every pass, however long that takes."""
    monkeypatch.setattr(checkpoint_module, "_PATIENCE", 0.0)


def model(n_components: Any = 4, **parameters: Any) -> KernelPCA:
    """A fit by block Krylov of several passes."""
    return KernelPCA(n_components, **{"kernel": "rbf", "gamma": 0.05, "eigen_solver": "krylov", **parameters})


def interrupted(path: Path, fit: Callable[[], Any], after: int) -> list[int]:
    """Run a fit with a checkpoint until so many passes were heard of; return them."""
    heard: list[int] = []

    def listen(state: dict[str, Any]) -> bool:
        heard.append(state["pass"])
        return len(heard) < after

    with kpca.config(checkpoint=path, progress=listen), pytest.raises(kpca.Cancelled):
        fit()
    return heard


def resumed(path: Path, fit: Callable[[], KernelPCA]) -> tuple[KernelPCA, list[int]]:
    """Run a fit with a checkpoint to its end; return it and the passes it has made."""
    heard: list[int] = []
    with kpca.config(checkpoint=path, progress=lambda state: heard.append(state["pass"])):
        return fit(), heard


def assert_same(found: KernelPCA, expected: KernelPCA) -> None:
    for name in RESULTS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert (found.n_passes_, found.solver_) == (expected.n_passes_, expected.solver_)


def waiting(path: Path, fit: Callable[[], Any] = lambda: model().fit(X)) -> Path:
    """Leave the checkpoint of a fit that was interrupted after its second pass."""
    interrupted(path, fit, 2)
    assert path.is_file()
    return path


# -- kill and resume --------------------------------------------------------------------------------------------------

CHILD = """
import sys, time
import numpy as np
import kpca

rows = np.random.default_rng(0).standard_normal((3000, 10)) * 0.9 ** np.arange(10)

def tell(state):
    print("pass", state["pass"], flush=True)
    if sys.argv[1] == "slow":
        time.sleep(60 if state["pass"] == 2 else 0.5)  # a pass may take long; in the second one comes the kill

with kpca.config(checkpoint=sys.argv[2] if sys.argv[2] != "none" else None, progress=tell):
    fitted = kpca.KernelPCA(5, kernel="rbf", gamma=0.05, eigen_solver="krylov").fit(rows)
print("end", fitted.eigenvalues_.tobytes().hex(), fitted.eigenvectors_.tobytes().hex()[:4000])
"""


def child(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="This machine has no signal that kills at once.")
def test_a_killed_fit_goes_on_in_another_process(path: Path) -> None:
    with child("quick", "none") as fresh, child("slow", str(path)) as victim:
        assert victim.stdout is not None
        try:
            for line in victim.stdout:
                if line == "pass 2\n":
                    break
        finally:
            victim.kill()
        assert victim.wait() == -signal.SIGKILL
        expected, _ = fresh.communicate(timeout=60)
    assert path.is_file()
    with child("quick", str(path)) as second:
        found, _ = second.communicate(timeout=60)
    all_passes, passes = (text.splitlines()[:-1] for text in (expected, found))
    assert len(all_passes) > 4
    assert passes and passes == all_passes[-len(passes) :]
    assert len(passes) < len(all_passes)
    values = [np.frombuffer(bytes.fromhex(text.split()[-2])) for text in (found, expected)]
    assert len(values[0]) == 5
    np.testing.assert_allclose(*values, rtol=1e-10)
    assert found.splitlines()[-1] == expected.splitlines()[-1]  # the same bits, in fact
    assert os.listdir(path.parent) == []


@pytest.mark.usefixtures("every_pass")
@pytest.mark.parametrize("after", range(1, 5))
def test_it_goes_on_after_the_last_pass_to_the_same_bits(path: Path, after: int) -> None:
    expected = model().fit(X)
    assert expected.n_passes_ >= 4
    assert interrupted(path, lambda: model().fit(X), after) == list(range(1, after + 1))
    found, passes = resumed(path, lambda: model().fit(X))
    assert passes == list(range(after + 1, expected.n_passes_ + 1))
    assert_same(found, expected)
    assert os.listdir(path.parent) == []


def twice(x: Any, y: Any) -> Any:
    return (x @ y.T) ** 2


K = np.exp(-0.05 * ((X[:700, None] - X[None, :700]) ** 2).sum(axis=2))
WEIGHTS = np.random.default_rng(1).uniform(0.0, 3.0, 1300).round()
FITS: dict[str, Callable[[], KernelPCA]] = {
    "both precisions": lambda: model(gamma=0.3).fit(X),
    "float32 data": lambda: model(tol=1e-6).fit(X.astype(np.float32)),
    "weights": lambda: model().fit(X, sample_weight=WEIGHTS),
    "not centred": lambda: model(center=False).fit(X),
    "sparse": lambda: model(kernel=Polynomial(2, 0.1, 1.0)).fit(sparse.csr_matrix(np.maximum(X - 1.0, 0.0))),
    "sum": lambda: model(kernel=RBF(0.05) + 0.5 * Exponential(2.0)).fit(X),
    "callable": lambda: model(2, kernel=twice).fit(X),
    "gaussian process": lambda: model(kernel=gp.ExpSineSquared(2.0, 9.0)).fit(X[:800]),
    "matrix": lambda: model(kernel="precomputed").fit(K),
    "matrix, weights": lambda: model(kernel="precomputed").fit(K, sample_weight=WEIGHTS[:700]),
    "operator": lambda: model(kernel="precomputed").fit(aslinearoperator(K)),
    "random state": lambda: model(random_state=5).fit(X),
    "threads": lambda: model(n_jobs=2).fit(X),
}


@pytest.mark.usefixtures("every_pass")
@pytest.mark.filterwarnings("ignore:The kernel matrix is not positive semidefinite")
@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("rows_in_double", [0, 4096])
def test_every_kind_of_fit_can_be_resumed(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, rows_in_double: int
) -> None:
    monkeypatch.setattr(operator_module, "_DOUBLE_ROWS", rows_in_double)  # 0: float32 tiles, and a change on the way
    fit, heard = FITS[name], []
    with kpca.config(progress=lambda state: heard.append(state["pass"])):
        expected = fit()
    for _ in heard[:-1]:
        interrupted(path, fit, 1)  # after every single pass
    found, passes = resumed(path, fit)
    assert passes == heard[-1:]
    assert_same(found, expected)


@pytest.mark.usefixtures("every_pass")
def test_the_change_of_precision_is_among_what_is_tested(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_module, "_DOUBLE_ROWS", 0)
    known = []
    fit = FITS["both precisions"]
    for after in range(1, fit().n_passes_):
        interrupted(path, fit, 1)
        known.append({name for name in read_container(path, "checkpoint")[1] if name.endswith("image")})
        assert read_container(path, "checkpoint")[0]["state"]["passes"] == after
    assert known[0] == {"single image"}
    assert known[-1] == {"single image", "double image"}


@pytest.mark.usefixtures("every_pass")
def test_other_threads_and_less_memory_go_on_with_the_same_bits(path: Path) -> None:
    expected = model().fit(X)
    with kpca.config(threads=1):
        waiting(path)
    with kpca.config(threads=2, memory_limit="64MB"):
        found, passes = resumed(path, lambda: model().fit(X))
    assert passes[0] == 3
    assert_same(found, expected)


@pytest.mark.usefixtures("every_pass")
@pytest.mark.parametrize("after", [1, 3, 5, 6, 7, 8, 9, 12])
def test_a_fraction_that_takes_several_rounds(path: Path, after: int) -> None:
    """16 components, then 32, then 64: what an interrupted round has found is not looked for again."""
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((700, 700)))
    slow = (Q * np.concatenate([np.linspace(2.0, 1.0, 45), 0.5 * 0.9 ** np.arange(655)])) @ Q.T
    slow = (slow + slow.T) / 2

    def fit() -> KernelPCA:
        return model(0.9, kernel="precomputed", tol=1e-6).fit(slow)

    heard: list[int] = []
    with kpca.config(progress=lambda state: heard.append(state["pass"])):
        expected = fit()
    assert heard.count(1) == 3
    assert len(heard) > 12
    assert interrupted(path, fit, after) == heard[:after]
    found, passes = resumed(path, fit)
    assert passes == heard[after:]
    assert_same(found, expected)
    assert not path.exists()


# -- when the file is written, and when it goes -----------------------------------------------------------------------


def saves(path: Path, monkeypatch: pytest.MonkeyPatch, pass_seconds: float, write_seconds: float) -> list[int]:
    """The passes of ten that are written, by a clock of our own."""
    now, written = [100.0], []

    @dataclass
    class Pass:
        passes: int

    def write(*arguments: Any, **options: Any) -> None:
        now[0] += write_seconds
        written.append(number)

    monkeypatch.setattr(checkpoint_module.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(checkpoint_module, "save_state", write)
    monkeypatch.setattr(checkpoint_module, "_packed", lambda state, probe: ({}, {}))
    kept = Checkpoint(str(path), Gram(RBF(1.0), X), {})
    _, keeper = kept.at(4)
    for number in range(1, 11):
        now[0] += pass_seconds
        keeper.save(Pass(number))  # type: ignore[arg-type]
    return written


def test_long_passes_are_all_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert saves(path, monkeypatch, pass_seconds=11.0, write_seconds=1.0) == list(range(1, 11))


def test_short_passes_are_written_now_and_then(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert saves(path, monkeypatch, pass_seconds=4.0, write_seconds=1.0) == [1, 4, 7, 10]


@pytest.mark.usefixtures("every_pass")
def test_a_fit_that_ran_out_of_passes_can_have_more(path: Path) -> None:
    expected = model().fit(X)
    with kpca.config(checkpoint=path), pytest.warns(ConvergenceWarning, match="in 3 passes"):
        short = model(max_iter=3).fit(X)
    assert path.is_file()
    with kpca.config(checkpoint=path), pytest.warns(ConvergenceWarning, match="in 3 passes"):
        assert_same(model(max_iter=3).fit(X), short)
    found, passes = resumed(path, lambda: model(max_iter=100).fit(X))
    assert passes[0] == 4
    assert_same(found, expected)
    assert not path.exists()


def test_a_finished_fit_leaves_nothing_and_the_next_one_begins_anew(path: Path) -> None:
    expected = model().fit(X)
    for gamma in (0.05, 0.1):
        found, passes = resumed(path, partial(model(gamma=gamma).fit, X))
        assert passes[0] == 1
        assert os.listdir(path.parent) == []
        if gamma == 0.05:
            assert_same(found, expected)


def test_without_a_checkpoint_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model().fit(X)
    assert os.listdir(tmp_path) == []
    assert open_checkpoint(Gram(RBF(1.0), X)) is None


@pytest.mark.parametrize("fit", [lambda: KernelPCA(2).fit(X), lambda: model(eigen_solver="dense").fit(X)])
def test_short_ways_leave_the_file_alone(path: Path, fit: Callable[[], Any]) -> None:
    path.write_bytes(b"something else")
    with kpca.config(checkpoint=path):
        fit()
    assert path.read_bytes() == b"something else"


@pytest.mark.usefixtures("every_pass")
def test_unfinished_files_of_a_killed_writer_are_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *names: None)  # as if killed just before
        write_container(path, {"kind": "checkpoint"}, {})
    assert len(os.listdir(path.parent)) == 1
    waiting(path)
    assert os.listdir(path.parent) == [path.name]


def test_an_error_while_writing_ends_the_fit_and_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "_PATIENCE", 0.0)
    before = waiting(path).read_bytes()

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, kpca.config(checkpoint=path):
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="the disk is full"):
            model().fit(X)
    assert path.read_bytes() == before
    assert resumed(path, lambda: model().fit(X))[1][0] == 3


# -- what is refused --------------------------------------------------------------------------------------------------

CHANGED = X.copy()
CHANGED[700, 3] = np.nextafter(CHANGED[700, 3], 9.0)
OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "data": (lambda: model().fit(CHANGED), "other data"),
    "fewer rows": (lambda: model().fit(X[:-1]), "other data"),
    "dtype": (lambda: model().fit(X.astype(np.float32)), "other data"),
    "scale of the data": (lambda: model(gamma="scale").fit(2 * X), "other data"),
    "weights": (lambda: model().fit(X, sample_weight=np.arange(1300) + 1.0), "other weights"),
    "gamma": (lambda: model(gamma=np.nextafter(0.05, 1.0)).fit(X), r"kernel = RBF\(gamma=0\.05\), and here it is RBF"),
    "kernel": (lambda: model(kernel="cosine").fit(X), r"kernel = RBF\(gamma=0\.05\), and here it is Cosine\(\)"),
    "k": (lambda: model(5).fit(X), "n_components = 4, and here it is 5"),
    "fraction": (lambda: model(0.5).fit(X), r"n_components = 4, and here it is 0\.5"),
    "tol": (lambda: model(tol=1e-3).fit(X), r"tol = 1e-10, and here it is 0\.001"),
    "seed": (lambda: model(random_state=3).fit(X), "seed = 0, and here it is"),
    "solver": (lambda: model(eigen_solver="auto").fit(X), "eigen_solver = 'krylov', and here it is 'auto'"),
    "centring": (lambda: model(center=False).fit(X), "center = True, and here it is False"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_something_else_is_refused(path: Path, name: str) -> None:
    fit, difference = OTHERS[name]
    before = waiting(path).read_bytes()
    message = (
        rf"The checkpoint .*fit\.kpca must belong to this fit; it was written for .*{difference}.*: delete the file"
    )
    with kpca.config(checkpoint=path), pytest.raises(InputError, match=message):
        fit()
    assert path.read_bytes() == before
    assert_same(resumed(path, lambda: model().fit(X))[0], model().fit(X))


def test_another_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(path)
    monkeypatch.setattr(checkpoint_module, "__version__", "99.0")
    with kpca.config(checkpoint=path), pytest.raises(InputError, match=r"the version of kpca = .* here it is '?99\.0"):
        model().fit(X)


def function(power: int) -> Callable[[Any, Any], Any]:
    """Two functions of one name."""
    return lambda x, y: (x @ y.T) ** power


@pytest.mark.filterwarnings("ignore:The kernel matrix is not positive semidefinite")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: model(2, kernel=function(2)).fit(X), lambda: model(2, kernel=function(3)).fit(X)),
        (
            lambda: model(2, kernel=gp.ExpSineSquared(2.0, 9.0)).fit(X[:800]),
            lambda: model(2, kernel=gp.ExpSineSquared(2.000001, 9.0)).fit(X[:800]),
        ),
        (
            lambda: model(2, kernel="precomputed").fit(aslinearoperator(K)),
            lambda: model(2, kernel="precomputed").fit(aslinearoperator(K + 0.01 * np.eye(700))),
        ),
    ],
)
def test_what_has_no_description_is_known_by_its_values(
    path: Path, one: Callable[[], Any], other: Callable[[], Any]
) -> None:
    waiting(path, one)
    with kpca.config(checkpoint=path), pytest.raises(InputError, match="a kernel with other values: delete"):
        other()
    with kpca.config(checkpoint=path):
        one()


def test_another_matrix_is_refused(path: Path) -> None:
    waiting(path, lambda: model(kernel="precomputed").fit(K))
    with kpca.config(checkpoint=path), pytest.raises(InputError, match="other data"):
        model(kernel="precomputed").fit(2 * K)


@pytest.mark.parametrize("damage", ["cut", "changed", "foreign", "empty"])
def test_a_damaged_checkpoint_is_refused(path: Path, damage: str) -> None:
    content = waiting(path).read_bytes()
    middle = len(content) // 2
    changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes({"cut": content[:middle], "changed": changed, "foreign": b"x" * 999, "empty": b""}[damage])
    before = path.read_bytes()
    with kpca.config(checkpoint=path), pytest.raises(InputError, match=r"fit\.kpca must be .*; it is .*: "):
        model().fit(X)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", ["no fingerprint", "no state", "no Q", "shape", "k", "image"])
def test_a_checkpoint_with_other_contents_is_refused(path: Path, change: str) -> None:
    header, arrays = read_container(waiting(path), "checkpoint")
    del header["format"], header["version"]
    if change == "no fingerprint":
        del header["fingerprint"]
    elif change == "no state":
        header["state"] = 3
    elif change == "no Q":
        del arrays["Q"]
    elif change == "shape":
        arrays["H"] = arrays["H"][:-1]
    elif change == "k":
        header["state"]["k"] = "four"
    else:
        arrays["double image"] = arrays["double image"][:-1]
    write_container(path, header, arrays)
    with kpca.config(checkpoint=path), pytest.raises(InputError, match=r"must belong to this fit; it.*: delete"):
        model().fit(X)


# -- fingerprints and states of other things --------------------------------------------------------------------------


def test_digests_know_values_shape_and_dtype_but_not_the_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "_BYTES_AT_ONCE", 1000)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    same = [X, np.asfortranarray(X), mapped, np.repeat(X, 2, axis=1)[:, ::2]]
    assert len({digest(values) for values in same}) == 1
    others = [X, CHANGED, X.astype(np.float32), X.T, X.ravel(), X[:-1], X[:, :0], np.float64(3.0), sparse.csr_matrix(X)]
    others += [sparse.csr_matrix(([1.0], ([0], [column])), shape=(2, 4)) for column in (0, 1)]
    others += [sparse.csr_matrix(([1.0], ([0], [1])), shape=(2, 5))]
    assert len({digest(values) for values in others}) == len(others)


def test_descriptions_hold_all_digits_and_no_addresses() -> None:
    assert describe(RBF(0.1 + 0.2)) == "RBF(gamma=0.30000000000000004)"
    assert describe(RBF((1.0, 2.0)) + 0.5 * Cosine()) == (
        "Sum(members=(RBF(gamma=(1.0, 2.0)), Scaled(kernel=Cosine(), factor=0.5)))"
    )
    assert describe(twice).endswith("test_checkpoint.twice")
    assert describe(partial(twice, y=1)) == "functools.partial"
    assert describe({"b": [1, None], "a": twice}) == "{'a': " + describe(twice) + ", 'b': (1, None)}"
    long = np.arange(5000.0)
    assert describe(long) != describe(np.where(long == 2500, 0.0, long))  # NumPy prints neither of the two


def test_states_of_other_things(path: Path) -> None:
    fingerprint = {"data": "abc", "n_components": "3"}
    assert load_state(path, fingerprint, kind="stream") is None
    save_state(path, fingerprint, ({"batches": 7}, {"mean": np.arange(3.0)}), kind="stream")
    header, arrays = load_state(path, fingerprint, kind="stream") or ({}, {})
    assert header == {"batches": 7}
    np.testing.assert_array_equal(arrays["mean"], [0, 1, 2])
    with pytest.raises(InputError, match="n_components = 3, and here it is 4: delete the file or choose another path"):
        load_state(path, {**fingerprint, "n_components": "4"}, kind="stream")
    with pytest.raises(InputError, match="gamma = None, and here it is 1"):
        load_state(path, {**fingerprint, "gamma": "1"}, kind="stream")
    with pytest.raises(InputError, match="must hold a checkpoint; it holds a stream"):
        load_state(path, fingerprint)


def test_a_file_that_cannot_be_removed_does_not_cost_the_fit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with kpca.config(checkpoint=path), monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.warns(UserWarning, match=r"fit\.kpca could not be removed \(Permission denied\); delete it"):
            found = model().fit(X)
    assert path.is_file()
    assert_same(found, model().fit(X))


def test_a_folder_without_permission_is_noticed_at_the_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    with kpca.config(checkpoint=path), pytest.raises(InputError, match="must be in a writable folder"):
        model().fit(X)
