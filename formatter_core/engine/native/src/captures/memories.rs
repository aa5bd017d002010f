//! What has come of the lists of members in one text: each memory by a number, 0 where nothing has come.

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

    /// See `heap`; without the memories, which count themselves.
    pub fn heap(&self) -> usize {
        self.0
            .heap()
            .saturating_sub((COUNTS + size_of::<Memory>()) * self.0.len())
    }

    /// The ways that may come next, the preferred one first.
    pub fn choices(&mut self, list: &Members, number: u32, meter: &mut Meter) -> Outcome<&[u32]> {
        list.choices(self.memory(list, number), meter)
    }

    /// Whether nothing more need come.
    pub fn may_end(&mut self, list: &Members, number: u32, meter: &mut Meter) -> Outcome<bool> {
        meter.work(list.members.len())?;
        Ok(list.may_end(self.memory(list, number)))
    }

    /// What has come with one more member, which may come; none if the value that its text begins with must not.
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
