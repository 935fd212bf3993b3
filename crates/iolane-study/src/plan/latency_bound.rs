//! `LatencyBound`: the latency that a rate search keeps, parsed from `--rate-until p99=5ms`.

use std::fmt;
use std::str::FromStr;

use iolane::units::parse_duration;
use iolane::{Error, Result};
use iolane_measure::workload::Workload;

use super::metric::{Metric, Requests};
use super::percentile::Percentile;

/// A percentile of latency and the longest that it may be. Printing and parsing are inverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LatencyBound {
    time: BoundedTime,
    pub percentile: Percentile,
    /// In microseconds, above 0.
    max_us: u64,
}

/// The time whose percentile is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BoundedTime {
    /// The latency of these requests, from their scheduled start.
    Latency(Requests),
    /// The time from the actual start of a request to its completion: p50 and p99.
    Service,
}

/// What stands before a percentile of [`BoundedTime::Service`].
const SERVICE: &str = "service_";

impl LatencyBound {
    /// The metric that it bounds.
    pub fn metric(self) -> Metric {
        match self.time {
            BoundedTime::Latency(requests) => Metric::LatencyNs(requests, self.percentile),
            BoundedTime::Service if self.percentile == Percentile::P50 => Metric::ServiceP50Ns,
            BoundedTime::Service => Metric::ServiceP99Ns,
        }
    }

    /// The longest latency, in nanoseconds.
    pub fn max_ns(self) -> f64 {
        self.max_us as f64 * 1e3
    }

    /// `p99 within 5 ms`.
    pub fn in_words(self) -> String {
        format!("{} within {}", self.figure(), crate::format::time(self.max_ns()))
    }

    /// The longest latency as it is written: `5ms`.
    pub fn max(self) -> String {
        match self.max_us {
            us if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
            us if us.is_multiple_of(1000) => format!("{}ms", us / 1000),
            us => format!("{us}us"),
        }
    }

    /// `p99`, or `sync_p99`.
    pub fn figure(self) -> String {
        let prefix = match self.time {
            BoundedTime::Latency(requests) => requests.prefix(),
            BoundedTime::Service => SERVICE,
        };
        format!("{prefix}{}", self.percentile)
    }

    /// Where the bounded time begins, in words.
    pub fn counted_from(self) -> &'static str {
        match self.time {
            BoundedTime::Latency(Requests::Syncs) => "the time of an fsync or fdatasync",
            BoundedTime::Latency(Requests::Commits) => {
                "the time from the scheduled start of a write until it is durable"
            }
            BoundedTime::Latency(_) => "latency counted from the scheduled start",
            BoundedTime::Service => "latency counted from the actual start",
        }
    }

    /// Whether the time that a thread takes to wake up is part of what is bounded.
    pub fn includes_wake_up(self) -> bool {
        matches!(self.time, BoundedTime::Latency(requests) if requests != Requests::Syncs)
    }

    /// How many of its bounded requests a load makes for each of its reads and writes; 0 if it makes none of them.
    pub fn share_of_requests(self, workload: &Workload) -> f64 {
        let writes = 1.0 - f64::from(workload.read_percent()) / 100.0;
        let every = workload.sync_every();
        let syncs = every.map_or(0.0, |every| writes / f64::from(every.max(1)));
        match self.time {
            BoundedTime::Latency(Requests::All) | BoundedTime::Service => 1.0,
            BoundedTime::Latency(Requests::Reads) => 1.0 - writes,
            BoundedTime::Latency(Requests::Writes) => writes,
            BoundedTime::Latency(Requests::Commits) if every.is_none() && workload.durable => writes,
            BoundedTime::Latency(Requests::Syncs | Requests::Commits) => syncs,
        }
    }

    /// Checks that a load makes requests that are bounded.
    ///
    /// # Errors
    /// `Usage` if it makes none.
    pub fn check(self, workload: &Workload) -> Result<()> {
        if self.share_of_requests(workload) > 0.0 {
            return Ok(());
        }
        let (what, remedy) = match self.time {
            BoundedTime::Latency(Requests::Syncs) => ("no fsync or fdatasync", "add --rw randwrite and --fdatasync 1"),
            BoundedTime::Latency(Requests::Commits) => {
                ("no durable write", "add --rw randwrite and --fdatasync 1, or --durable")
            }
            BoundedTime::Latency(Requests::Writes) => ("no write", "add --rw randwrite or randrw"),
            _ => ("no read", "add --rw randread or randrw"),
        };
        Err(Error::usage(format!("bound `{self}`"), format!("{} makes {what}", workload.load_in_words()))
            .remedy(remedy))
    }
}

impl FromStr for LatencyBound {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |cause: &str| {
            Error::usage(format!("bound `{text}`"), cause)
                .remedy("write p99=5ms, p99.9=800us, read_p99=1ms, write_p99=2ms, sync_p99=10ms, commit_p99=10ms or service_p99=300us")
        };
        let (figure, max) = text.split_once('=').ok_or_else(|| wrong("it is not PERCENTILE=TIME"))?;
        let (figure, max) = (figure.trim(), max.trim());
        let (time, percentile) = match figure.strip_prefix(SERVICE) {
            Some(percentile) => (BoundedTime::Service, percentile),
            None => {
                let (requests, percentile) = Requests::of_name(figure);
                (BoundedTime::Latency(requests), percentile)
            }
        };
        let percentile: Percentile = percentile.parse()?;
        if time == BoundedTime::Service && ![Percentile::P50, Percentile::P99].contains(&percentile) {
            return Err(wrong("of the time after the start, p50 and p99 are recorded"));
        }
        // `p99=5` would be five seconds.
        if max.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && max.bytes().any(|byte| byte != b'0') {
            return Err(wrong("the time has no unit"));
        }
        match parse_duration(max)?.as_micros() {
            0 => Err(wrong("the time is less than a microsecond")),
            max_us => Ok(Self { time, percentile, max_us: max_us as u64 }),
        }
    }
}

impl fmt::Display for LatencyBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.figure(), self.max())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use iolane_measure::workload::Access;

    #[test]
    fn a_bound_is_read_as_people_write_it() {
        for (text, shown, max_ns) in
            [("p99=5ms", "p99=5ms", 5e6), ("p99.9 = 800us", "p99.9=800us", 8e5), ("p50=0.5s", "p50=500ms", 5e8)]
        {
            let bound: LatencyBound = text.parse().unwrap();
            assert_eq!((bound.to_string().as_str(), bound.max_ns()), (shown, max_ns));
        }
        assert_eq!("p99=5ms".parse::<LatencyBound>().unwrap().in_words(), "p99 within 5 ms");
        assert_eq!("sync_p99=5ms".parse::<LatencyBound>().unwrap().in_words(), "sync_p99 within 5 ms");
        for (wrong, why) in [
            ("p99", "PERCENTILE=TIME"),
            ("5ms", "PERCENTILE=TIME"),
            ("p99=0", "less than a microsecond"),
            ("p99=soon", "duration `soon`"),
            ("p100=5ms", "percentile `p100`"),
            ("p99=-1ms", "duration `-1ms`"),
            ("p99=5", "the time has no unit"),
            ("service_p99.9=1ms", "p50 and p99 are recorded"),
            ("fsync_p99=1ms", "percentile `fsync_p99`"),
        ] {
            let error = wrong.parse::<LatencyBound>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}, expected {why}");
        }
    }

    #[test]
    fn a_bound_is_about_the_requests_that_a_load_makes() {
        let log = Workload { access: Access::Write, fdatasync_every: Some(4), ..Workload::default() };
        let mix = Workload { access: Access::RandRw, read_percent: Some(70), ..Workload::default() };
        let durable = Workload { durable: true, ..mix.clone() };
        for (bound, workload, share) in [
            ("p99=1ms", &log, 1.0),
            ("service_p50=1ms", &log, 1.0),
            ("sync_p99=1ms", &log, 0.25),
            ("commit_p99=1ms", &log, 0.25),
            ("commit_p99=1ms", &durable, 0.3),
            ("commit_p99=1ms", &mix, 0.0),
            ("write_p99=1ms", &mix, 0.3),
            ("read_p99=1ms", &mix, 0.7),
            ("read_p99=1ms", &log, 0.0),
            ("sync_p99=1ms", &mix, 0.0),
        ] {
            let parsed: LatencyBound = bound.parse().unwrap();
            assert!((parsed.share_of_requests(workload) - share).abs() < 1e-12, "{bound}");
            assert_eq!(parsed.check(workload).is_ok(), share > 0.0, "{bound}");
            assert_eq!(parsed.to_string(), bound);
        }
        let refused = "sync_p99=1ms".parse::<LatencyBound>().unwrap().check(&mix).unwrap_err().to_string();
        assert!(refused.contains("no fsync or fdatasync") && refused.contains("--fdatasync 1"), "{refused}");
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(us in 1u64..10_000_000_000) {
            let bound = LatencyBound {
                time: BoundedTime::Latency(Requests::All), percentile: Percentile::P99, max_us: us,
            };
            prop_assert_eq!(bound.to_string().parse::<LatencyBound>().unwrap(), bound);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,16}") {
            let _ = text.parse::<LatencyBound>();
        }
    }
}
