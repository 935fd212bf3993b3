//! One window: what was measured on a path for some milliseconds. The queue makes it; the chooser reads its load and its cost.

use iolane_core::Goal;

/// What was measured on one path without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Requests that completed.
    pub ios: u64,
    /// Time during which there was a request in flight, in nanoseconds. An idle program says nothing about a path.
    pub busy_ns: u64,
    /// The number of requests in flight, summed over that time: request-nanoseconds. By Little's law this sum for each completion is the mean
    /// time from submission to completion.
    pub in_flight_ns: u64,
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// Mean size of a request in bytes.
    pub request_bytes: u64,
    /// Requests that the path does not take, and another one carried for it.
    pub carried_elsewhere: u64,
}

/// The class of a load: paths compare differently in each (systor22, figures 2 and 3: by depth; floe26: by block size).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Mean size of a request in bytes, as a power of two.
    request_bytes_log2: f64,
    /// Mean number of requests in flight, as a power of two.
    in_flight_log2: f64,
}

impl Load {
    /// A load of requests of this mean size, with this mean number in flight.
    pub fn new(request_bytes: f64, in_flight: f64) -> Self {
        Self { request_bytes_log2: request_bytes.max(1.0).log2(), in_flight_log2: in_flight.max(1.0).log2() }
    }

    /// Mean size of a request in bytes.
    pub fn request_bytes(&self) -> f64 {
        self.request_bytes_log2.exp2()
    }

    /// Mean number of requests in flight.
    pub fn in_flight(&self) -> f64 {
        self.in_flight_log2.exp2()
    }

    /// Whether two loads are within a factor of 1.7 in both of their measures, so that what was learnt at one holds at the other.
    pub fn is_near(&self, other: &Self) -> bool {
        const NEAR: f64 = 0.77;
        let near = |a: f64, b: f64| (a - b).abs() <= NEAR;
        near(self.request_bytes_log2, other.request_bytes_log2) && near(self.in_flight_log2, other.in_flight_log2)
    }
}

impl Window {
    /// Its load.
    pub fn load(&self) -> Load {
        let in_flight = self.in_flight_ns as f64 / self.busy_ns.max(1) as f64;
        Load::new(self.request_bytes as f64, in_flight)
    }

    /// Whether most requests were carried by another path, so that this one was not measured.
    pub fn is_of_another_path(&self) -> bool {
        self.carried_elsewhere > self.ios / 2
    }

    /// What all requests together cost by the goal, and by what decides between equals, in nanoseconds.
    fn sums(&self, goal: Goal) -> (u64, u64) {
        match goal {
            Goal::Throughput => (self.busy_ns, self.cpu_ns),
            Goal::Latency => (self.in_flight_ns, self.cpu_ns),
            Goal::Efficiency => (self.cpu_ns, self.busy_ns),
        }
    }

    /// What a request cost, in nanoseconds; lower is better. Infinite if none completed.
    pub fn cost(&self, goal: Goal) -> Cost {
        let each = |sum: u64| if self.ios == 0 { f64::INFINITY } else { sum as f64 / self.ios as f64 };
        let (first, second) = self.sums(goal);
        let cores = self.cpu_ns as f64 / self.busy_ns.max(1) as f64;
        Cost { first: each(first), second: each(second), cores }
    }

    /// How many requests would have completed at this cost of one.
    pub fn expected_ios(&self, goal: Goal, cost: f64) -> f64 {
        self.sums(goal).0 as f64 / cost
    }
}

/// What a request cost by the goal, and what decides between paths that are equal by it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// By the goal, in nanoseconds.
    pub first: f64,
    /// In nanoseconds too.
    pub second: f64,
    /// Processor time by the time with requests in flight: the cores that the path keeps busy.
    pub cores: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn littles_law_gives_the_time_of_a_request() {
        // 16 in flight for a millisecond, in which 100 complete: each took 160 us.
        let window = Window {
            ios: 100,
            busy_ns: 1_000_000,
            in_flight_ns: 16_000_000,
            cpu_ns: 500_000,
            request_bytes: 4096,
            carried_elsewhere: 0,
        };
        assert_eq!(window.cost(Goal::Latency).first, 160_000.0);
        assert_eq!(window.cost(Goal::Throughput).first, 10_000.0);
        assert_eq!(window.cost(Goal::Efficiency), Cost { first: 5_000.0, second: 10_000.0, cores: 0.5 });
    }

    #[test]
    fn a_load_of_twice_the_depth_or_size_is_another() {
        let load = |in_flight: u64, request_bytes| {
            Window { ios: 1, busy_ns: 1000, in_flight_ns: 1000 * in_flight, request_bytes, ..Window::default() }.load()
        };
        assert!(load(16, 4096).is_near(&load(12, 4096)));
        assert!(!load(16, 4096).is_near(&load(32, 4096)) && !load(16, 4096).is_near(&load(16, 8192)));
    }
}
