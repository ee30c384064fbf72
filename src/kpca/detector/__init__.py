"""Anomalies: which rows do not belong, since when, and because of which variables."""

from kpca.detector._detector import KernelPCADetector
from kpca.detector.contributions import Causes, Contributions
from kpca.detector.limits import Limits, Statistics
from kpca.detector.rules import (
    RunRule,
    alarm_windows,
    average_run_length,
    detection_delay,
    detection_rate,
    false_alarm_rate,
    run_rule,
    run_rule_rate,
)
from kpca.detector.watching import RowStatus, monitor

__all__ = [
    "Causes",
    "Contributions",
    "KernelPCADetector",
    "Limits",
    "RowStatus",
    "RunRule",
    "Statistics",
    "alarm_windows",
    "average_run_length",
    "detection_delay",
    "detection_rate",
    "false_alarm_rate",
    "monitor",
    "run_rule",
    "run_rule_rate",
]
