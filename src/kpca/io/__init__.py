"""Doors for files: tables in and out, models that leave the process, and other people's formats."""
