//! Limits of the process, in results a number or a word.

use rustix::process::{Resource, getrlimit};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// A limit of the process, getrlimit(2). In JSON a number, or `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    AtMost(u64),
    Unlimited,
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtMost(value) => serializer.serialize_u64(*value),
            Self::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Kept {
            Number(u64),
            Word(String),
        }
        match Kept::deserialize(deserializer)? {
            Kept::Number(value) => Ok(Self::AtMost(value)),
            Kept::Word(word) if word == "unlimited" => Ok(Self::Unlimited),
            Kept::Word(word) => Err(de::Error::custom(format!("`{word}` is neither a number nor unlimited"))),
        }
    }
}

impl Limit {
    pub(super) fn of(resource: Resource) -> Self {
        getrlimit(resource).current.map_or(Self::Unlimited, Self::AtMost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_unlimited_in_json() {
        let json = serde_json::to_string(&[Limit::AtMost(65536), Limit::Unlimited]).unwrap();
        assert_eq!(json, r#"[65536,"unlimited"]"#);
    }
}
