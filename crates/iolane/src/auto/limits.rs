//! What a path takes on a target: operations, sizes, memory. `lane` asks before it hands requests to the path.

use iolane_core::{Buffer, Interface, IoPath, Operation, Operations, Pool, QueueConfig, Result, Target, TargetKind};

use crate::chunks::ignores_chunks;

/// What the limits of a path on a target depend on.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Kind {
    kind: TargetKind,
    device: Option<(u32, u32)>,
    direct: bool,
}

impl Kind {
    pub(super) fn of(target: &Target) -> Self {
        Self { kind: target.kind(), device: target.device(), direct: target.direct() }
    }
}

/// What a path takes.
pub(super) struct Limits {
    operations: Operations,
    request_bytes_max: usize,
    /// The bits of a length that have to be zero.
    block_mask: usize,
    /// For a path that moves only registered memory: pools whose frames begin at whole blocks.
    pools: Option<Vec<Pool>>,
}

impl Limits {
    pub(super) fn new(
        interface: &dyn Interface,
        path: &IoPath,
        target: &Target,
        config: &QueueConfig,
    ) -> Result<(Self, u32)> {
        let capabilities = interface.probe(path, target)?;
        ignores_chunks(path, target, &capabilities)?;
        let request_bytes_max = capabilities.request_bytes_max.map_or(usize::MAX, |bytes| bytes as usize);
        let mut limits = Self { operations: capabilities.operations, request_bytes_max, block_mask: 0, pools: None };
        if interface.requires_registered_memory(path) {
            let mask = target.block_bytes() as usize - 1;
            let begins_at_blocks = |pool: &&Pool| (pool.span().0.addr().get() | pool.frame_bytes()) & mask == 0;
            limits.block_mask = mask;
            limits.pools = Some(config.pools.iter().filter(begins_at_blocks).cloned().collect());
        }
        Ok((limits, capabilities.depth_max))
    }

    /// Whether there are requests of these operations that the path does not take.
    pub(super) fn are_narrower_than(&self, general: Operations) -> bool {
        self.pools.is_some() || self.request_bytes_max < usize::MAX || !self.operations.contains(general)
    }

    /// Whether the path takes everything within these limits where it has the others.
    pub(super) fn are_within(&self, others: &Self) -> bool {
        others.operations.contains(self.operations)
            && self.request_bytes_max <= others.request_bytes_max
            && others.block_mask & !self.block_mask == 0
    }

    pub(super) fn allow(&self, operation: &Operation) -> bool {
        let is_registered = |buffer| self.pools.as_ref().is_none_or(|pools| pools.iter().any(|pool| pool.owns(buffer)));
        self.operations.contains(Operations::of(operation))
            && operation.bytes() <= self.request_bytes_max
            // A vectored request uses no registered memory.
            && operation.buffer().is_none_or(|buffer| self.allow_length(buffer) && is_registered(buffer))
    }

    /// The same for reads and writes with memory of the first pool: most requests are such, and few instructions tell.
    #[inline(always)]
    pub(super) fn allow_plain(&self, operation: &Operation) -> bool {
        let (Operation::Read(buffer) | Operation::Write(buffer)) = operation else { return false };
        let first_owns = |pools: &Vec<Pool>| pools.first().is_some_and(|pool| pool.owns(buffer));
        self.allow_length(buffer) && self.pools.as_ref().is_none_or(first_owns)
    }

    #[inline(always)]
    fn allow_length(&self, buffer: &Buffer) -> bool {
        buffer.len() <= self.request_bytes_max && buffer.len() & self.block_mask == 0
    }
}

#[cfg(test)]
mod tests {
    use iolane_core::{Buffers, Pages, Request};

    use super::*;

    fn limits(operations: Operations, request_bytes_max: usize) -> Limits {
        Limits { operations, request_bytes_max, block_mask: 0, pools: None }
    }

    #[test]
    fn limits_are_narrow_if_the_general_path_takes_what_they_do_not() {
        let reads = Operations::READ.with(Operations::WRITE);
        assert!(limits(reads, usize::MAX).are_narrower_than(Operations::ALL));
        assert!(!limits(reads, usize::MAX).are_narrower_than(reads));
        assert!(limits(reads, 4096).are_narrower_than(reads));
    }

    #[test]
    fn another_target_suits_a_path_that_takes_no_less_there() {
        let reads = Operations::READ.with(Operations::WRITE);
        let small = limits(reads, 4096);
        assert!(small.are_within(&limits(Operations::ALL, 8192)) && !small.are_within(&limits(reads, 512)));
        assert!(!limits(Operations::ALL, 4096).are_within(&small));
        assert!(!small.are_within(&Limits { block_mask: 511, ..limits(reads, 4096) }), "it takes whole blocks only");
    }

    #[test]
    fn requests_are_checked_for_operation_size_and_memory() {
        let (pool, other) = (Pool::new(1, 8192, Pages::Base).unwrap(), Pool::new(1, 8192, Pages::Base).unwrap());
        let mut some = limits(Operations::READ, 4096);
        (some.block_mask, some.pools) = (511, Some(vec![pool.clone()]));
        let read = |pool: &Pool, bytes| {
            let mut buffer = pool.take().unwrap();
            buffer.set_len(bytes).unwrap();
            Request::read(0, 0, buffer).operation
        };
        for (pool, bytes, allowed) in
            [(&pool, 4096, true), (&pool, 8192, false), (&pool, 100, false), (&other, 512, false)]
        {
            let operation = read(pool, bytes);
            assert_eq!((some.allow(&operation), some.allow_plain(&operation)), (allowed, allowed), "{bytes}");
        }
        assert!(!some.allow(&Operation::Fsync) && !some.allow_plain(&Operation::Fsync));
    }

    #[test]
    fn a_vectored_request_may_be_of_any_memory_and_is_bounded_by_its_total() {
        let (pool, other) = (Pool::new(1, 4096, Pages::Base).unwrap(), Pool::new(3, 4096, Pages::Base).unwrap());
        let mut some = limits(Operations::READ.with(Operations::VECTORED), 8192);
        (some.block_mask, some.pools) = (511, Some(vec![pool]));
        let read = |count| {
            let buffers = Buffers::new((0..count).map(|_| other.take().unwrap()).collect()).unwrap();
            Request::read_vectored(0, 0, buffers).operation
        };
        assert!(some.allow(&read(2)) && !some.allow(&read(3)) && !some.allow_plain(&read(2)));
        some.operations = Operations::READ;
        assert!(!some.allow(&read(2)));
    }
}
