//! Energy in a study: idle power first, then the joules of each run, and the load steps by which an external meter's trace
//! is laid over it afterwards. What does not change from run to run stands in the journal, so that a study that goes on has
//! it too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::energy::{EnergyNotes, Meter, MeterSpec, Span, Work, steps};
use crate::records::{Row, UNAVAILABLE};
use crate::telemetry::{Reading, Unavailable};

/// What tells the joules of a study.
#[derive(Debug, Clone)]
pub struct Metering {
    /// As it was asked for.
    pub spec: MeterSpec,
    /// The meter, or why there is none.
    pub meter: Reading<Arc<Meter>>,
    /// Whether load steps are made for an external meter.
    pub steps: bool,
}

/// Between repeats load steps are made no more often than this.
const STEPS_APART_S: f64 = 600.0;
/// How often a stop is looked for.
const TICK: Duration = Duration::from_millis(50);

impl Metering {
    /// Opens a meter.
    pub fn open(spec: MeterSpec, steps: bool) -> Self {
        Self { meter: Meter::open(&spec).map(Arc::new), spec, steps }
    }

    /// How long the machine rests first.
    pub(super) fn idle_time(&self) -> Duration {
        self.meter.as_ref().map_or(Duration::ZERO, |meter| meter.idle_time())
    }

    /// What it adds to a study's time: idle power, and load steps at both ends.
    pub(super) fn estimated_time(&self) -> Duration {
        self.idle_time() + if self.steps { steps::duration() * 2 } else { Duration::ZERO }
    }

    /// Finds out what the idle machine takes, unless an earlier part of the study did; `None` if it was stopped.
    pub(super) fn begin(&self, earlier: &EnergyNotes, stop: &AtomicBool) -> Option<EnergyNotes> {
        let meter = match &self.meter {
            Ok(meter) => meter,
            Err(why) => {
                return Some(EnergyNotes {
                    unavailable: Some(why.to_string()),
                    load_steps: earlier.load_steps.clone(),
                    ..EnergyNotes::default()
                });
            }
        };
        if earlier.source.as_ref() == Some(meter.source()) && earlier.idle_watts.is_some() {
            return Some(earlier.clone());
        }
        let from = Instant::now();
        while from.elapsed() < meter.idle_time() {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(TICK);
        }
        let idle = meter.idle_watts(Span { from, to: Instant::now() });
        Some(EnergyNotes {
            source: Some(meter.source().clone()),
            unavailable: None,
            idle_watts: idle.ok(),
            load_steps: earlier.load_steps.clone(),
            alignment: None,
        })
    }

    /// Makes load steps, if they are wanted and none were made just before; `true` if there are new ones.
    pub(super) fn make_steps(&self, notes: &mut EnergyNotes, stop: &AtomicBool) -> bool {
        let made = self.steps.then(|| steps::make(stop)).flatten();
        let is_new = made.is_some();
        notes.load_steps.extend(made);
        is_new
    }

    /// Whether load steps between repeats are due.
    pub(super) fn steps_are_due(&self, notes: &EnergyNotes) -> bool {
        let last_s = notes.load_steps.last().map_or(0.0, |steps| steps.ended_unix_s());
        self.steps && unix_s(Instant::now()) - last_s > STEPS_APART_S
    }

    /// Fills in the joules of a run, and when it measured.
    pub(super) fn fill(&self, row: &mut Row, measured: Reading<Span>, notes: &EnergyNotes) {
        if let Ok(span) = &measured {
            row.started_unix_s = unix_s(span.from);
        }
        if row.worthless.is_some() {
            return;
        }
        let joules = measured.and_then(|span| {
            let meter = self.meter.as_ref().map_err(Clone::clone)?;
            Ok((meter.joules(span, Work::of(row))?, meter.source().to_string()))
        });
        fill_in(row, joules, notes.idle_watts);
    }
}

/// Joules and their source in a row, or why there are none.
pub(crate) fn fill_in(row: &mut Row, joules: Reading<(f64, String)>, idle_watts: Option<f64>) {
    row.joules = joules.as_ref().ok().map(|(joules, _)| *joules);
    row.idle_joules = row.joules.and(idle_watts).map(|watts| watts * row.elapsed_s);
    let source = joules.map_or_else(|why| format!("{UNAVAILABLE}{why}"), |(_, source)| source);
    let idle = match (row.joules.is_some(), row.idle_joules) {
        (true, None) => format!("{UNAVAILABLE}the idle machine was not measured"),
        _ => source.clone(),
    };
    row.sources.insert("joules".into(), source);
    row.sources.insert("idle_joules".into(), idle);
}

/// A moment in seconds since 1970.
fn unix_s(moment: Instant) -> f64 {
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    now_s - moment.elapsed().as_secs_f64()
}

/// When a peer measured for sure: its program took a while to begin and to end, which nobody tells apart.
pub(super) fn peer_span(from: Instant, to: Instant, warmup: Duration, elapsed_s: f64) -> Reading<Span> {
    let beside_s = (to - from).as_secs_f64() - warmup.as_secs_f64() - elapsed_s;
    let beside = Duration::from_secs_f64(beside_s.clamp(0.0, 1e6));
    let (from, to) = (from + warmup + beside, to.checked_sub(beside).unwrap_or(from));
    let is_enough = to.saturating_duration_since(from).as_secs_f64() * 2.0 >= elapsed_s && elapsed_s > 0.0;
    let cannot = "the peer took as long to begin and to end as to measure";
    is_enough.then_some(Span { from, to }).ok_or_else(|| Unavailable::new(cannot).remedy("a longer --runtime"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Arm, Metric};

    fn modelled() -> Metering {
        Metering::open(MeterSpec::Model("idle=40,core=8".parse().unwrap()), false)
    }

    fn row() -> Row {
        let mut row = Row::new(Arm::of_null("null"), 0);
        (row.ios, row.elapsed_s, row.user_s, row.system_s) = (5600, 2.0, Some(1.0), Some(3.0));
        row
    }

    fn now() -> Span {
        Span { from: Instant::now(), to: Instant::now() }
    }

    #[test]
    fn a_modelled_run_has_joules_above_idle_too_and_says_modelled() {
        let metering = modelled();
        let notes = metering.begin(&EnergyNotes::default(), &AtomicBool::new(false)).unwrap();
        assert_eq!(notes.idle_watts, Some(40.0));
        let mut row = row();
        metering.fill(&mut row, Ok(now()), &notes);
        assert_eq!((row.joules, row.idle_joules), (Some(112.0), Some(80.0)));
        assert_eq!((row.metric(Metric::WattsAboveIdle), row.metric(Metric::IosPerJoule)), (Some(16.0), Some(50.0)));
        assert_eq!(row.sources["joules"], "modelled: idle=40,core=8");
        assert_eq!(row.sources["idle_joules"], "modelled: idle=40,core=8");
    }

    #[test]
    fn without_a_meter_every_run_says_why() {
        let metering = Metering::open(MeterSpec::None, false);
        let notes = metering.begin(&EnergyNotes::default(), &AtomicBool::new(false)).unwrap();
        assert_eq!(notes.unavailable.as_deref(), Some("no meter was asked for (--meter none)"));
        let mut row = row();
        metering.fill(&mut row, Ok(now()), &notes);
        assert_eq!((row.joules, row.idle_joules), (None, None));
        assert_eq!(row.sources["joules"], "unavailable: no meter was asked for (--meter none)");
        let mut simulated = self::row();
        modelled().fill(&mut simulated, Err(Unavailable::new("simulated")), &notes);
        assert_eq!(simulated.sources["joules"], "unavailable: simulated");
    }

    #[test]
    fn a_study_that_goes_on_has_the_idle_power_of_its_first_part() {
        let metering = modelled();
        let mut earlier = metering.begin(&EnergyNotes::default(), &AtomicBool::new(false)).unwrap();
        earlier.idle_watts = Some(39.0);
        earlier.load_steps = vec![steps::LoadSteps::at(5.0)];
        assert_eq!(metering.begin(&earlier, &AtomicBool::new(false)).unwrap(), earlier);
        let other = Metering::open(MeterSpec::Model("idle=41,core=8".parse().unwrap()), false);
        let notes = other.begin(&earlier, &AtomicBool::new(false)).unwrap();
        assert_eq!((notes.idle_watts, notes.load_steps.len()), (Some(41.0), 1));
    }

    #[test]
    fn a_peers_stretch_leaves_out_all_in_which_it_may_have_begun_or_ended() {
        let from = Instant::now();
        let after = |ms| from + Duration::from_millis(ms);
        let span = peer_span(from, after(11_500), Duration::from_secs(1), 10.0).unwrap();
        assert_eq!((span.from, span.to), (after(1500), after(11_000)));
        assert!(peer_span(from, after(3000), Duration::ZERO, 1.0).is_err());
        assert!(peer_span(from, after(3000), Duration::ZERO, 0.0).is_err());
    }
}
