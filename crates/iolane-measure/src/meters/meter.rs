//! The meter of a run or a study: opens the best available instrument, checks that it works, and returns the joules of an
//! interval. A meter that does not advance is unavailable, never 0 J.

use std::path::Path;
use std::time::{Duration, Instant};

use super::curve::Kind;
use super::instrument::{Candidate, Instrument};
use super::live::Live;
use super::model::PowerModel;
use super::source::{AS_WIRED, Source, WHOLE_MACHINE};
use super::spec::MeterSpec;
use super::work::Work;
use super::{command, hwmon, ipmi, perf_power, rapl};
use crate::span::Span;
use crate::telemetry::{Reading, Unavailable};

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

/// Time in which a counter must advance under load; RAPL counters advance each millisecond.
const MOVES_WITHIN: Duration = Duration::from_millis(100);
/// Idle power is measured for at least this long.
const IDLE_MIN: Duration = Duration::from_secs(5);

impl Meter {
    /// Opens a meter, and checks that it works.
    ///
    /// # Errors
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

    /// The first that works, those of the whole machine before the others.
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

    /// The meter or model, and what it covers.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// How long the machine must be idle to measure its idle power.
    pub fn idle_time(&self) -> Duration {
        match &self.how {
            How::Live(live) => IDLE_MIN.max(Duration::from_secs_f64(live.interval_min_s().clamp(0.0, 600.0).ceil())),
            How::Model(_) => Duration::ZERO,
        }
    }

    /// Mean watts of an interval in which nothing ran.
    ///
    /// # Errors
    pub fn idle_watts(&self, idle: Span) -> Reading<f64> {
        match &self.how {
            How::Live(live) => Ok(live.joules(idle.from, idle.to)? / idle.seconds()),
            How::Model(model) => Ok(model.idle_watts),
        }
    }

    /// The latest watts, for display; `None` if the meter has none yet, or is a model, which has none before a run has ended.
    pub fn latest_watts(&self) -> Option<f64> {
        match &self.how {
            How::Live(live) => live.latest_watts(),
            How::Model(_) => None,
        }
    }

    /// Joules of a run that measured in this interval.
    ///
    /// # Errors
    pub fn joules(&self, measured: Span, work: Work) -> Reading<f64> {
        match &self.how {
            How::Live(live) => Ok(live.joules(measured.from, measured.to)? / measured.seconds() * work.elapsed_s),
            How::Model(model) => model.joules(work),
        }
    }
}

/// Checks that an instrument works: a counter advances while this loop is the load (in a virtual machine it may never do
/// so), a gauge reads more than 0 W.
fn check(instrument: &mut dyn Instrument, mut go_on: impl FnMut() -> bool) -> Reading<()> {
    let first = instrument.read()?;
    match instrument.kind() {
        Kind::Gauge if first > 0.0 => return Ok(()),
        Kind::Gauge => return Err(Unavailable::new("it reads 0 W")),
        Kind::Counter => {}
    }
    while go_on() {
        if instrument.read()? > first {
            return Ok(());
        }
    }
    Err(Unavailable::new("it does not advance, as in a virtual machine"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meters::source::PACKAGES;

    /// Advances by a step with each reading.
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
    fn a_counter_that_does_not_advance_under_load_is_refused() {
        let mut readings = 0;
        let mut tries = || {
            readings += 1;
            readings < 1000
        };
        let mut fake = Fake { kind: Kind::Counter, step: 0.0, value: 5.0 };
        assert!(check(&mut fake, &mut tries).unwrap_err().reason.starts_with("it does not advance"));
        fake.step = 1e-4;
        assert!(check(&mut fake, || true).is_ok());
        let mut gauge = Fake { kind: Kind::Gauge, step: 0.0, value: 0.0 };
        assert_eq!(check(&mut gauge, || true).unwrap_err().reason, "it reads 0 W");
    }

    #[test]
    fn the_whole_machine_comes_before_its_parts_and_instruments_that_do_not_advance_are_skipped() {
        let still = || candidate(Kind::Counter, 0.0, WHOLE_MACHINE);
        let packages = || candidate(Kind::Counter, 1.0, PACKAGES);
        let supply = || candidate(Kind::Gauge, 90.0, WHOLE_MACHINE);
        let covers = |found: Vec<Reading<Vec<Candidate>>>| Meter::best(found).unwrap().source().covers.clone();
        assert_eq!(covers(vec![packages(), supply()]), WHOLE_MACHINE);
        assert_eq!(covers(vec![still(), packages(), Err(Unavailable::new("no hwmon"))]), PACKAGES);
        let none = Meter::best([still(), Err(Unavailable::new("no hwmon").remedy("buy one"))]).unwrap_err();
        assert_eq!(none.reason, "no hwmon, fake, whole machine: it does not advance, as in a virtual machine");
        let one = Meter::best([Err(Unavailable::new("no hwmon").remedy("buy one"))]).unwrap_err();
        assert_eq!(one.to_string(), "no hwmon; buy one");
    }

    #[test]
    fn this_machine_has_a_working_meter_or_a_reason_why_not() {
        match Meter::open(&MeterSpec::Auto) {
            Ok(meter) => eprintln!("SKIPPED the reason for having none: there is {}", meter.source()),
            Err(why) => assert!(why.reason.len() > 20 && why.remedy.contains("docs/energy.md"), "{why}"),
        }
        assert!(Meter::open(&MeterSpec::None).unwrap_err().reason.contains("--meter none"));
    }

    #[test]
    fn a_model_is_marked_as_one_and_knows_idle_power() {
        let meter = Meter::open(&MeterSpec::Model("idle=40,core=8".parse().unwrap())).unwrap();
        assert_eq!(meter.source().to_string(), "modelled: idle=40,core=8");
        assert!(meter.source().modelled && meter.source().of(1.0).modelled);
        assert_eq!(meter.idle_time(), Duration::ZERO);
        let now = Instant::now();
        assert_eq!(meter.idle_watts(Span { from: now, to: now }).unwrap(), 40.0);
    }

    #[test]
    fn an_unknown_meter_is_refused_with_the_known_ones() {
        let error = "plug".parse::<MeterSpec>().unwrap_err().to_string();
        assert_eq!(error, "meter `plug`: no meter of that name; use auto, none, rapl, perf, hwmon, ipmi");
        assert_eq!("perf".parse::<MeterSpec>().unwrap().to_string(), "perf");
    }
}
