//! The fixed tokens of JSON by number, and the rules of any value, which are made of these.

use crate::schema::nodes::{in_order, Node};

/// The fixed tokens of JSON, which are the first terminals of every schema.
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

/// The first ones, which blanks belong to.
pub const PUNCTUATION: u32 = Token::EmptyObject as u32 + 1;
pub const TOKENS: u32 = Token::AnyScalar as u32 + 1;

impl Token {
    /// What a terminal does to the depth.
    pub fn step(terminal: u32) -> i32 {
        const OPEN: [u32; 2] = [Token::OpenArray as u32, Token::OpenObject as u32];
        const CLOSE: [u32; 2] = [Token::CloseArray as u32, Token::CloseObject as u32];
        i32::from(OPEN.contains(&terminal)) - i32::from(CLOSE.contains(&terminal))
    }
}

pub const ANY_RULES: usize = 5;
pub const ANY_NAMES: [&str; ANY_RULES] = ["any value", "any object", "any entries", "any array", "any items"];

/// The rules of any value, numbered from 0 on: scalars, objects and arrays, with their entries and items.
pub fn any_rules() -> [Node; ANY_RULES] {
    let token = Node::token;
    let pair = || in_order(vec![token(Token::AnyName), Node::Any]);
    let whole = |open, content, close| in_order(vec![token(open), Node::Rule(content), token(close)]);
    [
        Node::Choice(vec![token(Token::AnyScalar), Node::Rule(1), Node::Rule(3)]),
        Node::Choice(vec![
            token(Token::EmptyObject),
            whole(Token::OpenObject, 2, Token::CloseObject),
        ]),
        Node::Choice(vec![pair(), in_order(vec![Node::Rule(2), token(Token::Comma), pair()])]),
        Node::Choice(vec![
            token(Token::EmptyArray),
            whole(Token::OpenArray, 4, Token::CloseArray),
        ]),
        Node::Choice(vec![
            Node::Any,
            in_order(vec![Node::Rule(4), token(Token::Comma), Node::Any]),
        ]),
    ]
}
