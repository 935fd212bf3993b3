//! A meter that is read by a thread of its own while a study runs. The thread fills a curve; whoever wants the joules of a
//! stretch asks here. The thread ends when the meter is dropped.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Instrument;
use super::curve::{Curve, Kind};
use crate::telemetry::{Reading, Unavailable};

/// What the thread and those who ask have in common.
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
    /// When the meter last failed, and why.
    trouble: Option<(f64, Unavailable)>,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a meter's thread puts what it reads.
#[derive(Debug, Clone)]
pub(super) struct Feed(Arc<Shared>);

impl Feed {
    /// A value of now: joules of a counter, watts of a gauge.
    pub(super) fn note(&self, value: f64) {
        let at_s = self.0.opened.elapsed().as_secs_f64();
        let mut state = self.0.state();
        match state.kind {
            Kind::Counter => state.curve.note_joules(at_s, value),
            Kind::Gauge => state.curve.note_watts(at_s, value),
        }
        self.0.changed.notify_all();
    }

    /// That the meter has failed.
    pub(super) fn note_trouble(&self, why: Unavailable) {
        self.0.state().trouble = Some((self.0.opened.elapsed().as_secs_f64(), why));
        self.0.changed.notify_all();
    }

    /// Whether nobody wants more.
    pub(super) fn is_over(&self) -> bool {
        self.0.state().over
    }

    /// Waits so long, or until nobody wants more.
    pub(super) fn pause(&self, time: Duration) {
        drop(self.0.changed.wait_timeout_while(self.0.state(), time, |state| !state.over));
    }
}

/// A meter that is read all the time.
#[derive(Debug)]
pub(super) struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How long the next reading of a counter is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

impl Live {
    /// Reads an instrument once in each of its periods.
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

    /// Runs what feeds it.
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
    /// What is wrong with the meter, or that it says nothing for so long.
    pub(super) fn begin(&self, time_max: Duration) -> Reading<()> {
        let waits = |state: &mut State| state.trouble.is_none() && state.curve.interval_s().is_none();
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), time_max, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (&state.trouble, state.curve.interval_s()) {
            (Some((_, why)), _) => Err(why.clone()),
            (None, Some(_)) => Ok(()),
            (None, None) => Err(Unavailable::new(format!("it has not told power twice in {} s", time_max.as_secs()))),
        }
    }

    /// Seconds that a stretch must have at least.
    pub(super) fn stretch_min_s(&self) -> f64 {
        self.shared.state().curve.stretch_min_s()
    }

    /// Watts of late; `None` if the meter fails, or has told too little.
    pub(super) fn watts_of_late(&self) -> Option<f64> {
        let state = self.shared.state();
        let (_, told_s) = state.curve.span_s()?;
        let fails = state.trouble.as_ref().is_some_and(|(at_s, _)| *at_s > told_s);
        state.curve.watts_of_late().filter(|_| !fails)
    }

    /// Joules from one moment to another, which must be past. What was before the first of them is forgotten: the next
    /// call's are later.
    ///
    /// # Errors
    /// As of a curve's, and if the meter failed meanwhile.
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
        // It had no business but this one.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// One whose readings are those of the test.
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
    fn a_failure_spoils_the_stretch_it_falls_into_and_no_later_one() {
        let (live, feed) = scripted(Kind::Gauge);
        (0..100).for_each(|at| feed.0.state().curve.note_watts(f64::from(at), 50.0));
        feed.0.state().trouble = Some((25.0, Unavailable::new("unplugged")));
        let joules = |from, to| live.joules(after(&live, from), after(&live, to));
        assert_eq!(joules(20, 40).unwrap_err().to_string(), "unplugged");
        assert_eq!(joules(40, 60).unwrap(), 1000.0);
        assert_eq!(live.watts_of_late(), Some(50.0), "it is over");
        feed.0.state().trouble = Some((100.0, Unavailable::new("unplugged again")));
        assert_eq!(live.watts_of_late(), None);
    }

    #[test]
    fn a_counter_is_waited_for_until_it_has_told_the_end_of_the_stretch() {
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
    fn a_meter_that_fails_at_once_says_why_when_it_begins() {
        let (live, feed) = scripted(Kind::Gauge);
        feed.note_trouble(Unavailable::new("no such program"));
        assert_eq!(live.begin(Duration::from_secs(100)).unwrap_err().to_string(), "no such program");
        let (live, _feed) = scripted(Kind::Gauge);
        assert_eq!(live.begin(Duration::ZERO).unwrap_err().to_string(), "it has not told power twice in 0 s");
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
