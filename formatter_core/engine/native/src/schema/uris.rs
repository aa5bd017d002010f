//! URIs of schemas: relative ones against a base, as RFC 3986 and Python's `urllib.parse` resolve them.

/// A URI without its fragment.
struct Parts<'a> {
    scheme: &'a str,
    /// What stands between `//` and the path.
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

/// Schemes of URIs that have relative ones.
const RELATIVE: [&str; 20] = [
    "", "ftp", "http", "gopher", "nntp", "imap", "wais", "file", "https", "shttp", "mms", "prospero", "rtsp", "rtspu",
    "rtsps", "sftp", "svn", "svn+ssh", "ws", "wss",
];

impl<'a> Parts<'a> {
    fn of(uri: &'a str) -> Self {
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        let (scheme, rest) = uri
            .split_once(':')
            .filter(|split| is_scheme(split.0))
            .unwrap_or(("", uri));
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
        Parts {
            scheme,
            authority,
            path,
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
        if let Some(query) = self.query {
            uri.push('?');
            uri += query;
        }
        uri
    }
}

/// A URI as two parts: without its fragment, and the fragment.
pub fn without_fragment(uri: &str) -> (String, &str) {
    match uri.split_once('#') {
        Some((before, fragment)) => (Parts::of(before).joined(), fragment),
        None => (uri.into(), ""),
    }
}

/// A URI without fragment that may be relative to a base; None for one that is left to others.
pub fn joined(base: &str, uri: &str) -> Option<String> {
    if base.is_empty() || uri.is_empty() {
        return Some(if uri.is_empty() { base } else { uri }.into());
    }
    if uri.contains(';') {
        return None;
    }
    let (parts, base) = (Parts::of(uri), Parts::of(base));
    let is_of = |scheme: &str| parts.scheme.is_empty() || parts.scheme.eq_ignore_ascii_case(scheme);
    if !is_of(base.scheme) || !RELATIVE.iter().any(|scheme| scheme.eq_ignore_ascii_case(base.scheme)) {
        return Some(uri.into());
    }
    let scheme = base.scheme;
    if parts.authority.is_some_and(|authority| !authority.is_empty()) {
        return Some(Parts { scheme, ..parts }.joined());
    }
    let authority = base.authority;
    if parts.path.is_empty() {
        let query = parts.query.or(base.query);
        let path = base.path;
        return Some(
            Parts {
                scheme,
                authority,
                path,
                query,
            }
            .joined(),
        );
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
    let query = parts.query;
    Some(
        Parts {
            scheme,
            authority,
            path,
            query,
        }
        .joined(),
    )
}
