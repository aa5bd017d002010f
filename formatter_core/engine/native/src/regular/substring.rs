//! The suffix automaton of a text: the smallest automaton of its substrings.

use crate::base::hash::FastMap;

/// The moves of a state, sorted by character.
type Moves = Box<[(char, u32)]>;

/// States and their moves by character. State 0 is the start; every state accepts.
pub struct SuffixAutomaton {
    moves: Box<[Moves]>,
}

const NONE: u32 = u32::MAX;

impl SuffixAutomaton {
    /// Build the automaton online in linear time (Blumer et al. 1985).
    pub fn new(text: &[char]) -> Self {
        let mut next: Vec<FastMap<char, u32>> = vec![FastMap::default()];
        let mut link = vec![NONE];
        let mut length = vec![0u32];
        let mut last = 0u32;
        for &character in text {
            let fresh = next.len() as u32;
            next.push(FastMap::default());
            length.push(length[last as usize] + 1);
            link.push(0);
            let mut state = last;
            while state != NONE && !next[state as usize].contains_key(&character) {
                next[state as usize].insert(character, fresh);
                state = link[state as usize];
            }
            if state != NONE {
                let target = next[state as usize][&character];
                if length[state as usize] + 1 == length[target as usize] {
                    link[fresh as usize] = target;
                } else {
                    let copy = next.len() as u32;
                    next.push(next[target as usize].clone());
                    length.push(length[state as usize] + 1);
                    link.push(link[target as usize]);
                    while state != NONE && next[state as usize].get(&character) == Some(&target) {
                        next[state as usize].insert(character, copy);
                        state = link[state as usize];
                    }
                    link[target as usize] = copy;
                    link[fresh as usize] = copy;
                }
            }
            last = fresh;
        }
        let sorted = |moves: FastMap<char, u32>| {
            let mut codes: Vec<u32> = moves.keys().map(|character| *character as u32).collect();
            codes.sort_unstable();
            let characters = codes.into_iter().filter_map(char::from_u32);
            characters.map(|character| (character, moves[&character])).collect()
        };
        SuffixAutomaton {
            moves: next.into_iter().map(sorted).collect(),
        }
    }

    /// Return the bytes on the heap, see `heap`.
    pub fn heap(&self) -> usize {
        let each = self.moves.iter().map(|moves| std::mem::size_of_val(&**moves));
        std::mem::size_of_val(&*self.moves) + each.sum::<usize>()
    }

    /// Return the moves from `state`, sorted by character.
    pub fn moves(&self, state: u32) -> &[(char, u32)] {
        &self.moves[state as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_accepts_the_substrings_and_nothing_else() {
        let text: Vec<char> = "abcbcéa".chars().collect();
        let automaton = SuffixAutomaton::new(&text);
        let accepts = |word: &[char]| {
            word.iter()
                .try_fold(0, |state, character| {
                    let moves = automaton.moves(state);
                    moves.iter().find(|(other, _)| other == character).map(|found| found.1)
                })
                .is_some()
        };
        for start in 0..text.len() {
            for end in start..=text.len() {
                assert!(accepts(&text[start..end]));
            }
        }
        for word in ["ac", "cba", "éc", "x"] {
            assert!(!accepts(&word.chars().collect::<Vec<_>>()));
        }
    }

    #[test]
    fn example_automaton_of_a_text() {
        let automaton = SuffixAutomaton::new(&['b', 'a', 'n', 'a', 'n', 'a']);
        let after = |state: u32, letter: char| automaton.moves(state).iter().find(|(one, _)| *one == letter);
        let (_, n) = after(0, 'n').unwrap();
        assert!(after(*n, 'a').is_some());
        assert!(after(*n, 'b').is_none());
    }
}
