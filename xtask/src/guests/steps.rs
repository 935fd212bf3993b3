//! What a test guest is made of and runs: its drives, and the programs one after the other. Starts nothing itself.

use std::path::{Path, PathBuf};

use iolane_core::units::Bytes;
use iolane_lab::guest::EVENTS_FILE;
use iolane_lab::{Backing, Drive, GuestCommand, Kernel};

/// The drives of a guest, and what the tests call them.
pub(super) fn drives() -> Vec<Drive> {
    let drive = Drive { bytes: Bytes(256 << 20), ..Drive::default() };
    vec![
        drive.clone(),
        Drive { block_bytes: 4096, ..drive.clone() },
        Drive { backing: Backing::BadSectors(&BAD_SECTORS), ..drive.clone() },
        drive.clone(),
        Drive { removable: true, ..drive.clone() },
        Drive { removable: true, ..drive },
    ]
}

/// In the third and in the thirty-third of the blocks of 16 KiB that the test reads; beyond what the kernel reads by itself
/// when it looks for partitions.
const BAD_SECTORS: [u64; 2] = [64, 1025];

/// A program that a guest runs, and what people call that.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) command: GuestCommand,
}

/// The second without what the first has: SGLs and shadow doorbells.
const CONTROLLERS: &str = "pci:0000:00:04.0 pci:0000:00:05.0,sgl=off,shadow=off";

/// The controller that is meddled with.
const MEDDLED: &str = "pci:0000:00:04.0,timeout=1s";

/// The devices of the kernel's drivers. Generic devices came with 5.13, passthrough by io_uring with 5.19; without them a column would be
/// empty.
fn devices(kernel: &Kernel) -> String {
    let generic = if kernel.is_at_least(5, 13) { " /dev/ng0n1 /dev/ng1n1" } else { "" };
    format!("/dev/nvme0n1 /dev/nvme1n1 /dev/nullb0{generic}")
}

/// The conformance suite on devices, or the tests of it that contain these words.
pub(super) fn conformance(targets: &str, tests: &[&str]) -> GuestCommand {
    GuestCommand::new([&["/bin/conformance", "--show-output"], tests].concat())
        .with("IOLANE_CONFORMANCE_TARGETS", targets)
        .with("IOLANE_CONFORMANCE_ONLY_NAMED", "1")
        .with("IOLANE_CONFORMANCE_BRIEF", "1")
}

/// The conformance suite on files in a folder.
pub(super) fn conformance_in(folder: &str) -> GuestCommand {
    GuestCommand::new(["/bin/conformance", "--show-output"])
        .with("TMPDIR", folder)
        .with("IOLANE_CONFORMANCE_PLACES", "file buffered")
        .with("IOLANE_CONFORMANCE_BRIEF", "1")
}

/// The set of broken queues, above the paths that no file here is reached by.
pub(super) fn broken_queues(kernel: &Kernel) -> Vec<Step> {
    let above = |name, targets: &str, paths: &str| Step {
        name,
        command: conformance(targets, &["self_test"]).with("IOLANE_CONFORMANCE_ABOVE", paths),
    };
    let polled = "io_uring+iopoll,io_uring+iopoll,fixedbufs,fixedfiles,io_uring+hybrid,io_uring+sqpoll+iopoll";
    let mut steps = vec![
        above("broken queues above polled paths", "/dev/nvme0n1", polled),
        above("broken queues above the user-space driver", "pci:0000:00:05.0", "nvme,nvme+int"),
    ];
    if kernel.is_at_least(5, 19) {
        let passthrough = "io_uring_cmd,io_uring_cmd,fixedbufs,fixedfiles,io_uring_cmd+iopoll";
        steps.push(above("broken queues above passthrough", "/dev/ng0n1", passthrough));
    }
    steps
}

/// The check of a process that lives long, with the seconds of each path.
pub(super) fn soaking(kernel: &Kernel, seconds: u32) -> Vec<Step> {
    let soak = |name, targets: &str| {
        let command = conformance(targets, &["soaking"]).with("IOLANE_CONFORMANCE_SOAK", seconds.to_string());
        Step { name, command }
    };
    vec![soak("soak with the kernel's drivers", &devices(kernel)), soak("soak with the user-space driver", CONTROLLERS)]
}

/// The check of a controller that does what it likes.
pub(super) fn meddling(times: u32, seed: u64) -> Step {
    let command = GuestCommand::new(["/bin/faults", "--show-output", "meddling"])
        .with("IOLANE_FAULTS_MEDDLED", MEDDLED)
        .with("IOLANE_FAULTS_MEDDLINGS", times.to_string())
        .with("IOLANE_FAULTS_SEED", seed.to_string());
    Step { name: "a controller that does what it likes", command }
}

/// First with the drives in the kernel's hands, then with two that change hands, then without a kernel driver.
pub(super) fn steps(kernel: &Kernel, records: &[PathBuf; 2]) -> Vec<Step> {
    let recorded = |targets: &str, record: &Path| {
        conformance(targets, &[]).with("IOLANE_CONFORMANCE_RECORD", record.display().to_string())
    };
    let faults = || {
        GuestCommand::new(["/bin/faults", "--show-output", "--test-threads=1"])
            .with("IOLANE_FAULTS_UNPLUG_BY", EVENTS_FILE)
    };
    vec![
        Step { name: "conformance with the kernel's drivers", command: recorded(&devices(kernel), &records[0]) },
        Step {
            name: "faults with the kernel's driver",
            command: faults()
                .with("IOLANE_FAULTS_MEDIA_ERRORS", "/dev/nvme2n1")
                .with("IOLANE_FAULTS_STALLED", "/dev/nvme3n1")
                .with("IOLANE_FAULTS_WRITTEN", "/dev/nvme3n1 /dev/nvme4n1")
                .with("IOLANE_FAULTS_UNPLUG", "/dev/nvme4n1"),
        },
        Step {
            name: "drives that change drivers",
            command: GuestCommand::new(["/bin/nvme", "--show-output", "--test-threads=1"])
                .with("IOLANE_NVME_DRIVES", "0000:00:04.0 0000:00:05.0"),
        },
        Step { name: "conformance with the user-space driver", command: recorded(CONTROLLERS, &records[1]) },
        Step {
            name: "faults with the user-space driver",
            command: faults()
                .with("IOLANE_FAULTS_MEDIA_ERRORS", "pci:0000:00:06.0")
                .with("IOLANE_FAULTS_STALLED", "pci:0000:00:07.0,timeout=2s")
                .with("IOLANE_FAULTS_WRITTEN", "pci:0000:00:07.0,timeout=2s pci:0000:02:00.0,timeout=2s")
                .with("IOLANE_FAULTS_UNPLUG", "pci:0000:02:00.0,timeout=2s")
                .with("IOLANE_FAULTS_UNPLUG_NAME", "nvme5")
                .with("IOLANE_FAULTS_MEDDLED", MEDDLED),
        },
    ]
}
