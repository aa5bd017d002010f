//! What stands inside of terminals that are there before any schema.

use crate::hash::FastMap;
use crate::limits::{Fault, Outcome};
use crate::program::Reader;
use crate::schema::lower::TOKENS;
use crate::schema::nodes::Regular;
use crate::schema::terminals::Parts;

/// The tokens, parts of others, and the scalars that schemas often have, all for one draft.
pub struct Common {
    pub draft: u32,
    pub tokens: Vec<Regular>,
    pub parts: Parts,
    scalars: FastMap<Box<str>, Regular>,
}

impl Common {
    /// `given` are the programs of the tokens, of the colon, of any string's body and character, and then of the scalars,
    /// each with its size before it; `texts` the schemas of those scalars, each ended by a zero byte.
    pub fn read(draft: u32, given: &[u8], texts: &str) -> Outcome<Common> {
        let mut reader = Reader { data: given };
        let mut next = || Regular::read(&mut reader);
        let tokens: Outcome<Vec<Regular>> = (0..TOKENS).map(|_| next()).collect();
        let parts = Parts {
            colon: next()?,
            any_body: next()?,
            any_char: next()?,
        };
        let texts = texts.split_terminator('\0');
        let scalars: Outcome<FastMap<Box<str>, Regular>> = texts.map(|text| Ok((text.into(), next()?))).collect();
        let common = Common {
            draft,
            tokens: tokens?,
            parts,
            scalars: scalars?,
        };
        reader.data.is_empty().then_some(common).ok_or(Fault::Malformed)
    }

    /// The scalars that a schema allows, by its text.
    pub fn scalars(&self, text: &str) -> Option<&Regular> {
        self.scalars.get(text)
    }
}
