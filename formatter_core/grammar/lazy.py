"""`cached_property` without a lock, as Python has it from 3.12 on.

Before, one lock for all instances of a class is held while a value is computed: threads wait for values of others,
and a child that was forked meanwhile waits forever.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - the name that it has in functools
        """A property that is computed once for each instance; at the same time by two threads, where they meet."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
