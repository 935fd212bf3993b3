//! Energy in a study: idle power first, then the joules of each run, and load steps to align an external meter's trace
//! with the study afterwards. Idle power and load steps are stored in the journal, so that a continued study has them
//! too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::energy::{EnergyNotes, steps};
use crate::rows::Row;
use iolane_measure::figures::RunFigure;
use iolane_measure::meters::{Meter, MeterSpec, Work};
use iolane_measure::span::Span;
use iolane_measure::telemetry::{Reading, Sourced, Unavailable};

/// The source of a study's joules.
#[derive(Debug, Clone)]
pub struct Metering {
    /// The meter as the user named it.
    pub spec: MeterSpec,
    /// The open meter, or why there is none.
    pub meter: Reading<Arc<Meter>>,
    /// Whether load steps are made for an external meter.
    pub steps: bool,
}

/// The least time between load steps in the middle of a study.
const STEPS_APART_S: f64 = 600.0;
/// How often the stop flag is checked.
const TICK: Duration = Duration::from_millis(50);

impl Metering {
    pub fn open(spec: MeterSpec, steps: bool) -> Self {
        Self { meter: Meter::open(&spec).map(Arc::new), spec, steps }
    }

    /// How long idle power is measured.
    pub(super) fn idle_time(&self) -> Duration {
        self.meter.as_ref().map_or(Duration::ZERO, |meter| meter.idle_time())
    }

    /// The time it adds to a study: idle power, and load steps at both ends.
    pub(super) fn estimated_time(&self) -> Duration {
        self.idle_time() + if self.steps { steps::duration() * 2 } else { Duration::ZERO }
    }

    /// Measures idle power, unless an earlier part of the study did; `None` if it was stopped.
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

    /// Makes load steps, if requested and not just made; `true` if there are new ones.
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

    /// Fills in a run's joules and its start time.
    pub(super) fn fill(&self, row: &mut Row, measured: Reading<Span>, notes: &EnergyNotes) {
        if let Ok(span) = &measured {
            row.started_unix_s = unix_s(span.from);
        }
        if row.rejected.is_some() {
            return;
        }
        let joules = measured.and_then(|span| {
            let meter = self.meter.as_ref().map_err(Clone::clone)?;
            let joules = meter.joules(span, Work::new(row.elapsed_s, &row.figures))?;
            Ok(meter.source().of(joules))
        });
        fill_in(row, joules, notes.idle_watts);
    }
}

/// Stores joules with their source in a row, or why there are none.
pub(crate) fn fill_in(row: &mut Row, joules: Reading<Sourced<f64>>, idle_watts: Option<f64>) {
    let idle = joules.clone().and_then(|joules| {
        let watts = idle_watts.ok_or_else(|| Unavailable::new("the idle machine was not measured"))?;
        Ok(Sourced { value: watts * row.elapsed_s, ..joules })
    });
    row.figures.set(RunFigure::Joules, joules);
    row.figures.set(RunFigure::IdleJoules, idle);
}

/// An instant in seconds since 1970.
fn unix_s(moment: Instant) -> f64 {
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    now_s - moment.elapsed().as_secs_f64()
}

/// A span in which a peer was certainly measuring: the time its program took to start and to exit cannot be separated.
pub(super) fn peer_span(from: Instant, to: Instant, warmup: Duration, elapsed_s: f64) -> Reading<Span> {
    let beside_s = (to - from).as_secs_f64() - warmup.as_secs_f64() - elapsed_s;
    let beside = Duration::from_secs_f64(beside_s.clamp(0.0, 1e6));
    let (from, to) = (from + warmup + beside, to.checked_sub(beside).unwrap_or(from));
    let is_enough = to.saturating_duration_since(from).as_secs_f64() * 2.0 >= elapsed_s && elapsed_s > 0.0;
    let cannot = "the peer took as long to start and to exit as to measure";
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
        (row.ios, row.elapsed_s) = (5600, 2.0);
        row.figures.set(RunFigure::UserS, Ok(Sourced::new(1.0, "test")));
        row.figures.set(RunFigure::SystemS, Ok(Sourced::new(3.0, "test")));
        row
    }

    fn joules(row: &Row) -> (Option<f64>, Option<f64>) {
        (row.figures.number(RunFigure::Joules), row.figures.number(RunFigure::IdleJoules))
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
        assert_eq!(joules(&row), (Some(112.0), Some(80.0)));
        assert_eq!((row.metric(Metric::WattsAboveIdle), row.metric(Metric::IosPerJoule)), (Some(16.0), Some(50.0)));
        for figure in [RunFigure::Joules, RunFigure::IdleJoules] {
            let known = row.figures.known(figure).unwrap();
            assert_eq!((known.source.as_str(), known.modelled), ("idle=40,core=8", true));
        }
    }

    #[test]
    fn without_a_meter_every_run_says_why() {
        let metering = Metering::open(MeterSpec::None, false);
        let notes = metering.begin(&EnergyNotes::default(), &AtomicBool::new(false)).unwrap();
        assert_eq!(notes.unavailable.as_deref(), Some("no meter was asked for (--meter none)"));
        let mut row = row();
        metering.fill(&mut row, Ok(now()), &notes);
        assert_eq!(joules(&row), (None, None));
        let why = |row: &Row| row.figures.why_missing(RunFigure::Joules).unwrap().to_string();
        assert_eq!(why(&row), "no meter was asked for (--meter none)");
        let mut simulated = self::row();
        modelled().fill(&mut simulated, Err(Unavailable::new("simulated")), &notes);
        assert_eq!(why(&simulated), "simulated");
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
