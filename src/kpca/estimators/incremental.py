"""IncrementalKernelPCA: kernel PCA of streams and of files larger than memory, by explicit features."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kpca import kernels
from kpca._base.config import checkpoint_path, thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca._base.progress import row_monitor
from kpca._base.validation import (
    check_data,
    check_jobs,
    check_n_components,
    check_rows,
    check_weights,
    seed_of,
    unchanged_on_error,
)
from kpca.data.sources import Source, as_source, in_memory, sample_rows
from kpca.estimators.approximate import check_approximation, components_of, fit_map
from kpca.estimators.checkpoint import describe
from kpca.estimators.cost import Request
from kpca.estimators.exact import refit
from kpca.estimators.fitted import BaseKernelPCA, Fitted, checked_rows, columns_of
from kpca.estimators.plan import is_auto, is_random, kernel_of, rank_of
from kpca.estimators.stream import Batch, Monitor, Reservoir, Stream, StreamCheckpoint
from kpca.features.projection import LinearProjection, Projection
from kpca.kernels import Kernel
from kpca.preimage import Auto, Learned
from kpca.preimage.back import LEARNED_ROWS, Back, check_preimage, fit_back

# Rows of a file from which landmarks are chosen.
_SAMPLE = 30_000
# Rows of a stream, per landmark, that are waited for before landmarks are chosen.
_WAIT_PER_LANDMARK = 10


class IncrementalKernelPCA(BaseKernelPCA):
    """Kernel PCA one batch at a time: memory does not grow with the number of rows.

    Rows become features, of landmarks or random, and what is kept is the mean and the scatter of the features. With the
    linear kernel the features are the rows, and the result is that of PCA on all of them.

    Parameters
    ----------
    n_components : int, float or None
        How many components, a share of the variance, or as many as there are features.
    kernel, gamma, degree, coef0, kernel_params : as in `KernelPCA`; "scale" and "median" look at the first rows.
    approximation : "nystroem", "rff", `kpca.Nystroem` or `kpca.RandomFeatures`
        Where the features come from. Landmarks are chosen from the first rows of a stream, and from a sample of all
        rows where `fit` can read them twice.
    warm_up : int or None
        Rows of a stream to wait for before landmarks are chosen from them; None is ten per landmark. Until then they
        are kept, and results are those of landmarks chosen from them.
    forgetting : float in (0, 1]
        Before each batch the weight of all earlier ones is multiplied by this; 1 forgets nothing.
    center : False leaves the mean in feature space in.
    random_state : seed of landmarks and random features.
    n_jobs : threads; None is `kpca.config(threads=...)`.
    preimage : None, "auto", "ridge", "fixed-point", "distance", "gradient", a method of `kpca.preimage`, or a regressor
        How `inverse_transform` and `denoise` come back to the data, as in `KernelPCA`; a sample of 3000 rows of the
        stream is then kept. The linear kernel needs none: it leads back exactly.

    Attributes
    ----------
    eigenvalues_, explained_variance_, explained_variance_ratio_ : (k,)
        As in `KernelPCA`, of all rows seen; the ratio is to the most the total variance can be.
    eigenvalue_bounds_ : (k, 2)
        Of the eigenvalues of the exact kernel matrix of all rows seen; an estimate for random features.
    unexplained_ : share of the trace of the kernel matrix that the landmarks leave unexplained.
    drift_ : how far the newest batch turned the leading subspace: 1 - mean squared cosine, 0 to 1, NaN at first.
    n_samples_seen_, batches_seen_, mass_ : rows and batches so far, and their weight after forgetting.
    feature_map_, kernel_, n_components_, n_features_in_; components_, mean_ for the linear kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import IncrementalKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> model = IncrementalKernelPCA(2, kernel="rbf")
    >>> for _ in range(3):
    ...     model = model.partial_fit(rng.normal(size=(100, 5)))
    >>> model.n_samples_seen_, model.transform(rng.normal(size=(4, 5))).shape
    (300, (4, 2))
    """

    _stream: Stream
    _found: list[Fitted]  # of the stream, once somebody has asked for it
    _checkpoint: StreamCheckpoint | None = None

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: Any = "linear",
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        approximation: Any = "nystroem",
        warm_up: int | None = None,
        forgetting: float = 1.0,
        center: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        preimage: Any = None,
    ) -> None:
        self.n_components, self.kernel, self.kernel_params = n_components, kernel, kernel_params
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.approximation, self.warm_up, self.forgetting = approximation, warm_up, forgetting
        self.center, self.random_state, self.n_jobs, self.preimage = center, random_state, n_jobs, preimage

    # -- fitting: a new stream takes the place of the old one when all has gone well ---------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, and fit to all of X.

        Parameters
        ----------
        X : an array, data frame or CSR matrix; or something read in chunks: a memory map, a Zarr array, the path of a
            .npy, .zarr or .parquet file, anything with `shape` and slices, an iterable of chunks of rows.
        y : ignored.
        sample_weight : (n,) weights, not negative.
        """
        self._check_parameters()
        if in_memory(X):
            X, columns = checked_rows(self, X)
            check_rows(X.shape[0])
            whole = Batch(X, check_weights(sample_weight, X.shape[0]))
            stream = self._started(replace(self._new_stream(X.dtype), waiting=(whole,), batches=1))
        else:
            source = as_source(X)
            stream, columns = self._read(source, sample_weight), columns_of(source)
        return self._keep({**columns, "_stream": stream, "_found": [], "_last_report": None, "_checkpoint": None})

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a batch of rows, dense or sparse as they come; a batch that is refused leaves the model as it was.

        A batch whose weights are all 0 is one without rows: it counts in `batches_seen_`, and nothing else changes.
        """
        stream: Stream | None = vars(self).get("_stream")
        with unchanged_on_error(self):
            if stream is None:
                self._check_parameters()
                X, columns = checked_rows(self, X)
            else:
                X, columns = check_data(self, X, reset=False), {}
            batch = Batch(X, check_weights(sample_weight, X.shape[0], may_be_zeros=True))
            stream, checkpoint = self._taken(stream, self._checkpoint, batch)
            self.__dict__.update(columns, _stream=stream, _checkpoint=checkpoint, _found=[], _last_report=None)
        return self

    def _read(self, source: Source, sample_weight: Any) -> Stream:
        """Read a source once, after a look at some of its rows for landmarks where it can be read twice."""
        weights = stream = checkpoint = None
        if sample_weight is not None:
            if source.n_rows is None:
                raise InputError("sample_weight needs a source of known length; give weights to partial_fit instead.")
            weights = check_weights(sample_weight, source.n_rows)
        if source.repeatable and self._rows_to_wait_for() > 1:
            some = sample_rows(source, _SAMPLE, seed_of(self.random_state))
            check_rows(some.shape[0])
            stream = self._with_features(self._new_stream(some.dtype), Batch(some))
        monitor, start = row_monitor(source.n_rows), 0
        for chunk in source.batches():
            stop = start + chunk.shape[0]
            batch = Batch(chunk, None if weights is None else weights[start:stop])
            stream, checkpoint = self._taken(stream, checkpoint, batch, monitor)
            start = stop
        check_rows(start)
        if checkpoint is not None:
            checkpoint.remove()
        assert stream is not None
        return stream

    def _taken(
        self, stream: Stream | None, checkpoint: StreamCheckpoint | None, batch: Batch, monitor: Monitor = None
    ) -> tuple[Stream, StreamCheckpoint | None]:
        """Return the stream with a batch, and the checkpoint that has it; one that it has already is skipped."""
        path, dtype = checkpoint_path(), batch.rows.dtype
        if path is not None and (checkpoint is None or checkpoint.path != path):
            if stream is not None and stream.batches:
                raise InputError("checkpoint must be set before the first batch of a stream; now it would miss some.")
            checkpoint = StreamCheckpoint(path, self._fingerprint(batch))
            if (found := checkpoint.restored(self._new_stream(dtype))) is not None:
                stream, basis = found
                stream = stream if basis is None else self._with_features(stream, basis)
        stream = stream or self._new_stream(dtype)
        keeper = None if path is None else checkpoint
        if keeper is not None and keeper.skips(batch):
            return stream, checkpoint
        if dtype != stream.dtype:
            raise InputError(f"All batches must have the dtype of the first, {stream.dtype}; got {dtype}: convert it.")
        if batch.weights is not None and not batch.weights.any():
            pass  # rows of weight 0 are absent ones, also in that nothing is forgotten for them
        elif stream.fitted is not None:
            stream = self._with(stream, [batch], monitor)
        else:
            stream = stream.waited(batch, self._kernel_for)
            if stream.rows_waiting >= self._rows_to_wait_for():
                stream = self._started(stream, monitor)
        stream = replace(stream, batches=stream.batches + 1)
        if keeper is not None:
            keeper.taken(batch, stream)
        return stream, checkpoint

    def _fingerprint(self, batch: Batch) -> dict[str, str]:
        """Return what decides on the state of a stream, besides its batches."""
        free = ("n_components", "n_jobs", "preimage")
        given = {name: value for name, value in self.get_params().items() if name.split("__")[0] not in free}
        given["a sample is kept"] = self.preimage is not None
        columns = f"{batch.rows.shape[1]} of {batch.rows.dtype}"
        return {"columns": columns, **{name: describe(value) for name, value in sorted(given.items())}}

    def _started(self, stream: Stream, monitor: Monitor = None) -> Stream:
        """Return the stream with features made for the rows that waited, and these rows taken in."""
        started = self._with_features(replace(stream, waiting=()), stream.gathered())
        return self._with(started, stream.waiting, monitor)

    def _with(self, stream: Stream, batches: Iterable[Batch], monitor: Monitor) -> Stream:
        for batch in batches:
            fade, threads = float(self.forgetting), thread_count(self.n_jobs)
            stream = stream.absorbed(batch, fade, threads, centred=bool(self.center), monitor=monitor)
        return stream

    def _with_features(self, stream: Stream, basis: Batch) -> Stream:
        """Return the stream with the features that are made for some rows: the same for the same rows."""
        kernel = self._kernel_for(basis.rows)
        seed, threads = seed_of(self.random_state), thread_count(self.n_jobs)
        request = Request(self.n_components, tol=0.0, center=bool(self.center), seed=seed, threads=threads)
        fitted = fit_map(self.approximation, kernel, basis.rows, request, weights=basis.weights)
        return replace(stream, kernel=kernel, fitted=fitted, basis=basis if checkpoint_path() is not None else None)

    def _kernel_for(self, rows: Any) -> Kernel:
        return kernel_of(self, rows, kernels.resolve_gamma(self.gamma, rows))

    def _new_stream(self, dtype: np.dtype[Any]) -> Stream:
        """Return a stream before its first batch."""
        learns = isinstance(check_preimage(self.preimage), Learned)  # where the linear kernel would lead back exactly
        wanted = self.preimage is not None and (learns or not self._is_linear)
        return Stream(dtype, sample=Reservoir(LEARNED_ROWS, seed_of(self.random_state)) if wanted else None)

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if is_auto(self.n_components):
            raise InputError(
                "must be known before a stream begins, and 'auto' is decided by its rows",
                param="n_components",
                remedy="give a number, a fraction or None, or ask kpca.selection.n_components about some rows first",
            )
        check_n_components(self.n_components)
        check_jobs(self.n_jobs)
        check_preimage(self.preimage)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            reason = ("IncrementalKernelPCA needs rows of data; ", Setting("kernel", "precomputed"), " has none")
            raise InputError(reason, remedy="use KernelPCA")
        check_approximation(self.approximation, precomputed=False)
        if self.approximation is None or is_auto(self.approximation):
            kinds = " must be 'nystroem', 'rff', or a kpca.Nystroem or kpca.RandomFeatures object"
            reason = ("A stream needs explicit features: ", Setting("approximation"), kinds)
            raise InputError(reason, value=self.approximation)
        wait = self.warm_up
        if wait is not None and not (isinstance(wait, Integral) and not isinstance(wait, bool) and wait >= 1):
            raise InputError(f"warm_up must be None or a whole number of rows from 1; got {wait!r}.")
        fade = self.forgetting
        if isinstance(fade, bool) or not isinstance(fade, Real) or not 0.0 < float(fade) <= 1.0:
            raise InputError(f"forgetting must be a number above 0 and at most 1, which forgets nothing; got {fade!r}.")

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.kernel, kernels.Linear) or (isinstance(self.kernel, str) and self.kernel == "linear")

    def _rows_to_wait_for(self) -> int:
        """Return how many rows must have come before features are made; 1 where they do not depend on the rows."""
        given = np.ndim(getattr(self.approximation, "landmarks", "")) == 2
        if self._is_linear or given or is_random(self.approximation):
            return 1
        rank = rank_of(self.approximation, self.n_components)
        return int(self.warm_up) if self.warm_up is not None else _WAIT_PER_LANDMARK * rank

    # -- using ------------------------------------------------------------------------------------------------------

    @property
    def _current(self) -> Fitted:
        """The components of the stream; while rows are waited for, with features of the rows so far."""
        check_is_fitted(self)
        if not self._found:
            stream = self._stream if self._stream.fitted is not None else self._started(self._stream)
            assert stream.fitted is not None and stream.scatter is not None
            center, dtype = bool(self.center), stream.dtype
            wanted = int(self.n_components) if isinstance(self.n_components, Integral) else self.n_components
            found = components_of(stream.scatter, stream.fitted, wanted, centred=center, dtype=dtype).oriented()
            parts, others = (found.spectrum, found.projection(dtype), found.mass), {"stream": stream}
            self._found.append(Fitted(stream.kernel, *parts, center, dtype, others=others))
        return self._found[0]

    @property
    def _ready(self) -> Stream:
        """The stream with features."""
        stream: Stream = self._current.others["stream"]
        return stream

    def _projecting(self) -> Projection:
        return self._current.projection

    def _way_back(self) -> Back | None:
        others = self._current.others
        if "back" not in others:  # found when somebody asks for it
            others["back"] = self._inverse(self._ready, self._projecting())
        back: Back | None = others["back"]
        return back

    def _inverse(self, stream: Stream, projection: Any) -> Back | None:
        settings, kernel = check_preimage(self.preimage), stream.kernel
        assert kernel is not None
        if isinstance(projection, LinearProjection) and not isinstance(settings, Learned):
            nothing = np.empty((0, projection.components.shape[1]), stream.dtype)
            return fit_back(settings or Auto(), kernel, projection, nothing, nothing)
        if settings is None or stream.sample is None or stream.sample.rows is None:
            return None
        rows, threads = stream.sample.rows, thread_count(self.n_jobs)
        scores = projection(rows, threads=threads).astype(stream.dtype)
        seed = seed_of(self.random_state)
        return fit_back(settings, kernel, projection, rows, scores, seed=seed, threads=threads, refit=refit)

    eigenvalues_ = property(lambda self: self._current.eigenvalues, doc="Of the features' kernel matrix: (k,).")
    eigenvalue_bounds_ = property(lambda self: self._current.eigenvalue_bounds, doc="Of exact eigenvalues: (k, 2).")
    explained_variance_ = property(lambda self: self._current.explained_variance, doc=Fitted.explained_variance.__doc__)
    explained_variance_ratio_ = property(lambda self: self._current.explained_variance_ratio, doc="Shares: (k,).")
    n_components_ = property(lambda self: len(self._current.spectrum.values), doc="The number of components.")
    n_samples_seen_ = property(lambda self: self._ready.scatter.rows, doc="Rows of positive weight so far.")
    mass_ = property(lambda self: self._current.mass, doc="The weight of all rows so far, after forgetting.")
    feature_map_ = property(lambda self: self._ready.fitted.feature_map, doc="The map from rows to features.")
    kernel_ = property(lambda self: self._current.kernel, doc="The kernel, with its parameters.")
    components_ = property(lambda self: self._linear("components_"), doc="Directions, linear kernel only: (k, d).")
    mean_ = property(lambda self: self._linear("mean_"), doc="The mean row, for the linear kernel only: (d,).")

    @property
    def batches_seen_(self) -> int:
        """Batches so far."""
        check_is_fitted(self)
        return self._stream.batches

    @property
    def unexplained_(self) -> float:
        """The share of the trace that the features leave unexplained; 0 where that says nothing."""
        scatter = self._ready.scatter
        assert scatter is not None
        return scatter.unexplained / scatter.trace if scatter.trace > 0 else 0.0

    @property
    def drift_(self) -> float:
        """How far the newest batch turned the leading subspace: 1 - mean squared cosine."""
        stream = self._ready
        if stream.before is None or stream.fitted is None:
            return float("nan")
        k = min(self.n_components_, stream.before.rows)
        earlier = components_of(stream.before, stream.fitted, k, centred=bool(self.center), dtype=stream.dtype)
        k = int(np.count_nonzero(earlier.spectrum.values))  # those without variance have no direction to turn from
        if not k:
            return float("nan")
        cosines = earlier.spectrum.vectors.T @ self._current.spectrum.vectors[:, :k]
        return float(max(0.0, 1.0 - np.square(cosines).sum() / k))

    def _linear(self, name: str) -> FloatArray:
        found = self._current.linear
        if not found:
            raise AttributeError(f"{name} exists for the linear kernel only; other kernels have no directions in rows.")
        return found[name]

    def __sklearn_is_fitted__(self) -> bool:
        stream: Stream | None = vars(self).get("_stream")
        return stream is not None and not stream.is_empty
