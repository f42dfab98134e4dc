"""Caches the hash of large nouns, because searches look up thousands of strategies by their decisions."""

from typing import Any, ClassVar


class CachedHash:
    """Base of frozen dataclasses that cache their hash.

    A subclass must state `__hash__ = CachedHash.__hash__`, because `dataclass` would generate another hash.
    The cached hash is not pickled, because the hash of a string differs between processes.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __hash__(self) -> int:
        cached: int | None = self.__dict__.get("_hash")
        if cached is None:
            cached = hash(tuple([getattr(self, name) for name in self.__dataclass_fields__]))
            self.__dict__["_hash"] = cached
        return cached

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}
