"""Messages quote at most a line of a value from outside."""

from __future__ import annotations

import pytest

from autosync.spec import cut, quote, shorten_list
from autosync.spec.quoting import MOST_QUOTED


def test_a_short_value_is_quoted_whole():
    assert quote("a\nb") == r"'a\nb'"
    assert quote([1, {"a": None}]) == "[1, {'a': None}]"


@pytest.mark.parametrize("value", ["x" * 10_000_000, ["y"] * 1000, {"k" * 1000: 1}, 10**80, 1 << 20_000], ids=type)
def test_a_long_value_is_quoted_by_its_beginning(value: object):
    assert len(quote(value)) <= MOST_QUOTED


def test_a_cut_text_has_one_line():
    assert cut("one\n  two") == "one two"
    assert cut("word " * 1000).endswith("...")
    assert len(cut(" " * 1000 + "x")) <= MOST_QUOTED


def test_some_of_many_names_are_listed_and_the_rest_is_counted():
    assert shorten_list([]) == "none"
    assert shorten_list(["a", "b"]) == "a, b"
    names = [f"node{index}" for index in range(1000)]
    assert shorten_list(names).startswith("node0, node1, ")
    assert shorten_list(names).endswith(" and 989 more")
    assert len(shorten_list(["z" * 10_000, "a"])) < 100
