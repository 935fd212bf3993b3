//! A process and a drive of text, and this process.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::*;
use crate::sysfs_fixture::Fixture;

const IO: &str =
    "rchar: 1000\nwchar: 0\nsyscr: 1\nsyscw: 0\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n";
static NEVER: AtomicBool = AtomicBool::new(false);

/// A process with one direct file on the drive that holds temporary files, whatever it is called here.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("data", "x").write("proc/7/comm", "store (1)\n").write("proc/7/io", IO).write("proc/7/task/7/io", IO);
    fixture.write("proc/7/stat", "7 (store (1)) S 1 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 5 0\n");
    fixture.write("proc/7/fdinfo/3", "pos:\t0\nflags:\t0140002\nmnt_id:\t1\n").write("proc/7/maps", "");
    let data = fixture.path("data");
    fixture.link("proc/7/fd/3", data.to_str().unwrap());
    let device = data.metadata().unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fixture.write("sys/devices/nvme9n1/stat", "10 0 80 1 0 0 0 0 0 5 1 0 0 0 0 0 0\n");
    fixture
        .write("sys/devices/nvme9n1/inflight", "       3       1\n")
        .write("sys/devices/nvme9n1/mq/0/cpu_list", "0\n");
    fixture.link(&format!("sys/dev/block/{major}:{minor}"), "../../devices/nvme9n1");
    fixture
}

fn observe_fixture(fixture: &Fixture, pid: u32) -> Result<Observed> {
    observe_in(&fixture.path("proc"), &fixture.path("sys"), pid, Duration::from_millis(5), &NEVER)
}

#[test]
fn a_process_is_described_with_the_drive_that_holds_its_files() {
    let observed = observe_fixture(&fixture(), 7).unwrap();
    let [drive] = &observed.drives[..] else { panic!("{observed:?}") };
    assert_eq!((&observed.program[..], &drive.name[..], drive.files), ("store (1)", "nvme9n1", 1));
    assert_eq!(drive.direct_files, usize::from(cfg!(target_arch = "x86_64")));
    assert_eq!((drive.in_flight.p50, drive.in_flight.busy, drive.reads.per_s), (4, 1.0, 0.0));
    assert_eq!((drive.flushes_per_s, observed.threads, observed.share_of_bytes()), (Some(0.0), 0, None));
    assert_eq!(observed.path().to_string(), "psync");
}

#[test]
fn flushes_of_what_is_built_on_drives_are_unavailable() {
    let fixture = fixture();
    std::fs::remove_dir_all(fixture.path("sys/devices/nvme9n1/mq")).unwrap();
    assert_eq!(observe_fixture(&fixture, 7).unwrap().drives[0].flushes_per_s, None);
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_cause() {
    let fixture = fixture();
    let refusal = |pid| observe_fixture(&fixture, pid).unwrap_err().to_string();
    assert!(refusal(8).contains("there is no such process"));
    std::fs::remove_file(fixture.path("proc/7/fd/3")).unwrap();
    assert!(refusal(7).contains("no file open on a block device"));
    std::fs::remove_dir(fixture.path("proc/7/fd")).unwrap();
    assert!(refusal(7).contains("it has ended"));
}

/// The counters of the kernel follow what this process does.
#[test]
fn reads_of_this_process_are_seen() {
    let path = std::env::temp_dir().join(format!("iolane-observe-{}", std::process::id()));
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let stop = AtomicBool::new(false);
    let observed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut block = [0; 4096];
            for offset in (0..1 << 20).step_by(4096).cycle() {
                file.read_at(&mut block, offset).unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let observed = observe(std::process::id(), Duration::from_millis(200), &NEVER);
        stop.store(true, Ordering::Relaxed);
        observed
    });
    match observed {
        Ok(observed) => {
            assert!(observed.called_bytes_per_s() > 4096.0 && observed.threads >= 1, "{observed:?}");
            assert!(observed.drives.iter().all(|drive| drive.in_flight.looks > 0), "{observed:?}");
        }
        // The folder of temporary files is in memory.
        Err(why) => assert!(why.to_string().contains("no file open on a block device"), "{why}"),
    }
}
