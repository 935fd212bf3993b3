//! List values of a study file: one value where a list is expected counts as a list of one, and a factor may have a list
//! for each scale. `file` and the other types read from a study file use it.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::scale::PerScale;

/// For `deserialize_with`: a value or a list of values.
pub(super) fn one_or_more<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    OneOrMore::deserialize(deserializer).map(|OneOrMore(values)| values)
}

/// For `deserialize_with` on an optional key.
pub(super) fn some_one_or_more<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    one_or_more(deserializer).map(Some)
}

/// A value or a list of values.
pub(super) struct OneOrMore<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData)).map(Self)
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(value.into_deserializer())?])
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(value.into_deserializer())?])
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(text.into_deserializer())?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
        Ok(vec![T::deserialize(MapAccessDeserializer::new(map))?])
    }
}

/// The values of a factor: one, a list, or `{ scaled = [...], full = [...] }`; never none.
pub(super) struct FactorValues<T>(pub(super) PerScale<Vec<T>>);

impl<'de, T: Deserialize<'de> + Clone> Deserialize<'de> for FactorValues<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FactorVisitor(PhantomData)).map(Self)
    }
}

struct FactorVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Clone> Visitor<'de> for FactorVisitor<T> {
    type Value = PerScale<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list of values, or { scaled = [...], full = [...] }")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        ListVisitor(PhantomData).visit_i64(value).map(PerScale::same)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        ListVisitor(PhantomData).visit_f64(value).map(PerScale::same)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        ListVisitor(PhantomData).visit_str(text).map(PerScale::same)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        let list = ListVisitor(PhantomData).visit_seq(items)?;
        require_value(&list)?;
        Ok(PerScale::same(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Scales<T> {
            #[serde(bound(deserialize = "T: Deserialize<'de>"), deserialize_with = "one_or_more")]
            scaled: Vec<T>,
            #[serde(bound(deserialize = "T: Deserialize<'de>"), deserialize_with = "one_or_more")]
            full: Vec<T>,
        }
        let Scales { scaled, full } = Scales::deserialize(MapAccessDeserializer::new(map))?;
        require_value(&scaled)?;
        require_value(&full)?;
        Ok(PerScale { scaled, full })
    }
}

fn require_value<T, E: de::Error>(list: &[T]) -> Result<(), E> {
    if list.is_empty() { Err(E::custom("a factor needs at least one value")) } else { Ok(()) }
}
