"""Anomalies: rows that the components of normal ones do not explain."""
