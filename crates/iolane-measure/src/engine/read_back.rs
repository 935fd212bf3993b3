//! After a load that only writes, with --verify: the engine reads back what was written, and checks it. Nothing here is
//! measured.

use std::sync::atomic::{AtomicBool, Ordering};

use iolane::{Completion, Result};

use super::{Engine, InFlight, add, describe, sized};
use crate::clock::Clock;
use crate::workload::PlannedRequest;

/// What became of the blocks that were to be read back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadBack {
    /// Blocks whose content was compared with what was written, and matched.
    pub(crate) verified: u64,
    /// Blocks that could not be read, or not all of them.
    pub(crate) errors: u64,
    /// The first of these, as text.
    pub(crate) first_error: Option<String>,
    /// Blocks that were not read before it was stopped.
    pub(crate) unread: u64,
}

impl<C: Clock> Engine<C> {
    /// Reads these blocks and checks them, with as many in flight as the queue holds. Ends early if `stop` is set, once every
    /// request has completed.
    ///
    /// # Errors
    /// If the queue fails, or a block holds wrong content. Failed reads are counted, not returned.
    ///
    /// # Panics
    /// If the workload is not verified, or a block is being written.
    pub(crate) fn read_back(
        &mut self,
        mut blocks: impl Iterator<Item = PlannedRequest>,
        stop: &AtomicBool,
    ) -> Result<ReadBack> {
        assert_eq!(self.free.len(), self.depth, "reading back begins with nothing in flight");
        let verifier = self.verifier.clone().expect("only a verified load is read back");
        let mut read_back = ReadBack::default();
        loop {
            while !stop.load(Ordering::Relaxed)
                && let Some((tag, buffer)) = self.free.pop()
            {
                let Some(block) = blocks.next() else {
                    self.free.push((tag, buffer));
                    break;
                };
                let mut buffer = sized(buffer, block);
                assert!(verifier.begin(block, &mut buffer), "block {} is being written", block.offset);
                self.in_flight[tag as usize] = InFlight { start_ns: 0, handed_ns: 0, request: block };
                add(&mut self.requests, &mut self.block_data, tag, buffer, block);
            }
            if self.free.len() == self.depth {
                break;
            }
            self.queue.turn(&mut self.requests, 1, &mut self.completions)?;
            while let Some(Completion { tag, result, buffer, .. }) = self.completions.pop() {
                let buffer = buffer.expect("the completion of a read returns its buffer");
                let block = self.in_flight[tag as usize].request;
                if verifier.end(block, result, &buffer)? {
                    read_back.verified += 1;
                } else {
                    read_back.errors += 1;
                    read_back.first_error.get_or_insert_with(|| match result {
                        Err(error) => describe(block, error),
                        Ok(bytes) => {
                            format!(
                                "read of {} bytes at offset {}: it ended after {bytes}",
                                block.block_bytes, block.offset
                            )
                        }
                    });
                }
                self.free.push((tag as u32, buffer));
            }
        }
        read_back.unread = blocks.count() as u64;
        Ok(read_back)
    }
}

impl ReadBack {
    /// Adds what another engine read back.
    pub(crate) fn merge(&mut self, other: Self) {
        self.verified += other.verified;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.unread += other.unread;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use iolane::{IoPath, Pages, Pool, QueueConfig, Target};

    use super::*;
    use crate::clock::VirtualClock;
    use crate::content::{ContentMap, Origin, Verifier};
    use crate::engine::{Extent, Phase, Tally};
    use crate::workload::{Access, RequestGenerator, ThreadShare, Workload};

    /// An engine with four requests in flight that has written each of 16 blocks of a simulated device.
    fn after_writing(settings: &str) -> (Engine<VirtualClock>, Arc<ContentMap>) {
        let target = Target::options().write_unguarded().open(format!("sim:64k,{settings}")).unwrap();
        let workload = Workload { access: Access::Write, verify: true, depth: 4, ..Workload::default() };
        let map = Arc::new(ContentMap::unwritten(0, 65_536, 4096, Origin { seed: 1, run: 5 }).unwrap());
        let pool = Pool::new(4, 4096, Pages::Base).unwrap();
        let queue = iolane::open_queue(&IoPath::new("sim"), &target, &QueueConfig::new(4).pool(&pool)).unwrap();
        let generator = RequestGenerator::new(&workload, 65_536, ThreadShare::ALONE).unwrap();
        let clock = VirtualClock(iolane::sim::clock(&target).unwrap());
        let verifier = Some(Verifier::Map(map.clone()));
        let mut engine = Engine::new(queue, clock, &workload, generator, verifier, &pool, None).unwrap();
        let extent = Extent { duration_ns: 1 << 40, bytes_max: 65_536 };
        engine.run(Phase::Measure, extent, &AtomicBool::new(false), &mut Tally::new()).unwrap();
        (engine, map)
    }

    fn blocks(map: &ContentMap) -> impl Iterator<Item = PlannedRequest> {
        map.known_blocks(0, 1).map(|offset| PlannedRequest { is_read: true, offset, block_bytes: 4096 })
    }

    #[test]
    fn when_stopped_it_settles_what_is_in_flight_and_counts_what_is_left() {
        for stopped_at in 1..=16 {
            let (mut engine, map) = after_writing("");
            let stop = AtomicBool::new(false);
            let mut drawn = 0;
            let stopping = blocks(&map).inspect(|_| {
                drawn += 1;
                stop.store(drawn >= stopped_at, Ordering::Relaxed);
            });
            let read_back = engine.read_back(stopping, &stop).unwrap();
            let expected = ReadBack { verified: stopped_at, unread: 16 - stopped_at, ..ReadBack::default() };
            assert_eq!(read_back, expected);
            assert_eq!(engine.free.len(), 4);
            assert!(map.try_begin_write(0, 65_536).is_some(), "every claim is released");
        }
    }

    #[test]
    fn a_block_that_cannot_be_read_whole_is_an_error_and_not_verified() {
        let never = AtomicBool::new(false);
        for (fault, text) in [("error=0.3", "errno 5"), ("short=0.3", "it ended after ")] {
            let (mut engine, map) = after_writing(fault);
            let known = blocks(&map).count() as u64;
            let ReadBack { verified, errors, first_error, unread } = engine.read_back(blocks(&map), &never).unwrap();
            assert!(errors > 0 && verified > 0 && verified + errors == known && unread == 0, "{verified} {errors}");
            let first_error = first_error.unwrap();
            assert!(
                first_error.starts_with("read of 4096 bytes at offset ") && first_error.contains(text),
                "{first_error}"
            );
        }
    }
}
