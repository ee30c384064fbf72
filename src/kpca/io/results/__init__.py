"""What a pipeline makes of a table, in files: scores, rows, alarms and figures, with the ids and labels of the rows."""

from kpca.io.results.anomalies import Anomalies, write_anomalies
from kpca.io.results.figures import importance_table, write_comparison, write_importance
from kpca.io.results.pieces import joined, preparation_of, prepared_pieces, rows_in_memory
from kpca.io.results.rows import Reconstruction, write_denoised, write_reconstruction, write_scores

__all__ = [
    "Anomalies",
    "Reconstruction",
    "importance_table",
    "joined",
    "preparation_of",
    "prepared_pieces",
    "rows_in_memory",
    "write_anomalies",
    "write_comparison",
    "write_denoised",
    "write_importance",
    "write_reconstruction",
    "write_scores",
]
