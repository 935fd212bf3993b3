//! Files that a database has just created, or that end within a block: every path which works on a large file works on them.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use iolane::{IoPath, Pages, Pool, QueueConfig, Request, Target, open_queue, probe};

const BLOCK_BYTES: usize = 4096;

/// A file of one test, removed with it.
struct Named(PathBuf);

impl Named {
    fn new(name: &str, bytes: usize) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("small-{name}-{}", std::process::id()));
        std::fs::write(&path, vec![7; bytes]).unwrap();
        Self(path)
    }

    fn target(&self, direct: bool) -> Result<Target, std::io::Error> {
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let file = File::options().read(true).write(true).custom_flags(flags).open(&self.0)?;
        Ok(Target::from_file(file, "small")?)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn paths() -> impl Iterator<Item = IoPath> {
    iolane::interfaces().flat_map(|interface| interface.paths())
}

/// The bytes that a request at the file's start moved.
fn moved(path: &IoPath, target: &Target, request: fn(iolane::Buffer) -> Request) -> u32 {
    let pool = Pool::new(1, BLOCK_BYTES, Pages::Base).unwrap();
    let mut queue = open_queue(path, target, &QueueConfig::new(1).pool(&pool)).unwrap();
    queue.submit(&mut vec![request(pool.take().unwrap())]);
    let mut completions = Vec::new();
    queue.drain(&mut completions).unwrap();
    completions.pop().unwrap().result.unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn an_empty_file_and_one_that_ends_within_a_block_work_on_every_path() {
    let large = Named::new("large", 1 << 20);
    for direct in [false, true] {
        let Ok(of_large) = large.target(direct) else {
            let _ = writeln!(std::io::stderr(), "SKIPPED small files with O_DIRECT: the file system does not have it");
            continue;
        };
        for path in paths().filter(|path| probe(path, &of_large).is_ok()) {
            for bytes in [0, 100, BLOCK_BYTES + 100] {
                let file = Named::new("file", bytes);
                let target = file.target(direct).unwrap();
                probe(&path, &target).unwrap_or_else(|error| panic!("{path}, {bytes} bytes: {error}"));
                let read = moved(&path, &target, |buffer| Request::read(1, 0, buffer));
                assert_eq!(read as usize, bytes.min(BLOCK_BYTES), "{path}, {bytes} bytes, direct: {direct}");
                let written = moved(&path, &target, |buffer| Request::write(1, 0, buffer));
                assert_eq!(written as usize, BLOCK_BYTES, "{path}, {bytes} bytes, direct: {direct}");
                let grown = std::fs::metadata(&file.0).unwrap().len() as usize;
                assert_eq!(grown, bytes.max(BLOCK_BYTES), "{path} wrote past the end");
            }
        }
    }
}
