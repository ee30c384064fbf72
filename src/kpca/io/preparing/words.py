"""Documents as numbers: which words count, found out in one pass, and scikit-learn's TF-IDF of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from kpca.errors import InputError
from kpca.io.reading.roles import quoted
from kpca.io.rows import Texts

FEWEST_DOCUMENTS = 2  # a word of one document makes it similar to no other
LARGEST_SHARE = 0.5  # words of more than half of the documents hardly tell them apart
FROM_DOCUMENTS = 20  # below that number of documents a share says little
_MOST_HELD = 1_000_000  # different words; beyond that the rarest so far are forgotten


class WordCounts:
    """In how many documents each word occurs, and how often in all."""

    def __init__(self, column: str, max_words: int, dtype: np.dtype[Any]) -> None:
        self._column, self._most, self._dtype = column, max_words, dtype
        self._analyse = self._vectorizer().build_analyzer()
        self._documents: Counter[str] = Counter()  # word -> documents that hold it
        self._uses: Counter[str] = Counter()
        self._n = 0
        self._forgotten = False

    def _vectorizer(self, fewest: int = FEWEST_DOCUMENTS, share: float = LARGEST_SHARE) -> TfidfVectorizer:
        # sublinear: the tenth use of a word in a document says less than the first.
        return TfidfVectorizer(
            sublinear_tf=True, min_df=fewest, max_df=share, max_features=self._most, dtype=self._dtype.type
        )

    def take(self, documents: Texts) -> None:
        """Count the words of some more documents; a missing one has none."""
        for document in documents.tolist():
            words = Counter(self._analyse(document or ""))
            self._documents.update(words.keys())
            self._uses.update(words)
            if len(self._documents) > _MOST_HELD:
                self._forget()
        self._n += len(documents)

    def _forget(self) -> None:
        self._forgotten = True
        least = 1
        while len(self._documents) > _MOST_HELD // 2:
            for word in [word for word, count in self._documents.items() if count <= least]:
                del self._documents[word], self._uses[word]
            least += 1

    def fitted(self) -> tuple[TfidfVectorizer, str]:
        """Return the vectorizer as `fit` would leave it, and what was done in one sentence."""
        share = LARGEST_SHARE if self._n >= FROM_DOCUMENTS else 1.0
        rules = [(FEWEST_DOCUMENTS, share), (FEWEST_DOCUMENTS, 1.0), (1, 1.0)]  # short or uniform texts: fewer rules
        for fewest, largest in rules:
            words = [w for w, count in self._documents.items() if fewest <= count <= largest * self._n]
            if words:
                break
        else:
            raise InputError(
                f"The documents in column {quoted(self._column)} must hold words of two letters or more; they hold "
                "none: name another column with --text."
            )
        found = len(words)
        words = sorted(sorted(words, key=lambda word: (-self._uses[word], word))[: self._most])
        vectorizer = self._vectorizer(fewest, largest)
        vectorizer.vocabulary_ = {word: place for place, word in enumerate(words)}
        vectorizer.fixed_vocabulary_ = False
        counts = np.array([self._documents[word] for word in words], dtype=self._dtype)
        vectorizer.idf_ = np.log((1 + self._n) / (1 + counts)) + 1
        return vectorizer, self._sentence(len(words), found, fewest, largest)

    def _sentence(self, kept: int, found: int, fewest: int, share: float) -> str:
        rules = [f"in at least {fewest} documents"] if fewest > 1 else []
        rules += [f"in at most {math.floor(share * self._n):,}"] if share < 1 else []
        which = f" (those {' and '.join(rules)})" if rules else ""
        cut = f", the most frequent of {found:,}" if kept < found else ""
        rare = "; the rarest words were forgotten while counting, there were so many" if self._forgotten else ""
        documents = f"{self._n:,} documents" if self._n > 1 else "document"
        alone = ""
        if fewest == 1 and self._n > 1:
            alone = (
                " No word is in two documents, so no two of them are alike; texts of languages that put no blanks "
                "between words must be cut into words first."
            )
        words = f"{kept:,} word{'' if kept == 1 else 's'}{which}{cut}{rare}"
        return f"The {documents} of {quoted(self._column)} became TF-IDF weights of {words}.{alone}"
