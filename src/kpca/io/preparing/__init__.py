"""The parts of a preparation: a look at all rows, scales, categories, words, and prepared rows in chunks."""
