//! The named sets of Unicode, from `unicode.bin`, which `scripts/make_unicode_tables.py` makes.
//!
//! Numbers are LEB128, as in programs. A table is a count followed by its sets. Each set is its names (in lower case
//! without spaces, hyphens and underscores, separated by spaces) and its ranges, both as bytes preceded by their
//! length. Ranges are pairs of numbers *gap, length - 1*; each gap is counted from the end of the range before. The
//! tables are those of general categories, scripts, script extensions that differ from the scripts, and binary
//! properties. The sets of characters that differ only in case come last: for each, the gap from the first character of
//! the set before, the number of further characters, and the steps to each of them.

use std::sync::OnceLock;

use super::classes::{union, Range, Ranges};
use crate::regular::program::Reader;

const DATA: &[u8] = include_bytes!("unicode.bin");

/// The names of a set, and its encoded ranges.
type Entry = (&'static str, &'static [u8]);
type Table = Vec<Entry>;

struct Tables {
    categories: Table,
    scripts: Table,
    extensions: Table,
    binary: Table,
    orbits: &'static [u8],
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut reader = Reader { data: DATA };
        let mut table = || -> Table {
            let count = reader.number().unwrap_or(0);
            let mut entry = || Some((reader.text().ok()?, reader.counted_bytes().ok()?));
            (0..count).map_while(|_| entry()).collect()
        };
        Tables {
            categories: table(),
            scripts: table(),
            extensions: table(),
            binary: table(),
            orbits: reader.data,
        }
    })
}

/// Return a property name as the tables spell it (loose matching, UAX #44, section 5.9.3).
pub fn normal_name(name: &str) -> String {
    let kept = name
        .chars()
        .filter(|char| !char.is_whitespace() && !matches!(char, '_' | '-'));
    kept.flat_map(char::to_lowercase).collect()
}

/// Return the set of a general category. The name must be normalised, see `normal_name`.
pub fn category(name: &str) -> Option<Ranges> {
    find(&tables().categories, name)
}

/// Return the set of a script.
pub fn script(name: &str) -> Option<Ranges> {
    find(&tables().scripts, name)
}

/// Return the set of the characters whose script extensions include a script.
pub fn script_extensions(name: &str) -> Option<Ranges> {
    find(&tables().extensions, name).or_else(|| script(name))
}

/// Return the set of a binary property.
pub fn binary(name: &str) -> Option<Ranges> {
    find(&tables().binary, name)
}

/// Return Unicode `\d`: decimal numbers.
pub fn digits() -> Ranges {
    static DIGITS: OnceLock<Ranges> = OnceLock::new();
    DIGITS.get_or_init(|| united([category("nd")])).clone()
}

/// Return Unicode `\s`: white space.
pub fn space() -> Ranges {
    static SPACE: OnceLock<Ranges> = OnceLock::new();
    SPACE.get_or_init(|| united([binary("whitespace")])).clone()
}

/// Return Unicode `\w` (UTS #18, annex C): alphabetic characters, marks, decimal numbers, connectors, join controls.
pub fn word() -> Ranges {
    static WORD: OnceLock<Ranges> = OnceLock::new();
    let parts = || {
        [
            binary("alphabetic"),
            category("m"),
            category("nd"),
            category("pc"),
            binary("joincontrol"),
        ]
    };
    WORD.get_or_init(|| united(parts())).clone()
}

fn united<const COUNT: usize>(sets: [Option<Ranges>; COUNT]) -> Ranges {
    union(sets.iter().flatten().map(|set| &**set))
}

fn find(table: &Table, name: &str) -> Option<Ranges> {
    let has_name = |entry: &&Entry| entry.0.split(' ').any(|known| known == name);
    table.iter().find(has_name).map(|entry| ranges(entry.1))
}

fn ranges(data: &[u8]) -> Ranges {
    let (mut numbers, mut ranges, mut end) = (numbers(data), Vec::<Range>::new(), 0);
    while let (Some(gap), Some(more)) = (numbers.next(), numbers.next()) {
        let low = end + gap;
        ranges.push((low, low + more));
        end = low + more + 1;
    }
    ranges.into()
}

fn numbers(data: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let mut reader = Reader { data };
    std::iter::from_fn(move || reader.number().ok())
}

/// Return the characters that have a case, sorted, each with all characters that differ from it only in case.
pub fn cased() -> &'static [(u32, &'static [u32])] {
    static CASED: OnceLock<Vec<(u32, &'static [u32])>> = OnceLock::new();
    static ORBITS: OnceLock<Vec<Vec<u32>>> = OnceLock::new();
    let orbits = ORBITS.get_or_init(|| {
        let (mut numbers, mut orbits, mut first) = (numbers(tables().orbits), Vec::new(), 0);
        while let (Some(gap), Some(more)) = (numbers.next(), numbers.next()) {
            first += gap;
            let mut orbit = vec![first];
            for step in numbers.by_ref().take(more as usize) {
                orbit.push(orbit[orbit.len() - 1] + step);
            }
            orbits.push(orbit);
        }
        orbits
    });
    CASED.get_or_init(|| {
        let each = orbits
            .iter()
            .flat_map(|orbit| orbit.iter().map(|code| (*code, &orbit[..])));
        let mut cased: Vec<(u32, &'static [u32])> = each.collect();
        cased.sort_unstable();
        cased
    })
}

/// Return the set with all characters that are equal to one of its own under simple case folding (Unicode,
/// CaseFolding.txt, C and S).
pub fn fold(ranges: &Ranges) -> Ranges {
    let cased = cased();
    let mut found: Vec<Range> = Vec::new();
    for (low, high) in ranges.iter() {
        let first = cased.partition_point(|(code, _)| code < low);
        let within = cased[first..].iter().take_while(|(code, _)| code <= high);
        found.extend(within.flat_map(|(_, orbit)| orbit.iter()).map(|code| (*code, *code)));
    }
    match found.is_empty() {
        true => ranges.clone(),
        false => union([&**ranges, &found]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regular::regex::classes::{all, of};

    #[test]
    fn every_table_is_read_to_its_end() {
        let tables = tables();
        let counts = [&tables.categories, &tables.scripts, &tables.extensions, &tables.binary].map(Vec::len);
        assert!(counts[0] >= 37 && counts[1] > 150 && counts[2] > 80 && counts[3] > 50);
        assert!(cased().len() > 2_800 && cased().windows(2).all(|pair| pair[0].0 < pair[1].0));
        let all = [&tables.categories, &tables.scripts, &tables.extensions, &tables.binary];
        for (_, data) in all.into_iter().flatten() {
            let ranges = ranges(data);
            assert!(!ranges.is_empty() && ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            assert!(ranges
                .iter()
                .all(|(low, high)| low <= high && (*high < 0xd800 || *low > 0xdfff)));
        }
    }

    #[test]
    fn letters_of_either_case_are_folded() {
        let folded = |text: &str| {
            let folded = fold(&of(text.chars().map(|char| (char.into(), char.into()))));
            let codes = folded.iter().flat_map(|(low, high)| *low..=*high);
            codes.filter_map(char::from_u32).collect::<String>()
        };
        assert_eq!(folded("k"), "Kk\u{212a}");
        assert_eq!(folded("S"), "Ss\u{17f}");
        assert_eq!(folded("i"), "Ii");
        assert_eq!(folded("\u{130}\u{131}"), "\u{130}\u{131}");
        assert_eq!(folded("σ"), "Σςσ");
        assert_eq!(folded("\u{10400}"), "\u{10400}\u{10428}");
        assert_eq!(folded("1-\n"), "\n-1");
        assert_eq!(fold(&all()), all());
    }

    #[test]
    fn names_are_matched_loosely() {
        assert_eq!(normal_name(" Greek_And-coptic"), "greekandcoptic");
        assert_eq!(category("lu"), category("uppercaseletter"));
        assert_eq!(script("grek"), script("greek"));
        assert!(script_extensions("grek") != script("grek"));
        assert!(category("x").is_none() && script("klingon").is_none() && binary("shiny").is_none());
    }
}
