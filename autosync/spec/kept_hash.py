"""Hashes of large nouns that are worked out once: searches look thousands of strategies up by what they decide."""

from typing import Any, ClassVar


class KeptHash:
    """A frozen dataclass that keeps its hash; it says `__hash__ = KeptHash.__hash__`, or `dataclass` gives it another.

    The hash stays in its process: that of a text is another one elsewhere.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __hash__(self) -> int:
        kept: int | None = self.__dict__.get("_hash")
        if kept is None:
            kept = hash(tuple([getattr(self, name) for name in self.__dataclass_fields__]))
            self.__dict__["_hash"] = kept
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}
