"""Anomalies: which rows do not belong, since when, and because of which variables."""

from kpca.detector._detector import KernelPCADetector
from kpca.detector.limits import Limits
from kpca.statistics import Statistics

__all__ = ["KernelPCADetector", "Limits", "Statistics"]
