"""Strongly connected components, for rules and for automata."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["components"]


def components(edges: list[list[int]]) -> list[int]:
    """Return a representative of the strongly connected component of each node (Tarjan 1972), without recursion."""
    order: list[int | None] = [None] * len(edges)
    low = [0] * len(edges)
    component: list[int] = [-1] * len(edges)
    stack: list[int] = []
    counter = 0
    for root in range(len(edges)):
        if order[root] is not None:
            continue
        path: list[tuple[int, Iterator[int]]] = [(root, iter(edges[root]))]
        order[root] = low[root] = counter
        counter += 1
        stack.append(root)
        while path:
            node, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    while component[node] == -1:
                        component[stack.pop()] = node
            elif order[target] is None:
                order[target] = low[target] = counter
                counter += 1
                stack.append(target)
                path.append((target, iter(edges[target])))
            elif component[target] == -1:
                low[node] = min(low[node], order[target] or 0)
    return component
