//! Deadlines of the regions of a text that have budgets of their own.
//!
//! A token counts for the region that its first byte is in. So if a token opens a region, the region's budget begins
//! with the token after it. Until the number of that token is known, the region's deadline is relative to it.

use std::sync::Arc;

/// The deadline of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// This many tokens after the current one.
    In(u32),
    /// This many tokens after the beginning of the text.
    At(u32),
}

/// The deadlines of open regions, the innermost first. A deadline that is not before the next one has no effect and is
/// left out.
pub type Deadlines = Arc<[Deadline]>;

/// Return the deadlines after the current token has opened one more region.
pub fn entered(open: &[Deadline], budget: u32) -> Deadlines {
    match open.first() {
        Some(Deadline::In(other)) if *other <= budget => open.into(),
        _ => [Deadline::In(budget)].into_iter().chain(open.iter().copied()).collect(),
    }
}

/// Return whether some deadlines are relative to the current token.
pub fn are_relative(open: &Option<Deadlines>) -> bool {
    let is_relative = |deadline: &Deadline| matches!(deadline, Deadline::In(_));
    open.as_ref().is_some_and(|open| open.iter().any(is_relative))
}

/// Return the absolute deadlines after the current token, which is the last of `tokens`.
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
