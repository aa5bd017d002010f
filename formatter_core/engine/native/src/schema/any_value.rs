//! The rules of any JSON value, which consist of the fixed tokens.

use crate::schema::nodes::{in_order, Node};
use crate::schema::tokens::Token;

pub const ANY_RULES: usize = 5;
pub const ANY_NAMES: [&str; ANY_RULES] = ["any value", "any object", "any entries", "any array", "any items"];

/// Make the rules of any value, numbered from 0: scalars, objects and arrays, with their entries and items.
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
