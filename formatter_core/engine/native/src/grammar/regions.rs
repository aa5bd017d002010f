//! The regions of a text that have budgets of their own: when those that a frame stands in have to be over.
//!
//! A token counts for the region that its first byte is in. So the budget of a region that a token opens begins with the
//! token after it: until that number of tokens is known, the region's deadline counts from there.

use std::sync::Arc;

/// When a region has to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// So many tokens after the one that is being read.
    In(u32),
    /// So many tokens after the beginning of the text.
    At(u32),
}

/// The deadlines of open regions, the innermost first. One that is not before the next one says nothing, and is left out.
pub type Deadlines = Arc<[Deadline]>;

/// The deadlines after one more region has been opened, by the token that is being read.
pub fn entered(open: &[Deadline], budget: u32) -> Deadlines {
    match open.first() {
        Some(Deadline::In(other)) if *other <= budget => open.into(),
        _ => [Deadline::In(budget)].into_iter().chain(open.iter().copied()).collect(),
    }
}

/// Whether some deadlines count from the token that is being read.
pub fn are_relative(open: &Option<Deadlines>) -> bool {
    let is_relative = |deadline: &Deadline| matches!(deadline, Deadline::In(_));
    open.as_ref().is_some_and(|open| open.iter().any(is_relative))
}

/// The deadlines once the token has been read, as the last one of `tokens`.
pub fn settled(open: &[Deadline], tokens: u32) -> Deadlines {
    let mut kept: Vec<Deadline> = Vec::with_capacity(open.len());
    let mut next = u32::MAX;
    for deadline in open.iter().rev() {
        let at = match *deadline {
            Deadline::In(more) => tokens.saturating_add(more),
            Deadline::At(at) => at,
        };
        if at < next {
            next = at;
            kept.push(Deadline::At(at));
        }
    }
    kept.reverse();
    kept.into()
}
