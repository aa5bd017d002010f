//! URIs of schemas: resolves relative URIs against a base, as RFC 3986 and Python's `urllib.parse` do.

/// The parts of a URI without its fragment.
struct Parts<'a> {
    /// The scheme, or that of the base if the URI has none.
    scheme: &'a str,
    /// The text between `//` and the path.
    authority: Option<&'a str>,
    path: &'a str,
    /// The text after a semicolon in the last segment of the path.
    parameters: &'a str,
    query: Option<&'a str>,
}

/// Schemes that have relative URIs.
const RELATIVE: [&str; 20] = [
    "", "ftp", "http", "gopher", "nntp", "imap", "wais", "file", "https", "shttp", "mms", "prospero", "rtsp", "rtspu",
    "rtsps", "sftp", "svn", "svn+ssh", "ws", "wss",
];
/// Schemes whose URIs have parameters.
const WITH_PARAMETERS: [&str; 15] = [
    "", "ftp", "hdl", "prospero", "http", "https", "shttp", "rtsp", "rtsps", "rtspu", "sip", "sips", "mms", "sftp",
    "tel",
];

fn is_among(scheme: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|each| each.eq_ignore_ascii_case(scheme))
}

impl<'a> Parts<'a> {
    fn of(uri: &'a str, base_scheme: &'a str) -> Self {
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        let (scheme, rest) = uri
            .split_once(':')
            .filter(|split| is_scheme(split.0))
            .unwrap_or((base_scheme, uri));
        let (rest, query) = rest
            .split_once('?')
            .map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                (Some(&rest[..end]), &rest[end..])
            }
            None => (None, rest),
        };
        let last = path.rfind('/').unwrap_or(0);
        let semicolon = path[last..].find(';').filter(|_| is_among(scheme, &WITH_PARAMETERS));
        let (path, parameters) = match semicolon {
            Some(place) => (&path[..last + place], &path[last + place + 1..]),
            None => (path, ""),
        };
        Parts {
            scheme,
            authority,
            path,
            parameters,
            query: query.filter(|query| !query.is_empty()),
        }
    }

    fn joined(&self) -> String {
        let mut uri = String::new();
        if !self.scheme.is_empty() {
            uri = self.scheme.to_ascii_lowercase() + ":";
        }
        if let Some(authority) = self.authority {
            uri += "//";
            uri += authority;
            if !self.path.is_empty() && !self.path.starts_with('/') {
                uri.push('/');
            }
        }
        uri += self.path;
        if !self.parameters.is_empty() {
            uri.push(';');
            uri += self.parameters;
        }
        if let Some(query) = self.query {
            uri.push('?');
            uri += query;
        }
        uri
    }
}

/// Split a URI into the URI without its fragment, and the fragment.
pub fn without_fragment(uri: &str) -> (String, &str) {
    match uri.split_once('#') {
        Some((before, fragment)) => (Parts::of(before, "").joined(), fragment),
        None => (uri.into(), ""),
    }
}

/// Resolve a URI without fragment against a base.
pub fn joined(base: &str, uri: &str) -> String {
    if base.is_empty() || uri.is_empty() {
        return if uri.is_empty() { base } else { uri }.into();
    }
    let base = Parts::of(base, "");
    let parts = Parts::of(uri, base.scheme);
    let scheme = base.scheme;
    if !parts.scheme.eq_ignore_ascii_case(scheme) || !is_among(scheme, &RELATIVE) {
        return uri.into();
    }
    if parts.authority.is_some_and(|authority| !authority.is_empty()) {
        return parts.joined();
    }
    let authority = base.authority;
    if parts.path.is_empty() && parts.parameters.is_empty() {
        let query = parts.query.or(base.query);
        return Parts { query, ..base }.joined();
    }
    let mut segments: Vec<&str> = Vec::new();
    if !parts.path.starts_with('/') {
        segments = base.path.split('/').collect();
        if segments.last().is_some_and(|last| !last.is_empty()) {
            segments.pop();
        }
    }
    segments.extend(parts.path.split('/'));
    let last = segments.len() - 1;
    let mut resolved: Vec<&str> = Vec::new();
    for (place, segment) in segments.iter().enumerate() {
        match *segment {
            "" if place > 0 && place < last => {}
            ".." => {
                resolved.pop();
            }
            "." => {}
            segment => resolved.push(segment),
        }
    }
    if matches!(segments[last], "." | "..") {
        resolved.push("");
    }
    let path = resolved.join("/");
    let path = if path.is_empty() { "/" } else { &path };
    Parts {
        authority,
        path,
        ..parts
    }
    .joined()
}
