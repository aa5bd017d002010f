//! A grammar that is prepared for parsing, and one text that is parsed with its captures.

use std::mem::size_of;
use std::sync::Arc;

use crate::base::heap::{self, Counted, Counter};
use crate::base::limits::{Fault, Limits, Meter, Outcome, Usage};
use crate::base::tuning::WORK_PER_BYTE;
use crate::captures::capture_parser::{Derivations, Expected};
use crate::captures::grammar_tree::Written;
use crate::captures::positions::Plan;
use crate::captures::preference::Source;
use crate::captures::preferred_captures::Capture;
use crate::captures::shortest::shortest;
use crate::captures::terminal_order::{preferences, Preferred};
use crate::tokens::lexicon::Lexicon;
use crate::tokens::trie::Vocabulary;

/// A grammar that parses texts.
pub struct Parser {
    written: Written,
    plan: Plan,
    preferred: Vec<Preferred>,
    lexicon: Lexicon,
    limits: Limits,
    usage: Usage,
    /// The memory in bytes of the texts that are being read or followed.
    pub texts: Counter,
}

impl Parser {
    /// Read a serialised grammar.
    pub fn new(data: &[u8], limits: Limits) -> Outcome<Self> {
        let vocabulary = Vocabulary::new(b"", &[0]).ok_or(Fault::Malformed)?;
        let lexicon = Lexicon::small(Arc::new(vocabulary));
        let usage = Usage::default();
        let mut meter = Meter::new(limits.work, &usage, limits.states);
        let mut derivatives = lexicon.derivatives()?;
        let written = Written::read(data, &mut derivatives.terms, &limits, &mut meter)?;
        let plan = Plan::new(&written, &mut derivatives, &limits, &mut meter)?;
        drop((derivatives, meter));
        Ok(Parser {
            preferred: preferences(&written),
            written,
            plan,
            lexicon,
            limits,
            usage,
            texts: Counter::default(),
        })
    }

    /// Return the memory in bytes of the grammar, of its automata, and of the texts that are being read or followed.
    pub fn memory(&self) -> Outcome<[usize; 3]> {
        let (automata, classes) = self.lexicon.memory()?;
        let vocabulary = heap::COUNTS + size_of::<Vocabulary>() + self.lexicon.vocabulary.bytes();
        let own = heap::COUNTS + size_of::<Self>() + self.written.heap() + self.plan.heap();
        // The `Parser` value itself contains the lexicon.
        let automata = automata - heap::COUNTS - size_of::<Lexicon>() + classes + vocabulary;
        Ok([
            own + heap::list(&self.preferred),
            automata,
            self.texts.bytes() + self.written.memories().bytes(),
        ])
    }

    /// Return the length in bytes of the shortest text; see `shortest`.
    pub fn shortest(&self) -> Outcome<Option<u32>> {
        let mut meter = self.meter(self.limits.work);
        let mut derivatives = self.lexicon.derivatives()?;
        shortest(&self.written, &self.plan.members, &mut derivatives, &mut meter)
    }

    /// Return the elementary steps that a text may take.
    pub fn work(&self) -> u64 {
        self.limits.work
    }

    pub fn source(&self) -> Source<'_> {
        Source {
            written: &self.written,
            plan: &self.plan,
            lexicon: &self.lexicon,
            preferred: &self.preferred,
        }
    }

    pub fn meter(&self, work: u64) -> Meter<'_> {
        let terminals = self.preferred.len().max(1) as u64;
        Meter::new(work, &self.usage, self.limits.states.saturating_mul(terminals))
    }
}

/// A text that is read from its beginning.
pub struct Reading {
    parser: Arc<Parser>,
    derivations: Derivations,
    captures: Vec<Capture>,
    expected: Vec<Expected>,
    /// The work that is left for the whole text.
    work: u64,
    fault: Option<Fault>,
    memory: Counted,
}

impl Reading {
    pub fn new(parser: Arc<Parser>) -> Outcome<Self> {
        let mut meter = parser.meter(parser.work());
        let derivations = Derivations::new(parser.source(), &mut meter)?;
        let work = meter.left();
        drop(meter);
        Ok(Reading {
            derivations,
            captures: Vec::new(),
            expected: Vec::new(),
            work,
            fault: None,
            memory: Counted::new(0, &parser.texts),
            parser,
        })
    }

    /// End the text after a fault: its state may be incomplete and is not used again.
    pub fn end(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// Append bytes; return false if no parse continues with them.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Outcome<bool> {
        self.work = self.work.saturating_add(WORK_PER_BYTE * bytes.len() as u64);
        self.push(|derivations, source, meter| {
            for (index, &byte) in bytes.iter().enumerate() {
                if !derivations.push_byte(byte, bytes.get(index + 1).copied(), source, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Append a token that the grammar names by its id; return false if no parse continues with it.
    pub fn push_token(&mut self, token: u32) -> Outcome<bool> {
        self.push(|derivations, source, meter| derivations.push_token(token, source, meter))
    }

    pub fn is_complete(&self) -> bool {
        self.derivations.is_complete()
    }

    pub fn may_go_on(&self) -> bool {
        self.derivations.may_go_on()
    }

    /// Return how many bytes and tokens were appended, including the one with which no parse continues.
    pub fn length(&self) -> usize {
        self.derivations.length()
    }

    /// Find what may come next; the result is empty if no parse continues.
    pub fn find_expected(&mut self) -> Outcome<&[Expected]> {
        self.expected = self.work_with(|derivations, source, meter| derivations.expected(source, meter))?;
        Ok(&self.expected)
    }

    /// Return what `find_expected` found.
    pub fn expected(&self) -> &[Expected] {
        &self.expected
    }

    /// Find the captures of the text, which must be complete. Return how many there are.
    pub fn find_captures(&mut self) -> Outcome<usize> {
        self.captures = self.work_with(|derivations, source, meter| derivations.captures(source, meter))?;
        Ok(self.captures.len())
    }

    /// Return the captures that `find_captures` found.
    pub fn captures(&self) -> &[Capture] {
        &self.captures
    }

    fn work_with<T>(&mut self, call: impl FnOnce(&mut Derivations, Source, &mut Meter) -> Outcome<T>) -> Outcome<T> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut meter = self.parser.meter(self.work);
        let outcome = call(&mut self.derivations, self.parser.source(), &mut meter);
        self.work = meter.left();
        self.memory
            .set(size_of::<Self>() + self.derivations.heap() + heap::list(&self.captures));
        if let Err(fault) = outcome {
            // A query that a signal stopped can be made again.
            self.fault = Some(fault).filter(|fault| *fault != Fault::Stopped);
        }
        outcome
    }

    fn push<T>(&mut self, call: impl FnOnce(&mut Derivations, Source, &mut Meter) -> Outcome<T>) -> Outcome<T> {
        let outcome = self.work_with(call);
        // The last column may be incomplete.
        if let Err(fault) = outcome {
            self.fault = Some(fault);
        }
        outcome
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::regular::program::operation::{CAPTURE, CHARS, REPEAT, RULE_END, SEQUENCE};

    /// A letter as capture 0, and then digits as capture 1: `s = 0:[a-z] 1:[0-9]+`.
    pub const NAMED: &[u8] = &[
        b'F', b'C', b'G', b'6', 1, 0, CHARS, 1, b'a', b'z', CAPTURE, 0, // the first capture
        CHARS, 1, b'0', b'9', REPEAT, 1, 0, CAPTURE, 1, SEQUENCE, 2, RULE_END,
    ];

    #[test]
    fn example_captures_of_a_text() {
        let parser = Arc::new(Parser::new(NAMED, Limits::default()).unwrap());
        let mut reading = Reading::new(parser).unwrap();
        assert_eq!(reading.push_bytes(b"a42"), Ok(true));
        assert!(reading.is_complete() && reading.may_go_on());
        assert_eq!(reading.find_captures(), Ok(2));
        let found = reading.captures().iter().map(|one| (one.name, one.start, one.end));
        assert_eq!(found.collect::<Vec<_>>(), [(0, 0, 1), (1, 1, 3)]);
        assert_eq!(reading.push_bytes(b"b"), Ok(false));
    }
}
