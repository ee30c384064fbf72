"""Streams that are killed go on where they were: nothing is counted twice, and nothing foreign is taken in."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy import sparse

import kpca
from kpca import IncrementalKernelPCA, InputError, Nystroem, RandomFeatures

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4)) + np.repeat(np.eye(4)[:3] * 3, 200, axis=0)
MODELS = {
    "linear": {},
    "landmarks": {"kernel": "rbf", "gamma": "median", "approximation": Nystroem(30), "warm_up": 150},
    "random": {"kernel": "rbf", "approximation": RandomFeatures(64), "forgetting": 0.9},
}


def batches(rows=X):
    return [rows[start : start + 100] for start in range(0, 600, 100)]


class Crash(Exception):
    """Stands for a kill: nothing after it runs."""


def crashing(parts, after):
    yield from parts[:after]
    raise Crash


@pytest.fixture(autouse=True)
def write_every_batch(monkeypatch):
    monkeypatch.setattr("kpca.estimators.checkpoint._PATIENCE", 0.0)


@pytest.mark.parametrize("after", range(1, 6))
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", ["dense", "sparse", "single"])
def test_a_fit_of_chunks_goes_on_to_the_same_bits(tmp_path, name, after, form):
    rows = {"dense": X, "sparse": sparse.csr_matrix(X), "single": X.astype(np.float32)}[form]
    whole = IncrementalKernelPCA(3, **MODELS[name]).fit(iter(batches(rows)))
    with kpca.config(checkpoint=tmp_path / "state"):
        with pytest.raises(Crash):
            IncrementalKernelPCA(3, **MODELS[name]).fit(crashing(batches(rows), after))
        assert (tmp_path / "state").exists()
        again = IncrementalKernelPCA(3, **MODELS[name]).fit(iter(batches(rows)))
    np.testing.assert_array_equal(again.eigenvalues_, whole.eigenvalues_)
    np.testing.assert_array_equal(again.transform(rows[:9]), whole.transform(rows[:9]))
    assert again.batches_seen_ == whole.batches_seen_
    assert again.n_samples_seen_ == 600
    assert not (tmp_path / "state").exists()  # the fit is complete


@pytest.mark.parametrize("name", MODELS)
def test_partial_fit_skips_what_it_has(tmp_path, name):
    w = RNG.uniform(0.5, 2.0, size=100)
    whole = IncrementalKernelPCA(3, **MODELS[name])
    for part in batches():
        whole.partial_fit(part, sample_weight=w)
    with kpca.config(checkpoint=tmp_path / "state"):
        first = IncrementalKernelPCA(3, **MODELS[name])
        for part in batches()[:4]:
            first.partial_fit(part, sample_weight=w)
        again = IncrementalKernelPCA(3, **MODELS[name])
        for part in batches():
            again.partial_fit(part, sample_weight=w)
    np.testing.assert_array_equal(again.eigenvalues_, whole.eigenvalues_)
    assert again.mass_ == whole.mass_


def test_a_batch_that_could_not_be_written_has_not_been_taken(tmp_path, monkeypatch):
    untouched = IncrementalKernelPCA(3, **MODELS["random"])
    for batch in batches():
        untouched.partial_fit(batch)

    def full(*args, **kwargs):
        raise OSError("the disk is full")

    with kpca.config(checkpoint=tmp_path / "state"):
        model = IncrementalKernelPCA(3, **MODELS["random"]).partial_fit(X[:100])
        with monkeypatch.context() as patched, pytest.raises(OSError, match="disk is full"):
            patched.setattr("kpca.estimators.checkpoint.save_state", full)
            model.partial_fit(X[100:200])
        for batch in batches()[1:4]:
            model.partial_fit(batch)
        again = IncrementalKernelPCA(3, **MODELS["random"])  # as another process that finds the file
        for batch in batches():
            again.partial_fit(batch)
    np.testing.assert_array_equal(again.eigenvalues_, untouched.eigenvalues_)
    assert again.batches_seen_ == untouched.batches_seen_ == 6


def test_other_batches_parameters_and_files_are_refused(tmp_path):
    path = tmp_path / "state"
    with kpca.config(checkpoint=path):
        model = IncrementalKernelPCA(2, **MODELS["landmarks"])
        for part in batches()[:3]:
            model.partial_fit(part)
        before = path.read_bytes()
        with pytest.raises(InputError, match="another batch 0"):
            IncrementalKernelPCA(2, **MODELS["landmarks"]).partial_fit(X[100:200])
        with pytest.raises(InputError, match="written for columns"):
            IncrementalKernelPCA(2, **MODELS["landmarks"]).partial_fit(X[:100, :3])
        with pytest.raises(InputError, match="forgetting"):
            IncrementalKernelPCA(2, **MODELS["landmarks"], forgetting=0.5).partial_fit(X[:100])
        with pytest.raises(InputError, match="approximation"):
            IncrementalKernelPCA(2, kernel="rbf", gamma="median", warm_up=150, approximation=Nystroem(31)).partial_fit(
                X
            )
        with pytest.raises(InputError, match="checkpoint"):
            kpca.KernelPCA(2, kernel="rbf", eigen_solver="krylov").fit(X)
        assert path.read_bytes() == before
        path.write_bytes(before[:-5])
        with pytest.raises(InputError):
            IncrementalKernelPCA(2, **MODELS["landmarks"]).partial_fit(X[:100])
        path.write_bytes(b"something else")
        with pytest.raises(InputError):
            IncrementalKernelPCA(2, **MODELS["landmarks"]).partial_fit(X[:100])
    late = IncrementalKernelPCA(2).partial_fit(X)
    with kpca.config(checkpoint=tmp_path / "late"), pytest.raises(InputError, match="before the first batch"):
        late.partial_fit(X)


_CHILD = textwrap.dedent("""
    import sys, time
    import numpy as np
    import kpca
    from kpca import IncrementalKernelPCA, Nystroem
    X = np.random.default_rng(0).normal(size=(5000, 6))
    def parts():
        for number, start in enumerate(range(0, 5000, 250)):
            yield X[start:start + 250]
            print(number, flush=True)
            time.sleep(float(sys.argv[2]))
    kpca.estimators.checkpoint._PATIENCE = 0.0
    with kpca.config(checkpoint=sys.argv[1]):
        model = IncrementalKernelPCA(4, kernel="rbf", approximation=Nystroem(50), warm_up=500).fit(parts())
    print("values", *(value.hex() for value in model.eigenvalues_), flush=True)
""").replace("import kpca\n", "import kpca, kpca.estimators.checkpoint\n", 1)


@pytest.mark.slow
def test_a_stream_survives_kill_9(tmp_path):
    path = str(tmp_path / "state")
    child = subprocess.Popen([sys.executable, "-c", _CHILD, path, "0.2"], stdout=subprocess.PIPE, text=True)
    while child.stdout.readline().strip() != "6":
        assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert os.path.exists(path)
    values = [
        subprocess.run([sys.executable, "-c", _CHILD, where, "0"], capture_output=True, text=True, check=True).stdout
        for where in (path, str(tmp_path / "fresh"))
    ]
    resumed, fresh = ([float.fromhex(value) for value in text.split("values ")[1].split()] for text in values)
    assert resumed == fresh
