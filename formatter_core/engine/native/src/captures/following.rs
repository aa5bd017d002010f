//! A text that is still being written, and the captures on which all its parses agree.

use std::mem::size_of;
use std::sync::Arc;

use crate::base::heap::{self, Counted};
use crate::base::limits::{Fault, Meter, Outcome};
use crate::base::tuning::WORK_PER_BYTE;
use crate::captures::agreement::Agreement;
use crate::captures::parser::Parser;
use crate::captures::preference::Source;

/// Marks that changed since the last report: how many marks are unchanged, the marks after them, and the offset in
/// bytes up to which there are no other marks.
#[derive(Default)]
pub struct News {
    pub kept: usize,
    /// Each mark: twice the number of the capture's name, plus one if the capture opens; and the offset in bytes.
    pub marks: Vec<(u32, u32)>,
    pub agreed_to: u32,
}

/// A text that is followed step by step; steps can be undone.
pub struct Following {
    parser: Arc<Parser>,
    agreement: Agreement,
    /// The number of the list of marks that was reported last.
    reported: u32,
    news: News,
    /// The work that the text had left before each step; `work` is what it has left now.
    before: Vec<u64>,
    work: u64,
    fault: Option<Fault>,
    memory: Counted,
}

impl Following {
    pub fn new(parser: Arc<Parser>) -> Outcome<Self> {
        let mut meter = parser.meter(parser.work());
        let agreement = Agreement::new(parser.source(), &mut meter)?;
        let work = meter.left();
        drop(meter);
        Ok(Following {
            agreement,
            reported: 0,
            news: News::default(),
            before: Vec::new(),
            work,
            fault: None,
            memory: Counted::new(size_of::<Self>(), &parser.texts),
            parser,
        })
    }

    /// End the text after a panic: its state may be incomplete and is not used again.
    pub fn end(&mut self, fault: Fault) {
        if matches!(fault, Fault::Panic(_)) {
            self.fault.get_or_insert(fault);
        }
    }

    /// Append bytes that continue the text. After a fault nothing has changed.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Outcome<()> {
        let length = self.agreement.length();
        let outcome = bytes
            .iter()
            .try_for_each(|&byte| self.push(|agreement, source, meter| agreement.push_byte(byte, source, meter)));
        if outcome.is_err() {
            self.pop(self.agreement.length() - length);
        }
        outcome
    }

    /// Append a token that the grammar names by its id and that continues the text. After a fault nothing has changed.
    pub fn push_token(&mut self, token: u32) -> Outcome<()> {
        self.push(|agreement, source, meter| agreement.push_token(token, source, meter))
    }

    /// Undo the last steps; a step is a byte or a token.
    pub fn pop(&mut self, steps: usize) {
        self.agreement.pop(steps);
        if let Some(work) = self.before.get(self.agreement.length()) {
            self.work = *work;
            self.before.truncate(self.agreement.length());
        }
    }

    /// Find the marks that are new since the last report, and record them as reported. Return how many there are.
    pub fn find_news(&mut self) -> Outcome<usize> {
        let reported = self.reported;
        let (list, news) = self.work_with(|agreement, source, meter| {
            let (list, agreed_to) = agreement.agreed(source, meter)?;
            let (kept, marks) = agreement.marks_after(reported, list, meter)?;
            let news = News { kept, marks, agreed_to };
            Ok((list, news))
        })?;
        (self.reported, self.news) = (list, news);
        Ok(self.news.marks.len())
    }

    /// Return the marks that `find_news` found.
    pub fn news(&self) -> &News {
        &self.news
    }

    fn push(&mut self, call: impl FnOnce(&mut Agreement, Source, &mut Meter) -> Outcome<()>) -> Outcome<()> {
        let before = self.work;
        self.work_with(call)?;
        self.before.push(before);
        Ok(())
    }

    fn work_with<T>(&mut self, call: impl FnOnce(&mut Agreement, Source, &mut Meter) -> Outcome<T>) -> Outcome<T> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut meter = self.parser.meter(self.work.saturating_add(WORK_PER_BYTE));
        let outcome = call(&mut self.agreement, self.parser.source(), &mut meter);
        self.work = meter.left();
        self.memory
            .set(size_of::<Self>() + self.agreement.heap() + heap::list(&self.before) + heap::list(&self.news.marks));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::Limits;
    use crate::captures::parser::tests::NAMED;

    #[test]
    fn example_marks_on_which_all_parses_agree() {
        let parser = Arc::new(Parser::new(NAMED, Limits::default()).unwrap());
        let mut following = Following::new(parser).unwrap();
        assert_eq!(following.push_bytes(b"a4"), Ok(()));
        assert_eq!(following.find_news(), Ok(3));
        // Capture 0 opens and ends, and capture 1 opens; more digits may come.
        assert_eq!(following.news().marks, [(1, 0), (0, 1), (3, 1)]);
    }
}
