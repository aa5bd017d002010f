//! The constants that bound work or memory and that no caller sets: `Limits` has the others.
//!
//! Each says what it decides. Beyond a bound the library computes in another way, keeps less, or refuses; where a bound
//! narrows a format or a budget, its line says so. A line without figures has a value for which none were recorded.
//! Constants that only choose between two ways to compute the same stand in the module that uses them, and so do the
//! units in which work is counted (`…_COST`, `…_PER_PAIR`).

// Errors and hash tables (`base`).

/// Panic messages that a process keeps; it usually has few different ones. Later panics only have numbers.
pub const MAX_PANIC_TEXTS: u32 = 1000;
/// Characters of a panic message that are kept.
pub const MAX_PANIC_CHARACTERS: usize = 1000;
/// Bits of a hash that the directory of an `Interner` uses; full pages are then doubled instead of split.
pub const MAX_DIRECTORY_BITS: u32 = 20;
/// Bytes by which one grammar may make the shared automata grow; then its calls reach `Limits.states`.
pub const MAX_AUTOMATA_GROWTH: u64 = 256 << 20;

// Terms and derivatives (`regular`).

/// Depth to which `Derivatives::after` takes a term apart for one byte; below it, all moves are computed.
pub const MAX_AFTER_DEPTH: u32 = 32;
/// Depth to which a term is rewritten over characters; deeper terms are searched over bytes.
pub const MAX_CHARACTER_DEPTH: usize = 64;
/// Letters that represent the characters of a term: each is a byte. With more, the term is searched over bytes.
pub const MAX_LETTERS: usize = 256;
/// Parts of a sequence that are tried as the spelling of one character.
pub const MAX_SPELLING_PARTS: usize = 12;
/// Depth to which the form of a term is examined for whether it matches anything; then a search decides.
pub const MAX_LIFE_DEPTH: u32 = 32;
/// Depth to which the form of a term is examined for its distance to a match, which orders a search.
pub const MAX_DISTANCE_DEPTH: usize = 4;
/// Depth to which counts are searched for in a term, to be removed.
pub const MAX_UNCOUNTED_DEPTH: u32 = 8;
/// Alternatives, and terms of an intersection, in which counts are searched for.
pub const MAX_UNCOUNTED_WIDTH: usize = 8;
/// Alternatives of a term by which a search splits an intersection.
pub const MAX_SPLIT_INTERSECTIONS: usize = 8;
/// New terms for which an intersection of more than two terms, which is expensive over bytes, is tried over characters
/// at the start of a search. Without this bound, masks of host names would take longer than over bytes.
pub const MAX_TERMS_MADE_EARLY: usize = 16;
/// States of a terminal that are examined for free strings; beyond them, its strings count as not free.
pub const MAX_FREE_STRING_STATES: usize = 256;
/// Rounds of a repeat with an assertion that are written out; real patterns have a handful. A repeat with more is
/// refused, unless its rounds have one length.
pub const MAX_UNROLLED_ROUNDS: u32 = 64;
/// Height of the node that may follow a position of a pattern, or `Limits.depth` if that is higher.
pub const MAX_TAIL_HEIGHT: u32 = 500;
/// States, steps and nodes for the question whether a part of a pattern matches anything; beyond them it is not known.
pub const DECIDING_PATTERNS: (u64, u64, u64) = (2_000, 200_000, 20_000);
/// Symbols of the common prefixes that `Terms::tree` merges.
pub const MAX_PREFIX_TREE_DEPTH: u32 = 256;
/// Alternatives on each side of one that are compared with it, to drop what lies within another, and parts of their
/// sequences.
pub const MAX_ALTERNATIVES_COMPARED: usize = 32;
/// Depth to which such terms are compared.
pub const MAX_DEPTH_COMPARED: usize = 24;
/// Answers of such comparisons that are kept.
pub const MAX_KEPT_COMPARISONS: usize = 1 << 16;

// Vocabularies (`tokens`).

/// Other states whose classes are used to compute the class of a state, one from the next.
pub const MAX_CLASSES_COMPARED: u32 = 6;
/// Bytes of automata after which a lexicon serves no new grammar.
pub const MAX_LEXICON_BYTES: usize = 256 << 20;
/// Bytes of classes and targets that a shared lexicon keeps.
pub const MAX_CLASS_BYTES: usize = 128 << 20;
/// States whose requests for a partial class are counted; then counting starts again.
pub const MAX_COUNTED_REQUESTS: usize = 1 << 16;
/// States in the table of moves that a walk keeps; further states have no entry.
pub const MAX_NUMBERED_STATES: usize = 1 << 12;

// Grammars (`grammar`).

/// Conditions of a list of members: the search uses one level of recursion for each. More reach `Limits.nodes`.
pub const MAX_CONDITIONS: u32 = 4096;
/// Bytes of a terminal's program whose term is kept: long programs rarely occur again. Those of string formats have up
/// to 13,000 bytes.
pub const MAX_KEPT_PROGRAM: usize = 1 << 14;
/// Depth of the recursion that follows choices between texts of which one is a prefix of another.
pub const MAX_COMPLETION_CHOICES: u32 = 256;
/// Elements of a draft that is kept for the next network.
pub const MAX_KEPT_DRAFT: usize = 1 << 16;
/// Templates of shared rules that are kept.
pub const MAX_TEMPLATES: usize = 64;
/// Bytes of shared rules of which a template is kept.
pub const MAX_TEMPLATE_PROGRAM: usize = 4096;
/// Passes over all positions; after that, facts are propagated individually.
pub const MAX_FACT_PASSES: u32 = 6;

// Token budgets (`budgets`).

/// States that are visited to bound the distances of a term whose form does not show them; beyond them there is no
/// bound.
pub const MAX_FARTHEST_STATES: usize = 256;
/// Depth to which the form of a term is examined for that bound.
pub const MAX_FARTHEST_DEPTH: u32 = 64;
/// Passes over all positions; a bound that still grows after them becomes `NEVER`.
pub const MAX_BOUND_PASSES: usize = 64;
/// Texts that may repeat known values; after that, these values are excluded from the term.
pub const MAX_REPEATED_VALUES: u32 = 100;
/// States of a term for which the texts of each length are counted; terms with more have no bound on the length of a
/// value that has not come yet.
pub const MAX_SLACK_STATES: usize = 4096;
/// Length of the texts that are counted so.
pub const MAX_SLACK_LENGTH: u32 = 512;
/// A term with at most this many values, or with at most as many as the list must have, is a kind of its own where
/// possible.
pub const VALUES_OF_OWN_KIND: u32 = 64;
/// The limit for that number, however many values the list must have.
pub const MAX_VALUES_OF_OWN_KIND: u32 = 1024;
/// Length of a remainder. A state that has no shorter one counts as one that cannot be completed.
pub const MAX_REMAINDER: u32 = 1 << 18;
/// Texts, ways and frames that are cached in addition to those of the grammar's own positions.
pub const MAX_KEPT_REMAINDERS: usize = 1 << 20;
/// Lists that are kept spelled. With a list spelled once, a mask at the first of 200 required keys took 3 ms at p99
/// instead of 65.
pub const MAX_SPELT_LISTS: usize = 4;

// Masks (`masks`).

/// Dropped pieces that are freed whenever something is added. Freeing all at once took 101 ms of one mask.
pub const MAX_FREED_AT_ONCE: usize = 64;
/// The states and frames of all sequences together may take this many times the cache's bytes; then calls reach
/// `Limits.cache_bytes`.
pub const LIVE_TO_CACHE: usize = 3;
/// One part in this many of a grammar's memory (`Limits.cache_bytes`) is for automata of situations.
pub const AUTOMATA_SHARE: usize = 2;
/// Automata of situations, and tables of remainders, that a grammar keeps for threads that run at the same time.
pub const MAX_AUTOMATA: usize = 4;
/// One part in this many of a grammar's memory is for a lexicon that the grammar has to itself. The classes and targets
/// of that lexicon may take as much again.
pub const LEXICON_SHARE: usize = 8;
/// Bytes that such a lexicon may take at least.
pub const MIN_LEXICON_BYTES: usize = 1 << 20;
/// Walks along a tangled terminal when a grammar is compiled. Without them, three pairs of letters a fixed distance
/// apart compiled in 9 ms, and a mask after twenty characters reached `Limits.work`.
pub const REHEARSAL_WALKS: u32 = 4;
/// Bytes of each such walk.
pub const REHEARSAL_BYTES: u32 = 48;
/// Forced bytes that are searched for their longest token; hardly any token is longer.
pub const MAX_FORCED_SEARCHED: usize = 64;
/// Dropped situations that each call of `Automaton::make_room` frees.
pub const MAX_SITUATIONS_FREED: usize = 2;

// Captures (`captures`).

/// Bytes that must come which an explanation reports.
pub const MAX_EXPECTED_BYTES: usize = 40;
/// Calls around a position in which an explanation looks for open captures.
pub const MAX_EXPECTED_CALLS: usize = 100;
/// Steps that each byte adds to the work that a text may take: a byte takes about this many if there are no choices.
pub const WORK_PER_BYTE: u64 = 100;
/// Nesting of a terminal's nodes; deeper ones reach `Limits.work`.
pub const MAX_ORDERED_DEPTH: u32 = 2000;

// JSON Schema (`schema`).

/// Nesting of JSON; Python's own parser reads deeper text, as its stack may end there.
pub const MAX_JSON_DEPTH: u32 = 1000;
/// Bytes of a text, including repeated values; Python converts longer texts.
pub const MAX_MARSHAL_TEXT: usize = 1 << 26;
/// Bytes of repeated objects and lists: a few bytes may describe twenty levels that each contain the next level twice.
pub const MAX_MARSHAL_REPEATED: usize = 1 << 20;
/// Digits of a number in a schema; Python converts integers of 4,300 digits by default.
pub const MAX_DECIMAL_DIGITS: i64 = 4000;
/// Schemas that apply to one value, each inside another. This limit holds whatever a user allows, because threads have
/// small stacks.
pub const MAX_SCHEMA_DEPTH: u32 = 200;
/// Depth of the chains of schemas whose names are read for the order of keys; deeper ones are refused.
pub const MAX_KEY_ORDER_DEPTH: u32 = 250;
/// Branches of an `anyOf` with `unevaluatedProperties` or `unevaluatedItems`: all their subsets are computed, so more
/// are refused.
pub const MAX_TRACKED_BRANCHES: usize = 6;
/// Literals for one property in a union about single properties: all their combinations are needed.
pub const MAX_CLAUSE_LITERALS: usize = 4;
/// Alternatives of objects that are compared with each other, to drop those that lie within others.
pub const MAX_OBJECTS_COMPARED: usize = 400;
/// Levels of items and properties that are searched for a contradiction.
pub const MAX_CONTRADICTION_DEPTH: u32 = 4;
/// Steps of a search for the members that complete an object; more are refused.
pub const MAX_COMPLETION_STEPS: u32 = 10_000;
/// Depth of the recursion of that search.
pub const MAX_COMPLETION_DEPTH: u32 = 500;
/// Classes of keys that patterns distinguish; more are refused.
pub const MAX_KEY_CLASSES: usize = 64;
/// Alternatives of a value that several schemas distinguish; more are refused.
pub const MAX_VALUE_ALTERNATIVES: usize = 256;
/// Literals that each may hold or not for one value; they make up to `MAX_VALUE_ALTERNATIVES` alternatives.
pub const MAX_VALUE_LITERALS: usize = MAX_VALUE_ALTERNATIVES.ilog2() as usize;
/// Such alternatives in a whole schema. The engine reads them side by side, and with more, masks would take too long.
pub const MAX_SCHEMA_ALTERNATIVES: u64 = 1_000;
/// Keys of a class that are named if their values decide which conditions the keys meet.
pub const MAX_NAMED_KEYS: u64 = 64;
/// States of arrays or objects that are counted: one rule each; more are refused.
pub const MAX_COUNTING_STATES: usize = 5000;
/// Values of the items of an array with `uniqueItems` whose states are counted: there is one for each set of values, so
/// more are refused.
pub const MAX_COUNTED_VALUES: usize = 10;
/// Listed values of an array with `uniqueItems` that become one member each. With more, the engine remembers the values
/// that have come; more arrays or objects are refused.
pub const MAX_LISTED_VALUES: usize = 64;
/// `contains` that are tracked together: an item has one alternative for each set of them. With more, states are counted.
pub const MAX_CONTAINS: usize = 4;
/// Positions of a list that are searched for shared values.
pub const MAX_COMPARED_POSITIONS: u64 = 30;
/// Arrays and objects that are tried to list the values of a schema; some of them are equal, or do not satisfy every
/// keyword.
pub const MAX_VALUES_TRIED: usize = 1_000;
/// Levels of arrays and objects inside each other in such values.
pub const MAX_LISTED_LEVELS: u32 = 8;
/// Items of an array in such values.
pub const MAX_LISTED_ITEMS: usize = 64;
/// Passes over undecided rules; after that, the rules that depend on each other are computed.
pub const MAX_RULE_PASSES: usize = 6;
/// Bytes of terminals with patterns and formats that are kept for other schemas.
pub const MAX_TESTED_BYTES: usize = 1 << 20;
/// Alternatives for strings that are checked for emptiness; more are not checked.
pub const MAX_STRINGS_DECIDED: usize = 8;
/// Wider alternatives for strings that one is compared with.
pub const MAX_STRINGS_COMPARED: usize = 64;
/// States and steps of an automaton that decides whether a set of numbers is empty; beyond them it is not known to be
/// empty.
pub const DECIDING_NUMBERS: (u64, u64) = (2000, 200_000);
/// States and steps of an automaton that decides whether a set of strings is empty.
pub const DECIDING_STRINGS: (u64, u64) = (500, 20_000);
/// States and steps of an automaton that counts texts.
pub const COUNTING_TEXTS: (u64, u64) = (5000, 1_000_000);
/// Multiples that are listed one by one.
pub const MAX_LISTED_MULTIPLES: u64 = 2000;
/// States of the multiples of all steps of one set, between its bounds; `multipleOf` with more is refused.
pub const MAX_MULTIPLE_STATES: u64 = 8192;
/// Digits of bounds that are written out; beyond them, a number has the usual number of digits.
pub const MAX_BOUND_DIGITS: usize = 100;
/// States of the multiples of a step for which digits are counted as well: counting repeats the states for each number
/// of digits.
pub const MAX_COUNTED_STATES: u64 = 1024;
/// Numbers of digits whose nodes a process keeps.
pub const MAX_KEPT_DIGITS: usize = 1024;
/// Nesting of alternatives with shared beginnings in a list of texts.
pub const MAX_SHARED_PREFIXES: u32 = 12;
/// Nesting of groups in values of the format `regex`; values that nest deeper are left out.
pub const MAX_EXPRESSION_DEPTH: u32 = 4;
