//! Reads a study from TOML; errors name the line. The command line calls it for a user's file and for those built in.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use iolane::units::parse_duration;
use iolane::{Error, IoPath, Result};
use iolane_application::Application;
use iolane_measure::run::THREADS_MAX;
use iolane_measure::workload::{Access, Arrivals, BlockSizes, DataPattern, OffsetPattern, Rate, Workload};
use serde::Deserialize;

use super::claim::Claim;
use super::figure::Figure;
use super::group::{Cores, Drives, Group, NamedPath};
use super::scale::PerScale;
use super::study::{Lengths, Study};
use super::validate;
use super::values::{FactorValues, one_or_more};
use iolane_measure::serde_text::Text;

impl Study {
    /// Reads a study; `file` is its name in error messages.
    ///
    /// # Errors
    /// `Usage`, with the line, for invalid TOML, unknown keys and values, and parts that contradict each other.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let written: StudyFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or(file.to_owned(), |line| format!("{file} line {line}"));
            Error::usage(place, one_line(error.message()))
                .remedy("`iolane study --print systor22` prints a valid one; docs/studies.md lists the keys")
        })?;
        let study = Self { text: text.to_owned(), ..written.study(file)? };
        validate::validate(&study, file)?;
        Ok(study)
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

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
    #[serde(rename = "group", deserialize_with = "one_or_more")]
    groups: Vec<GroupFile>,
    #[serde(default, rename = "figure", deserialize_with = "one_or_more")]
    figures: Vec<Figure>,
    #[serde(default, rename = "claim", deserialize_with = "one_or_more")]
    claims: Vec<Claim>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LengthsFile {
    runtime: Option<Text<ParsedDuration>>,
    warmup: Option<Text<ParsedDuration>>,
    repeats: Option<u16>,
    time: Option<Text<ParsedDuration>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WorkloadFile {
    read_percent: Option<u8>,
    offsets: Option<Text<OffsetPattern>>,
    align: Option<u32>,
    batch_submit: Option<u32>,
    #[serde(alias = "batch")]
    batch_complete: Option<u32>,
    batch_complete_max: Option<u32>,
    fsync_every: Option<u32>,
    fdatasync_every: Option<u32>,
    rate: Option<Rate>,
    arrivals: Option<Text<Arrivals>>,
    think_us: Option<u64>,
    data: Option<Text<DataPattern>>,
    durable: bool,
    verify: bool,
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    #[serde(deserialize_with = "one_or_more")]
    path: Vec<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    application: Vec<Text<Application>>,
    #[serde(default)]
    rw: Option<FactorValues<Text<Access>>>,
    #[serde(default)]
    bs: Option<FactorValues<Text<BlockSizes>>>,
    #[serde(default)]
    read_percent: Option<FactorValues<u8>>,
    #[serde(default)]
    offsets: Option<FactorValues<Text<OffsetPattern>>>,
    #[serde(default)]
    depth: Option<FactorValues<u32>>,
    #[serde(default)]
    rate: Option<FactorValues<Rate>>,
    #[serde(default)]
    batch_submit: Option<FactorValues<u32>>,
    #[serde(default, alias = "batch")]
    batch_complete: Option<FactorValues<u32>>,
    #[serde(default)]
    batch_complete_max: Option<FactorValues<u32>>,
    #[serde(default)]
    fsync_every: Option<FactorValues<u32>>,
    #[serde(default)]
    fdatasync_every: Option<FactorValues<u32>>,
    #[serde(default)]
    threads: Option<FactorValues<usize>>,
    #[serde(default)]
    drives: Option<FactorValues<Drives>>,
    #[serde(default)]
    cores: Option<FactorValues<Cores>>,
}

impl StudyFile {
    fn study(self, file: &str) -> Result<Study> {
        let groups = self.groups.into_iter().enumerate().map(|(index, group)| {
            group.group(&self.paths).map_err(|cause| Error::usage(file, format!("[[group]] {}: {cause}", index + 1)))
        });
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let defaults = Workload::default();
        let base = self.workload;
        Ok(Study {
            name: self.name.0.0,
            title: self.title,
            source: self.source,
            published_on: self.published_on,
            workload: Workload {
                read_percent: base.read_percent,
                offsets: base.offsets.map_or(defaults.offsets, |Text(offsets)| offsets),
                align: base.align,
                batch_submit: base.batch_submit,
                batch_complete: base.batch_complete,
                batch_complete_max: base.batch_complete_max,
                fsync_every: base.fsync_every,
                fdatasync_every: base.fdatasync_every,
                rate: base.rate,
                arrivals: base.arrivals.map_or(defaults.arrivals, |Text(arrivals)| arrivals),
                think_us: base.think_us,
                data: base.data.map_or(defaults.data, |Text(data)| data),
                durable: base.durable,
                verify: base.verify,
                seed: base.seed.unwrap_or(defaults.seed),
                ..defaults
            },
            lengths: PerScale { scaled: self.scaled.lengths(file)?, full: self.full.lengths(file)? },
            groups,
            rate_until: None,
            figures: self.figures,
            claims: self.claims,
            text: String::new(),
        })
    }
}

impl GroupFile {
    /// Refuses factors that an application decides itself, or does not have.
    fn check_application(&self) -> Result<(), String> {
        if self.application.is_empty() {
            return Ok(());
        }
        let given = [
            ("rw", self.rw.is_some()),
            ("bs", self.bs.is_some()),
            ("read_percent", self.read_percent.is_some()),
            ("offsets", self.offsets.is_some()),
            ("batch_submit", self.batch_submit.is_some()),
            ("batch_complete", self.batch_complete.is_some()),
            ("batch_complete_max", self.batch_complete_max.is_some()),
            ("fsync_every", self.fsync_every.is_some()),
            ("fdatasync_every", self.fdatasync_every.is_some()),
            ("drives", self.drives.is_some()),
            ("cores", self.cores.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(format!("an application has no factor `{name}`; it has `path`, `depth`, `threads` and `rate`"));
        }
        match self.application.iter().find(|Text(application)| application.has_rate() != self.rate.is_some()) {
            None => Ok(()),
            Some(Text(application)) if application.has_rate() => {
                Err(format!("application {application} needs a `rate`"))
            }
            Some(Text(application)) => Err(format!("application {application} has no `rate`")),
        }
    }

    fn group(self, paths: &BTreeMap<String, Text<IoPath>>) -> Result<Group, String> {
        self.check_application()?;
        let named = |name: String| match paths.get(&name) {
            Some(Text(path)) => Ok(NamedPath { name, path: path.clone() }),
            None => Err(format!("path `{name}` is not in [paths]")),
        };
        let threads = values(self.threads, 1);
        if threads.scaled.iter().chain(&threads.full).any(|threads| !(1..=THREADS_MAX).contains(threads)) {
            return Err(format!("`threads` must be between 1 and {THREADS_MAX}"));
        }

        Ok(Group {
            applications: self.application.into_iter().map(|Text(application)| application).collect(),
            paths: self.path.into_iter().map(named).collect::<Result<_, _>>()?,
            access: untext(values(self.rw, Text(Access::RandRead))),
            block_sizes: untext(values(self.bs, Text(Workload::default().block_sizes))),
            read_percents: self.read_percent.map(|values| values.0),
            offsets: self.offsets.map(|values| untext(values.0)),
            depths: values(self.depth, 1),
            rates: self.rate.map(|values| values.0),
            batch_submits: self.batch_submit.map(|values| values.0),
            batch_completes: self.batch_complete.map(|values| values.0),
            batch_complete_maxes: self.batch_complete_max.map(|values| values.0),
            fsyncs: self.fsync_every.map(|values| values.0),
            fdatasyncs: self.fdatasync_every.map(|values| values.0),
            threads,
            drives: values(self.drives, Drives::Count(1)),
            cores: values(self.cores, Cores::All),
        })
    }
}

const WARMUP_DEFAULT: Duration = Duration::from_millis(200);
const REPEATS_DEFAULT: u16 = 5;
const TIME_DEFAULT: Duration = Duration::from_secs(5 * 60);

impl LengthsFile {
    fn lengths(self, file: &str) -> Result<Lengths> {
        let duration = |text: Text<ParsedDuration>| text.0.0;
        let lengths = Lengths {
            runtime: self.runtime.map(duration),
            warmup: self.warmup.map_or(WARMUP_DEFAULT, duration),
            repeats: self.repeats.unwrap_or(REPEATS_DEFAULT).into(),
            time: self.time.map_or(TIME_DEFAULT, duration),
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

/// A name that is safe as the name of a folder.
struct StudyName(String);

impl FromStr for StudyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match text.len() <= 64 && text.chars().all(fits) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            true => Ok(Self(text.into())),
            false => Err("the name of a study consists of up to 64 letters, digits, `-`, `_` and `.`".into()),
        }
    }
}

/// A duration in the notation of the command line: `200ms`, `2s`, `3m`.
struct ParsedDuration(Duration);

impl FromStr for ParsedDuration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_duration(text).map(Self)
    }
}

fn values<T: Clone>(written: Option<FactorValues<T>>, default: T) -> PerScale<Vec<T>> {
    written.map_or_else(|| PerScale::same(vec![default]), |values| values.0)
}

fn untext<T>(texts: PerScale<Vec<Text<T>>>) -> PerScale<Vec<T>> {
    let all = |list: Vec<Text<T>>| list.into_iter().map(|Text(value)| value).collect();
    PerScale { scaled: all(texts.scaled), full: all(texts.full) }
}
