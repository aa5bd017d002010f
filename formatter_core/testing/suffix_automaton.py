"""The suffix automaton of a text: what recognises every run of its characters, in linear time and memory."""

from __future__ import annotations

__all__ = ["SuffixAutomaton"]


class SuffixAutomaton:
    """The smallest automaton of all substrings of a text (Blumer et al. 1985), over code points.

    `next[state]` maps a character to the state after it; state 0 is the start and every state accepts.
    """

    def __init__(self, text: str) -> None:
        self.next: list[dict[str, int]] = [{}]
        links = [-1]
        lengths = [0]
        last = 0
        for character in text:
            new = len(self.next)
            self.next.append({})
            lengths.append(lengths[last] + 1)
            links.append(0)
            state = last
            while state >= 0 and character not in self.next[state]:
                self.next[state][character] = new
                state = links[state]
            if state >= 0:
                links[new] = self._split(state, character, links, lengths)
            last = new

    def _split(self, state: int, character: str, links: list[int], lengths: list[int]) -> int:
        """Return the state whose longest string is that of `state` plus `character`; copy a state if there is none."""
        target = self.next[state][character]
        if lengths[target] == lengths[state] + 1:
            return target
        copy = len(self.next)
        self.next.append(dict(self.next[target]))
        lengths.append(lengths[state] + 1)
        links.append(links[target])
        links[target] = copy
        while state >= 0 and self.next[state].get(character) == target:
            self.next[state][character] = copy
            state = links[state]
        return copy
