"""The sections of a report, one per file: each makes HTML, and the data of its interactive pictures."""
