//! A closed queue leaves no descriptor, mapping or thread behind, after thousands of queues.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use iolane::{QueueConfig, Request};

use crate::bench::{Bench, Pair, check_each, one_each, pool, times};
use crate::fixtures::wait_until;
use crate::report;

/// Queues opened on each path, and on a path whose queues bring a kernel thread each.
const QUEUES: usize = 10_000;
const QUEUES_WITH_THREAD: usize = 1000;
/// On an emulated machine; a leak of one mapping each shows all the same, for it is more than is spared.
const QUEUES_BRIEF: usize = 128;
const _: () = assert!(QUEUES_BRIEF > MAPPINGS_SPARE);

/// Threads that open them, for paths whose closing waits for the kernel's grace periods, which all share.
const OPENERS: usize = 16;

/// Mappings may come and go for the allocator's own reasons: glibc makes up to eight arenas per cpu, two mappings each,
/// as threads happen to meet in it, and keeps stacks of ended threads. A leak would show hundreds at least.
const MAPPINGS_SPARE: usize = 64;

/// What the process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    descriptors: usize,
    mappings: usize,
    threads: usize,
}

impl Held {
    pub(crate) fn now() -> Result<Self> {
        Ok(Self {
            descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
            mappings: std::fs::read_to_string("/proc/self/maps")?.lines().count(),
            threads: std::fs::read_dir("/proc/self/task")?.count(),
        })
    }

    pub(crate) fn exceeds(self, before: Self) -> bool {
        self.descriptors > before.descriptors
            || self.mappings > before.mappings + MAPPINGS_SPARE
            || self.threads > before.threads
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { descriptors, mappings, threads } = self;
        write!(f, "{descriptors} descriptors, {mappings} mappings, {threads} threads")
    }
}

#[test]
fn thousands_of_queues_leave_no_descriptor_mapping_or_thread() {
    let bench = Bench::everywhere();
    check_each(&one_each(bench.pairs()), |pair| {
        let start = Instant::now();
        let usual = if pair.path.polls_submissions() { QUEUES_WITH_THREAD } else { QUEUES };
        let queues = times(usual, QUEUES_BRIEF);
        // What is made once and stays, such as the allocator's arenas, is made before the count.
        open_and_close(pair, 4 * OPENERS)?;
        let before = settled()?;
        open_and_close(pair, queues)?;
        let waited = wait_until("threads, descriptors and mappings are gone", || {
            Held::now().is_ok_and(|now| !now.exceeds(before))
        });
        waited.with_context(|| format!("before {before:?}, after {:?}", Held::now()))?;
        if queues < QUEUES {
            let path = &pair.path;
            report::say(&format!(
                "REDUCED conformance {path}: {queues} queues opened and closed, not {QUEUES}, in {:.1} s: {}",
                start.elapsed().as_secs_f64(),
                if queues == usual { "each brings a kernel thread" } else { "IOLANE_CONFORMANCE_BRIEF" },
            ));
        }
        Ok(())
    });
}

/// What is held once the threads of earlier queues, which end on their own, are gone: it is the same twice in a row.
pub(crate) fn settled() -> Result<Held> {
    let mut last = Held::now()?;
    wait_until("the process settles", || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = Held::now();
        let same = now.as_ref().is_ok_and(|now| *now == last);
        last = now.unwrap_or(last);
        same
    })?;
    Ok(last)
}

fn open_and_close(pair: &Pair<'_>, queues: usize) -> Result<()> {
    std::thread::scope(|scope| {
        let openers: Vec<_> = (0..OPENERS)
            .map(|_| scope.spawn(|| (0..queues / OPENERS).try_for_each(|number| open_one(pair, number))))
            .collect();
        openers.into_iter().try_for_each(|opener| opener.join().map_err(|_| anyhow::anyhow!("an opener panicked"))?)
    })
}

/// Opens a queue with all that it can have, and uses one in a hundred.
fn open_one(pair: &Pair<'_>, number: usize) -> Result<()> {
    let pool = pool(1, 4096)?;
    let config = QueueConfig::new(pair.depth(4)).pool(&pool);
    let config = if pair.capabilities.event_fd { config.event_fd() } else { config };
    let mut queue = pair.queue_on(&pair.target, &config)?;
    if number.is_multiple_of(100) {
        queue.submit(&mut vec![Request::read(1, 0, pool.take().context("a frame")?)]);
        let mut ended = Vec::new();
        queue.drain(&mut ended)?;
        ensure!(ended.len() == 1 && ended[0].result == Ok(4096), "{ended:?}");
    }
    Ok(())
}
