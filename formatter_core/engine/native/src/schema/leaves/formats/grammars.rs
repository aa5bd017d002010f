//! The grammars of the formats that consist of one pattern.

use super::hosts::labels;

/// The time of a duration (RFC 3339, appendix A).
const TIME_PARTS: &str = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
const DATE_PARTS: &str = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";

/// A byte of an IP address (RFC 2673, section 3.2, and RFC 4291, section 2.2, as RFC 3986 writes them).
const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const GROUP: &str = "[0-9A-Fa-f]{1,4}";

/// Private characters (RFC 3987, section 2.2).
const PRIVATE: &str = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}";

const ESCAPED: &str = "%[0-9A-Fa-f]{2}";
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";

/// Return the pattern of one of these formats.
pub fn pattern(name: &str) -> String {
    match name {
        "date" => date(),
        "duration" => format!("P(?:{DATE_PARTS}(?:{TIME_PARTS})?|{TIME_PARTS}|[0-9]+W)"),
        "email" => mailbox(""),
        "idn-email" => mailbox(r"\u0080-\u{10ffff}"),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uri" => uri("", "", false),
        "uri-reference" => uri("", "", true),
        "iri" => uri(&ucs(), PRIVATE, false),
        "iri-reference" => uri(&ucs(), PRIVATE, true),
        "uuid" => "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}".to_owned(),
        "uri-template" => template(),
        "json-pointer" => POINTER.to_owned(),
        "relative-json-pointer" => format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})"),
        _ => unreachable!("{name} has no pattern"),
    }
}

/// Return the pattern of dates (RFC 3339, section 5.6). Only a leap year has a 29th of February.
pub fn date() -> String {
    let leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    format!(
        "(?:[0-9]{{4}}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)\
         |02-(?:0[1-9]|1[0-9]|2[0-8]))|{leap_year}-02-29)"
    )
}

fn ipv4() -> String {
    format!(r"{OCTET}(?:\.{OCTET}){{3}}")
}

fn ipv6() -> String {
    let tail = format!("(?:{GROUP}:{GROUP}|{})", ipv4());
    let mut options = vec![format!("(?:{GROUP}:){{6}}{tail}"), format!("::(?:{GROUP}:){{5}}{tail}")];
    let inner = |count: usize| {
        let rest = 4 - count;
        format!("(?:(?:{GROUP}:){{0,{count}}}{GROUP})?::(?:{GROUP}:){{{rest}}}{tail}")
    };
    options.extend((0..5).map(inner));
    options.push(format!("(?:(?:{GROUP}:){{0,5}}{GROUP})?::{GROUP}"));
    options.push(format!("(?:(?:{GROUP}:){{0,6}}{GROUP})?::"));
    format!("(?:{})", options.join("|"))
}

/// Return the characters beyond ASCII that identifiers may contain (RFC 3987, section 2.2).
fn ucs() -> String {
    let plane = |plane: u32| {
        let first = if plane == 14 { '1' } else { '0' };
        format!(r"\u{{{plane:x}{first}000}}-\u{{{plane:x}fffd}}")
    };
    let planes: String = (1..15).map(plane).collect();
    format!(r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{planes}")
}

/// Return the pattern of mailboxes (RFC 5321, section 4.1.2; with `more` characters RFC 6531, section 3.3).
fn mailbox(more: &str) -> String {
    let atom = format!("[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{more}-]+");
    let quoted = format!(r#""(?:[ !#-\[\]-~{more}]|\\[ -~])*""#);
    let label = format!("[A-Za-z0-9{more}](?:[A-Za-z0-9{more}-]*[A-Za-z0-9{more}])?");
    let domain = labels(&label);
    let address = format!(r"\[(?:{}|[Ii][Pp][Vv]6:{})\]", ipv4(), ipv6());
    format!(r"(?:{atom}(?:\.{atom})*|{quoted})@(?:{domain}|{address})")
}

/// Return the pattern of URIs (RFC 3986, appendix A; with `ucs` and `private` characters RFC 3987, section 2.2).
fn uri(ucs: &str, private: &str, relative: bool) -> String {
    let plain = format!("A-Za-z0-9._~!$&'()*+,;={ucs}-");
    let char = format!("(?:[:@{plain}]|{ESCAPED})");
    let user = format!("(?:[:{plain}]|{ESCAPED})*");
    let future = r"[vV][0-9A-Fa-f]+\.[:A-Za-z0-9._~!$&'()*+,;=-]+";
    let ipv6 = ipv6();
    let host = format!(r"(?:\[(?:{ipv6}|{future})\]|(?:[{plain}]|{ESCAPED})*)");
    let segments = format!("(?:/{char}*)*");
    let rooted = format!("//(?:{user}@)?{host}(?::[0-9]*)?{segments}|/(?:{char}+{segments})?");
    let tail = format!(r"(?:\?(?:[/?:@{private}{plain}]|{ESCAPED})*)?(?:#(?:[/?:@{plain}]|{ESCAPED})*)?");
    let absolute = format!("[A-Za-z][A-Za-z0-9+.-]*:(?:{rooted}|{char}+{segments})?{tail}");
    match relative {
        true => format!("(?:{absolute}|(?:{rooted}|(?:[@{plain}]|{ESCAPED})+{segments})?{tail})"),
        false => absolute,
    }
}

/// Return the pattern of URI templates (RFC 6570, section 2, with erratum 6937: an apostrophe is a literal too).
fn template() -> String {
    let literals = format!(r"(?:[!#$&'(-;=?-\[\]_a-z~{}{PRIVATE}]|{ESCAPED})", ucs());
    let char = format!("(?:[A-Za-z0-9_]|{ESCAPED})");
    let variable = format!(r"{char}(?:\.?{char})*(?::[1-9][0-9]{{0,3}}|\*)?");
    format!(r"(?:{literals}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*")
}
