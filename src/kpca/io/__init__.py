"""Doors for files: tables in and out, models that leave the process, and other people's formats.

`kpca.io.onnx` and `kpca.io.anndata` need libraries of their own and are imported by their names.
"""

from kpca.data.opening import open_table, table_of
from kpca.data.preparation import Preparation
from kpca.data.rows import Layout, Rows, Table
from kpca.data.sinks import open_writer
from kpca.io.anomalies import write_anomalies, write_comparison, write_importance
from kpca.io.card import model_card
from kpca.io.models import load, read_about, save
from kpca.io.results import rows_in_memory, write_denoised, write_reconstruction, write_scores
from kpca.io.summary import summary_of

__all__ = [
    "Layout",
    "Preparation",
    "Rows",
    "Table",
    "load",
    "model_card",
    "open_table",
    "open_writer",
    "read_about",
    "rows_in_memory",
    "save",
    "summary_of",
    "table_of",
    "write_anomalies",
    "write_comparison",
    "write_denoised",
    "write_importance",
    "write_reconstruction",
    "write_scores",
]
