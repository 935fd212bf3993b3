//! What a simulated device does besides what it is asked for, and how that is written in its name. `sim` applies it.

use std::str::FromStr;

use iolane_core::{Error, Result, units};

/// The behaviour of a simulated device, written after the size of its target: `sim:64m,seed=7,short=0.01`.
#[derive(Debug, Clone, PartialEq)]
pub struct SimSettings {
    /// Seed of everything below.
    pub seed: u64,
    /// The least time a request takes, in nanoseconds (`latency=80us`).
    pub latency_ns: u64,
    /// The most that is added to the latency, uniformly drawn, in nanoseconds (`jitter=40us`). It reorders completions.
    pub jitter_ns: u64,
    /// The share of reads and writes that move fewer bytes than requested (`short=0.01`).
    pub short: f64,
    /// The share of requests that fail with EIO (`error=0.001`).
    pub error: f64,
    /// The share of writes that are acknowledged and not carried out (`lost=0.001`).
    pub lost: f64,
    /// The share of writes that are acknowledged and carried out for their first half only (`torn=0.001`).
    pub torn: f64,
    /// The share of writes that are acknowledged and stored with a byte that differs (`altered=0.001`).
    pub altered: f64,
    /// The device stalls once per this many requests, for `stall_ns`; 0 for never (`stall-every=1000`).
    pub stall_every: u64,
    /// The length of a stall in nanoseconds (`stall=100ms`).
    pub stall_ns: u64,
}

impl Default for SimSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            latency_ns: 80_000,
            jitter_ns: 40_000,
            short: 0.0,
            error: 0.0,
            lost: 0.0,
            torn: 0.0,
            altered: 0.0,
            stall_every: 0,
            stall_ns: 0,
        }
    }
}

impl FromStr for SimSettings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut settings = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let bad = |cause: &str| {
                Error::usage(format!("sim setting `{part}`"), cause).remedy(
                    "write seed=N, latency=80us, jitter=40us, short=0.01, error=0.001, lost=0.001, torn=0.001, \
                     altered=0.001, stall-every=N or stall=100ms",
                )
            };
            let (name, value) = part.split_once('=').ok_or_else(|| bad("it is not NAME=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| bad("not a whole number"));
            let time_ns = || Ok(units::parse_duration(value)?.as_nanos() as u64);
            let share = || {
                value
                    .parse::<f64>()
                    .ok()
                    .filter(|share| (0.0..=1.0).contains(share))
                    .ok_or_else(|| bad("not a number from 0 to 1"))
            };
            match name {
                "seed" => settings.seed = number()?,
                "latency" => settings.latency_ns = time_ns()?,
                "jitter" => settings.jitter_ns = time_ns()?,
                "short" => settings.short = share()?,
                "error" => settings.error = share()?,
                "lost" => settings.lost = share()?,
                "torn" => settings.torn = share()?,
                "altered" => settings.altered = share()?,
                "stall-every" => settings.stall_every = number()?,
                "stall" => settings.stall_ns = time_ns()?,
                _ => return Err(bad("no such setting")),
            }
        }
        Ok(settings)
    }
}
