//! Single JSON values.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::schema::leaves::Decimal;

/// A value that is neither a list nor an object.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Scalar {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(Arc<str>),
}

/// Any value. The keys of an object have an order; objects with different orders are different here.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Single {
    Scalar(Scalar),
    List(Vec<Single>),
    Object(Vec<(Arc<str>, Single)>),
}

impl Single {
    /// Return the value with all keys in one canonical order, which is equal for equal values.
    pub fn in_one_order(&self) -> Single {
        match self {
            Single::Scalar(_) => self.clone(),
            Single::List(items) => Single::List(items.iter().map(Single::in_one_order).collect()),
            Single::Object(entries) => {
                let entries = entries.iter().map(|(name, value)| (name.clone(), value.in_one_order()));
                let mut entries: Vec<_> = entries.collect();
                entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
                Single::Object(entries)
            }
        }
    }
}

/// Writes the value as the names of rules show it.
impl Display for Single {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Single::Scalar(Scalar::Null) => out.write_str("None"),
            Single::Scalar(Scalar::Bool(true)) => out.write_str("True"),
            Single::Scalar(Scalar::Bool(false)) => out.write_str("False"),
            Single::Scalar(Scalar::Number(number)) => out.write_str(&number.fraction_text()),
            Single::Scalar(Scalar::Text(text)) => out.write_str(text),
            Single::List(items) => {
                let items: Vec<String> = items.iter().map(Single::to_string).collect();
                write!(out, "[{}]", items.join(", "))
            }
            Single::Object(entries) => {
                let entries: Vec<String> = entries.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                write!(out, "{{{}}}", entries.join(", "))
            }
        }
    }
}
