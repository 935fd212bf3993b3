//! The example `redb_backend`: reads and writes of any offset and length, with O_DIRECT and through the page cache, are those of a copy in
//! memory, from several threads too. `cargo xtask redb` runs redb's own tests on it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use redb::StorageBackend;

mod example_programs;
use example_programs::{Folder, example};

#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/redb_backend.rs"]
mod redb_backend;
use redb_backend::IolaneBackend;

const BYTES: usize = 1 << 20;

fn backend(folder: &Folder, path: &str, direct: bool) -> IolaneBackend {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(true).custom_flags(flags);
    IolaneBackend::new(file.open(folder.0.join("database")).unwrap(), &path.parse().unwrap()).unwrap()
}

/// Through the page cache, and with O_DIRECT where the file system has it.
fn ways(folder: &Folder, test: &str) -> Vec<bool> {
    if folder.direct(test) { vec![false, true] } else { vec![false] }
}

#[test]
fn reads_and_writes_of_any_range_are_those_of_a_copy() {
    let folder = Folder::new("redb-ranges");
    for path in folder.paths("any range") {
        for direct in ways(&folder, "any range") {
            let backend = backend(&folder, path, direct);
            assert_eq!(backend.len().unwrap(), 0, "a new database is empty");
            backend.set_len(BYTES as u64).unwrap();
            let mut copy = vec![0; BYTES];
            let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
            for round in 0..200 {
                let offset = random.next_u64() as usize % BYTES;
                let most = [100, 5000, 300_000][round % 3].min(BYTES - offset);
                let range = offset..offset + 1 + random.next_u64() as usize % most;
                if round % 2 == 0 {
                    random.fill_bytes(&mut copy[range.clone()]);
                    backend.write(offset as u64, &copy[range]).unwrap();
                } else {
                    let mut read = vec![0; range.len()];
                    backend.read(offset as u64, &mut read).unwrap();
                    assert!(read == copy[range], "{path}, O_DIRECT: {direct}, round {round}");
                }
            }
            assert!(std::fs::read(folder.0.join("database")).unwrap() == copy, "{path}, O_DIRECT: {direct}");
            let beyond = backend.read(BYTES as u64 - 10, &mut [0; 20]).unwrap_err();
            assert_eq!(beyond.kind(), std::io::ErrorKind::UnexpectedEof, "{path}, O_DIRECT: {direct}: {beyond}");
            backend.write(0, b"after an error").unwrap();
        }
    }
}

/// Writes of two threads often share a block.
#[test]
fn writes_of_threads_to_parts_of_one_block_are_all_there() {
    const PART: usize = 64;
    let folder = Folder::new("redb-threads");
    for path in folder.paths("parts of a block") {
        for direct in ways(&folder, "parts of a block") {
            let backend = backend(&folder, path, direct);
            backend.set_len(8192).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let backend = &backend;
                    scope.spawn(move || {
                        for part in (thread..8192 / PART).step_by(4) {
                            backend.write((part * PART) as u64, &[1 + part as u8; PART]).unwrap();
                        }
                    });
                }
            });
            let mut whole = vec![0; 8192];
            backend.read(0, &mut whole).unwrap();
            let is_there = whole.chunks(PART).zip(1u8..).all(|(part, value)| part.iter().all(|byte| *byte == value));
            assert!(is_there, "{path}, O_DIRECT: {direct}");
        }
    }
}

#[test]
fn the_program_commits_to_a_database_on_every_path() {
    let folder = Folder::new("redb-program");
    for path in folder.paths("a database") {
        let database = folder.0.join(path);
        let output = example("redb_backend").arg(&database).arg(path).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.ends_with("the square of 31 is 961\n"), "{path}: {output:?}");
        assert!(std::fs::metadata(&database).unwrap().len() > 0);
    }
}
