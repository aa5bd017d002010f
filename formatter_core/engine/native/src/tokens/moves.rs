//! A table of the moves that a walk has made, so that each further node takes one look-up.

use crate::base::hash::FastMap;
use crate::base::tuning::MAX_NUMBERED_STATES;
use crate::regular::term::Term;
use crate::tokens::lexicon::Step;

/// The number for a state that has no entry in the table.
pub const NO_NUMBER: u16 = u16::MAX;

/// The encoding of moves; a live move is `(number + 1) << 1 | accepts`, for the number of the next state.
const UNKNOWN: u16 = 0;
const DEAD: u16 = 1;

pub enum Known<T> {
    Unknown,
    Dead,
    /// The step, the data kept for its state, and the state's number.
    Live(Step, T, u16),
}

/// Moves between numbered states; a `T` is kept for each state.
pub struct Moves<T> {
    numbers: FastMap<Term, u16>,
    states: Vec<(Term, T)>,
    /// One move for each state and byte.
    moves: Vec<u16>,
}

impl<T> Default for Moves<T> {
    fn default() -> Self {
        Moves {
            numbers: FastMap::default(),
            states: Vec::new(),
            moves: Vec::new(),
        }
    }
}

impl<T: Copy> Moves<T> {
    #[inline]
    pub fn get(&self, from: u16, byte: u8) -> Known<T> {
        if from == NO_NUMBER {
            return Known::Unknown;
        }
        match self.moves[place(from, byte)] {
            UNKNOWN => Known::Unknown,
            DEAD => Known::Dead,
            known => {
                let number = (known >> 1) - 1;
                let (state, kept) = self.states[usize::from(number)];
                let accepts = known & 1 != 0;
                Known::Live(Step { state, accepts }, kept, number)
            }
        }
    }

    /// Return the data kept for a state, by its number.
    pub fn kept(&mut self, number: u16) -> Option<&mut T> {
        self.states.get_mut(usize::from(number)).map(|(_, kept)| kept)
    }

    pub fn set_dead(&mut self, from: u16, byte: u8) {
        if from != NO_NUMBER {
            self.moves[place(from, byte)] = DEAD;
        }
    }

    /// Store a move, and return the number of the state that it leads to. A new state gets a number while there are any
    /// left.
    pub fn set(&mut self, from: u16, byte: u8, step: Step, kept: T) -> u16 {
        let number = match self.numbers.get(&step.state) {
            Some(number) => *number,
            None if self.states.len() == MAX_NUMBERED_STATES => return NO_NUMBER,
            None => {
                let number = self.states.len() as u16;
                self.numbers.insert(step.state, number);
                self.states.push((step.state, kept));
                self.moves.resize(place(number + 1, 0), UNKNOWN);
                number
            }
        };
        if from != NO_NUMBER {
            self.moves[place(from, byte)] = (number + 1) << 1 | u16::from(step.accepts);
        }
        number
    }
}

#[inline]
fn place(number: u16, byte: u8) -> usize {
    usize::from(number) << 8 | usize::from(byte)
}
