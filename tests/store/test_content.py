"""Content is stored once, and what was stored comes back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.steps import JSON
from agenttrace.store.content import LONG_TEXT, ContentWriter, expand, references


class Shelf:
    """A content writer and all that it emitted."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.writer = ContentWriter(lambda row: self.rows.append(orjson.loads(orjson.dumps(row))))

    def links(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["r"] == "links"]

    def contents(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["r"] == "contents"]

    def expand(self, value: JSON) -> JSON:
        contents = {row["hash"]: row["body"] for row in self.contents()}
        links = {row["hash"]: row for row in self.links()}
        chains = {}
        for kind, last in references(value):
            if kind == "chain":
                items, link = [], last
                while link:
                    items.append(links[link]["item"])
                    link = links[link]["prefix"]
                chains[last] = items[::-1]
        return expand(value, contents, chains)


def turn(number: int) -> JSON:
    return {"role": "user", "content": f"turn {number}"}


def test_a_growing_conversation_adds_one_link_and_one_content_a_message() -> None:
    """N turns cost O(N) rows, whatever is said in them."""
    shelf = Shelf()
    messages = [turn(number) for number in range(4)]
    for number in range(4, 40):
        shelf.writer.intern({"messages": list(messages)})
        messages.append(turn(number))
    shelf.writer.intern({"messages": list(messages)})
    assert len(shelf.contents()) == 40
    assert len(shelf.links()) == 40


def test_a_system_message_stands_beside_the_chain() -> None:
    """A conversation with its system message and without is one chain."""
    shelf = Shelf()
    messages = [turn(number) for number in range(5)]
    shelf.writer.intern(messages)
    links = len(shelf.links())
    reference = shelf.writer.intern([{"role": "system", "content": "be brief"}, *messages])
    assert len(shelf.links()) == links
    assert shelf.expand(reference) == [{"role": "system", "content": "be brief"}, *messages]


def test_a_conversation_that_forks_shares_what_came_before() -> None:
    """Two branches of one conversation share the chain up to the fork."""
    shelf = Shelf()
    messages = [turn(number) for number in range(6)]
    shelf.writer.intern(list(messages))
    other = [*messages[:4], turn(100), turn(101)]
    reference = shelf.writer.intern(other)
    assert len(shelf.links()) == 8
    assert shelf.expand(reference) == other


def test_an_equal_item_of_another_type_is_another_item() -> None:
    """1, True and 1.0 are equal in Python and not in JSON: identity decides what is shared, never equality."""
    shelf = Shelf()
    first: list[JSON] = [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
    shelf.writer.intern(first)
    second: list[JSON] = [first[0], {"n": 2.0}, {"n": True}, {"n": 4}]
    assert orjson.dumps(shelf.expand(shelf.writer.intern(second))) == orjson.dumps(second)


def test_a_long_text_is_written_once() -> None:
    """A text that many spans hold is one content."""
    shelf = Shelf()
    for _ in range(3):
        shelf.writer.intern({"document": "x" * LONG_TEXT, "short": "y"})
    assert len(shelf.contents()) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just("long " * LONG_TEXT),
    lambda inner: st.lists(inner, max_size=6)
    | st.dictionaries(st.sampled_from(["a", "role", "content", "@content", "@chain", "@@x", "@list"]), inner, max_size=4),
    max_leaves=30,
)  # fmt: skip


@settings(deadline=None)  # a shared machine may be slow
@given(json_values)
def test_what_is_stored_comes_back_as_it_was(value: JSON) -> None:
    """Interning and expanding is the identity, also for users' keys that look like references."""
    shelf = Shelf()
    stored = orjson.loads(orjson.dumps(shelf.writer.intern(value)))
    assert shelf.expand(stored) == value
