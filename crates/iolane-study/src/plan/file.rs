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
        Ok(Self { text: text.to_owned(), ..written.study(file)? })
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
            text: String::new(),
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
            if figure.x == Factor::Rw {
                let why = "nothing is drawn along `rw`: take a figure for each access, by `where`";
                return bad(format!("[[figure]] {}: {why}", figure.id));
            }
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
            runtime_max: Lengths::RUNTIME_MAX,
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
    use proptest::prelude::*;

    use super::*;
    use crate::plan::{Arm, Scale};

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

    /// A study that is right; tests break one line of it.
    const SMALL: &str = r#"name = "small"
title = "a small one"
paths = { a = "psync", b = "libaio" }
[[group]]
path = ["a", "b"]
depth = 1
[[claim]]
id = "C1"
says = "b is faster"
published = "nothing"
[[claim.check]]
says = "IOPS of b over those of a"
rule = "ratio"
metric = "iops"
of = { where = { path = "b" } }
to = { where = { path = "a" } }
at_least = 1.0
"#;

    fn small_with(line: &str, instead: &str) -> Result<Study> {
        assert_eq!(SMALL.matches(line).count(), 1, "{line}");
        Study::parse(&SMALL.replace(line, instead), "small.toml")
    }

    /// What is said of the small study with a line that is wrong.
    fn refusal(line: &str, instead: &str) -> String {
        match small_with(line, instead) {
            Ok(_) => panic!("`{instead}` was taken"),
            Err(error) => error.to_string(),
        }
    }

    fn claims(name: &str) -> Vec<String> {
        let study = Study::parse(built_in(name).unwrap().text, name).unwrap();
        study.claims.into_iter().map(|claim| claim.id).collect()
    }

    #[test]
    fn every_published_claim_has_its_rule() {
        let numbered = |letter: char, count: usize| -> Vec<String> {
            (1..=count).map(|number| format!("{letter}{number}")).collect()
        };
        assert_eq!(claims("systor22"), numbered('S', 12));
        assert_eq!(claims("ijraset24"), numbered('B', 4));
        assert_eq!(claims("hotstorage23"), numbered('E', 9));
        assert_eq!(claims("floe26"), numbered('F', 7));
    }

    #[test]
    fn the_small_scale_of_a_built_in_study_leaves_each_run_a_second_on_a_small_machine() {
        for BuiltIn { name, text } in BUILT_IN {
            let study = Study::parse(text, name).unwrap();
            let lengths = study.lengths.scaled;
            let small = |arm: &Arm| arm.drives <= 2 && arm.cores.is_none_or(|cores| cores <= 2);
            let runs = study.arms(Scale::Scaled).unwrap().iter().filter(|arm| small(arm)).count() * lengths.repeats;
            assert!(lengths.time <= Duration::from_secs(9 * 60), "{name}");
            // 0.4 s: warm-up, proofs, opening and closing.
            assert!(lengths.time.as_secs_f64() / runs as f64 > 1.0 + 0.4, "{name}: {runs} runs");
        }
    }

    #[test]
    fn the_example_of_the_documentation_is_right_and_is_what_the_page_shows() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let example = std::fs::read_to_string(docs.join("example-study.toml")).unwrap();
        let page = std::fs::read_to_string(docs.join("studies.md")).unwrap();
        assert!(page.contains(&example), "docs/studies.md shows another text than docs/example-study.toml");
        let study = Study::parse(&example, "example-study.toml").unwrap();
        assert_eq!(study.arms(Scale::Scaled).unwrap().len(), 10);
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        let error = Study::parse("name = \"x\"\ntitle = \n", "x.toml").unwrap_err().to_string();
        assert!(error.starts_with("x.toml line 2: "), "{error}");
        assert!(!error.trim_end().contains('\n'), "{error}");
    }

    #[test]
    fn what_a_line_says_wrong_is_named_with_the_line() {
        for (line, instead, place, cause) in [
            ("depth = 1", "deph = 1", "line 6", "unknown field `deph`"),
            ("says = \"b is faster\"", "say = \"b is faster\"", "line 9", "unknown field `say`"),
            ("b = \"libaio\"", "b = \"libaio+slow\"", "line 3", "`slow` is no way to submit or complete"),
            ("depth = 1", "depth = []", "line 6", "a factor needs a value"),
            ("depth = 1", "depth = { scaled = [1], full = [] }", "line 6", "a factor needs a value"),
            ("depth = 1", "depth = { scaled = [1] }", "line 6", "missing field `full`"),
            ("depth = 1", "depth = -1", "line 6", "invalid value: integer `-1`"),
            ("depth = 1", "cores = 0", "line 6", "not a number above 0"),
            ("depth = 1", "cores = \"0J\"", "line 6", "not a number above 0"),
            ("depth = 1", "cores = \"J-1\"", "line 6", "not a number above 0, J, J+N, NJ or all"),
            ("depth = 1", "cores = \"99999J\"", "line 6", "not a number above 0"),
            ("depth = 1", "drives = 0", "line 6", "a number of drives is 1 or more"),
            ("depth = 1", "drives = \"2J\"", "line 6", "not a number of drives, nor \"J\""),
            ("metric = \"iops\"", "metric = \"speed\"", "line 14", "unknown variant `speed`"),
        ] {
            let error = refusal(line, instead);
            assert!(error.contains(&format!("small.toml {place}: ")) && error.contains(cause), "{instead}: {error}");
        }
    }

    #[test]
    fn a_check_has_the_keys_of_its_rule_and_no_others() {
        let ratio = "to = { where = { path = \"a\" } }";
        for (line, instead, cause) in [
            (ratio, "", "this rule needs `to`"),
            (ratio, &format!("{ratio}\nalong = \"bs\""), "this rule has no `along`"),
            ("rule = \"ratio\"", "rule = \"value\"", "this rule has no `to`"),
            ("rule = \"ratio\"", "rule = \"crossing\"", "this rule needs `along`"),
            (ratio, &format!("{ratio}\nshare = 1.5"), "`share` is above 0, and 1 at most"),
            (ratio, &format!("{ratio}\nshare = nan"), "`share` is above 0, and 1 at most"),
        ] {
            let error = refusal(line, instead);
            assert!(error.contains(cause), "{instead}: {error}");
        }
    }

    #[test]
    fn parts_that_contradict_each_other_are_refused() {
        let twice = SMALL.split_once("[[claim]]").unwrap().1;
        for (line, instead, cause) in [
            ("path = [\"a\", \"b\"]", "path = [\"a\", \"c\"]", "path `c` is not in [paths]"),
            ("depth = 1", "threads = 0", "threads are 1 or more"),
            ("depth = 1", "threads = 9223372036854775807", "65536 at most"),
            ("of = { where = { path = \"b\" } }", "of = { where = { path = \"c\" } }", "no group has a path `c`"),
            ("at_least = 1.0", "", "neither at_least nor at_most"),
            ("at_least = 1.0", "at_least = 2.0\nat_most = 1.0", "at_least is above at_most"),
            ("at_least = 1.0", &format!("at_least = 1.0\n[[claim]]{twice}"), "[[claim]] C1 is there twice"),
            (
                "depth = 1",
                "depth = 1\n[[figure]]\nid = \"1\"\ntitle = \"\"\nx = \"rw\"\ny = \"iops\"",
                "nothing is drawn along `rw`",
            ),
            ("title = \"a small one\"", "title = \"\"\nscaled = { repeats = 0 }", "repeats = 0 would measure nothing"),
            ("title = \"a small one\"", "title = \"\"\nfull = { runtime = \"0s\" }", "a runtime of 0"),
        ] {
            let error = refusal(line, instead);
            assert!(error.contains(cause), "{instead}: {error}");
        }
    }

    #[test]
    fn a_name_that_could_lead_out_of_its_folder_is_refused() {
        for name in ["../up", "/etc", ".hidden", "", "a b"] {
            let error = refusal("name = \"small\"", &format!("name = \"{name}\""));
            assert!(error.contains("a study's name has letters"), "{name}: {error}");
        }
    }

    #[test]
    fn arms_that_are_in_two_groups_are_there_once() {
        let study = small_with("depth = 1", "depth = [1, 2]\n[[group]]\npath = [\"b\"]\ndepth = [2, 3]").unwrap();
        assert_eq!(study.arms(Scale::Full).unwrap().len(), 5);
    }

    #[test]
    fn more_arms_than_anyone_waits_for_are_refused_before_any_is_made() {
        let many = vec!["1"; 200_000].join(",");
        let product = format!("depth = [{many}]\nthreads = [{many}]\nbs = [{}]", vec!["\"4k\""; 200_000].join(","));
        let huge = "depth = [4294967295]\nthreads = [65536]\ncores = [\"65536J+65536\"]";
        let error = small_with("depth = 1", &product).unwrap().arms(Scale::Scaled).unwrap_err().to_string();
        assert!(error.contains("more than 100000 arms"), "{error}");
        let study = small_with("depth = 1", huge).unwrap();
        assert!(study.arms(Scale::Full).unwrap().iter().all(|arm| arm.cores == Some((1 << 32) + (1 << 16))));
    }

    fn reads_without_panic(text: &str) {
        if let Ok(study) = Study::parse(text, "any.toml") {
            for scale in [Scale::Scaled, Scale::Full] {
                let _ = study.arms(scale);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", lines in "([a-z_]+ = [\\[\\]{}\"0-9a-z.,J+-]*\n|\\[\\[(group|claim|figure)\\]\\]\n)*") {
            reads_without_panic(&text);
            reads_without_panic(&lines);
        }

        #[test]
        fn a_built_in_study_with_a_piece_replaced_is_read_or_refused(
            which in 0..BUILT_IN.len(),
            from in 0.0..1.0f64,
            cut in 0usize..40,
            piece in "[\\[\\]{}=\",.0-9a-zJ+\n -]{0,20}",
        ) {
            let text = BUILT_IN[which].text;
            let from = (from * text.len() as f64) as usize;
            let to = (from + cut).min(text.len());
            if let (Some(before), Some(after)) = (text.get(..from), text.get(to..)) {
                reads_without_panic(&format!("{before}{piece}{after}"));
            }
        }
    }
}
