//! Failures of single requests: each completes the tag it belongs to, with its kind, and the others continue.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use iolane::{Completion, ErrorKind, IoErrorKind, Pool, QueueConfig, Request};

use crate::bench::{Bench, Pair, check_each, pairs_on, pool, turn};
use crate::content::{self, ensure_same};
use crate::fixtures::{SmallFileSystem, wait_until};
use crate::places::{PLACE_BYTES, Place};
use crate::report;
use crate::{drive, paths};

const BLOCK_BYTES: usize = 4096;

/// A buffer of one block.
fn block(pool: &Pool) -> Result<iolane::Buffer> {
    let mut buffer = pool.take().context("the pool ran out")?;
    buffer.set_len(BLOCK_BYTES)?;
    Ok(buffer)
}

#[test]
fn a_media_error_reaches_the_tags_it_belongs_to_and_no_others() {
    let _turn = turn();
    for (column, sector_bytes) in [("loop512", 512), ("loop4k", 4096)] {
        let place = match Place::loop_device(column, sector_bytes) {
            Ok(place) => place.labelled(&format!("{column} (truncated)")),
            Err(skip) => {
                report::skipped_everywhere(column, &skip);
                continue;
            }
        };
        let pairs = pairs_on(&place);
        let whole = content::content(PLACE_BYTES as usize, 0, 3);
        check_each(&pairs, |pair| truncated_device(pair, &whole));
    }
}

/// Reads on both sides of the place where the backing file of a loop device ends.
fn truncated_device(pair: &Pair<'_>, whole: &[u8]) -> Result<()> {
    let backing = &pair.place.as_loop().context("a loop device")?.backing.file;
    let half = PLACE_BYTES / 2;
    backing.set_len(PLACE_BYTES)?;
    pair.put(0, whole)?;
    backing.set_len(half)?;
    let pool = pool(32, BLOCK_BYTES)?;
    let mut queue = pair.queue(pair.depth(32), &pool)?;
    let mut requests = Vec::new();
    for number in 0..32 {
        // Even tags lie before the end, odd ones behind it.
        let offset = number / 2 * BLOCK_BYTES as u64 + if number % 2 == 0 { 0 } else { half };
        requests.push(Request::read(number, offset, block(&pool)?));
    }
    for completion in drive::run(&mut *queue, requests)? {
        let what = format!("tag {}", completion.tag);
        let buffer = completion.buffer.with_context(|| format!("{what}: no buffer"))?;
        match (completion.tag % 2, completion.result) {
            (0, Ok(bytes)) if bytes as usize == BLOCK_BYTES => {
                let start = completion.tag as usize / 2 * BLOCK_BYTES;
                ensure_same(&what, &whole[start..start + BLOCK_BYTES], &buffer)?;
            }
            (1, Err(error)) if error.kind() == IoErrorKind::Media => {}
            (_, result) => anyhow::bail!("{what}: {result:?}"),
        }
    }
    Ok(())
}

#[test]
fn misaligned_requests_are_invalid_and_leave_those_beside_them_alone() {
    let bench = Bench::everywhere();
    let aligned = |pair: &Pair<'_>| pair.block_bytes() > 1;
    let pairs: Vec<_> = bench.pairs_that_move_data().into_iter().filter(aligned).collect();
    check_each(&pairs, |pair| {
        let whole = content::content(64 * BLOCK_BYTES, 0, 4);
        pair.put(0, &whole)?;
        let pool = pool(32, BLOCK_BYTES)?;
        let mut queue = pair.queue(pair.depth(32), &pool)?;
        let mut requests = Vec::new();
        for tag in 0..32 {
            let (mut buffer, offset) = (block(&pool)?, tag * BLOCK_BYTES as u64);
            requests.push(match tag % 4 {
                1 => Request::read(tag, offset + 100, buffer),
                2 => {
                    buffer.set_len(BLOCK_BYTES - 100)?;
                    Request::read(tag, offset, buffer)
                }
                3 => Request::write(tag, offset + 1, buffer),
                _ => Request::read(tag, offset, buffer),
            });
        }
        for completion in drive::run(&mut *queue, requests)? {
            only_every_fourth_succeeds(pair, &completion, &whole)?;
        }
        ensure_same("the target", &whole, &pair.get(0, whole.len())?)
    });
}

fn only_every_fourth_succeeds(pair: &Pair<'_>, completion: &Completion, whole: &[u8]) -> Result<()> {
    let what = format!("tag {}", completion.tag);
    if !completion.tag.is_multiple_of(4) {
        return pair.refused_as_misaligned(&what, completion.result);
    }
    ensure!(completion.result == Ok(BLOCK_BYTES as u32), "{what} is aligned: {:?}", completion.result);
    let start = completion.tag as usize * BLOCK_BYTES;
    let buffer = completion.buffer.as_ref().with_context(|| format!("{what}: no buffer"))?;
    ensure_same(&what, &whole[start..start + BLOCK_BYTES], buffer)
}

#[test]
fn a_full_file_system_ends_writes_with_no_space() {
    let _turn = turn();
    let file_system = match SmallFileSystem::new(4 << 20) {
        Ok(file_system) => file_system,
        Err(skip) => return report::skipped_everywhere("a full ext4", &skip),
    };
    for (column, direct) in [("file", true), ("buffered", false)] {
        match Place::file(column, &file_system.folder(), direct, BLOCK_BYTES as u64) {
            Ok(place) => {
                let place = place.labelled(&format!("a full ext4 ({column})"));
                check_each(&pairs_on(&place), fill_up);
            }
            Err(skip) => report::skipped_everywhere("a full ext4", &skip),
        }
    }
}

/// Writes more than there is space for; what fits is there, and the rest says why not.
fn fill_up(pair: &Pair<'_>) -> Result<()> {
    const PIECE_BYTES: usize = 64 << 10;
    // A ring gives up its file a while after it is closed, and the file's space comes back then.
    wait_until("the space of the file before is free again", || {
        let plain = pair.place.plain().ok().flatten();
        let found = plain.and_then(|file| {
            let _ = rustix::fs::syncfs(&file);
            rustix::fs::fstatvfs(&file).ok()
        });
        found.is_some_and(|found| found.f_bavail * found.f_frsize > 8 * PIECE_BYTES as u64)
    })?;
    let place = pair.place.another_file(BLOCK_BYTES as u64)?.context("a file")?;
    let pool = pool(96, PIECE_BYTES)?;
    let mut queue = pair.queue_on(&place.open()?, &QueueConfig::new(pair.depth(16)).pool(&pool))?;
    let mut requests = Vec::new();
    for tag in 0..96 {
        let mut buffer = pool.take().context("a frame each")?;
        content::fill(&mut buffer, tag * PIECE_BYTES as u64, 5);
        requests.push(Request::write(tag, tag * PIECE_BYTES as u64, buffer));
    }
    let ended = drive::run(&mut *queue, requests)?;
    let mut written = 0;
    for completion in &ended {
        match completion.result {
            Ok(bytes) => {
                let offset = completion.tag * PIECE_BYTES as u64;
                let expected = content::content(bytes as usize, offset, 5);
                let found = drive::get(&place, &pair.target, offset, bytes as usize)?;
                ensure_same(&format!("tag {}", completion.tag), &expected, &found)?;
                written += 1;
            }
            Err(error) => ensure!(error.kind() == IoErrorKind::NoSpace, "tag {}: {error}", completion.tag),
        }
    }
    ensure!((1..96).contains(&written), "{written} of 96 writes of {PIECE_BYTES} bytes fitted into 4 MiB");
    Ok(())
}

#[test]
fn a_target_opened_for_reading_takes_no_write() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs_that_move_data(), |pair| {
        let target = if pair.target.kind() == iolane::sim::KIND {
            iolane::Target::open("sim:16m")?
        } else {
            pair.place.open_to_read()?
        };
        let whole = content::content(8 * BLOCK_BYTES, 0, 6);
        pair.put(0, &whole)?;
        let pool = pool(8, BLOCK_BYTES)?;
        let mut queue = pair.queue_on(&target, &QueueConfig::new(pair.depth(8)).pool(&pool))?;
        let mut requests = Vec::new();
        for tag in 0..8 {
            let offset = tag * BLOCK_BYTES as u64;
            requests.push(if tag % 2 == 0 {
                Request::read(tag, offset, block(&pool)?)
            } else {
                Request::write(tag, offset, block(&pool)?)
            });
        }
        for completion in drive::run(&mut *queue, requests)? {
            let kind = completion.result.map_err(|error| error.kind());
            let expected =
                if completion.tag % 2 == 0 { Ok(BLOCK_BYTES as u32) } else { Err(IoErrorKind::NotPermitted) };
            ensure!(kind == expected, "tag {}: {:?}", completion.tag, completion.result);
        }
        ensure_same("the target", &whole, &pair.get(0, whole.len())?)
    });
}

#[test]
fn registered_buffers_are_those_of_the_pools_given_and_of_no_other() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let registers = paths::interface_of(&pair.path).requires_registered_memory(&pair.path);
        let (first, second, foreign) = (pool(4, BLOCK_BYTES)?, pool(4, BLOCK_BYTES)?, pool(4, BLOCK_BYTES)?);
        if registers {
            let error = iolane::open_queue(&pair.path, &pair.target, &QueueConfig::new(1)).err();
            let kind = error.map(|error| error.kind());
            ensure!(kind == Some(ErrorKind::Usage), "no pool to register: {kind:?}");
        }
        let whole = content::content(12 * BLOCK_BYTES, 0, 8);
        pair.put(0, &whole)?;
        let config = QueueConfig::new(pair.depth(12)).pool(&first).pool(&second);
        let mut queue = pair.queue_on(&pair.target, &config)?;
        let mut requests = Vec::new();
        for (number, from) in [&first, &foreign, &second].into_iter().cycle().take(12).enumerate() {
            requests.push(Request::read(number as u64, (number * BLOCK_BYTES) as u64, block(from)?));
        }
        let mut tags = HashSet::new();
        for completion in drive::run(&mut *queue, requests)? {
            let what = format!("tag {}", completion.tag);
            tags.insert(completion.tag);
            let buffer = completion.buffer.with_context(|| format!("{what}: no buffer"))?;
            if registers && foreign.owns(&buffer) {
                let kind = completion.result.err().map(|error| error.kind());
                ensure!(kind == Some(IoErrorKind::NotRegistered), "{what}: {:?}", completion.result);
                continue;
            }
            ensure!(completion.result == Ok(BLOCK_BYTES as u32), "{what}: {:?}", completion.result);
            let start = completion.tag as usize * BLOCK_BYTES;
            if pair.moves_data() {
                ensure_same(&what, &whole[start..start + BLOCK_BYTES], &buffer)?;
            }
        }
        ensure!(tags.len() == 12, "{} tags of 12", tags.len());
        Ok(())
    });
}
