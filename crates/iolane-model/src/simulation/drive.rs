//! A drive: a controller, parallel units, a bus. The kernel's driver in front of it keeps what exceeds the tags.

use std::collections::VecDeque;

use rand_core::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::events::Time;
use crate::Drive;
use crate::machine::Link;

pub(super) struct DriveState {
    of: Drive,
    /// Nanoseconds of the controller for a request.
    controller_ns: f64,
    controller_free: f64,
    /// When each unit is free.
    units: Vec<f64>,
    bus_free: f64,
    held: u32,
    waiting: VecDeque<usize>,
}

/// The lanes that the drives of a node share.
#[derive(Default)]
pub(super) struct LinkState {
    free: f64,
}

impl DriveState {
    pub(super) fn new(of: Drive) -> Self {
        Self {
            of,
            controller_ns: 1e9 / of.iops,
            controller_free: 0.0,
            units: vec![0.0; (of.units.round() as usize).max(1)],
            bus_free: 0.0,
            held: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Whether the drive takes a request now; otherwise it is its turn when [`Self::release`] returns it.
    pub(super) fn admit(&mut self, request: usize) -> bool {
        if self.held < self.of.tags {
            self.held += 1;
            return true;
        }
        self.waiting.push_back(request);
        false
    }

    /// A request has completed: its tag goes to the next that waits, which is returned.
    pub(super) fn release(&mut self) -> Option<usize> {
        let next = self.waiting.pop_front();
        self.held -= u32::from(next.is_none());
        next
    }

    /// When the units are done with a request that arrives now.
    pub(super) fn serve(&mut self, now: Time, bytes: u64, writes: bool, rng: &mut impl Rng) -> Time {
        let begin = self.controller_free.max(now as f64);
        self.controller_free = begin + self.controller_ns;
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

    /// When the bytes of a request that the units are done with now have passed the bus and the link.
    pub(super) fn transfer(&mut self, now: Time, bytes: u64, (of_link, link): (Option<Link>, &mut LinkState)) -> Time {
        let on_bus = self.bus_free.max(now as f64) + bytes as f64 / self.of.bytes_per_s * 1e9;
        self.bus_free = on_bus;
        if let Some(of_link) = of_link {
            link.free = link.free.max(on_bus) + bytes as f64 / of_link.bytes_per_s * 1e9;
        }
        link.free.max(on_bus).round() as Time
    }
}
