"""A contract whose types only type checkers import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from decimal import Decimal


class Hidden(Protocol):
    async def put(self, key: Decimal) -> None: ...
