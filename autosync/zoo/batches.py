"""The batches of the zoo's models, drawn from a seed as `zoo.drawing` describes. This module loads no framework."""

from __future__ import annotations

from typing import Any

from autosync.zoo.drawing import arrays_of
from autosync.zoo.sizes import BertSize, LanguageModelSize, NeuMFSize, PerceptronSize
from autosync.zoo.synthetic import mask_tokens, mildly_skewed_ids, scatter, zipf_ids

NEGATIVES = 4
"""Number of films that a user did not see, drawn uniformly, per film that the user saw."""


def pretraining_batch(seed: Any, size: BertSize) -> tuple[Any, Any]:
    """((token ids, segment ids, masked positions), hidden words) of masked-language pretraining."""
    shape = (size.batch_size, size.sequence)
    token_ids, positions, targets = mask_tokens(seed, shape, size.predictions, size.vocabulary)
    return (token_ids, _segments(arrays_of(seed), size), positions), targets


def classifier_batch(seed: Any, size: BertSize) -> tuple[Any, Any]:
    """A batch whose class says whether the first word after [CLS] is a common word; about half of them are."""
    on = arrays_of(seed)
    token_ids = zipf_ids(seed, (size.batch_size, size.sequence), size.vocabulary)
    common = int(size.vocabulary**0.5)
    return (token_ids, _segments(on, size)), on.int32(token_ids[:, 1] < common)


def _segments(on: Any, size: BertSize) -> Any:
    """Segment ids, (batch, sequence): 0 in the first half of every sequence (sentence A), 1 in the second (B)."""
    half = size.sequence // 2
    return on.constant([[0] * half + [1] * (size.sequence - half)] * size.batch_size)


def next_word_batch(seed: Any, size: LanguageModelSize) -> tuple[Any, Any]:
    """(words, the next words) of a text."""
    text = zipf_ids(seed, (size.batch_size, size.sequence + 1), size.vocabulary)
    return text[:, :-1], text[:, 1:]


def ratings_batch(seed: Any, size: NeuMFSize) -> tuple[Any, Any]:
    """A batch in which one of five ratings is positive: of a popular film (Zipf), by a user who rates often (mildly
    skewed)."""
    on = arrays_of(seed)
    who, seen, unseen, made = on.split(seed, 4)
    shape = (size.batch_size,)
    users = scatter(mildly_skewed_ids(who, shape, size.users), size.users)
    popular = scatter(zipf_ids(seen, shape, size.items), size.items)
    any_item = on.below(unseen, shape, size.items)
    positive = on.uniform(made, shape) < 1 / (1 + NEGATIVES)
    return (users, on.where(positive, popular, any_item)), on.float32(positive)


def features_batch(seed: Any, size: PerceptronSize) -> tuple[Any, Any]:
    """Random features, whose class is the largest of the first ones."""
    on = arrays_of(seed)
    features = on.normal(seed, (size.batch_size, size.inputs))
    return features, on.argmax(features[:, : size.classes])
