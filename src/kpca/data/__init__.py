"""Rows, wherever they lie: arrays, frames, files and streams behind one contract, read and written in chunks."""
