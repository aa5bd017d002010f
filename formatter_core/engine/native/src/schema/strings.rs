//! Sets of strings that schemas list or limit, and their intersections and unions.

use crate::program::operation;
use crate::schema::common::Texts;
use crate::schema::inside::{Inside, Part};
use crate::schema::patterns::Pattern;

/// What a text passes, by the number of a pattern or a format.
#[derive(Clone, Copy, PartialEq)]
pub enum Test {
    Pattern(usize),
    Format(usize),
}

#[derive(Clone, PartialEq)]
pub enum Strings<'a> {
    Listed(Vec<&'a str>),
    Limited {
        minimum: u32,
        maximum: Option<u32>,
        tests: Vec<Test>,
    },
}

impl<'a> Strings<'a> {
    pub const ANY: Strings<'static> = Strings::Limited {
        minimum: 0,
        maximum: None,
        tests: Vec::new(),
    };

    pub fn is_any(&self) -> bool {
        *self == Strings::ANY
    }

    /// The strings of both, if there are any; None if that is left to others.
    pub fn met(&self, other: &Strings<'a>) -> Option<Option<Strings<'a>>> {
        let (least, most, passed) = match (self, other) {
            (Strings::Listed(texts), other) | (other, Strings::Listed(texts)) => {
                let mut kept = Vec::new();
                for text in texts {
                    if other.contains(text)? {
                        kept.push(*text);
                    }
                }
                return Some((!kept.is_empty()).then_some(Strings::Listed(kept)));
            }
            (
                Strings::Limited {
                    minimum,
                    maximum,
                    tests,
                },
                Strings::Limited {
                    minimum: least,
                    maximum: most,
                    tests: more,
                },
            ) => {
                let mut tests = tests.clone();
                tests.extend(
                    more.iter()
                        .filter(|test| !tests.contains(test))
                        .copied()
                        .collect::<Vec<_>>(),
                );
                let most = match (maximum, most) {
                    (Some(one), Some(other)) => Some(*one.min(other)),
                    (one, other) => one.or(*other),
                };
                (*minimum.max(least), most, tests)
            }
        };
        let some = most.map_or(true, |most| least <= most);
        Some(some.then_some(Strings::Limited {
            minimum: least,
            maximum: most,
            tests: passed,
        }))
    }

    /// Whether a text is one of them; None if that is left to others.
    fn contains(&self, text: &str) -> Option<bool> {
        match self {
            Strings::Listed(texts) => Some(texts.contains(&text)),
            Strings::Limited {
                minimum,
                maximum,
                tests,
            } => {
                let length = text.chars().count();
                tests.is_empty().then_some(())?;
                Some(*minimum as usize <= length && maximum.map_or(true, |maximum| length <= maximum as usize))
            }
        }
    }

    /// How many tests they pass.
    pub fn tests(&self) -> usize {
        match self {
            Strings::Listed(_) => 0,
            Strings::Limited { tests, .. } => tests.len(),
        }
    }

    /// Whether all of them are for certain in another set.
    pub fn lies_within(&self, other: &Strings) -> bool {
        match (self, other) {
            (
                Strings::Limited {
                    minimum,
                    maximum,
                    tests,
                },
                Strings::Limited {
                    minimum: least,
                    maximum: most,
                    tests: fewer,
                },
            ) => {
                let is_short = most.map_or(true, |most| maximum.is_some_and(|maximum| maximum <= most));
                minimum >= least && is_short && fewer.iter().all(|test| tests.contains(test))
            }
            _ => false,
        }
    }
}

impl Inside<'_> {
    /// The alternatives of a union of strings, in quotes; how many they are. None if that is left to others, or one may
    /// have no text.
    #[inline(never)]
    pub fn strings(&mut self, union: &[&Strings], patterns: &[(&str, Pattern)]) -> Option<usize> {
        for strings in union {
            match strings {
                Strings::Listed(texts) => self.listed(texts.clone()),
                _ if strings.is_any() => {
                    self.part(Part::Quote);
                    self.part(Part::AnyBody);
                    self.part(Part::Quote);
                    self.list(operation::SEQUENCE, 3);
                }
                _ => {}
            }
        }
        let (mut tests_of_all, mut lengths_of_all) = (Vec::new(), Vec::new());
        for strings in union {
            let Strings::Limited {
                minimum,
                maximum,
                tests,
            } = strings
            else {
                continue;
            };
            if strings.is_any() {
                continue;
            }
            // What alternatives share is written once, and so are classes of two patterns: that is left to others.
            let is_known = |test: &Test| match test {
                Test::Pattern(_) => tests_of_all.iter().any(|other| matches!(other, Test::Pattern(_))),
                Test::Format(_) => tests_of_all.contains(test),
            };
            let patterned = tests.iter().filter(|test| matches!(test, Test::Pattern(_))).count();
            (!tests.iter().any(is_known) && patterned < 2 && tests.len() - patterned < 2).then_some(())?;
            tests_of_all.extend(tests);
            self.part(Part::Quote);
            let is_limited = *minimum > 0 || maximum.is_some();
            (!is_limited || !lengths_of_all.contains(&(*minimum, *maximum))).then_some(())?;
            lengths_of_all.push((*minimum, *maximum));
            let most = maximum.unwrap_or(u32::MAX);
            let is_some = |length| (*minimum..=most).contains(&length);
            let (mut pattern, mut example) = (None, None);
            for test in tests {
                match test {
                    Test::Pattern(number) => {
                        let (_, read) = &patterns[*number];
                        self.spelled(&read.whole);
                        pattern = Some(read);
                    }
                    Test::Format(number) => example = Some(self.format(*number)?.to_owned()),
                }
            }
            // It must be certain that there is one.
            let is_certain = match (pattern, &example) {
                (Some(pattern), None) => pattern.has_text(*minimum, *maximum),
                (pattern, Some(example)) => {
                    let is_met = !is_limited || is_some(example.chars().count() as u32);
                    is_met && pattern.map_or(true, |pattern| pattern.is_in(example))
                }
                (None, None) => true,
            };
            is_certain.then_some(())?;
            if is_limited {
                self.part(Part::AnyChar);
                self.repeat(*minimum, *maximum);
            }
            let demands = tests.len() + usize::from(is_limited);
            if demands > 1 {
                self.list(operation::INTERSECTION, demands);
            }
            self.part(Part::Quote);
            self.list(operation::SEQUENCE, 3);
        }
        Some(union.len())
    }
}

/// The texts of a list, each once.
pub fn each_once(mut texts: Vec<&str>) -> Vec<&str> {
    let mut known = Texts::default();
    texts.retain(|text| known.add(text));
    texts
}
