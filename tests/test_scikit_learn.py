"""Changing the import is the whole migration: scikit-learn's own tests of KernelPCA, run on ours."""
