"""Anomalies: which rows do not belong, since when, and because of which variables."""

from kpca.detector._detector import KernelPCADetector
from kpca.detector.limits import Limits
from kpca.detector.monitor import RowStatus, monitor
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
from kpca.statistics import Statistics

__all__ = [
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
