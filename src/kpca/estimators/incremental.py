"""IncrementalKernelPCA: kernel PCA of streams and of files larger than memory, by explicit features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kpca import kernels
from kpca._base.config import checkpoint_path, thread_count
from kpca._base.errors import InputError
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
from kpca.data.rows import stacked
from kpca.data.sinks import scores_in_chunks
from kpca.data.sources import Source, as_source, in_memory, sample_rows
from kpca.estimators.approximate import (
    Components,
    FeaturesProjection,
    FittedMap,
    check_approximation,
    components_of,
    fit_map,
)
from kpca.estimators.checkpoint import describe
from kpca.estimators.exact import refit
from kpca.estimators.fitted import RestoringMixin
from kpca.estimators.routes import default_rank
from kpca.estimators.stream import Batch, Reservoir, Stream, StreamCheckpoint
from kpca.features import IdentityMap, Nystroem, Scatter, scatter_of
from kpca.features.projection import LinearProjection
from kpca.preimage import Auto, Learned
from kpca.preimage.back import LEARNED_ROWS, Back, check_preimage, fit_back

FloatArray = NDArray[Any]
# Rows of a file from which landmarks are chosen.
_SAMPLE = 30_000
# Rows of a stream, per landmark, that are waited for before landmarks are chosen.
_WAIT_PER_LANDMARK = 10


class IncrementalKernelPCA(
    RestoringMixin,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
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
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.approximation = approximation
        self.warm_up = warm_up
        self.forgetting = forgetting
        self.center = center
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.preimage = preimage

    # -- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, and fit to all of X.

        Parameters
        ----------
        X : an array, data frame or CSR matrix; or something read in chunks: a memory map, a Zarr array, the path of a
            .npy, .zarr or .parquet file, anything with `shape` and slices, an iterable of chunks of rows.
        y : ignored.
        sample_weight : (n,) weights, not negative.
        """
        with unchanged_on_error(self):
            self._forget()
            self._check_parameters()
            if in_memory(X):
                X = check_data(self, X, reset=True)
                check_rows(X.shape[0])
                weights = check_weights(sample_weight, X.shape[0])
                self._take_whole(X, weights)
            else:
                self._take_source(as_source(X), sample_weight)
            return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a batch of rows; a batch that is refused leaves the model as it was."""
        with unchanged_on_error(self):
            first = not hasattr(self, "_stream")
            if first:
                self._check_parameters()
            X = check_data(self, X, reset=first)
            weights = check_weights(sample_weight, X.shape[0])
            self._take(Batch(X, weights))
            return self

    def _forget(self) -> None:
        for name in ("_stream", "_found", "_checkpoint", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)

    def _set(self, stream: Stream) -> None:
        self._stream = stream
        self._found: list[_Found] = []  # its components, once somebody has asked for them
        self._last_report = None

    def _take(self, batch: Batch) -> None:
        """Add a batch to the stream, or to the rows that wait for landmarks; skip it if a checkpoint has it already."""
        checkpoint = self._opened_checkpoint(batch)
        if checkpoint is not None and checkpoint.skips(batch):
            return
        stream: Stream = self.__dict__.get("_stream") or self._new_stream(batch.rows.dtype)
        if batch.rows.dtype != stream.dtype:
            raise InputError(
                f"All batches must have the dtype of the first, {stream.dtype}; got {batch.rows.dtype}: convert it."
            )
        if stream.fitted is None:
            kept = Batch(batch.rows.copy(), batch.weights)
            stream = replace(stream, waiting=(*stream.waiting, kept))
            if stream.rows_waiting >= self._rows_to_wait_for():
                stream = self._started(stream)
        else:
            stream = self._absorbed(stream, batch)
        self._set(replace(stream, batches=stream.batches + 1))
        if checkpoint is not None:
            checkpoint.taken(batch, self._stream)

    def _opened_checkpoint(self, batch: Batch) -> StreamCheckpoint | None:
        """Return the checkpoint that the settings name; what it holds becomes the state of a stream that begins."""
        path = checkpoint_path()
        if path is None:
            return None
        checkpoint: StreamCheckpoint | None = self.__dict__.get("_checkpoint")
        if checkpoint is None or checkpoint.path != path:
            if self.__dict__.get("_stream") is not None and self._stream.batches:
                raise InputError("checkpoint must be set before the first batch of a stream; now it would miss some.")
            checkpoint = StreamCheckpoint(path, self._fingerprint(batch))
            if (found := checkpoint.restored(self._new_stream(batch.rows.dtype))) is not None:
                stream, basis = found
                self._set(stream if basis is None else self._with_features(stream, basis))
            self._checkpoint = checkpoint
        return checkpoint

    def _fingerprint(self, batch: Batch) -> dict[str, str]:
        """Return what decides on the state of a stream, besides its batches."""
        free = ("n_components", "n_jobs", "preimage")
        given = {name: value for name, value in self.get_params().items() if name.split("__")[0] not in free}
        given["a sample is kept"] = self.preimage is not None
        columns = f"{batch.rows.shape[1]} of {batch.rows.dtype}"
        return {"columns": columns, **{name: describe(value) for name, value in sorted(given.items())}}

    def _take_whole(self, X: Any, weights: FloatArray | None) -> None:
        self._set(self._started(replace(self._new_stream(X.dtype), waiting=(Batch(X, weights),), batches=1)))

    def _take_source(self, source: Source, sample_weight: Any) -> None:
        """Read a source once, after a look at some of its rows for landmarks where it can be read twice."""
        self.n_features_in_ = source.n_columns
        if source.names is not None:
            self.feature_names_in_ = np.asarray(source.names, dtype=object)
        weights = None
        if sample_weight is not None:
            if source.n_rows is None:
                raise InputError("sample_weight needs a source of known length; give weights to partial_fit instead.")
            weights = check_weights(sample_weight, source.n_rows)
        if source.repeatable and self._rows_to_wait_for() > 1:
            some = sample_rows(source, _SAMPLE, self._seed())
            check_rows(some.shape[0])
            self._set(self._with_features(self._new_stream(some.dtype), Batch(some)))
        self._monitor = row_monitor(source.n_rows)
        start = 0
        for chunk in source.batches():
            stop = start + chunk.shape[0]
            self._take(Batch(chunk, None if weights is None else weights[start:stop]))
            start = stop
        check_rows(start)
        del self._monitor
        if "_checkpoint" in self.__dict__:
            self._checkpoint.remove()
            del self._checkpoint

    def _started(self, stream: Stream) -> Stream:
        """Return the stream with features made for the rows that waited, and these rows taken in."""
        waiting = stream.waiting
        weights = None
        if any(batch.weights is not None for batch in waiting):
            weights = np.concatenate([batch.all_weights for batch in waiting])
        rows = waiting[0].rows if len(waiting) == 1 else stacked([batch.rows for batch in waiting])
        started = self._with_features(replace(stream, waiting=()), Batch(rows, weights))
        for batch in waiting:
            started = self._absorbed(started, batch)
        return started

    def _with_features(self, stream: Stream, basis: Batch) -> Stream:
        """Return the stream with the features that are made for some rows: the same for the same rows."""
        kernel = self._resolved(basis.rows)
        fitted = self._fitted_map(kernel, basis.rows, basis.weights)
        return replace(stream, kernel=kernel, fitted=fitted, basis=basis if checkpoint_path() is not None else None)

    def _absorbed(self, stream: Stream, batch: Batch) -> Stream:
        """Return the stream with a batch added to what is kept of the earlier ones."""
        assert stream.fitted is not None and stream.kernel is not None
        stream.kernel.check(batch.rows)
        with np.errstate(over="ignore", invalid="ignore"):
            new = scatter_of(
                stream.fitted.feature_map,
                batch.rows,
                batch.weights,
                threads=thread_count(self.n_jobs),
                monitor=self.__dict__.get("_monitor") or row_monitor(batch.rows.shape[0]),
            )
        if not np.isfinite(new.matrix).all():
            raise InputError(
                f"The values of the {stream.kernel.name} kernel must be finite; for this batch some are NaN or too "
                f"large: {stream.kernel.remedy}."
            )
        old, sample, fade = stream.scatter, stream.sample, float(self.forgetting)
        if sample is not None:
            if sparse.issparse(batch.rows):
                raise InputError("preimage needs dense rows to come back to; this batch is sparse: densify it.")
            sample = sample.faded(fade).added(batch.rows, batch.weights)
        return replace(stream, before=old, scatter=new if old is None else old.faded(fade).merged(new), sample=sample)

    def _new_stream(self, dtype: np.dtype[Any]) -> Stream:
        """Return a stream before its first batch."""
        learns = isinstance(check_preimage(self.preimage), Learned)  # where the linear kernel would lead back exactly
        wanted = self.preimage is not None and (learns or not self._is_linear)
        return Stream(dtype, sample=Reservoir(LEARNED_ROWS, self._seed()) if wanted else None)

    # -- the kernel and its features --------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if isinstance(self.n_components, str) and self.n_components == "auto":
            raise InputError(
                "n_components must be known before a stream begins, and 'auto' is decided by its rows: give a number, "
                "a fraction or None, or ask kpca.selection.n_components about some rows first."
            )
        check_n_components(self.n_components)
        check_jobs(self.n_jobs)
        check_preimage(self.preimage)
        if self.kernel == "precomputed" if isinstance(self.kernel, str) else False:
            raise InputError("IncrementalKernelPCA needs rows of data; kernel='precomputed' has none: use KernelPCA.")
        check_approximation(self.approximation, precomputed=False)
        if self.approximation is None or (isinstance(self.approximation, str) and self.approximation == "auto"):
            raise InputError(
                f"A stream needs explicit features: approximation must be 'nystroem', 'rff', or a kpca.Nystroem or "
                f"kpca.RandomFeatures object; got {self.approximation!r}."
            )
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
        if self._is_linear:
            return 1
        if isinstance(self.approximation, Nystroem):
            if np.ndim(self.approximation.landmarks) == 2:
                return 1
            rank = self.approximation.rank
            rank = default_rank(self.n_components) if isinstance(rank, float) else int(rank)
        elif self.approximation == "nystroem":
            rank = default_rank(self.n_components)
        else:
            return 1
        return int(self.warm_up) if self.warm_up is not None else _WAIT_PER_LANDMARK * rank

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def _resolved(self, X: Any) -> kernels.Kernel:
        kernel = kernels.resolve(
            self.kernel,
            X,
            gamma=kernels.resolve_gamma(self.gamma, X),
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )
        kernel.check(X)
        return kernel

    def _fitted_map(self, kernel: kernels.Kernel, X: Any, weights: FloatArray | None) -> FittedMap:
        return fit_map(
            self.approximation,
            kernel,
            X,
            n_components=self.n_components,
            centred=bool(self.center),
            few_rows=True,
            weights=weights,
            seed=self._seed(),
            threads=thread_count(self.n_jobs),
        )

    # -- using ------------------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> FloatArray:
        """Return the scores of the rows of X, which may lie in files or come in chunks.  # shape: (m, k)"""
        check_is_fitted(self)
        if not in_memory(X):
            return np.concatenate(list(scores_in_chunks(self, self._scores, as_source(X))))
        return self._scores(X)

    def _scores(self, X: Any) -> FloatArray:
        return self._scores_of(self._checked(X))

    def _checked(self, X: Any) -> Any:
        X = check_data(self, X, reset=False)
        stream = self._ready
        assert stream.kernel is not None
        stream.kernel.check(X)
        return X.astype(stream.dtype, copy=False)

    def _scores_of(self, X: Any) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._projecting()(X, threads=thread_count(self.n_jobs)).astype(self._score_dtype, copy=False)
        if not np.isfinite(scores).all():
            assert self.kernel_ is not None
            raise InputError(
                f"Kernel values of new rows must be finite; some are NaN or too large: {self.kernel_.remedy}."
            )
        return scores

    def _projecting(self) -> FeaturesProjection:
        return self._current.projection

    def _way_back(self) -> Back | None:
        current, stream = self._current, self._ready
        if not current.back:
            current.back.append(self._fitted_back(stream, current.projection))
        return current.back[0]

    def _fitted_back(self, stream: Stream, projection: FeaturesProjection) -> Back | None:
        """Return the way back of the components so far."""
        settings, kernel = check_preimage(self.preimage), stream.kernel
        assert kernel is not None
        if isinstance(projection, LinearProjection) and not isinstance(settings, Learned):
            nothing = np.empty((0, projection.components.shape[1]), stream.dtype)
            return fit_back(settings or Auto(), kernel, projection, nothing, nothing)
        if settings is None or stream.sample is None or stream.sample.rows is None:
            return None
        rows, threads = stream.sample.rows, thread_count(self.n_jobs)
        scores = projection(rows, threads=threads).astype(stream.dtype)
        return fit_back(settings, kernel, projection, rows, scores, seed=self._seed(), threads=threads, refit=refit)

    @property
    def _score_dtype(self) -> np.dtype[Any]:
        return self._stream.dtype

    @property
    def _ready(self) -> Stream:
        """The stream with features; while rows are waited for, those of the rows so far."""
        return self._current.stream

    @property
    def _current(self) -> _Found:
        check_is_fitted(self)
        if not self._found:
            stream = self._stream if self._stream.fitted is not None else self._started(self._stream)
            self._found.append(_found(stream, self.n_components, bool(self.center)))
        return self._found[0]

    @property
    def eigenvalues_(self) -> FloatArray:
        """The leading eigenvalues of the features' kernel matrix.  # shape: (k,)"""
        return self._current.components.values.astype(self._stream.dtype)

    @property
    def eigenvalue_bounds_(self) -> FloatArray:
        """Bounds of the exact eigenvalues.  # shape: (k, 2)"""
        return self._current.components.bounds

    @property
    def explained_variance_(self) -> FloatArray:
        """Eigenvalues over mass - 1, or over the mass without centring.  # shape: (k,)"""
        mass = self.mass_
        values = self._current.components.values / (mass - 1.0 if self.center and mass > 1.0 else mass)
        return values.astype(self._stream.dtype)

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """Eigenvalues over the most the total variance can be.  # shape: (k,)"""
        components = self._current.components
        return (components.values / max(components.trace, 1e-300)).astype(self._stream.dtype)

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return len(self._current.components.values)

    @property
    def unexplained_(self) -> float:
        """The share of the trace that the features leave unexplained; 0 where that says nothing."""
        scatter = self._scatter
        return scatter.unexplained / scatter.trace if scatter.trace > 0 else 0.0

    @property
    def drift_(self) -> float:
        """How far the newest batch turned the leading subspace: 1 - mean squared cosine."""
        stream = self._ready
        if stream.before is None or stream.fitted is None:
            return float("nan")
        k = min(self.n_components_, stream.before.rows)
        earlier = components_of(
            stream.before, stream.fitted.feature_map, k, centred=bool(self.center), dtype=stream.dtype
        )
        cosines = earlier.directions.T @ self._current.components.directions[:, :k]
        return float(max(0.0, 1.0 - np.square(cosines).sum() / k))

    @property
    def n_samples_seen_(self) -> int:
        """Rows of positive weight so far."""
        return self._scatter.rows

    @property
    def mass_(self) -> float:
        """The sum of the weights of all rows so far, after forgetting."""
        return self._scatter.mass

    @property
    def batches_seen_(self) -> int:
        """Batches so far."""
        check_is_fitted(self)
        return self._stream.batches

    @property
    def feature_map_(self) -> Any:
        """The map from rows to features."""
        assert self._ready.fitted is not None
        return self._ready.fitted.feature_map

    @property
    def kernel_(self) -> kernels.Kernel | None:
        """The kernel, with its parameters."""
        return self._ready.kernel

    @property
    def components_(self) -> FloatArray:
        """The principal directions, for the linear kernel only.  # shape: (k, d)"""
        self._require_linear("components_")
        return self._current.components.directions.T.astype(self._stream.dtype)

    @property
    def mean_(self) -> FloatArray:
        """The mean row, for the linear kernel only.  # shape: (d,)"""
        self._require_linear("mean_")
        return self._current.components.mean.astype(self._stream.dtype)

    def _require_linear(self, name: str) -> None:
        if not isinstance(self.feature_map_, IdentityMap):
            raise AttributeError(f"{name} exists for the linear kernel only; other kernels have no directions in rows.")

    @property
    def _scatter(self) -> Scatter:
        assert self._ready.scatter is not None
        return self._ready.scatter

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stream")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True)
class _Found:
    """The components of a stream at some moment."""

    stream: Stream
    components: Components
    projection: FeaturesProjection
    back: list[Back | None]  # once somebody has asked for it


def _found(stream: Stream, n_components: Any, centred: bool) -> _Found:
    assert stream.fitted is not None and stream.scatter is not None
    wanted = int(n_components) if isinstance(n_components, Integral) else n_components
    components = components_of(
        stream.scatter,
        stream.fitted.feature_map,
        wanted,
        centred=centred,
        dtype=stream.dtype,
        kernel_error=stream.fitted.kernel_error,
    ).oriented()
    return _Found(stream, components, components.projection(stream.dtype), [])
