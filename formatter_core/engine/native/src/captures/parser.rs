//! Texts read with their captures: a grammar made ready, and one text.

use std::mem::size_of;
use std::sync::Arc;

use crate::base::heap::{self, Counted, Counter};
use crate::base::limits::{Fault, Limits, Meter, Outcome, Usage};
use crate::captures::capture_parser::{Derivations, Expected};
use crate::captures::captures::Capture;
use crate::captures::grammar_tree::Written;
use crate::captures::positions::Plan;
use crate::captures::preference::Source;
use crate::captures::shortest::shortest;
use crate::captures::terminal_order::{preferences, Preferred};
use crate::tokens::lexicon::Lexicon;
use crate::tokens::trie::Vocabulary;

/// A grammar that texts are parsed with.
pub struct Parser {
    written: Written,
    plan: Plan,
    preferred: Vec<Preferred>,
    lexicon: Lexicon,
    limits: Limits,
    usage: Usage,
    /// The bytes of texts that are being read or followed.
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

    /// The bytes of the grammar, of its automata, and of texts that are being read or followed.
    pub fn memory(&self) -> Outcome<[usize; 3]> {
        let (automata, classes) = self.lexicon.memory()?;
        let vocabulary = heap::COUNTS + size_of::<Vocabulary>() + self.lexicon.vocabulary.bytes();
        let own = heap::COUNTS + size_of::<Self>() + self.written.heap() + self.plan.heap();
        // The lexicon stands in this value.
        let automata = automata - heap::COUNTS - size_of::<Lexicon>() + classes + vocabulary;
        Ok([
            own + heap::list(&self.preferred),
            automata,
            self.texts.bytes() + self.written.memories().bytes(),
        ])
    }

    /// The length in bytes of the shortest text; see `shortest`.
    pub fn shortest(&self) -> Outcome<Option<u32>> {
        let mut meter = self.meter(self.limits.work);
        let mut derivatives = self.lexicon.derivatives()?;
        shortest(&self.written, &self.plan.members, &mut derivatives, &mut meter)
    }

    /// The steps that a text may take.
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

/// Steps that each byte adds to those that a text may take: the number that it takes where there is nothing to choose.
pub const ALLOWANCE: u64 = 100;

/// One text, read from its beginning on.
pub struct Reading {
    parser: Arc<Parser>,
    derivations: Derivations,
    captures: Vec<Capture>,
    expected: Vec<Expected>,
    /// What is left of the work that the whole text may take.
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

    /// After a fault, what it left half made is not used again.
    pub fn end(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// Append bytes; false if nothing goes on with them.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Outcome<bool> {
        self.work = self.work.saturating_add(ALLOWANCE * bytes.len() as u64);
        self.push(|derivations, source, meter| {
            for (index, &byte) in bytes.iter().enumerate() {
                if !derivations.push_byte(byte, bytes.get(index + 1).copied(), source, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Append a token that the grammar names by its id; false if nothing goes on with it.
    pub fn push_token(&mut self, token: u32) -> Outcome<bool> {
        self.push(|derivations, source, meter| derivations.push_token(token, source, meter))
    }

    pub fn is_complete(&self) -> bool {
        self.derivations.is_complete()
    }

    pub fn may_go_on(&self) -> bool {
        self.derivations.may_go_on()
    }

    /// How many bytes and tokens were appended, the one included that nothing goes on with.
    pub fn length(&self) -> usize {
        self.derivations.length()
    }

    /// Find what may come next; none of it where nothing goes on.
    pub fn find_expected(&mut self) -> Outcome<&[Expected]> {
        self.expected = self.work_with(|derivations, source, meter| derivations.expected(source, meter))?;
        Ok(&self.expected)
    }

    /// What was found to come next.
    pub fn expected(&self) -> &[Expected] {
        &self.expected
    }

    /// Find the captures of the text, which is complete.
    pub fn find_captures(&mut self) -> Outcome<usize> {
        self.captures = self.work_with(|derivations, source, meter| derivations.captures(source, meter))?;
        Ok(self.captures.len())
    }

    /// The captures that were found.
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
            // What was only asked can be asked again after a signal.
            self.fault = Some(fault).filter(|fault| *fault != Fault::Stopped);
        }
        outcome
    }

    fn push<T>(&mut self, call: impl FnOnce(&mut Derivations, Source, &mut Meter) -> Outcome<T>) -> Outcome<T> {
        let outcome = self.work_with(call);
        // The last column may be half made.
        if let Err(fault) = outcome {
            self.fault = Some(fault);
        }
        outcome
    }
}
