"""For each task the method that a user writes first, with a well-kept library."""

from __future__ import annotations

from simple_methods.base import Task

TASKS = {
    "labels": Task("logistic regression of TF-IDF", "labels:of_texts", "accuracy"),
    "tags": Task("CRFsuite's averaged perceptron", "tags:perceptron", "accuracy"),
    "entities": Task("CRFsuite's random field", "tags:random_field", "entity_f1"),
    "pairs": Task("logistic regression of TF-IDF and overlap", "labels:of_pairs", "accuracy"),
    "digits": Task("support vectors of cepstra", "signals:spoken", "accuracy"),
    "pictures": Task("support vectors of pixels", "signals:drawn", "exact"),
    "spelling": Task("symspellpy", "words:corrected", "exact"),
    "accents": Task("most frequent form", "words:with_accents", "exact"),
    "pronunciation": Task("CRFsuite's perceptron of letters", "words:pronounced", "item_error"),
    "inflection": Task("longest ending", "words:inflected", "exact"),
    "translation": Task("nearest pair", "nearest:text", "bleu"),
    "code": Task("nearest description", "nearest:text", "bleu:code"),
    "captions": Task("nearest picture", "nearest:signal", "exact"),
    "vectors": Task("TF-IDF and SVD", "texts:similarity", "correlation"),
    "summaries": Task("first sentence", "texts:first_sentence", "rouge1"),
    "compression": Task("all words", "texts:all_words", "kept_f1"),
    "series": Task("linear autoregression", "signals:autoregression", "mae", block=12),
    "text": Task("nltk's trigrams", "texts:trigrams", "perplexity_word"),
}
