//! Parsers take the samples in `tests/fixtures` and nothing damaged; a peer is found, run, stopped and cleaned up.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use iolane::guard::{Reason, WritePermit};
use iolane::units::CpuList;
use iolane::{IoPath, Result, Target, TargetKind};
use iolane_measure::process::Limits;
use iolane_measure::workload::Access;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Mode, OFlags};

use super::find::find_in;
use super::run::{Folder, PeerRun, run_within};
use super::*;

/// Owns what a [`Load`] borrows, with values for the fields that tests do not depend on.
pub(super) struct Arm {
    path: IoPath,
    pub(super) targets: Vec<LoadTarget>,
    pub(super) cpus: Option<CpuList>,
    pub(super) sqpoll_cpus: Option<CpuList>,
}

impl Arm {
    pub(super) fn new(path: &str, targets: &[&str]) -> Self {
        let target = |name: &&str| LoadTarget {
            name: (*name).into(),
            shown: (*name).into(),
            kernel_name: None,
            kind: kind(name),
            writable: true,
        };
        let targets = targets.iter().map(target).collect();
        Self { path: path.parse().unwrap(), targets, cpus: None, sqpoll_cpus: None }
    }

    /// Random reads of 4 KiB, a thread for each target, 2 s.
    pub(super) fn load(&self) -> Load<'_> {
        Load {
            path: &self.path,
            access: Access::RandRead,
            read_percent: 50,
            block_bytes: 4096,
            batch_submit: None,
            batch_complete: None,
            batch_complete_max: None,
            depth: 16,
            threads: self.targets.len(),
            targets: &self.targets,
            cpus: self.cpus.as_ref(),
            sqpoll_cpus: self.sqpoll_cpus.as_ref(),
            runtime: Duration::from_secs(2),
            warmup: Duration::ZERO,
            seed: 1,
            direct: true,
            size: None,
        }
    }
}

/// The kind that iolane gives a target of this name.
fn kind(name: &str) -> TargetKind {
    if let Some(simulated) = TargetKind::simulated(name.as_ref()) {
        return simulated;
    }
    match name {
        _ if name.starts_with("pci:") => iolane::nvme::CONTROLLER,
        _ if name.starts_with("/dev/ng") => TargetKind::NvmeGeneric,
        _ if name.starts_with("/dev/") => TargetKind::Block,
        _ => TargetKind::File,
    }
}

/// A command's arguments as they would be typed.
pub(super) fn arguments(peer: &dyn Peer, load: &Load<'_>) -> String {
    let folder = Folder::create().unwrap();
    let command = peer.command(Path::new("program"), load, &folder.0).unwrap();
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ").replace(&folder.0.display().to_string(), "FOLDER")
}

/// Recorded output, with the peer that printed it.
macro_rules! sample {
    ($peer:expr, $name:literal) => {
        ($peer as &dyn Peer, include_str!(concat!("../../tests/fixtures/peers/", $name)))
    };
}
pub(super) const SAMPLES: [(&dyn Peer, &str); 8] = [
    sample!(&fio::Fio, "fio-psync-randread.json"),
    sample!(&fio::Fio, "fio-libaio-randwrite.json"),
    sample!(&fio::Fio, "fio-io_uring-randrw-2-threads.json"),
    sample!(&fio::Fio, "fio-posixaio-read.json"),
    sample!(&fio::Fio, "fio-sqpoll.json"),
    sample!(&spdk_nvme_perf::SpdkNvmePerf, "spdk_nvme_perf-LL.txt"),
    sample!(&bdevperf::Bdevperf, "bdevperf-aio.txt"),
    sample!(&bdevperf::Bdevperf, "bdevperf-uring.txt"),
];

/// Properties of every result that a parser accepts.
fn check_sums(measured: &PeerMeasurement) {
    assert!(measured.ios > 0 && measured.elapsed_s > 0.0);
    for number in [measured.iops, measured.bytes_per_s, measured.min_ns, measured.mean_ns, measured.max_ns] {
        assert!(number.is_finite() && number >= 0.0, "{number}");
    }
    if let Some(latency) = &measured.latency {
        assert_eq!(latency.len(), measured.ios);
    }
}

#[test]
fn every_sample_is_understood_and_its_sums_agree() {
    let arm = Arm::new("io_uring", &["/x"]);
    for (peer, sample) in SAMPLES {
        let measured = peer.parse(sample, &arm.load()).unwrap();
        check_sums(&measured);
        // Up to 8 were in flight when fio's warm-up ended, and are in some of its sums and not in others.
        let begun = measured.iops * measured.elapsed_s;
        assert!((begun - measured.ios as f64).abs() < 8.5, "{begun} {}", measured.ios);
        assert!(measured.bytes.abs_diff(measured.ios * 4096) <= 8 * 4096, "{} {}", measured.bytes, measured.ios);
        assert!(measured.min_ns <= measured.mean_ns && measured.mean_ns <= measured.max_ns);
        if let Some(latency) = &measured.latency {
            // Buckets are up to 1/64 wide, and everything counts as the middle of its own.
            assert!((latency.mean() / measured.mean_ns - 1.0).abs() < 0.01, "{} {}", latency.mean(), measured.mean_ns);
            assert!((latency.max() as f64 / measured.max_ns - 1.0).abs() < 0.02);
            assert!((latency.min() as f64 / measured.min_ns - 1.0).abs() < 0.02);
        }
    }
}

#[test]
fn another_tools_output_is_not_understood() {
    let arm = Arm::new("io_uring", &["/x"]);
    for peer in PEERS {
        for (other, sample) in SAMPLES.iter().filter(|(other, _)| other.name() != peer.name()) {
            assert!(peer.parse(sample, &arm.load()).is_err(), "{} took what {} printed", peer.name(), other.name());
        }
    }
}

/// A sample with one byte replaced.
fn replaced(sample: &str, at: usize, by: u8) -> String {
    let mut bytes = sample.as_bytes().to_vec();
    bytes[at] = by;
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic_or_pass(text in "\\PC{0,60}|([ \\t\\n:%(){}\"0-9a-zA-Z=.-]{0,40}\\n){0,8}") {
        let arm = Arm::new("io_uring", &["/x"]);
        for peer in PEERS {
            prop_assert!(peer.parse(&text, &arm.load()).is_err());
        }
    }

    #[test]
    fn a_damaged_sample_makes_no_parser_panic_and_no_sum_disagree(
        sample in 0..SAMPLES.len(), at: prop::sample::Index, by: u8, digit in b'0'..=b'9',
    ) {
        let (peer, sample) = SAMPLES[sample];
        let arm = Arm::new("io_uring", &["/x"]);
        let digits: Vec<usize> = (0..sample.len()).filter(|at| sample.as_bytes()[*at].is_ascii_digit()).collect();
        for damaged in [replaced(sample, at.index(sample.len()), by), replaced(sample, *at.get(&digits), digit)] {
            if let Ok(measured) = peer.parse(&damaged, &arm.load()) {
                check_sums(&measured);
            }
        }
    }

    #[test]
    fn a_sample_without_one_of_its_lines_makes_no_parser_panic(sample in 0..SAMPLES.len(), line: prop::sample::Index) {
        let (peer, sample) = SAMPLES[sample];
        let arm = Arm::new("io_uring", &["/x"]);
        let mut lines: Vec<&str> = sample.lines().collect();
        lines.remove(line.index(lines.len()));
        if let Ok(measured) = peer.parse(&lines.join("\n"), &arm.load()) {
            check_sums(&measured);
        }
    }

    #[test]
    fn a_sample_that_was_cut_short_is_an_error(sample in 0..SAMPLES.len(), at: prop::sample::Index) {
        let (peer, sample) = SAMPLES[sample];
        let arm = Arm::new("io_uring", &["/x"]);
        let whole = sample.trim_end().len();
        let error = peer.parse(&sample[..at.index(whole)], &arm.load()).unwrap_err().to_string();
        prop_assert!(error.contains("expected "), "{}", error);
    }
}

/// A peer that is a shell script.
struct Script(&'static str);

impl Peer for Script {
    fn name(&self) -> &'static str {
        "script"
    }
    fn remedy(&self) -> &'static str {
        "write it"
    }
    fn version_argument(&self) -> Option<&'static str> {
        Some("--version")
    }
    fn cannot(&self, load: &Load<'_>) -> Option<String> {
        (load.depth > 16).then(|| "it cannot count further than 16".into())
    }
    fn differences(&self, _: &Load<'_>) -> Vec<String> {
        Vec::new()
    }
    fn command(&self, program: &Path, load: &Load<'_>, folder: &Path) -> Result<Command> {
        let mut shell = Command::new(program);
        shell.args(["-c", self.0, "sh"]).args(load.targets.iter().map(|target| &target.name)).current_dir(folder);
        Ok(shell)
    }
    fn parse(&self, output: &str, load: &Load<'_>) -> Result<PeerMeasurement> {
        bdevperf::Bdevperf.parse(output, load)
    }
}

/// Runs a script that is given the name of a file.
fn run_script(script: &'static str, file: &Path, time: Duration, stop: &AtomicBool) -> Result<PeerMeasurement> {
    let arm = Arm::new("psync", &[file.to_str().unwrap()]);
    let installed = Installed { program: "/bin/sh".into(), version: None };
    let limits = Limits { time, patience: Duration::from_millis(100) };
    run_within(&limits, &Script(script), &installed, &arm.load(), stop).map(|run| run.measured)
}

const LONG: Duration = Duration::from_secs(600);

fn error_of(script: &'static str) -> String {
    run_script(script, Path::new("/dev/null"), LONG, &AtomicBool::new(false)).unwrap_err().to_string()
}

#[test]
fn the_output_of_a_peer_is_parsed() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/peers/bdevperf-aio.txt");
    let measured = run_script("cat $1", Path::new(sample), LONG, &AtomicBool::new(false)).unwrap();
    assert_eq!(measured.iops, 15618.90);
}

#[test]
fn a_failed_peer_is_reported_with_its_last_lines() {
    let error = error_of("echo progress; for i in 1 2 3 4; do echo complaint $i >&2; done; exit 7");
    assert_eq!(error, "peer script on psync: it failed (exit status: 7): complaint 2 | complaint 3 | complaint 4");
    assert_eq!(error_of("echo on stdout; exit 1"), "peer script on psync: it failed (exit status: 1): on stdout");
    assert_eq!(error_of("exit 1"), "peer script on psync: it failed (exit status: 1), and printed nothing");
}

#[test]
fn a_peer_killed_by_a_signal_is_reported_with_the_signal() {
    let error = error_of("kill -SEGV $$");
    assert!(error.starts_with("peer script on psync: it failed (signal: 11 (SIGSEGV)"), "{error}");
}

#[test]
fn unexpected_output_of_a_peer_is_an_error() {
    let error = error_of("echo; echo 'All is \u{1b}[31mwell'");
    assert_eq!(
        error,
        "output of bdevperf: expected the table `Device Information : runtime(s) IOPS ...`, but found `All is  [31mwell`; \
         its version may print another format"
    );
}

#[test]
fn a_peer_that_floods_stderr_is_not_blocked_and_only_its_end_is_kept() {
    let error = error_of("head -c 20000000 /dev/zero | tr '\\0' '\\n' >&2; echo the end >&2; exit 1");
    assert_eq!(error, "peer script on psync: it failed (exit status: 1): the end");
}

#[test]
fn a_peer_that_never_stops_printing_is_ended() {
    let error = error_of("while :; do head -c 9000000 /dev/zero; done");
    assert!(error.starts_with("peer script on psync: it printed far more output than a result"), "{error}");
}

#[test]
fn a_missing_program_is_reported() {
    let arm = Arm::new("psync", &["/x"]);
    let installed = Installed { program: "/nowhere/peer".into(), version: None };
    let error = run(&Script(""), &installed, &arm.load(), &AtomicBool::new(false)).unwrap_err().to_string();
    assert_eq!(error, "running /nowhere/peer: no such file or directory");
}

#[test]
fn a_load_that_a_peer_cannot_do_is_not_begun() {
    let arm = Arm::new("psync", &["/x"]);
    let installed = Installed { program: "/nowhere/peer".into(), version: None };
    for (load, cause) in [
        (Load { depth: 17, ..arm.load() }, "it cannot count further than 16"),
        (Load { threads: 0, ..arm.load() }, "the load has 0 threads"),
        (Load { targets: &[], ..arm.load() }, "the load has 0 targets"),
    ] {
        let error = run(&Script(""), &installed, &load, &AtomicBool::new(false)).unwrap_err();
        assert_eq!((error.kind(), error.cause()), (iolane::error::ErrorKind::Usage, cause));
    }
}

#[test]
fn a_peer_opens_for_writing_only_what_may_be_written() {
    let mut arm = Arm::new("io_uring", &["/x"]);
    arm.targets[0].writable = false;
    let installed = Installed { program: "/nowhere/peer".into(), version: None };
    let read = arm.load();
    let written = Load { access: Access::Write, ..arm.load() };
    for (peer, load, why) in [
        (&bdevperf::Bdevperf as &dyn Peer, &read, "it opens targets for writing even if it only reads"),
        (&bdevperf::Bdevperf, &written, "it writes"),
        (&fio::Fio, &written, "it writes"),
    ] {
        let error = run(peer, &installed, load, &AtomicBool::new(false)).unwrap_err().to_string();
        let expected = format!("{why}, and writing to the target is not allowed; add --allow-writes /x");
        assert!(error.ends_with(&expected), "{error}");
    }
    check_permits(&fio::Fio, &read).unwrap();
    let libaio = Arm { path: "libaio".parse().unwrap(), ..arm };
    check_permits(&bdevperf::Bdevperf, &libaio.load()).unwrap();
}

/// A target that was opened by a link which leads elsewhere now; the two files hold different bytes.
fn target_by_a_moved_link(folder: &Path, writable: bool) -> (iolane::Target, [std::path::PathBuf; 2]) {
    let [checked, other, link] = ["checked", "other", "link"].map(|name| folder.join(name));
    for file in [&checked, &other] {
        std::fs::write(file, vec![7; 1 << 20]).unwrap();
    }
    std::os::unix::fs::symlink(&checked, &link).unwrap();
    let options = iolane::Target::options().direct(false);
    let target = if writable { options.write_unguarded() } else { options }.open(&link).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    (target, [checked, other])
}

#[test]
fn a_peer_reaches_the_target_that_was_checked_though_its_name_leads_elsewhere_now() {
    let folder = tempfile::tempdir().unwrap();
    let (target, [checked, other]) = target_by_a_moved_link(folder.path(), true);
    let arm = Arm { targets: vec![LoadTarget::of(&target)], ..Arm::new("psync", &[]) };
    let installed = Installed { program: "/bin/sh".into(), version: None };
    let error = run(&Script("printf changed > $1"), &installed, &arm.load(), &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("output of bdevperf"), "{error}");
    assert_eq!(std::fs::read(checked).unwrap(), b"changed");
    assert!(std::fs::read(other).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn the_installed_fio_writes_the_target_that_was_checked() {
    let installed = match find(&fio::Fio) {
        Ok(installed) => installed,
        Err(error) => return eprintln!("SKIPPED running a real fio: {error}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let (target, [checked, other]) = target_by_a_moved_link(folder.path(), true);
    let arm = Arm { targets: vec![LoadTarget::of(&target)], ..Arm::new("psync", &[]) };
    let load = Load { access: Access::Write, runtime: Duration::from_millis(30), direct: false, ..arm.load() };
    run(&fio::Fio, &installed, &load, &AtomicBool::new(false)).unwrap();
    assert!(std::fs::read(checked).unwrap().iter().any(|byte| *byte != 7));
    assert!(std::fs::read(other).unwrap().iter().all(|byte| *byte == 7));
}

/// Where a name leads during a step of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    ToFree,
    ToUsed,
    /// Back and forth all the time, with this many spins on the free file.
    Moving(u64),
}

/// What became of an attempt to run a peer on a name that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempted {
    Permitted,
    /// The file that was opened was not the one that had been checked.
    Elsewhere,
    /// When it was checked, the name led to the file in use.
    Refused,
}

/// Where the name leads when the permit is requested, when the target is opened, and from then until the peer has ended. Of four attempts the
/// first is permitted and the second leads elsewhere; the others are drawn.
fn drawn_steps(random: &mut impl Rng, attempt: u64) -> [Leads; 3] {
    match attempt % 4 {
        0 => [Leads::ToFree, Leads::ToFree, Leads::ToUsed],
        1 => [Leads::ToFree, Leads::ToUsed, Leads::ToUsed],
        _ => std::array::from_fn(|_| match random.next_u64() % 4 {
            0 => Leads::ToFree,
            1 => Leads::ToUsed,
            _ => Leads::Moving(random.next_u64() % 20_000),
        }),
    }
}

/// What such an attempt must come to; `None` if that depends on the moments of the moves.
fn expected_of(steps: [Leads; 3]) -> Option<Attempted> {
    match steps {
        [Leads::ToUsed, ..] => Some(Attempted::Refused),
        [Leads::ToFree, Leads::ToFree, _] => Some(Attempted::Permitted),
        [Leads::ToFree, Leads::ToUsed, _] => Some(Attempted::Elsewhere),
        _ => None,
    }
}

/// Says when it is dropped that a thread should end: also by a panic, after which the scope would wait for that thread for ever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A name that leads to one of two files: one that nobody uses, and one that another process has open for writing.
struct MovingName {
    free: PathBuf,
    used: PathBuf,
    link: PathBuf,
    next: PathBuf,
    holder: Child,
}

impl MovingName {
    const BEFORE: &[u8] = b"before";

    fn new(folder: &Path) -> Self {
        let [free, used, link, next] = ["free", "used", "link", "next"].map(|name| folder.join(name));
        std::fs::write(&used, Self::BEFORE).unwrap();
        let held = std::fs::File::options().write(true).open(&used).unwrap();
        let holder = Command::new("sleep").arg("1000000").stdin(held).spawn().unwrap();
        Self { free, used, link, next, holder }
    }

    /// Makes the free file anew. A shell writes it: what this process had open, a child of another test might hold still.
    fn renew(&self) {
        let script = format!("rm -f \"$1\" && printf {} > \"$1\"", str::from_utf8(Self::BEFORE).unwrap());
        assert!(Command::new("sh").args(["-c", &script, "sh"]).arg(&self.free).status().unwrap().success());
    }

    fn lead_to(&self, file: &Path) {
        std::os::unix::fs::symlink(file, &self.next).unwrap();
        std::fs::rename(&self.next, &self.link).unwrap();
    }

    /// Does something while the name leads there.
    fn while_it<T>(&self, leads: Leads, act: impl FnOnce() -> T) -> T {
        let spins = match leads {
            Leads::ToFree => {
                self.lead_to(&self.free);
                return act();
            }
            Leads::ToUsed => {
                self.lead_to(&self.used);
                return act();
            }
            Leads::Moving(spins) => spins,
        };
        let (begun, is_over) = (Barrier::new(2), AtomicBool::new(false));
        self.lead_to(&self.free);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begun.wait();
                while !is_over.load(Ordering::Relaxed) {
                    self.lead_to(&self.used);
                    self.lead_to(&self.free);
                    (0..spins).for_each(|_| std::hint::spin_loop());
                }
            });
            begun.wait();
            let _over = Over(&is_over);
            act()
        })
    }

    /// Asks for the permit, opens, and has a peer write: what the command line does.
    fn attempt(&self, [asked, opened, run_to_its_end]: [Leads; 3]) -> Attempted {
        let permit = match self.while_it(asked, || WritePermit::request(&self.link)) {
            Ok(permit) => permit,
            Err(refused) => {
                assert_eq!(refused.reason(), Reason::InUse, "{refused}");
                return Attempted::Refused;
            }
        };
        let options = Target::options().direct(false).write(permit);
        let target = match self.while_it(opened, || options.open(&self.link)) {
            Ok(target) => target,
            Err(error) => {
                assert!(error.cause().contains("something else"), "{error}");
                return Attempted::Elsewhere;
            }
        };
        let installed = Installed { program: "/bin/sh".into(), version: None };
        let ran = self.while_it(run_to_its_end, || {
            let arm = Arm { targets: vec![LoadTarget::of(&target)], ..Arm::new("psync", &[]) };
            let load = Load { access: Access::Write, ..arm.load() };
            run(&Script("printf changed > $1"), &installed, &load, &AtomicBool::new(false))
        });
        // It has written, and nothing more.
        let error = ran.unwrap_err().to_string();
        assert!(error.contains("output of bdevperf"), "{error}");
        Attempted::Permitted
    }
}

impl Drop for MovingName {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A number from the environment; `cargo xtask campaign peers` sets them.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

#[test]
fn a_name_that_moves_until_a_peers_start_leads_no_write_to_a_file_in_use() {
    let (attempts, seed) = (setting("IOLANE_PEERS_ATTEMPTS", 20), setting("IOLANE_PEERS_SEED", 1));
    let folder = tempfile::tempdir().unwrap();
    let name = MovingName::new(folder.path());
    let (mut permitted, mut elsewhere, mut refused) = (0, 0, 0);
    // Each attempt has a seed of its own, so that one alone can be repeated, and a campaign goes on with the next.
    for seed in seed..seed + attempts {
        let steps = drawn_steps(&mut Xoshiro256PlusPlus::seed_from_u64(seed), seed);
        name.renew();
        let attempted = name.attempt(steps);
        let told = || format!("seed {seed}: {attempted:?} by {steps:?}");
        assert!(expected_of(steps).is_none_or(|expected| expected == attempted), "{}", told());
        let free = if attempted == Attempted::Permitted { b"changed" } else { MovingName::BEFORE };
        assert_eq!(std::fs::read(&name.free).unwrap(), free, "the free file, {}", told());
        assert_eq!(std::fs::read(&name.used).unwrap(), MovingName::BEFORE, "the file in use, {}", told());
        *match attempted {
            Attempted::Permitted => &mut permitted,
            Attempted::Elsewhere => &mut elsewhere,
            Attempted::Refused => &mut refused,
        } += 1;
    }
    println!(
        "{attempts} attempts from seed {seed}: {permitted} were permitted, {elsewhere} led elsewhere after the check, {refused} were refused"
    );
    assert!(attempts < 2 || permitted > 0 && elsewhere > 0, "{permitted} permitted, {elsewhere} elsewhere");
}

/// Whether a process exists and is not a zombie.
fn lives(id: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Runs a script that writes the id of a process into the file it is given, sets `stop` once it has, and waits until that
/// process is gone. One that stays would let the test hang, which fails it.
fn stop_script(name: &str, script: &'static str) -> String {
    let file = std::env::temp_dir().join(format!("iolane-peer-test-{name}-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, seen) = (stop.clone(), file.clone());
    let observer = std::thread::spawn(move || {
        loop {
            let id = std::fs::read_to_string(&seen).unwrap_or_default();
            if id.ends_with('\n') {
                flag.store(true, Ordering::Relaxed);
                return id.trim().to_owned();
            }
            std::thread::yield_now();
        }
    });
    let error = run_script(script, &file, LONG, &stop).unwrap_err().to_string();
    let id = observer.join().unwrap();
    std::fs::remove_file(file).unwrap();
    while lives(&id) {
        std::thread::yield_now();
    }
    error
}

#[test]
fn a_peer_that_hangs_is_stopped_with_all_it_has_started() {
    let error = stop_script("children", "sleep 1000 & echo $! > $1; wait");
    assert_eq!(error, "peer script on psync: stopped before it ended, and printed nothing");
}

#[test]
fn a_peer_that_will_not_end_is_killed() {
    let error = stop_script("stubborn", "trap '' TERM; echo no >&2; echo $$ > $1; while :; do sleep 0.01; done");
    assert!(error.starts_with("peer script on psync: stopped before it ended: "), "{error}");
    assert!(error.ends_with("no"), "{error}");
}

#[test]
fn processes_that_a_peer_leaves_running_are_killed_when_it_ends() {
    let file = std::env::temp_dir().join(format!("iolane-peer-test-left-{}", std::process::id()));
    let error = run_script("sleep 1000 & echo $! > $1; exit 3", &file, LONG, &AtomicBool::new(false)).unwrap_err();
    let id = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    while lives(id.trim()) {
        std::thread::yield_now();
    }
    assert!(error.to_string().contains("exit status: 3"), "{error}");
}

#[test]
fn a_peer_that_takes_too_long_is_ended() {
    let overdue = run_script("sleep 1000", Path::new("/dev/null"), Duration::ZERO, &AtomicBool::new(false));
    let error = overdue.unwrap_err().to_string();
    assert_eq!(error, "peer script on psync: still running after 0 s, and printed nothing");
}

#[test]
fn the_folder_of_a_run_is_its_users_own_and_does_not_stay() {
    let folder = Folder::create().unwrap();
    let path = folder.0.clone();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::write(path.join("file"), "").unwrap();
    drop(folder);
    assert!(!path.exists());
}

#[test]
fn a_program_is_found_by_its_variable_before_path() {
    let found = find_in(&Script(""), Some("/bin/sh".into()), Some("/nowhere".into())).unwrap();
    assert_eq!(found.program, Path::new("/bin/sh"));
    let folder = Folder::create().unwrap();
    // A shell writes it: what this process had open for writing, a child of another test might hold still, and then it
    // cannot be executed (ETXTBSY).
    let shell = |script: &str| {
        let status = Command::new("sh").args(["-c", script]).current_dir(&folder.0).status().unwrap();
        assert!(status.success());
    };
    shell("printf '#!/bin/sh\\necho\\necho script 1.2 $1\\n' > script");
    let path = std::env::join_paths([Path::new("/nowhere"), &folder.0]).unwrap();
    let missing = find_in(&Script(""), None, Some(path.clone())).unwrap_err().to_string();
    // It is not executable yet.
    let remedy = "write it, or set IOLANE_PEER_SCRIPT to the path of the program";
    assert_eq!(missing, format!("peer script: not found on PATH; {remedy}"));
    shell("chmod 755 script");
    let program = folder.0.join("script");
    let found = find_in(&Script(""), None, Some(path)).unwrap();
    assert_eq!(found, Installed { program, version: Some("script 1.2 --version".into()) });
    let error = find_in(&Script(""), Some("/etc/passwd".into()), None).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("peer script: IOLANE_PEER_SCRIPT is set to /etc/passwd, which is not an executable file; {remedy}")
    );
}

#[test]
fn every_missing_peer_is_reported_with_its_installation() {
    for peer in PEERS {
        let error = find_in(*peer, None, None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("peer {}: not found on PATH; ", peer.name())), "{error}");
        assert!(error.contains(peer.remedy()) && error.contains("IOLANE_PEER_"), "{error}");
    }
}

/// An unnamed file, like a scratch file, and a name by which another process can open it.
fn nameless_file(bytes: usize) -> (std::fs::File, String) {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::io::pwrite(&fd, &vec![7; bytes], 0).unwrap();
    let name = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
    (fd.into(), name)
}

#[test]
fn the_installed_fio_measures_every_access() {
    let installed = match find(&fio::Fio) {
        Ok(installed) => installed,
        Err(error) => return eprintln!("SKIPPED running a real fio: {error}"),
    };
    assert!(installed.version.as_deref().is_some_and(|version| version.starts_with("fio-")), "{installed:?}");
    let (file, name) = nameless_file(1 << 20);
    let accesses = Access::ALL.map(|access| (access, "psync"));
    for (access, path) in accesses.into_iter().chain([(Access::RandRw, "libaio"), (Access::RandRw, "posix_aio")]) {
        let arm = Arm::new(path, &[&name]);
        let short = Duration::from_millis(30);
        // Buffered, because not every file system supports O_DIRECT.
        let load = Load {
            access,
            threads: 2,
            depth: 4,
            runtime: short,
            warmup: short,
            seed: u64::MAX,
            direct: false,
            ..arm.load()
        };
        let PeerRun { measured, calls_per_io } = run(&fio::Fio, &installed, &load, &AtomicBool::new(false)).unwrap();
        assert!(calls_per_io.is_err(), "without O_DIRECT the kernel does not account for every I/O");
        check_sums(&measured);
        let latency = measured.latency.as_ref().unwrap();
        assert!(latency.value_at_quantile(0.5) <= latency.value_at_quantile(0.99));
        assert!(measured.iops > 0.0 && measured.user_s.is_some() && measured.system_s.is_some());
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    }
}

#[test]
fn the_installed_fio_makes_no_file_that_is_not_there() {
    let installed = match find(&fio::Fio) {
        Ok(installed) => installed,
        Err(error) => return eprintln!("SKIPPED running a real fio: {error}"),
    };
    let folder = Folder::create().unwrap();
    let target = folder.0.join("a:b, $c").display().to_string();
    let arm = Arm::new("psync", &[&target]);
    let short = Duration::from_millis(30);
    let load = Load { access: Access::Write, runtime: short, size: Some(1 << 20), direct: false, ..arm.load() };
    let error = run(&fio::Fio, &installed, &load, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.starts_with("peer fio on psync: it failed (exit status: 1): "), "{error}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    // It does write an existing file with such a name.
    std::fs::write(&target, vec![7; 1 << 20]).unwrap();
    run(&fio::Fio, &installed, &load, &AtomicBool::new(false)).unwrap();
    assert!(std::fs::read(&target).unwrap().iter().any(|byte| *byte != 7));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}
