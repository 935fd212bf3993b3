//! Energy: meters that tell what a run took in joules, and the model that stands in for one. Sessions and runs open a
//! meter and ask it; an external meter's trace is laid over a study afterwards. Nothing here does I/O on a target.
//!
//! A meter that does not move is unavailable, never 0 J; a modelled figure says that it is one. `docs/energy.md` says what
//! each meter covers.

pub mod align;
mod command;
pub mod curve;
#[cfg(test)]
pub(crate) mod fixture;
mod hwmon;
mod ipmi;
mod live;
mod model;
mod perf_power;
mod rapl;
pub mod steps;
pub mod trace;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use iolane::{Error, Result};
use serde::{Deserialize, Serialize};

pub use curve::{Curve, Kind};
pub use model::PowerModel;

use crate::records::Row;
use crate::run::RunOutcome;
use crate::telemetry::{Reading, SOFT_ALONE, Unavailable};
use live::Live;

/// What a meter covers: all that comes out of the wall.
pub const WHOLE_MACHINE: &str = "whole machine";
/// What a meter covers: neither drives nor fans nor losses.
pub const PACKAGES_AND_MEMORY: &str = "processor packages and memory only";
/// What a meter covers: memory neither.
pub const PACKAGES: &str = "processor packages only";
/// What a meter covers that only its owner knows.
pub const AS_WIRED: &str = "what it is wired to";

/// Who tells the joules, and of what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The meter, or the model.
    #[serde(rename = "source")]
    pub name: String,
    /// Of what.
    pub covers: String,
    /// Whether they are worked out and not measured.
    pub modelled: bool,
}

/// What is known of a study's energy beside its runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyNotes {
    /// Who tells the joules.
    #[serde(flatten)]
    pub source: Option<Source>,
    /// Why nobody does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unavailable: Option<String>,
    /// Watts when nothing ran; `None` if that was not measured.
    pub idle_watts: Option<f64>,
    /// What was made for an external meter.
    pub load_steps: Vec<steps::LoadSteps>,
    /// How an external meter's trace was laid over the study.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alignment: Option<align::Alignment>,
}

/// What a modelled source begins with.
const MODELLED: &str = "modelled: ";

impl Source {
    /// A meter.
    pub fn measured(name: &str, covers: &str) -> Self {
        Self { name: name.into(), covers: covers.into(), modelled: false }
    }

    /// A model.
    pub fn modelled(model: &PowerModel) -> Self {
        Self { name: format!("{MODELLED}{model}"), covers: WHOLE_MACHINE.into(), modelled: true }
    }

    /// Whether a source of a row's joules, as it is written there, is a model.
    pub fn is_modelled(written: &str) -> bool {
        written.starts_with(MODELLED)
    }
}

/// `RAPL, processor packages only`, `modelled: idle=40,core=8`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.modelled {
            true => f.write_str(&self.name),
            false => write!(f, "{}, {}", self.name, self.covers),
        }
    }
}

/// Which meter to read.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum MeterSpec {
    /// The best there is.
    #[default]
    Auto,
    /// None.
    None,
    /// RAPL by the powercap tree.
    Rapl,
    /// RAPL by perf's power PMU.
    Perf,
    /// Sensors of the board.
    Hwmon,
    /// The board's management controller.
    Ipmi,
    /// A program that prints watts.
    Command(String),
    /// No meter, but figures that are worked out.
    Model(PowerModel),
}

/// The meters by name.
const NAMED: [(&str, MeterSpec); 6] = [
    ("auto", MeterSpec::Auto),
    ("none", MeterSpec::None),
    ("rapl", MeterSpec::Rapl),
    ("perf", MeterSpec::Perf),
    ("hwmon", MeterSpec::Hwmon),
    ("ipmi", MeterSpec::Ipmi),
];

impl FromStr for MeterSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = NAMED.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, spec)| spec).ok_or_else(|| {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            Error::usage(format!("meter `{text}`"), "no meter of that name").remedy(format!("use {}", names.join(", ")))
        })
    }
}

impl fmt::Display for MeterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "command {command}"),
            Self::Model(model) => write!(f, "model {model}"),
            named => f.write_str(NAMED.iter().find(|(_, spec)| spec == named).map_or("", |(name, _)| name)),
        }
    }
}

/// Something that tells joules or watts when it is read.
pub(crate) trait Instrument: Send + fmt::Debug {
    /// Which of both.
    fn kind(&self) -> Kind;

    /// Joules since it was opened, or watts.
    ///
    /// # Errors
    /// Why it cannot be read now.
    fn read(&mut self) -> Reading<f64>;

    /// How often it is to be read. A counter that begins anew every quarter of an hour is read all the time, between runs
    /// too, so that none of its rounds is missed.
    fn period(&self) -> Duration {
        Duration::from_millis(50)
    }
}

/// A meter that may be there.
#[derive(Debug)]
pub(crate) struct Candidate {
    instrument: Box<dyn Instrument>,
    source: Source,
}

/// A meter that is read.
#[derive(Debug)]
pub struct Meter {
    source: Source,
    how: How,
}

#[derive(Debug)]
enum How {
    Live(Live),
    Model(PowerModel),
}

/// When a run measured.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// From.
    pub from: Instant,
    /// To.
    pub to: Instant,
}

/// A counter must have moved under load by then; RAPL's move each millisecond.
const MOVES_WITHIN: Duration = Duration::from_millis(100);
/// Idle power is measured for so long at least.
const IDLE_MIN: Duration = Duration::from_secs(5);

impl Meter {
    /// Opens a meter, and checks that it works.
    ///
    /// # Errors
    /// Why none can be had.
    pub fn open(spec: &MeterSpec) -> Reading<Self> {
        let search = std::env::var("PATH").unwrap_or_default();
        let rapl = || rapl::candidates(Path::new(rapl::ROOT));
        let perf = || perf_power::candidates(Path::new(perf_power::ROOT));
        let hwmon = || hwmon::candidates(Path::new(hwmon::ROOT));
        let ipmi = || ipmi::candidates(Path::new(ipmi::DEVICE), &search);
        match spec {
            MeterSpec::None => Err(Unavailable::new("no meter was asked for (--meter none)")),
            MeterSpec::Rapl => Self::best([rapl()]),
            MeterSpec::Perf => Self::best([perf()]),
            MeterSpec::Hwmon => Self::best([hwmon()]),
            MeterSpec::Ipmi => Self::best([ipmi()]),
            MeterSpec::Auto => Self::best([rapl(), perf(), hwmon(), ipmi()]).map_err(|unavailable| {
                unavailable.remedy("--meter-command, --power-model, or an external meter: see docs/energy.md")
            }),
            MeterSpec::Command(command) => {
                let (source, command) = (Source::measured(&format!("`{command}`"), AS_WIRED), command.clone());
                let live = Live::fed(Kind::Gauge, move |feed| command::follow(&command, &feed))?;
                live.begin(command::SILENCE_MAX + MOVES_WITHIN)?;
                Ok(Self { source, how: How::Live(live) })
            }
            MeterSpec::Model(model) => Ok(Self { source: Source::modelled(model), how: How::Model(*model) }),
        }
    }

    /// The first that works: of those of the whole machine, or else of the others.
    fn best(found: impl IntoIterator<Item = Reading<Vec<Candidate>>>) -> Reading<Self> {
        let (mut whole, mut parts, mut why) = (Vec::new(), Vec::new(), Vec::new());
        for candidates in found {
            match candidates {
                Ok(candidates) => {
                    for candidate in candidates {
                        let is_whole = candidate.source.covers == WHOLE_MACHINE;
                        if is_whole { whole.push(candidate) } else { parts.push(candidate) }
                    }
                }
                Err(unavailable) => why.push(unavailable),
            }
        }
        for Candidate { mut instrument, source } in whole.into_iter().chain(parts) {
            let begun = Instant::now();
            match check(instrument.as_mut(), || begun.elapsed() < MOVES_WITHIN) {
                Ok(()) => return Ok(Self { source, how: How::Live(Live::reading(instrument)?) }),
                Err(Unavailable { reason, remedy }) => {
                    why.push(Unavailable::new(format!("{source}: {reason}")).remedy(remedy));
                }
            }
        }
        Err(match <[Unavailable; 1]>::try_from(why) {
            Ok([only]) => only,
            Err(why) => {
                let reasons: Vec<&str> = why.iter().map(|unavailable| unavailable.reason.as_str()).collect();
                Unavailable::new(reasons.join(", "))
            }
        })
    }

    /// Who tells the joules, and of what.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// How long the machine must be idle for its idle power to be known.
    pub fn idle_time(&self) -> Duration {
        match &self.how {
            How::Live(live) => IDLE_MIN.max(Duration::from_secs_f64(live.stretch_min_s().clamp(0.0, 600.0).ceil())),
            How::Model(_) => Duration::ZERO,
        }
    }

    /// Watts of a stretch in which nothing ran.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub fn idle_watts(&self, idle: Span) -> Reading<f64> {
        match &self.how {
            How::Live(live) => Ok(live.joules(idle.from, idle.to)? / idle.seconds()),
            How::Model(model) => Ok(model.idle_watts),
        }
    }

    /// Watts of late, for whoever shows them; `None` if the meter does not tell, or is a model, which knows none before a run
    /// has ended.
    pub fn watts_of_late(&self) -> Option<f64> {
        match &self.how {
            How::Live(live) => live.watts_of_late(),
            How::Model(_) => None,
        }
    }

    /// Joules of a run that measured in this stretch.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub fn joules(&self, measured: Span, work: Work) -> Reading<f64> {
        match &self.how {
            How::Live(live) => Ok(live.joules(measured.from, measured.to)? / measured.seconds() * work.elapsed_s),
            How::Model(model) => model.joules(work),
        }
    }
}

/// What a run did, for those who work out what it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Seconds it measured.
    pub elapsed_s: f64,
    /// Processor seconds, those of kernel threads and of interrupts among them where they are known; `None` if not even
    /// its own are.
    pub cpu_s: Option<f64>,
}

impl Work {
    /// That of a row.
    pub fn of(row: &Row) -> Self {
        let beside_s = row.kernel_threads_s.unwrap_or(0.0) + apart_s(row.interrupt_s, &row.sources);
        let own_s = row.user_s.zip(row.system_s).map(|(user_s, system_s)| user_s + system_s);
        Self { elapsed_s: row.elapsed_s, cpu_s: own_s.map(|own_s| own_s + beside_s) }
    }

    /// That of a run.
    pub fn of_run(outcome: &RunOutcome) -> Self {
        let elapsed_s = outcome.tally.elapsed_ns() as f64 / 1e9;
        let beside_s = apart_s(outcome.telemetry.interrupt_s, &outcome.telemetry.sources);
        let cpu_s = outcome.telemetry.cpu.as_ref().ok().map(|cpu| {
            let kernel_threads_s = cpu.kernel_threads_s.as_ref().ok().copied().unwrap_or(0.0);
            cpu.user_s + cpu.system_s + kernel_threads_s + beside_s
        });
        Self { elapsed_s, cpu_s }
    }
}

/// Seconds in interrupts that are not in the time of threads already.
fn apart_s(interrupt_s: Option<f64>, sources: &BTreeMap<String, String>) -> f64 {
    let are_apart = sources.get("interrupt_s").is_none_or(|source| source != SOFT_ALONE);
    interrupt_s.filter(|_| are_apart).unwrap_or(0.0)
}

impl Span {
    /// Its length.
    pub fn seconds(&self) -> f64 {
        self.to.saturating_duration_since(self.from).as_secs_f64()
    }
}

/// Whether an instrument tells anything: a counter moves while this very loop is the load (in a virtual machine it may
/// stand still for ever), a gauge tells more than 0 W.
fn check(instrument: &mut dyn Instrument, mut go_on: impl FnMut() -> bool) -> Reading<()> {
    let first = instrument.read()?;
    match instrument.kind() {
        Kind::Gauge if first > 0.0 => return Ok(()),
        Kind::Gauge => return Err(Unavailable::new("it tells 0 W")),
        Kind::Counter => {}
    }
    while go_on() {
        if instrument.read()? > first {
            return Ok(());
        }
    }
    Err(Unavailable::new("it stands still, as in a virtual machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up by so much each time.
    #[derive(Debug)]
    struct Fake {
        kind: Kind,
        step: f64,
        value: f64,
    }

    impl Instrument for Fake {
        fn kind(&self) -> Kind {
            self.kind
        }

        fn read(&mut self) -> Reading<f64> {
            self.value += self.step;
            Ok(self.value)
        }
    }

    fn candidate(kind: Kind, step: f64, covers: &str) -> Reading<Vec<Candidate>> {
        let instrument = Box::new(Fake { kind, step, value: 0.0 });
        Ok(vec![Candidate { instrument, source: Source::measured("fake", covers) }])
    }

    #[test]
    fn a_counter_that_does_not_move_under_load_stands_still() {
        let mut readings = 0;
        let mut tries = || {
            readings += 1;
            readings < 1000
        };
        let mut fake = Fake { kind: Kind::Counter, step: 0.0, value: 5.0 };
        assert!(check(&mut fake, &mut tries).unwrap_err().reason.starts_with("it stands still"));
        fake.step = 1e-4;
        assert!(check(&mut fake, || true).is_ok());
        let mut gauge = Fake { kind: Kind::Gauge, step: 0.0, value: 0.0 };
        assert_eq!(check(&mut gauge, || true).unwrap_err().reason, "it tells 0 W");
    }

    #[test]
    fn the_whole_machine_comes_before_its_parts_and_what_stands_still_is_passed_over() {
        let still = || candidate(Kind::Counter, 0.0, WHOLE_MACHINE);
        let packages = || candidate(Kind::Counter, 1.0, PACKAGES);
        let supply = || candidate(Kind::Gauge, 90.0, WHOLE_MACHINE);
        let covers = |found: Vec<Reading<Vec<Candidate>>>| Meter::best(found).unwrap().source().covers.clone();
        assert_eq!(covers(vec![packages(), supply()]), WHOLE_MACHINE);
        assert_eq!(covers(vec![still(), packages(), Err(Unavailable::new("no hwmon"))]), PACKAGES);
        let none = Meter::best([still(), Err(Unavailable::new("no hwmon").remedy("buy one"))]).unwrap_err();
        assert_eq!(none.reason, "no hwmon, fake, whole machine: it stands still, as in a virtual machine");
        let one = Meter::best([Err(Unavailable::new("no hwmon").remedy("buy one"))]).unwrap_err();
        assert_eq!(one.to_string(), "no hwmon; buy one");
    }

    #[test]
    fn this_machine_has_a_meter_that_moves_or_says_why_it_has_none() {
        match Meter::open(&MeterSpec::Auto) {
            Ok(meter) => eprintln!("SKIPPED the reason for having none: there is {}", meter.source()),
            Err(why) => assert!(why.reason.len() > 20 && why.remedy.contains("docs/energy.md"), "{why}"),
        }
        assert!(Meter::open(&MeterSpec::None).unwrap_err().reason.contains("--meter none"));
    }

    #[test]
    fn a_model_says_that_it_is_one_and_knows_the_idle_machine() {
        let meter = Meter::open(&MeterSpec::Model("idle=40,core=8".parse().unwrap())).unwrap();
        assert_eq!(meter.source().to_string(), "modelled: idle=40,core=8");
        assert!(Source::is_modelled(&meter.source().to_string()) && !Source::is_modelled("RAPL, whole machine"));
        assert_eq!(meter.idle_time(), Duration::ZERO);
        let now = Instant::now();
        assert_eq!(meter.idle_watts(Span { from: now, to: now }).unwrap(), 40.0);
    }

    #[test]
    fn a_meter_of_no_known_name_is_refused_with_those_there_are() {
        let error = "plug".parse::<MeterSpec>().unwrap_err().to_string();
        assert_eq!(error, "meter `plug`: no meter of that name; use auto, none, rapl, perf, hwmon, ipmi");
        assert_eq!("perf".parse::<MeterSpec>().unwrap().to_string(), "perf");
    }
}
