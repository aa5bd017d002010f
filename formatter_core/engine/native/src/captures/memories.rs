//! Memories: the members that have come so far in each list of members of one text. Each memory has a number; 0 means
//! that no member has come.

use std::mem::size_of;

use crate::base::hash::Interner;
use crate::base::heap::COUNTS;
use crate::base::limits::{Meter, Outcome};
use crate::grammar::members::{Members, Memory};

pub struct Memories(Interner<Memory>);

impl Memories {
    pub fn new() -> Self {
        Memories(Interner::new())
    }

    /// Return the heap memory in bytes, see `heap`; memories are not included, as they count themselves.
    pub fn heap(&self) -> usize {
        self.0
            .heap()
            .saturating_sub((COUNTS + size_of::<Memory>()) * self.0.len())
    }

    /// Return the alternatives that may come next, the preferred one first.
    pub fn choices(&mut self, list: &Members, number: u32, meter: &mut Meter) -> Outcome<&[u32]> {
        list.choices(self.memory(list, number), meter)
    }

    /// Return whether the list may end here.
    pub fn may_end(&mut self, list: &Members, number: u32, meter: &mut Meter) -> Outcome<bool> {
        meter.work(list.members.len())?;
        Ok(list.may_end(self.memory(list, number)))
    }

    /// Return the memory after one more member that may come; None if its text begins with a value that must not occur.
    pub fn after(
        &mut self,
        list: &Members,
        number: u32,
        way: u32,
        text: impl Iterator<Item = u16>,
        meter: &mut Meter,
    ) -> Outcome<Option<u32>> {
        let text = text.filter_map(|step| u8::try_from(step).ok());
        let Some(after) = list.after_text(self.memory(list, number), way, text) else {
            return Ok(None);
        };
        meter.work(after.bytes() / 16)?;
        Ok(Some(1 + self.0.intern(after).0))
    }

    fn memory(&mut self, list: &Members, number: u32) -> &Memory {
        let known = number.checked_sub(1).unwrap_or_else(|| self.0.intern(list.first()).0);
        self.0.get(known)
    }
}
