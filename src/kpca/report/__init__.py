"""One page of HTML about a fitted model and its data; it opens from the disk and needs no network."""

from kpca.report.build import html_of, report_on, report_on_table, write_report
from kpca.report.material import DataFacts, Subject

__all__ = ["DataFacts", "Subject", "html_of", "report_on", "report_on_table", "write_report"]
