"""Back from components to data: pre-images of scores, by several methods behind one contract."""

from kpca.preimage.ridge import RidgeMap, fit_ridge_map

__all__ = ["RidgeMap", "fit_ridge_map"]
