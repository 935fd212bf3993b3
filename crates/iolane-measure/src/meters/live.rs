//! A meter that a thread of its own reads while a study runs. The thread fills a curve, from which the joules of an interval
//! are taken. The thread ends when the meter is dropped.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::curve::{Curve, Kind};
use super::instrument::Instrument;
use crate::telemetry::{Reading, Unavailable};

/// State shared by the meter's thread and its users.
#[derive(Debug)]
struct Shared {
    opened: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    kind: Kind,
    curve: Curve,
    /// When the meter last failed, in seconds since `opened`, and why.
    trouble: Option<(f64, Unavailable)>,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the meter's thread stores its readings.
#[derive(Debug, Clone)]
pub(super) struct Feed(Arc<Shared>);

impl Feed {
    /// Stores a reading of this moment: joules of a counter, watts of a gauge.
    pub(super) fn note(&self, value: f64) {
        let at_s = self.0.opened.elapsed().as_secs_f64();
        let mut state = self.0.state();
        match state.kind {
            Kind::Counter => state.curve.note_joules(at_s, value),
            Kind::Gauge => state.curve.note_watts(at_s, value),
        }
        self.0.changed.notify_all();
    }

    /// Records that the meter has failed.
    pub(super) fn note_trouble(&self, why: Unavailable) {
        self.0.state().trouble = Some((self.0.opened.elapsed().as_secs_f64(), why));
        self.0.changed.notify_all();
    }

    /// Whether the meter was dropped.
    pub(super) fn is_over(&self) -> bool {
        self.0.state().over
    }

    /// Waits for this time, or until the meter is dropped.
    pub(super) fn pause(&self, time: Duration) {
        drop(self.0.changed.wait_timeout_while(self.0.state(), time, |state| !state.over));
    }
}

/// A meter that is read continuously.
#[derive(Debug)]
pub(super) struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Longest wait for the next reading of a counter.
const PATIENCE: Duration = Duration::from_secs(2);

impl Live {
    /// A meter that reads an instrument once per period.
    pub(super) fn reading(mut instrument: Box<dyn Instrument>) -> Reading<Self> {
        let (kind, period) = (instrument.kind(), instrument.period());
        Self::fed(kind, move |feed| {
            while !feed.is_over() {
                let begun = Instant::now();
                match instrument.read() {
                    Ok(value) => feed.note(value),
                    Err(why) => feed.note_trouble(why),
                }
                feed.pause(period.saturating_sub(begun.elapsed()));
            }
        })
    }

    /// A meter whose thread runs `feed`.
    pub(super) fn fed(kind: Kind, feed: impl FnOnce(Feed) + Send + 'static) -> Reading<Self> {
        let state = Mutex::new(State { kind, curve: Curve::new(kind), trouble: None, over: false });
        let shared = Arc::new(Shared { opened: Instant::now(), state, changed: Condvar::new() });
        let given = Feed(Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("iolane-meter".into()).spawn(move || feed(given));
        let failed = |error| Unavailable::new(format!("a thread for the meter: {}", iolane::error::describe(&error)));
        Ok(Self { shared, thread: Some(thread.map_err(failed)?) })
    }

    /// Waits for the first two readings.
    ///
    /// # Errors
    /// If the meter fails, or has not been read twice after `time_max`.
    pub(super) fn begin(&self, time_max: Duration) -> Reading<()> {
        let waits = |state: &mut State| state.trouble.is_none() && state.curve.interval_s().is_none();
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), time_max, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (&state.trouble, state.curve.interval_s()) {
            (Some((_, why)), _) => Err(why.clone()),
            (None, Some(_)) => Ok(()),
            (None, None) => {
                Err(Unavailable::new(format!("it returned fewer than two readings in {} s", time_max.as_secs())))
            }
        }
    }

    /// Shortest interval that has joules, in seconds.
    pub(super) fn interval_min_s(&self) -> f64 {
        self.shared.state().curve.interval_min_s()
    }

    /// The latest watts; `None` if the meter fails, or has too few readings.
    pub(super) fn latest_watts(&self) -> Option<f64> {
        let state = self.shared.state();
        let (_, told_s) = state.curve.span_s()?;
        let fails = state.trouble.as_ref().is_some_and(|(at_s, _)| *at_s > told_s);
        state.curve.latest_watts().filter(|_| !fails)
    }

    /// Joules of an interval in the past. Readings before it are dropped, so later calls must be for later intervals.
    ///
    /// # Errors
    /// As [`Curve::joules`], and if the meter failed meanwhile.
    pub(super) fn joules(&self, from: Instant, to: Instant) -> Reading<f64> {
        let since = |moment: Instant| moment.saturating_duration_since(self.shared.opened).as_secs_f64();
        let (from_s, to_s) = (since(from), since(to));
        let waits = |state: &mut State| {
            let is_there = state.curve.span_s().is_some_and(|(_, end_s)| end_s >= to_s);
            let failed = state.trouble.as_ref().is_some_and(|(at_s, _)| *at_s >= from_s);
            state.kind == Kind::Counter && !is_there && !failed
        };
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), PATIENCE, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some((_, why)) = state.trouble.as_ref().filter(|(at_s, _)| *at_s >= from_s) {
            return Err(why.clone());
        }
        state.curve.forget_before(from_s);
        state.curve.joules(from_s, to_s)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A meter whose readings the test provides.
    fn scripted(kind: Kind) -> (Live, Feed) {
        let (send, receive) = mpsc::channel();
        let live = Live::fed(kind, move |feed| send.send(feed).unwrap()).unwrap();
        let feed = receive.recv().unwrap();
        (live, feed)
    }

    fn after(live: &Live, seconds: u64) -> Instant {
        live.shared.opened + Duration::from_secs(seconds)
    }

    #[test]
    fn a_failure_makes_only_its_own_interval_unavailable() {
        let (live, feed) = scripted(Kind::Gauge);
        (0..100).for_each(|at| feed.0.state().curve.note_watts(f64::from(at), 50.0));
        feed.0.state().trouble = Some((25.0, Unavailable::new("unplugged")));
        let joules = |from, to| live.joules(after(&live, from), after(&live, to));
        assert_eq!(joules(20, 40).unwrap_err().to_string(), "unplugged");
        assert_eq!(joules(40, 60).unwrap(), 1000.0);
        assert_eq!(live.latest_watts(), Some(50.0), "the failure is past");
        feed.0.state().trouble = Some((100.0, Unavailable::new("unplugged again")));
        assert_eq!(live.latest_watts(), None);
    }

    #[test]
    fn a_counter_is_awaited_until_it_was_read_after_the_interval() {
        let (live, feed) = scripted(Kind::Counter);
        (0..9).for_each(|at| feed.0.state().curve.note_joules(f64::from(at), f64::from(at) * 30.0));
        let (from, to) = (after(&live, 2), after(&live, 9));
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| live.joules(from, to));
            feed.0.state().curve.note_joules(9.0, 270.0);
            feed.0.changed.notify_all();
            assert_eq!(asked.join().unwrap().unwrap(), 210.0);
        });
    }

    #[test]
    fn a_meter_that_fails_at_once_reports_why() {
        let (live, feed) = scripted(Kind::Gauge);
        feed.note_trouble(Unavailable::new("no such program"));
        assert_eq!(live.begin(Duration::from_secs(100)).unwrap_err().to_string(), "no such program");
        let (live, _feed) = scripted(Kind::Gauge);
        assert_eq!(live.begin(Duration::ZERO).unwrap_err().to_string(), "it returned fewer than two readings in 0 s");
    }

    #[test]
    fn the_thread_ends_with_the_meter() {
        let (send, receive) = mpsc::channel();
        let live = Live::fed(Kind::Gauge, move |feed| {
            while !feed.is_over() {
                feed.pause(Duration::from_secs(3600));
            }
            send.send(()).unwrap();
        });
        drop(live);
        receive.try_recv().unwrap();
    }
}
