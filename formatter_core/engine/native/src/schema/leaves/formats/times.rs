//! Times of day (RFC 3339, section 5.6). Second 60 is 23:59:60 in UTC: the local time follows from the offset.

use std::sync::OnceLock;

use super::whole;
use crate::regular::regex::Node;

pub const TIME: &str =
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const FRACTION: &str = r"(?:\.[0-9]+)?";

/// Make the times, with leap seconds at every offset.
pub fn time() -> Node {
    let [utc, behind, ahead] = leap_seconds();
    Node::choice(vec![whole(TIME), utc, behind, ahead])
}

/// Make a letter in either case; the same letter gives the same node.
pub fn letter(upper: u8) -> Node {
    static KNOWN: [OnceLock<Node>; 2] = [OnceLock::new(), OnceLock::new()];
    let code = u32::from(upper);
    let make = || Node::chars([(code, code), (code + 0x20, code + 0x20)].into());
    KNOWN[usize::from(upper == b'Z')].get_or_init(make).clone()
}

/// Make leap seconds whose offsets are multiples of a quarter of an hour.
pub fn common_leap_seconds() -> Node {
    let fraction = whole(FRACTION);
    let option = |quarter: u32| {
        let (hours, minutes) = ((15 * quarter + 14) / 60, (15 * quarter + 14) % 60);
        let (ahead, behind) = (15 * quarter + 15, 1425 - 15 * quarter);
        let offset = |sign: char, offset: u32| Node::text(format!("{sign}{:02}:{:02}", offset / 60 % 24, offset % 60));
        let mut offsets = vec![offset('+', ahead), offset('-', behind)];
        if quarter == 95 {
            offsets.push(letter(b'Z'));
        }
        let time = Node::text(format!("{hours:02}:{minutes:02}:60"));
        Node::sequence(vec![time, fraction.clone(), Node::choice(offsets)])
    };
    Node::choice((0..96).map(option).collect())
}

/// Make leap seconds in UTC, at offsets behind UTC, and at offsets ahead of it.
fn leap_seconds() -> [Node; 3] {
    let end = whole(&format!(":60{FRACTION}"));
    let two_digits = whole("[0-9]{2}");
    let colon = Node::text(":");
    let time = |hours: Node, minutes: Node, sign: &str, offset_hours: Node, offset_minutes: Node| {
        let sign = Node::text(sign);
        Node::sequence(vec![
            hours,
            colon.clone(),
            minutes,
            end.clone(),
            sign,
            offset_hours,
            colon.clone(),
            offset_minutes,
        ])
    };
    let pair = |number: u32| Node::text(format!("{number:02}"));
    let any = || two_digits.clone();
    let behind_hours = (0..24).map(|hour| time(pair(23 - hour), any(), "-", pair(hour), any()));
    let behind_hours = Node::choice(behind_hours.collect());
    let behind_minutes = (0..60).map(|minute| time(any(), pair(59 - minute), "-", any(), pair(minute)));
    let behind_minutes = Node::choice(behind_minutes.collect());
    let ahead_minutes = (0..60).map(|minute| time(any(), pair((minute + 59) % 60), "+", any(), pair(minute)));
    let ahead_minutes = Node::choice(ahead_minutes.collect());
    let before_59 = whole("[0-4][0-9]|5[0-8]");
    let ahead_hours = (0..24).map(|hour| time(pair((hour + 23) % 24), pair(59), "+", pair(hour), any()));
    let same_hours = (0..24).map(|hour| time(pair(hour), before_59.clone(), "+", pair(hour), any()));
    let ahead_hours = Node::choice(ahead_hours.chain(same_hours).collect());
    [
        Node::sequence(vec![Node::text("23:59"), end.clone(), letter(b'Z')]),
        Node::intersection(vec![behind_hours, behind_minutes]),
        Node::intersection(vec![ahead_hours, ahead_minutes]),
    ]
}
