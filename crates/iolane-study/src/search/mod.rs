//! The highest rate at which an open loop keeps its latency within a bound: which rate to try next, and the answer from all
//! that were tried, with an interval. A session makes the runs; nothing here measures.

mod answer;
mod change;
mod curve;
mod rates;
mod trial;

pub use answer::{Change, HighestRate, highest_rate, ratio};
pub use rates::{RATE_MAX, RATE_MIN, RateSearch};
pub use trial::{Trial, has_few_requests, runtime_s};
