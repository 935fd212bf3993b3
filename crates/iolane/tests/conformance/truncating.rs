//! A file that another program shortens while a queue has it open: reads past its new end are short or fail, as read(2) has it, and the
//! process goes on. A path that maps the file would end by SIGBUS.

use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use iolane::{Pool, Queue, QueueConfig, Request};

use crate::bench::{Bench, Pair, check_each, pool};
use crate::content::{self, ensure_same};
use crate::drive;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 16;
/// Those that are left.
const LEFT: u64 = 4;

#[test]
fn a_file_that_shrinks_under_an_open_queue_ends_its_reads_short() {
    let bench = Bench::everywhere();
    let files: Vec<Pair<'_>> = bench.pairs().into_iter().filter(|pair| pair.place.is_file()).collect();
    check_each(&files, |pair| {
        let place = pair.place.another_file(BLOCKS * BLOCK as u64)?.context("a file")?;
        let target = place.open()?;
        let whole = content::content(BLOCKS as usize * BLOCK, 0, 1);
        drive::put(&place, &target, 0, &whole)?;
        let pool = pool(BLOCKS as usize, BLOCK)?;
        let config = QueueConfig::new(pair.depth(BLOCKS as u32)).pool(&pool);
        let mut queue = pair.queue_on(&target, &config)?;
        read_all(&mut *queue, &pool, &whole)?;
        let file = place.plain()?.context("a file")?;
        file.set_len(LEFT * BLOCK as u64)?;
        read_all(&mut *queue, &pool, &whole[..LEFT as usize * BLOCK]).context("after it became shorter")?;
        // A write makes it longer again; what lies between reads as zeroes.
        let mut buffer = pool.take().context("a frame")?;
        content::fill(&mut buffer, 8 * BLOCK as u64, 2);
        let written = drive::one(&mut *queue, Request::write(0, 8 * BLOCK as u64, buffer))?.result;
        ensure!(written == Ok(BLOCK as u32), "a write past the new end: {written:?}");
        let mut expected = whole[..LEFT as usize * BLOCK].to_vec();
        expected.resize(8 * BLOCK, 0);
        expected.extend(content::content(BLOCK, 8 * BLOCK as u64, 2));
        let mut found = vec![0; expected.len()];
        file.read_exact_at(&mut found, 0)?;
        ensure_same("the file, read otherwise", &expected, &found)?;
        read_all(&mut *queue, &pool, &expected).context("after it became longer again")
    });
}

/// Reads every block that there was at first; `there` is what the file holds.
fn read_all(queue: &mut dyn Queue, pool: &Pool, there: &[u8]) -> Result<()> {
    let read = |tag| Ok(Request::read(tag, tag * BLOCK as u64, pool.take().context("a frame each")?));
    for completion in drive::run(queue, (0..BLOCKS).map(read).collect::<Result<Vec<_>>>()?)? {
        let start = completion.tag as usize * BLOCK;
        let what = format!("block {}: {:?}", completion.tag, completion.result);
        let buffer = completion.buffer.with_context(|| format!("{what}: no buffer"))?;
        if start < there.len() {
            ensure!(completion.result == Ok(BLOCK as u32), "{what}");
            ensure_same(&what, &there[start..start + BLOCK], &buffer)?;
        } else {
            ensure!(matches!(completion.result, Ok(0) | Err(_)), "{what}, and the file ends at {}", there.len());
        }
    }
    Ok(())
}
