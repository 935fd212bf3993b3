//! A drive with requests in it: a controller, parallel units, a bus. The kernel's driver in front of it keeps what exceeds the tags.
//!
//! A request passes three steps, and its caller keeps the time: [`Service::admit`] gives it a tag, [`Service::serve`] the time at which
//! the units are done with it, and [`Service::transfer`], called at that time, the time at which its bytes have passed the bus and it
//! completes. [`Service::release`] then gives its tag to the next one.

use std::collections::VecDeque;

use rand_core::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::{Drive, Link};

/// Nanoseconds since the start.
pub type Time = u64;

/// A drive with requests in it. Requests are known by numbers of the caller's.
#[derive(Debug)]
pub struct Service {
    of: Drive,
    /// Nanoseconds of the controller for a read, and for a write.
    controller_ns: [f64; 2],
    controller_free: f64,
    /// When each unit is free.
    units: Vec<f64>,
    bus_free: f64,
    held: u32,
    waiting: VecDeque<usize>,
}

/// The lanes of a [`Link`].
#[derive(Debug, Default)]
pub struct Lanes {
    free: f64,
}

impl Service {
    /// An idle drive.
    pub fn new(of: Drive) -> Self {
        Self {
            of,
            controller_ns: [of.iops, of.write_iops.unwrap_or(of.iops)].map(|iops| 1e9 / iops),
            controller_free: 0.0,
            units: vec![0.0; (of.units.round() as usize).max(1)],
            bus_free: 0.0,
            held: 0,
            waiting: VecDeque::new(),
        }
    }

    /// The numbers of the drive.
    pub fn drive(&self) -> &Drive {
        &self.of
    }

    /// Whether the drive takes a request now; otherwise it is its turn when [`Self::release`] returns it.
    pub fn admit(&mut self, request: usize) -> bool {
        if self.held < self.of.tags {
            self.held += 1;
            return true;
        }
        self.waiting.push_back(request);
        false
    }

    /// A request has completed: its tag goes to the next that waits, which is returned.
    pub fn release(&mut self) -> Option<usize> {
        let next = self.waiting.pop_front();
        self.held -= u32::from(next.is_none());
        next
    }

    /// When the units are done with a request that arrives now.
    pub fn serve(&mut self, now: Time, bytes: u64, writes: bool, rng: &mut impl Rng) -> Time {
        let begin = self.controller_free.max(now as f64);
        self.controller_free = begin + self.controller_ns[usize::from(writes)];
        let mean = if writes { self.of.write_ns } else { self.of.read_ns };
        let mut served = begin;
        for _ in 0..bytes.div_ceil(self.of.page_bytes).max(1) {
            let unit = (rng.next_u64() % self.units.len() as u64) as usize;
            let free = self.units[unit].max(begin) + mean * self.relative_service(rng);
            self.units[unit] = free;
            served = served.max(free);
        }
        (served.round() as Time).max(now + 1)
    }

    /// The service time of a page as a multiple of the mean: a logarithmic normal distribution.
    fn relative_service(&self, rng: &mut impl Rng) -> f64 {
        let normal: f64 = StandardNormal.sample(rng);
        // The mean of exp(normal(mu, sigma)) is exp(mu + sigma^2 / 2).
        libm::exp(self.of.spread * normal - self.of.spread * self.of.spread / 2.0)
    }

    /// When the bytes of a request that the units are done with now have passed the bus, and the lanes of a link, if there is one.
    pub fn transfer(&mut self, now: Time, bytes: u64, link: Option<(Link, &mut Lanes)>) -> Time {
        let on_bus = self.bus_free.max(now as f64) + bytes as f64 / self.of.bytes_per_s * 1e9;
        self.bus_free = on_bus;
        let Some((of, lanes)) = link else { return on_bus.round() as Time };
        lanes.free = lanes.free.max(on_bus) + bytes as f64 / of.bytes_per_s * 1e9;
        lanes.free.round() as Time
    }
}
