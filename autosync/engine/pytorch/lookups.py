"""Lookups of tied tables whose gradients are caught apart from those of the tables' other reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from autosync.engine.pytorch.late import expect
from autosync.engine.pytorch.reads import is_compiled
from autosync.errors import SpecError
from autosync.layout.apart import rows_of


@final
class ApartLookups:
    """Gives the lookups of tables leaves of their own, whose gradients have the looked-up rows only.

    While `nn.Embedding` looks up one of the tables, it reads a parameter that shares the table's memory. So autograd
    completes the gradient of the table's other reads, in `grad` of the table, before it reaches the lookups.
    """

    def __init__(self, module: nn.Module, tables: Mapping[str, nn.Parameter]) -> None:
        """Raises `SpecError` for a table that no `nn.Embedding` of `module` looks up as needed."""
        self.rows = {table: nn.Parameter(table.detach()) for table in tables.values()}
        """By table, the parameter whose gradient has the looked-up rows."""
        self.named = {rows_of(name): self.rows[table] for name, table in tables.items()}
        """The same parameters by name."""
        self._tables = {rows: table for table, rows in self.rows.items()}
        self._handles: list[RemovableHandle] = []
        for name, table in tables.items():
            parts = lookups_of(module, table)
            if not parts:
                raise SpecError(
                    f"The looked-up rows of parameter {name!r} can only be caught in an nn.Embedding without sparse "
                    "and scale_grad_by_freq, in a module that is not compiled; set rows_apart to false."
                )
            for part in parts:
                self._handles.append(part.register_forward_pre_hook(self._read_rows))
                self._handles.append(part.register_forward_hook(_read_table, always_call=True))

    def fold(self, rows: nn.Parameter) -> None:
        """Add the `grad` of looked-up rows to that of their table; any other parameter stays as it is."""
        table = self._tables.get(rows)
        if table is not None and rows.grad is not None:
            table.grad = rows.grad.to_dense() if table.grad is None else table.grad.add_(rows.grad)
            rows.grad = None

    def forget(self, rows: nn.Parameter) -> None:
        """Remove the `grad` of looked-up rows, which has been handed on; any other parameter stays as it is."""
        if rows in self._tables:
            rows.grad = None

    def remove(self) -> None:
        """Leave lookups alone from now on."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _read_rows(self, part: nn.Embedding, _: Any) -> None:
        """Before a lookup: put the leaf in the table's place, where Python finds it first."""
        table = part._parameters["weight"]
        rows = None if table is None else self.rows.get(table)
        if table is None or rows is None or not torch.is_grad_enabled() or not table.requires_grad:
            return
        expect(table)
        rows.data = table.data  # the user may have given the table new memory
        part.__dict__["weight"], part.sparse = rows, True


def lookups_of(module: nn.Module, table: nn.Parameter) -> list[nn.Embedding]:
    """The parts of `module` that look up `table`; none if the rows of one of them cannot be caught."""
    parts = [part for part in module.modules() if isinstance(part, nn.Embedding) and part.weight is table]
    has_compiled = any(is_compiled(part) for part in module.modules())
    are_caught = not has_compiled and not any(part.sparse or part.scale_grad_by_freq for part in parts)
    return parts if are_caught else []


def _read_table(part: nn.Embedding, *_: Any) -> None:
    """After a lookup."""
    if part.__dict__.pop("weight", None) is not None:
        part.sparse = False
