//! Targets that are attached to a queue: each request reaches the one that it names, also while others come and go, and one that
//! names none of them comes back. Paths that reach no target of the kernel have one for each queue.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use iolane::{ErrorKind, IoErrorKind, Queue, QueueConfig, Request, Target, TargetId};
use rand_core::Rng;

use crate::bench::{Bench, Pair, check_each, one_each, pool, times};
use crate::content::{self, ensure_same};
use crate::drive;
use crate::places::Place;

const BLOCK: usize = 4096;
/// Blocks of each target that a test uses.
const BLOCKS: u64 = 16;

/// The pairs of which a queue takes many targets.
fn pairs_that_attach(bench: &Bench) -> Vec<Pair<'_>> {
    bench.pairs_that_move_data().into_iter().filter(|pair| pair.target.kind().has_descriptor()).collect()
}

fn queue_for(pair: &Pair<'_>, depth: u32, targets: u32, pool: &iolane::Pool) -> Result<Box<dyn Queue>> {
    pair.queue_on(&pair.target, &QueueConfig::new(pair.depth(depth)).pool(pool).targets(targets))
}

#[test]
fn a_queue_with_one_target_refuses_another_and_says_why() {
    let bench = Bench::everywhere();
    // Simulated targets share a queue if they are of one world, as a target is with itself.
    let is_alone = |kind: iolane::TargetKind| !kind.has_descriptor() && kind != iolane::sim::KIND;
    let alone: Vec<Pair<'_>> = bench.pairs().into_iter().filter(|pair| is_alone(pair.target.kind())).collect();
    check_each(&alone, |pair| {
        let pool = pool(1, BLOCK)?;
        let mut queue = queue_for(pair, 1, 8, &pool)?;
        let refused = queue.attach(&pair.target).err().context("a second target was attached")?;
        ensure!(refused.kind() == ErrorKind::Unavailable && !refused.remedy_text().is_empty(), "{refused}");
        ensure!(queue.detach(TargetId::FIRST).is_err(), "its only target was detached");
        let buffer = pool.take().context("a frame")?;
        ensure!(
            drive::one(&mut *queue, Request::read(0, 0, buffer))?.result.is_ok(),
            "the queue does not work any more"
        );
        Ok(())
    });
}

/// A target of this test, and what its blocks hold.
struct Attached {
    id: TargetId,
    place: Option<Place>,
    generations: Vec<u64>,
}

#[test]
fn each_request_reaches_the_target_that_it_names_while_others_come_and_go() {
    let bench = Bench::everywhere();
    check_each(&pairs_that_attach(&bench), |pair| {
        let pool = pool(8, BLOCK)?;
        let mut queue = queue_for(pair, 8, 4, &pool)?;
        let mut random = drive::random(31);
        let mut attached = vec![Attached { id: TargetId::FIRST, place: None, generations: vec![0; BLOCKS as usize] }];
        fill(pair.place, &pair.target)?;
        let mut generation = 1;
        for _ in 0..times(12, 4) {
            // A file brings others of its kind; a device has none, and is attached again to be read.
            if attached.len() < 4 {
                let place = pair.place.another_file(BLOCKS * BLOCK as u64)?;
                let target = match &place {
                    Some(place) => place.open()?,
                    None => pair.place.open_to_read()?,
                };
                if let Some(place) = &place {
                    fill(place, &target)?;
                }
                let id = queue.attach(&target)?;
                ensure!(attached.iter().all(|other| other.id != id), "two targets have one number");
                attached.push(Attached { id, place, generations: vec![0; BLOCKS as usize] });
            } else {
                let gone = attached.remove(1 + random.next_u64() as usize % 3);
                queue.detach(gone.id)?;
                gone_is_gone(&mut *queue, gone.id, &pool)?;
            }
            generation = write_some(&mut *queue, &mut attached, generation, &pool)?;
            read_all(&mut *queue, &attached, &pool)?;
        }
        for Attached { place, generations, .. } in attached.iter().filter(|attached| attached.place.is_some()) {
            let place = place.as_ref().context("a file")?;
            let found = drive::get(place, &place.open()?, 0, BLOCKS as usize * BLOCK)?;
            ensure_same("a file, read otherwise", &expected(generations), &found)?;
        }
        Ok(())
    });
}

/// Writes generation 0 by other means.
fn fill(place: &Place, target: &Target) -> Result<()> {
    drive::put(place, target, 0, &expected(&[0; BLOCKS as usize]))
}

fn expected(generations: &[u64]) -> Vec<u8> {
    let block = |(number, generation): (usize, &u64)| content::content(BLOCK, (number * BLOCK) as u64, *generation);
    generations.iter().enumerate().flat_map(block).collect()
}

/// Writes one block of each target: a new generation each, so that a block on the wrong target is recognised.
fn write_some(
    queue: &mut dyn Queue,
    attached: &mut [Attached],
    mut generation: u64,
    pool: &iolane::Pool,
) -> Result<u64> {
    let mut requests = Vec::new();
    for (tag, target) in attached.iter().enumerate() {
        let block = generation % BLOCKS;
        let mut buffer = pool.take().context("a frame")?;
        content::fill(&mut buffer, block * BLOCK as u64, generation);
        requests.push(Request::write(tag as u64, block * BLOCK as u64, buffer).on(target.id));
        generation += 1;
    }
    let first = generation - attached.len() as u64;
    let results = drive::results(&drive::run(queue, requests)?);
    for (tag, target) in attached.iter_mut().enumerate() {
        let (result, generation) = (results[&(tag as u64)], first + tag as u64);
        if target.place.is_none() && target.id != TargetId::FIRST {
            let refused = result.is_err_and(|error| error.kind() == IoErrorKind::NotPermitted);
            ensure!(refused, "a target that was opened to be read was written: {result:?}");
            continue;
        }
        ensure!(result == Ok(BLOCK as u32), "a write: {result:?}");
        target.generations[(generation % BLOCKS) as usize] = generation;
    }
    // A device that is attached to be read holds what was written to it as the first target.
    let first = attached[0].generations.clone();
    for again in attached.iter_mut().skip(1).filter(|target| target.place.is_none()) {
        again.generations.clone_from(&first);
    }
    Ok(generation)
}

fn read_all(queue: &mut dyn Queue, attached: &[Attached], pool: &iolane::Pool) -> Result<()> {
    for block in 0..BLOCKS {
        let offset = block * BLOCK as u64;
        let mut requests = Vec::new();
        for (tag, target) in attached.iter().enumerate() {
            requests.push(Request::read(tag as u64, offset, pool.take().context("a frame")?).on(target.id));
        }
        for completion in drive::run(queue, requests)? {
            ensure!(completion.result == Ok(BLOCK as u32), "a read: {:?}", completion.result);
            let target = &attached[completion.tag as usize];
            let expected = content::content(BLOCK, offset, target.generations[block as usize]);
            let buffer = completion.buffer.context("a buffer")?;
            ensure_same(&format!("block {block} of {:?}", target.id), &expected, &buffer)?;
        }
    }
    Ok(())
}

/// Requests that name it come back with their buffers.
fn gone_is_gone(queue: &mut dyn Queue, id: TargetId, pool: &iolane::Pool) -> Result<()> {
    let ended = drive::one(queue, Request::read(7, 0, pool.take().context("a frame")?).on(id))?;
    let refused = ended.result.is_err_and(|error| error.kind() == IoErrorKind::NotAttached);
    ensure!(refused && ended.buffer.is_some(), "a read of a detached target: {ended:?}");
    let ended = drive::one(queue, Request::fsync(7).on(id))?;
    ensure!(ended.result.is_err_and(|error| error.kind() == IoErrorKind::NotAttached), "{ended:?}");
    let refused = queue.detach(id).err().context("it was detached twice")?;
    ensure!(refused.kind() == ErrorKind::Usage, "{refused}");
    Ok(())
}

#[test]
fn a_target_with_a_request_in_flight_stays() {
    let bench = Bench::everywhere();
    check_each(&pairs_that_attach(&bench), |pair| {
        let pool = pool(1, BLOCK)?;
        let mut queue = queue_for(pair, 4, 2, &pool)?;
        let id = queue.attach(&pair.place.open_to_read()?)?;
        let read = Request::read(1, 0, pool.take().context("a frame")?).on(id);
        queue.submit(&mut [read].into());
        let refused = queue.detach(id).err().context("it was detached with a request in flight")?;
        ensure!(refused.kind() == ErrorKind::Usage && refused.to_string().contains("in flight"), "{refused}");
        let mut ended = Vec::new();
        queue.drain(&mut ended)?;
        ensure!(ended.len() == 1 && ended[0].result == Ok(BLOCK as u32), "{ended:?}");
        Ok(queue.detach(id)?)
    });
}

#[test]
fn a_full_queue_takes_no_further_target_and_a_detached_one_is_closed() {
    let bench = Bench::everywhere();
    check_each(&pairs_that_attach(&bench), |pair| {
        let pool = pool(1, BLOCK)?;
        let mut queue = queue_for(pair, 1, 2, &pool)?;
        let before = open_descriptors()?;
        for _ in 0..4 {
            let id = queue.attach(&pair.place.open_to_read()?)?;
            let refused = queue.attach(&pair.target).err().context("a third of two targets was attached")?;
            ensure!(refused.kind() == ErrorKind::Exhausted && !refused.remedy_text().is_empty(), "{refused}");
            queue.detach(id)?;
        }
        ensure!(open_descriptors()? == before, "a detached target stays open");
        Ok(())
    });
}

fn open_descriptors() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// As many as a store with a file for each table has.
const MANY: u32 = 600;

#[test]
fn hundreds_of_targets_are_read_through_one_queue() {
    let bench = Bench::everywhere();
    check_each(&one_each(pairs_that_attach(&bench)), |pair| {
        let pool = pool(16, BLOCK)?;
        let mut queue = queue_for(pair, 16, MANY, &pool)?;
        fill(pair.place, &pair.target)?;
        let mut ids = vec![TargetId::FIRST];
        while ids.len() < MANY as usize {
            ids.push(queue.attach(&pair.place.open_to_read()?)?);
        }
        let mut waiting: Vec<(u64, TargetId)> = (0..).zip(ids).collect();
        let mut blocks = HashMap::new();
        while !waiting.is_empty() {
            let mut requests = Vec::new();
            while let Some(buffer) = pool.take() {
                let Some((tag, id)) = waiting.pop() else { break };
                blocks.insert(tag, tag % BLOCKS);
                requests.push(Request::read(tag, tag % BLOCKS * BLOCK as u64, buffer).on(id));
            }
            for completion in drive::run(&mut *queue, requests)? {
                ensure!(completion.result == Ok(BLOCK as u32), "{:?}", completion.result);
                let expected = content::content(BLOCK, blocks[&completion.tag] * BLOCK as u64, 0);
                ensure_same("a block", &expected, &completion.buffer.context("a buffer")?)?;
            }
        }
        ensure!(blocks.len() == MANY as usize, "{} of {MANY} were read", blocks.len());
        Ok(())
    });
}
