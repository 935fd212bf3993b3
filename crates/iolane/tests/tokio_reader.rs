//! The example `tokio_reader`: every task gets the block it asked for, tasks that stop waiting take nothing with them, and errors
//! reach who asked.

use std::time::Duration;

use iolane::{IoPath, Target};

mod example_programs;
use example_programs::{Folder, example};

#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/tokio_reader.rs"]
mod tokio_reader;
use tokio_reader::{BLOCK_BYTES, Disk};

const BLOCKS: u64 = 256;
const PATHS: [&str; 2] = ["io_uring", "libaio"];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A file whose blocks hold their numbers, and the paths that reach it here.
fn numbered(folder: &Folder, test: &str) -> (Target, Vec<IoPath>) {
    let content: Vec<u8> = (0..BLOCKS).flat_map(|block| block.to_le_bytes().repeat(BLOCK_BYTES / 8)).collect();
    let target = Target::options().direct(false).open(folder.file("numbered", &content)).unwrap();
    let available = folder.paths(test).into_iter().filter(|path| PATHS.contains(path));
    (target, available.map(|path| path.parse().unwrap()).collect())
}

fn assert_holds(bytes: &[u8], block: u64) {
    assert_eq!(bytes, block.to_le_bytes().repeat(BLOCK_BYTES / 8), "block {block}");
}

#[test]
fn each_task_gets_the_block_that_it_asked_for() {
    let folder = Folder::new("tokio-reads");
    let (target, paths) = numbered(&folder, "tokio reads");
    for path in paths {
        runtime().block_on(async {
            let (disk, serving) = Disk::open(&path, &target).unwrap();
            let tasks: Vec<_> = (0..100)
                .map(|task: u64| {
                    let disk = disk.clone();
                    tokio::spawn(async move {
                        for turn in 0..50 {
                            let block = (task * 37 + turn * 11) % BLOCKS;
                            assert_holds(&disk.read(block).await.unwrap(), block);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            drop(disk);
            serving.await.unwrap().unwrap();
        });
    }
}

#[test]
fn tasks_that_stop_waiting_leave_the_queue_and_its_buffers_to_the_others() {
    let folder = Folder::new("tokio-dropped");
    let (target, paths) = numbered(&folder, "tokio dropped");
    for path in paths {
        runtime().block_on(async {
            let (disk, serving) = Disk::open(&path, &target).unwrap();
            for turn in 0..500 {
                // Polled once, so that it is asked, and dropped.
                let _ = tokio::time::timeout(Duration::ZERO, disk.read(turn % BLOCKS)).await;
            }
            for block in 0..BLOCKS {
                assert_holds(&disk.read(block).await.unwrap(), block);
            }
            drop(disk);
            serving.await.unwrap().unwrap();
        });
    }
}

#[test]
fn a_short_block_at_the_end_is_short_and_what_lies_behind_is_empty() {
    let folder = Folder::new("tokio-end");
    let target = Target::options().direct(false).open(folder.file("short", &[7; 5000])).unwrap();
    for path in folder.paths("tokio end").into_iter().filter(|path| PATHS.contains(path)) {
        runtime().block_on(async {
            let (disk, serving) = Disk::open(&path.parse().unwrap(), &target).unwrap();
            let lengths = [disk.read(0).await, disk.read(1).await, disk.read(2).await];
            assert_eq!(lengths.map(|block| block.unwrap().len()), [4096, 904, 0]);
            drop(disk);
            serving.await.unwrap().unwrap();
        });
    }
}

#[test]
fn a_path_without_a_descriptor_to_wait_on_ends_with_one_line() {
    let folder = Folder::new("tokio-psync");
    let file = folder.file("file", &[0; 4096]);
    let output = example("tokio_reader").arg(&file).arg("psync").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("psync has no descriptor to wait on"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
