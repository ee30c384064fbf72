"""Races against scikit-learn and against the machine: one file per race, each competitor in a fresh process."""
