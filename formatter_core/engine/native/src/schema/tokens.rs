//! The fixed tokens of JSON by number.

/// A fixed token of JSON. The fixed tokens are the first terminals of every schema.
#[derive(Clone, Copy)]
pub enum Token {
    Comma,
    OpenArray,
    CloseArray,
    EmptyArray,
    OpenObject,
    CloseObject,
    EmptyObject,
    AnyName,
    AnyScalar,
}

/// The number of tokens that include blanks; they come first.
pub const PUNCTUATION: u32 = Token::EmptyObject as u32 + 1;
pub const TOKENS: u32 = Token::AnyScalar as u32 + 1;

impl Token {
    /// Return by how much a terminal changes the depth.
    pub fn step(terminal: u32) -> i32 {
        const OPEN: [u32; 2] = [Token::OpenArray as u32, Token::OpenObject as u32];
        const CLOSE: [u32; 2] = [Token::CloseArray as u32, Token::CloseObject as u32];
        i32::from(OPEN.contains(&terminal)) - i32::from(CLOSE.contains(&terminal))
    }
}
