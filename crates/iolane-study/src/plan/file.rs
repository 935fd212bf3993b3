//! A study's file: TOML to a [`Study`], with the line of what is wrong; and the studies that are built in.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use iolane::units::parse_duration;
use iolane::{Error, IoPath, Result};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::{
    Check, Claim, Cores, Drives, Factor, Figure, Group, Lengths, Metric, NamedPath, Operand, PerScale, PublishedValue,
    Rule, Study,
};
use crate::text::Text;
use crate::workload::{Access, BlockSizes, OffsetPattern, Workload};

/// A study that comes with iolane.
#[derive(Debug)]
pub struct BuiltIn {
    /// What it is called by.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// The studies that come with iolane: a file each.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "systor22", text: include_str!("builtin/systor22.toml") },
    BuiltIn { name: "ijraset24", text: include_str!("builtin/ijraset24.toml") },
    BuiltIn { name: "hotstorage23", text: include_str!("builtin/hotstorage23.toml") },
    BuiltIn { name: "floe26", text: include_str!("builtin/floe26.toml") },
];

/// The built-in study of that name.
pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|study| study.name == name)
}

impl Study {
    /// Reads a study from its text; `file` is what messages call it.
    ///
    /// # Errors
    /// `Usage`, with the line, for what is no TOML, not known, or makes no sense.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let written: StudyFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or(file.to_owned(), |line| format!("{file} line {line}"));
            Error::usage(place, one_line(error.message()))
                .remedy("`iolane study --print systor22` shows one that is right")
        })?;
        written.study(file)
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyFile {
    name: Text<StudyName>,
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    published_on: String,
    #[serde(default)]
    scaled: LengthsFile,
    #[serde(default)]
    full: LengthsFile,
    #[serde(default)]
    workload: WorkloadFile,
    paths: BTreeMap<String, Text<IoPath>>,
    #[serde(rename = "group")]
    groups: Vec<GroupFile>,
    #[serde(default, rename = "figure")]
    figures: Vec<Figure>,
    #[serde(default, rename = "claim")]
    claims: Vec<Claim>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LengthsFile {
    runtime: Option<Text<Span>>,
    warmup: Option<Text<Span>>,
    repeats: Option<u16>,
    time: Option<Text<Span>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WorkloadFile {
    read_percent: Option<u8>,
    offsets: Option<Text<OffsetPattern>>,
    batch: Option<u32>,
    fsync_every: Option<u32>,
    rate: Option<f64>,
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    path: Vec<String>,
    #[serde(default)]
    rw: Option<Values<Text<Access>>>,
    #[serde(default)]
    bs: Option<Values<Text<BlockSizes>>>,
    #[serde(default)]
    depth: Option<Values<u32>>,
    #[serde(default)]
    threads: Option<Values<usize>>,
    #[serde(default)]
    drives: Option<Values<Drives>>,
    #[serde(default)]
    cores: Option<Values<Cores>>,
}

impl StudyFile {
    fn study(self, file: &str) -> Result<Study> {
        let bad = |cause: String| Error::usage(file, cause);
        let paths = &self.paths;
        let group = |(index, group): (usize, GroupFile)| {
            let named = group.path.iter().map(|name| match paths.get(name) {
                Some(Text(path)) => Ok(NamedPath { name: name.clone(), path: path.clone() }),
                None => Err(bad(format!("[[group]] {}: path `{name}` is not in [paths]", index + 1))),
            });
            let threads = values(group.threads, 1);
            if threads.scaled.iter().chain(&threads.full).any(|threads| !(1..=THREADS_MAX).contains(threads)) {
                return Err(bad(format!("[[group]] {}: threads are 1 or more, {THREADS_MAX} at most", index + 1)));
            }
            Ok(Group {
                paths: named.collect::<Result<_>>()?,
                access: untext(values(group.rw, Text(Access::RandRead))),
                block_sizes: untext(values(group.bs, Text(Workload::default().block_sizes))),
                depths: values(group.depth, 1),
                threads,
                drives: values(group.drives, Drives::Count(1)),
                cores: values(group.cores, Cores::All),
            })
        };
        let groups = self.groups.into_iter().enumerate().map(group).collect::<Result<Vec<_>>>()?;
        let defaults = Workload::default();
        let base = self.workload;
        let study = Study {
            name: self.name.0.0,
            title: self.title,
            source: self.source,
            published_on: self.published_on,
            workload: Workload {
                read_percent: base.read_percent,
                offsets: base.offsets.map_or(defaults.offsets, |Text(offsets)| offsets),
                batch: base.batch,
                fsync_every: base.fsync_every,
                rate: base.rate,
                seed: base.seed.unwrap_or(defaults.seed),
                ..defaults
            },
            lengths: PerScale { scaled: self.scaled.lengths(file)?, full: self.full.lengths(file)? },
            groups,
            figures: self.figures,
            claims: self.claims,
        };
        study.check(file)?;
        Ok(study)
    }
}

impl Study {
    /// What the parts of a study say of each other.
    fn check(&self, file: &str) -> Result<()> {
        let bad = |cause: String| Err(Error::usage(file, cause));
        let mut known = Vec::new();
        for claim in &self.claims {
            if known.contains(&&claim.id) {
                return bad(format!("[[claim]] {} is there twice", claim.id));
            }
            known.push(&claim.id);
            if claim.checks.is_empty() {
                return bad(format!("[[claim]] {} has no check", claim.id));
            }
            for check in &claim.checks {
                let place = || format!("[[claim]] {}: check `{}`", claim.id, check.says);
                match (check.at_least, check.at_most) {
                    (None, None) => return bad(format!("{} has neither at_least nor at_most", place())),
                    (Some(least), Some(most)) if least > most => {
                        return bad(format!("{}: at_least is above at_most", place()));
                    }
                    _ => {}
                }
                if let Some(name) = check.paths().find(|name| !self.knows(name)) {
                    return bad(format!("{}: no group has a path `{name}`", place()));
                }
            }
        }
        for figure in &self.figures {
            let published = figure.published.iter().map(|point| &point.path);
            if let Some(name) = figure.select.path.iter().chain(published).find(|name| !self.knows(name)) {
                return bad(format!("[[figure]] {}: no group has a path `{name}`", figure.id));
            }
        }
        Ok(())
    }

    fn knows(&self, name: &str) -> bool {
        self.groups.iter().flat_map(|group| &group.paths).any(|path| path.name == name)
    }
}

impl Check {
    /// The names of paths that it is about.
    fn paths(&self) -> impl Iterator<Item = &String> {
        let (selections, published): (Vec<_>, &[_]) = match &self.rule {
            Rule::Ratio { of, to, .. } | Rule::Crossing { of, to, .. } => (vec![&of.select, &to.select], &[]),
            Rule::Value { of, .. } => (vec![&of.select], &[]),
            Rule::Order { of, published_order, .. } => (vec![of], published_order),
        };
        let selected = selections.into_iter().flat_map(|select| &select.path);
        selected.chain(published.iter().map(|value| &value.path))
    }
}

/// A check as it is written: which keys it has depends on its rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckFile {
    says: String,
    rule: RuleName,
    metric: Metric,
    of: Operand,
    to: Option<Operand>,
    each: Option<Factor>,
    share: Option<f64>,
    along: Option<Factor>,
    published_order: Option<Vec<PublishedValue>>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    published: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RuleName {
    Ratio,
    Value,
    Order,
    Crossing,
}

impl TryFrom<CheckFile> for Check {
    type Error = String;

    fn try_from(file: CheckFile) -> Result<Self, String> {
        let CheckFile { says, metric, of, to, each, share, along, published_order, .. } = file;
        let needs = |key: &str| format!("check `{says}`: this rule needs `{key}`");
        let unused = match file.rule {
            RuleName::Ratio => [("along", along.is_some()), ("published_order", published_order.is_some())].to_vec(),
            RuleName::Value => {
                [("to", to.is_some()), ("along", along.is_some()), ("published_order", published_order.is_some())]
                    .to_vec()
            }
            RuleName::Order => {
                [("to", to.is_some()), ("along", along.is_some()), ("each", each.is_some()), ("share", share.is_some())]
                    .to_vec()
            }
            RuleName::Crossing => {
                [("each", each.is_some()), ("share", share.is_some()), ("published_order", published_order.is_some())]
                    .to_vec()
            }
        };
        if let Some((key, _)) = unused.into_iter().find(|(_, given)| *given) {
            return Err(format!("check `{says}`: this rule has no `{key}`"));
        }
        if share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            return Err(format!("check `{says}`: `share` is above 0, and 1 at most"));
        }
        let rule = match file.rule {
            RuleName::Ratio => Rule::Ratio { metric, of, to: to.ok_or_else(|| needs("to"))?, each, share },
            RuleName::Value => Rule::Value { metric, of, each, share },
            RuleName::Order => Rule::Order {
                metric,
                of: of.select,
                published_order: published_order.ok_or_else(|| needs("published_order"))?,
            },
            RuleName::Crossing => Rule::Crossing {
                metric,
                of,
                to: to.ok_or_else(|| needs("to"))?,
                along: along.ok_or_else(|| needs("along"))?,
            },
        };
        Ok(Self { says, rule, at_least: file.at_least, at_most: file.at_most, published: file.published })
    }
}

/// More threads no machine has cpus for.
const THREADS_MAX: usize = 1 << 16;

/// Lengths of a file that gives none.
const WARMUP: Duration = Duration::from_millis(200);
const REPEATS: u16 = 5;
const TIME: Duration = Duration::from_secs(5 * 60);

impl LengthsFile {
    fn lengths(self, file: &str) -> Result<Lengths> {
        let lengths = Lengths {
            runtime: self.runtime.map(|Text(Span(runtime))| runtime),
            warmup: self.warmup.map_or(WARMUP, |Text(Span(warmup))| warmup),
            repeats: self.repeats.unwrap_or(REPEATS).into(),
            time: self.time.map_or(TIME, |Text(Span(time))| time),
        };
        match lengths {
            Lengths { repeats: 0, .. } => Err(Error::usage(file, "repeats = 0 would measure nothing")),
            Lengths { runtime: Some(Duration::ZERO), .. } => {
                Err(Error::usage(file, "a runtime of 0 would measure nothing"))
            }
            lengths => Ok(lengths),
        }
    }
}

/// A name that can be a folder's.
struct StudyName(String);

impl FromStr for StudyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match text.len() <= 64 && text.chars().all(fits) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            true => Ok(Self(text.into())),
            false => Err("a study's name has letters, digits, `-`, `_` and `.`, 64 at most".into()),
        }
    }
}

/// A duration as it is written everywhere: `200ms`, `2s`, `3m`.
struct Span(Duration);

impl FromStr for Span {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_duration(text).map(Self)
    }
}

fn values<T: Clone>(written: Option<Values<T>>, default: T) -> PerScale<Vec<T>> {
    written.map_or_else(|| PerScale::same(vec![default]), |values| values.0)
}

fn untext<T>(texts: PerScale<Vec<Text<T>>>) -> PerScale<Vec<T>> {
    let plain = |list: Vec<Text<T>>| list.into_iter().map(|Text(value)| value).collect();
    PerScale { scaled: plain(texts.scaled), full: plain(texts.full) }
}

/// A factor's values: one, a list, or `{ scaled = [...], full = [...] }`.
struct Values<T>(PerScale<Vec<T>>);

impl<'de, T: Deserialize<'de> + Clone> Deserialize<'de> for Values<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Clone> Visitor<'de> for Any<T> {
            type Value = Values<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, a list of values, or { scaled = [...], full = [...] }")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Values(PerScale::same(vec![T::deserialize(value.into_deserializer())?])))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Values(PerScale::same(vec![T::deserialize(text.into_deserializer())?])))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
                let list = Vec::deserialize(SeqAccessDeserializer::new(items))?;
                not_empty(&list)?;
                Ok(Values(PerScale::same(list)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Scales<T> {
                    scaled: Vec<T>,
                    full: Vec<T>,
                }
                let Scales { scaled, full } = Scales::deserialize(MapAccessDeserializer::new(map))?;
                not_empty(&scaled)?;
                not_empty(&full)?;
                Ok(Values(PerScale { scaled, full }))
            }
        }

        deserializer.deserialize_any(Any(std::marker::PhantomData))
    }
}

fn not_empty<T, E: de::Error>(list: &[T]) -> Result<(), E> {
    if list.is_empty() { Err(E::custom("a factor needs a value")) } else { Ok(()) }
}

impl<'de> Deserialize<'de> for Drives {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;

        impl Visitor<'_> for Count {
            type Value = Drives;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of drives, or \"J\" for one a thread")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Drives, E> {
                match usize::try_from(count) {
                    Ok(count @ 1..) => Ok(Drives::Count(count)),
                    _ => Err(E::custom("a number of drives is 1 or more")),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Drives, E> {
                match text {
                    "J" => Ok(Drives::PerThread),
                    _ => self.visit_i64(text.parse().map_err(|_| E::custom("not a number of drives, nor \"J\""))?),
                }
            }
        }

        deserializer.deserialize_any(Count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Scale;

    #[test]
    fn every_built_in_study_is_right_and_has_the_name_it_is_called_by() {
        for BuiltIn { name, text } in BUILT_IN {
            let study = Study::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(study.name, *name);
            for scale in [Scale::Scaled, Scale::Full] {
                assert!(!study.arms(scale).unwrap().is_empty(), "{name}");
            }
        }
    }
}
