//! The native grammar engine of formatter-core.
//!
//! `interface` is the C interface, `gate` its calls and forks, `stop` how signals end them; the other modules, from the bottom up, none of which uses
//! one after it: `limits`, `damage`, `checksum`, `hash`, `heap`, `byteset`, `utf8`, `substring`, `multiples`; regular expressions (`term`, `derive`); tokens
//! (`trie`, `mask`, `class`, `fitting`), automata (`lexicon`), and the two together (`walk`, `rounds`, `classify`);
//! grammars (`members`, `span`, `decode`, `network`); stacks of calls and the regions that they stand in (`regions`, `stack`), and
//! how far the end is (`spelling`, `nearest`, `remainder`); the parser (`chart`, `cache`, `freeze`, `settling`, and its
//! moves kept: `automaton`); and what is served (`allowed`, `grammar`, `budget`, `sequence`). Captures have a parser of
//! their own, of the grammar as it is written: `memories`, `written`, `positions`, `terminal_order`, `forest`, `items`,
//! `preference`, `number_sets`, `captures`, `derivation`, `shortest`; events, what all parses agree on: `trails`, `agreement`;
//! and all of it: `parser`, `following`. Patterns of regular expressions: `regex`. JSON Schemas: `schema`. Of a model's
//! logits, the best tokens: `logits`, and masks: `masking`.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod agreement;
mod allowed;
mod automaton;
mod budget;
mod byteset;
mod cache;
mod captures;
mod chart;
mod checksum;
mod class;
mod classify;
#[cfg(feature = "count-allocations")]
mod counting;
mod damage;
mod decode;
mod derivation;
mod derive;
mod distinct;
mod fitting;
mod following;
mod forest;
mod freeze;
mod gate;
mod gather;
mod grammar;
mod hash;
mod heap;
mod interface;
mod interface_leaves;
mod interface_logits;
mod interface_parser;
mod interface_regex;
mod interface_schema;
#[cfg(test)]
mod interface_tests;
mod items;
mod lexicon;
mod limits;
mod logits;
mod mask;
mod masking;
mod members;
mod memories;
mod moves;
mod multiples;
mod nearest;
mod network;
mod number_sets;
mod order;
mod parser;
#[cfg(test)]
mod parser_tests;
mod positions;
mod preference;
mod program;
mod python_calls;
mod regex;
mod regions;
mod remainder;
mod rounds;
mod schema;
mod sequence;
mod settling;
mod shortest;
mod span;
mod spelling;
mod stack;
mod stop;
mod substring;
mod targets;
mod term;
mod terminal_order;
mod token_ids;
mod trails;
mod trie;
mod utf8;
mod walk;
mod written;
