//! Invalid use and hostile environments: each ends with the documented exit code and one line that states what failed,
//! on what, why and the remedy; nothing is written, and nothing is left behind.

mod common;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use common::{
    Ended, Folder, ODD_BYTES, SHORT, SmallDisk, assert_refused, assert_valid, command, command_of, finish, has, iolane,
    is_root, skipped,
};

/// Held for reading by tests that need io_uring, for writing by tests that disable it on the machine.
static IO_URING: RwLock<()> = RwLock::new(());

fn io_uring_stays() -> RwLockReadGuard<'static, ()> {
    IO_URING.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn io_uring_is_mine() -> RwLockWriteGuard<'static, ()> {
    IO_URING.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A folder with a valid target, and with everything that is not one.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("good", ODD_BYTES);
    folder.file("empty", 0);
    folder.file("tiny", 100);
    folder.file("uneven", 1001);
    fs::create_dir(folder.join("folder")).unwrap();
    fs::hard_link(folder.join("good"), folder.join("twin")).unwrap();
    folder
}

/// Runs each row of a table in one folder, which must not change.
#[track_caller]
fn check_table(rows: &[(&[&str], i32, &[&str])]) {
    let _lock = io_uring_stays();
    let folder = folder();
    let before = folder.contents();
    for (arguments, code, parts) in rows {
        let ended = iolane(&folder, *arguments);
        let told = std::panic::catch_unwind(|| assert_refused(&ended, *code, parts));
        assert!(told.is_ok(), "{arguments:?}");
        assert!(folder.contents() == before, "{arguments:?} left {:?}", folder.names());
    }
}

#[test]
fn paths_that_cannot_be_are_wrong_use() {
    check_table(&[
        (&["run", "--path", "nonsense"], 2, &["path nonsense", "no such interface", "psync", "io_uring"]),
        (&["run", "--path", "iouring"], 2, &["path iouring", "did you mean io_uring?", "psync"]),
        (&["run", "--depth", "4-64"], 2, &["depth `4-64`", "iolane study --depth 4,16,64"]),
        (&["study", "--depth", "1,x"], 2, &["depth `x`", "no whole number"]),
        (&["run", "--path", ""], 2, &["path"]),
        (&["run", "--path", "libaio,io_uring"], 2, &["2 paths", "iolane study --path libaio,io_uring"]),
        (&["run", "--path", "io_uring,"], 2, &["io_uring,"]),
        (&["run", "--path", "psync+sqpoll"], 2, &["psync+sqpoll", "io_uring+sqpoll"]),
        (&["run", "--path", "libaio+iopoll"], 2, &["libaio+iopoll"]),
        (&["run", "--path", "psync,fixedbufs"], 2, &["psync,fixedbufs"]),
        (&["run", "--path", "io_uring,defer,coop"], 2, &["io_uring,defer,coop", "choose one"]),
        (&["run", "--path", "io_uring,sqidle=5"], 2, &["sqidle"]),
        (&["run", "--path", "io_uring", "--sqpoll-cpus", "0", "--size", "16m"], 2, &["io_uring: ", "+sqpoll"]),
        (&["study", "--path", "nonsense"], 2, &["nonsense"]),
        (&["study", "--path", "psync+sqpoll"], 2, &["psync+sqpoll"]),
    ]);
}

#[test]
fn numbers_that_cannot_be_are_wrong_use() {
    check_table(&[
        (&["run", "--depth", "0"], 2, &["--depth 0", "at least 1"]),
        (&["run", "--depth", "-1"], 2, &["'-1'", "--depth"]),
        (&["run", "--depth", "4294967296"], 2, &["4294967296", "--depth"]),
        (&["run", "--depth", "x"], 2, &["'x'", "--depth"]),
        (&["run", "--path", "psync", "--depth", "2", "--target", "good"], 2, &["psync", "depth 2", "at most 1"]),
        (&["run", "--path", "io_uring", "--depth", "99999", "--target", "good"], 2, &["io_uring", "99999", "32768"]),
        (&["run", "--path", "libaio", "--depth", "99999", "--target", "good"], 2, &["libaio", "99999", "65536"]),
        (&["run", "--bs", "0"], 2, &["--bs", "`0`"]),
        (&["run", "--bs", "-4k"], 2, &["-4"]),
        (&["run", "--bs", "18446744073709551616k"], 2, &["--bs", "18446744073709551616k", "2^64"]),
        (&["run", "--bs", "64k-4k"], 2, &["64k-4k"]),
        (&["run", "--bs", "4k/70:64k/40"], 2, &["4k/70:64k/40"]),
        (&["run", "--bs", "1000", "--target", "good"], 2, &["--bs 1000 on good", "512", "--direct false"]),
        (&["run", "--bs", "32m", "--target", "good"], 2, &["32m", "good"]),
        (&["run", "--size", "-1"], 2, &["-1", "--size"]),
        (&["run", "--size", "16m", "--start", "16m"], 2, &["--start 16m", "the scratch file has 16m"]),
        (&["run", "--start", "1t", "--target", "good"], 2, &["--start 1t", "good has", "smaller --start"]),
        (&["run", "--align", "5000", "--target", "good"], 2, &["--align 5000", "good has blocks of"]),
        (&["run", "--durable"], 2, &["--durable with --rw randread", "nothing is written"]),
        (&["run", "--data", "compress:50"], 2, &["--data compress:50 with --rw randread", "nothing is written"]),
        (&["run", "--align", "8g"], 2, &["`8g`", "4 GiB or more"]),
        (
            &["run", "--rw", "read", "--offsets", "zipf:1.2"],
            2,
            &["--offsets zipf:1.2 with --rw read", "use --rw randread"],
        ),
        (&["run", "--offsets", "skip:64k"], 2, &["--offsets skip:64k with --rw randread", "use --rw read"]),
        (&["run", "--size", "1k"], 2, &["--size 1k", "4k"]),
        (&["run", "--size", "64m", "--target", "good"], 2, &["--size 64m", "good has", "smaller --size"]),
        (&["run", "--size", "1000000t"], 1, &["scratch file of 1000000t", "--size"]),
        (&["run", "--size", "16000000t"], 1, &["scratch file of 16000000t", "--size"]),
        (&["run", "--rate", "0"], 2, &["'0'", "--rate", "above 0"]),
        (&["run", "--rate", "-5"], 2, &["'-5'", "--rate", "above 0"]),
        (&["run", "--rate", "nan"], 2, &["--rate", "above 0"]),
        (&["run", "--batch-submit", "0"], 2, &["--batch-submit 0"]),
        (
            &["run", "--batch-complete", "5", "--depth", "2"],
            2,
            &["--batch-complete 5 with --depth 2", "--batch-complete 2"],
        ),
        (&["run", "--threads", "0", "--target", "good"], 2, &["--threads 0", "at least one thread"]),
        (&["run", "--threads", "-1"], 2, &["'-1'", "--threads"]),
        (&["run", "--threads", "100000", "--target", "good"], 2, &["--threads 100000", "4096"]),
        (&["study", "--threads", "100000", "--target", "good"], 2, &["--threads 100000", "4096"]),
        (&["study", "--rate", "500,0", "--target", "good"], 2, &["'0'", "--rate", "above 0"]),
        (&["run", "--repeat", "0"], 2, &["--repeat"]),
        (&["run", "--runtime", "0s"], 2, &["--runtime", "`0s`", "nothing would be measured"]),
        (&["run", "--runtime", "1 fortnight"], 2, &["--runtime", "200ms"]),
        (&["run", "--warmup", "9999999h"], 2, &["--warmup", "longer than a year"]),
        (&["run", "--cpus", "8000", "--target", "good"], 2, &["--cpus 8000", "may not run there", "choose among"]),
        (&["run", "--cpus", "3-1"], 2, &["3-1", "backwards"]),
        (&["run", "--seed", "-1"], 2, &["'-1'", "--seed"]),
        (&["study", "--depth", "0"], 2, &["--depth 0"]),
        (&["study", "--depth", ","], 2, &["--depth"]),
        (&["study", "--runtime", "0s"], 2, &["--runtime", "nothing would be measured"]),
        (&["study", "--path", "psync", "--depth", "5", "--target", "good"], 2, &["psync", "at most 1", "more threads"]),
    ]);
}

#[test]
fn workloads_that_contradict_themselves_are_wrong_use() {
    check_table(&[
        (&["run", "--rw", "sideways"], 2, &["sideways", "randread"]),
        (&["run", "--read-percent", "50"], 2, &["--read-percent 50 with --rw randread", "randrw"]),
        (&["run", "--rw", "randrw", "--read-percent", "101"], 2, &["--read-percent 101", "at most 100"]),
        (&["run", "--fsync", "8"], 2, &["--fsync 8 with --rw randread", "nothing is written"]),
        (&["run", "--rw", "write", "--fsync", "0"], 2, &["--fsync 0", "at least 1"]),
        (&["run", "--offsets", "zipf:1.2", "--rw", "read"], 2, &["--offsets zipf:1.2 with --rw read", "randread"]),
        (&["run", "--offsets", "zipf:0"], 2, &["zipf:0"]),
        (&["run", "--offsets", "hot:0/0"], 2, &["hot:0/0"]),
        (&["run", "--verify", "--target", "good"], 1, &["verify: target offset ", "iolane never wrote here, or with"]),
        (&["run", "--verify", "--target", "null", "--path", "null"], 2, &["--verify on null", "keeps nothing"]),
        (&["run", "--verify", "--bs", "16", "--rw", "randrw"], 2, &["--verify with --bs 16"]),
        (&["run", "--verify", "--bs", "4k/50:6k/50", "--rw", "randrw"], 2, &["--verify", "6", "multiple"]),
        (&["run", "stray"], 2, &["stray"]),
        (&["run", "--bogus"], 2, &["--bogus"]),
        (&["run", "--depth"], 2, &["--depth"]),
        (&["run", "--direct", "maybe"], 2, &["maybe", "--direct"]),
        (&["walk"], 2, &["walk"]),
        (&["completions", "cobol"], 2, &["cobol"]),
    ]);
}

#[test]
fn targets_that_cannot_be_had_are_named_with_what_to_do() {
    check_table(&[
        (&["run", "--target", "missing"], 3, &["target missing", "no such file", "check the name"]),
        (&["run", "--target", ""], 3, &["target", "check the name"]),
        (&["run", "--target", "empty"], 3, &["target empty", "it is empty", "dd if"]),
        (&["run", "--target", "folder"], 3, &["target folder", "directory", "folder/scratch"]),
        (&["run", "--target", "tiny"], 3, &["target tiny", "100 bytes", "512", "direct to false"]),
        (&["run", "--target", "tiny", "--direct", "false"], 2, &["tiny", "4k", "smaller blocks"]),
        (&["run", "--target", "uneven"], 2, &["uneven", "4k", "smaller blocks"]),
        (&["run", "--target", "/dev/null"], 3, &["/dev/null", "character device", "/dev/ngXnY"]),
        (&["run", "--target", "/proc/cpuinfo"], 3, &["/proc/cpuinfo"]),
        (&["run", "--target", "good", "--target", "good"], 2, &["good", "the same", "name one"]),
        (&["run", "--target", "good", "--target", "./good"], 2, &["good", "the same"]),
        (&["run", "--target", "good", "--target", "twin"], 2, &["twin", "the same as good"]),
        (&["study", "--target", "good", "--target", "twin"], 2, &["twin", "the same as good"]),
        (&["run", "--target", "null:0"], 2, &["null:0"]),
        (&["run", "--target", "sim:2m,nonsense=1", "--path", "sim"], 2, &["nonsense"]),
        (&["run", "--target", "null", "--path", "psync"], 3, &["psync", "null"]),
        (&["probe", "missing"], 3, &["missing", "check the name"]),
        (&["probe", "folder"], 3, &["folder", "directory"]),
        (&["study", "--path", "psync,iouring,libaio"], 2, &["iouring", "did you mean io_uring"]),
        (&["study", "--path", "io_uring,fixedbuf,psync"], 2, &["`fixedbuf` is not an option", "fixedbufs"]),
        (&["study", "--target", "missing"], 3, &["missing", "check the name"]),
    ]);
}

#[test]
fn nothing_is_written_that_was_not_permitted_by_name() {
    check_table(&[
        (&["run", "--target", "good", "--rw", "randwrite"], 2, &["writing to good", "--allow-writes good"]),
        (&["run", "--target", "good", "--rw", "rw", "--allow-writes", "uneven"], 2, &["good", "--allow-writes good"]),
        (&["run", "--target", "good", "--rw", "write", "--erase"], 2, &["writing to good", "--allow-writes good"]),
        (&["run", "--target", "folder", "--rw", "write", "--allow-writes", "folder"], 3, &["folder"]),
        (&["run", "--target", "missing", "--rw", "write", "--allow-writes", "missing"], 3, &["target missing"]),
        (&["study", "--target", "good", "--rw", "randrw"], 2, &["writing to good", "--allow-writes good"]),
        (&["run", "--target", "good", "--json", "good"], 2, &["writing good", "it is a target"]),
        (&["run", "--target", "good", "--json", "twin"], 2, &["writing twin", "it is a target"]),
        (&["probe", "good", "--json", "./good"], 2, &["./good", "it is a target"]),
        (&["study", "--target", "good", "--json", "good"], 2, &["writing good", "it is a target"]),
        (&["study", "--target", "good", "--dry-run", "--json", "good"], 2, &["writing good", "it is a target"]),
    ]);
}

#[test]
fn results_that_cannot_be_written_are_known_before_anything_is_measured() {
    check_table(&[
        (&["run", "--json", "missing/x.json"], 1, &["writing missing/x.json", "no such file", "choose a place"]),
        (&["run", "--json", "folder"], 1, &["writing folder", "directory", "choose a place"]),
        (&["run", "--json", "x/"], 1, &["writing x/", "directory"]),
        (&["run", "--json", "good/x.json"], 1, &["writing good/x.json", "not a directory"]),
        (&["probe", "--json", "/proc/x.json"], 1, &["writing /proc/x.json"]),
        (&["study", "--json", "missing/x.json", "--out", "folder"], 1, &["writing missing/x.json"]),
        (&["study", "--out", "empty"], 1, &["writing empty", "not a directory"]),
        (&["study", "--out", "new/folder", "--json", "missing/x.json"], 1, &["writing missing/x.json"]),
        (&["study", "--out", "/proc/results"], 1, &["writing /proc/results"]),
    ]);
}

#[test]
fn names_that_are_not_utf8_are_targets_and_results_like_any_other() {
    let _lock = io_uring_stays();
    let folder = Folder::new();
    let target = OsStr::from_bytes(b"disk-\xff\n");
    folder.file(target, ODD_BYTES);
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut arguments = words(&["run", "--runtime", "100ms", "--json"]);
    arguments.extend([OsStr::from_bytes(b"record-\xff").into(), "--target".into(), target.into()]);
    let ended = iolane(&folder, &arguments).done();
    assert!(ended.stdout.starts_with("io_uring on disk-\u{fffd}? ("), "{}", ended.stdout);
    let record = fs::read(folder.join(OsStr::from_bytes(b"record-\xff"))).unwrap();
    assert_valid("run", &serde_json::from_slice(&record).unwrap());

    let missing = OsStr::from_bytes(b"missing-\xff");
    let ended = iolane(&folder, [OsStr::new("run"), OsStr::new("--target"), missing]);
    assert_refused(&ended, 3, &["target missing-\u{fffd}", "check the name"]);
    let ended = iolane(&folder, [OsStr::new("run"), OsStr::new("--path"), missing]);
    assert_refused(&ended, 2, &["UTF-8"]);
    arguments.extend(words(&["--rw", "randwrite"]));
    assert_refused(&iolane(&folder, &arguments), 2, &["writing to disk-", "--allow-writes"]);
}

#[test]
fn huge_pages_that_are_not_reserved_are_named_with_the_command_that_reserves_them() {
    let free = fs::read_to_string("/proc/meminfo").unwrap();
    if !free.lines().any(|line| line.starts_with("HugePages_Free:") && line.ends_with(" 0")) {
        return skipped("huge pages", "this machine has some to spare, or its kernel has none");
    }
    check_table(&[(
        &["run", "--target", "good", "--huge-pages", "--path", "psync"],
        1,
        &["a pool of 1 buffers of 4k", "cannot allocate memory", "vm.nr_hugepages"],
    )]);
}

/// Runs the program as user nobody under limits of `prlimit`; prints a SKIPPED line and returns `None` where that is
/// impossible.
fn as_nobody(test: &str, limit: &str, arguments: &[&str]) -> Option<(Folder, Ended)> {
    if !is_root() || !has("setpriv") || !has("prlimit") {
        skipped(test, "needs root, setpriv and prlimit");
        return None;
    }
    let folder = Folder::for_nobody();
    let secret = folder.file("work/secret", ODD_BYTES);
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(folder.file("work/public", ODD_BYTES), fs::Permissions::from_mode(0o444)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", limit]);
    command.arg(folder.join("program")).args(arguments);
    command.current_dir(folder.join("work")).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ended = finish(command.spawn().unwrap());
    if ended.code == Some(126) || ended.code == Some(127) {
        skipped(test, &format!("nobody cannot start a program in {}: {}", folder.path().display(), ended.stderr));
        return None;
    }
    let left: Vec<_> = fs::read_dir(folder.join("work")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    Some((folder, ended))
}

#[test]
fn what_a_user_may_not_open_is_named_with_what_to_do() {
    let _lock = io_uring_stays();
    let rows: [(&[&str], &[&str]); 4] = [
        (&["run", "--target", "secret"], &["target secret", "permission denied", "run as a user who may"]),
        (&["probe", "secret"], &["target secret", "permission denied"]),
        (
            &["run", "--target", "public", "--rw", "write", "--allow-writes", "public"],
            &["writing to public: permission denied", "run as a user who may"],
        ),
        (&["study", "--target", "secret", "--out", "."], &["target secret", "permission denied"]),
    ];
    for (arguments, parts) in rows {
        if let Some((_folder, ended)) = as_nobody("no permission", "--nofile=1024", arguments) {
            assert_refused(&ended, 3, parts);
        }
    }
}

#[test]
fn results_that_a_user_may_not_write_are_a_failure_and_not_a_missing_target() {
    let _lock = io_uring_stays();
    for arguments in [&["run", "--json", "/x.json"], &["study", "--out", "/"], &["study", "--out", "/results"]] {
        if let Some((_folder, ended)) = as_nobody("results without permission", "--nofile=1024", arguments) {
            assert_refused(&ended, 1, &["writing /", "permission denied", "choose a place you may write"]);
        }
    }
}

#[test]
fn memory_that_may_not_be_locked_is_named_with_its_limit() {
    let _lock = io_uring_stays();
    let arguments = ["run", "--target", "public", "--path", "io_uring,fixedbufs", "--depth", "64", "--bs", "64k"];
    if let Some((_folder, ended)) = as_nobody("locked memory", "--memlock=65536", &arguments) {
        assert_refused(&ended, 1, &["io_uring,fixedbufs", "registering buffers", "64k", "ulimit -l"]);
    }
}

#[test]
fn descriptors_that_run_out_are_named_with_their_limit() {
    let _lock = io_uring_stays();
    if !has("prlimit") {
        return skipped("descriptors", "needs prlimit");
    }
    let folder = folder();
    let before = folder.contents();
    // Wherever descriptors run out: at the target, the queue, or the signal timer.
    for limit in [4, 5, 6, 7, 8] {
        let limit = format!("--nofile={limit}");
        let words = [limit.as_str(), common::IOLANE, "run", "--target", "good", "--threads", "8", "--runtime", "100ms"];
        let ended = finish(command_of("prlimit", &folder, words).spawn().unwrap());
        assert_refused(&ended, 1, &["ulimit -n"]);
        assert!(folder.contents() == before, "{:?}", folder.names());
    }
}

#[test]
fn a_disk_too_small_for_the_scratch_file_is_said_to_be_full() {
    let _lock = io_uring_stays();
    let Some(disk) = SmallDisk::mount("disk full") else { return };
    for arguments in [&["run", "--size", "16m"][..], &["study", "--size", "16m"], &["run"]] {
        let ended = iolane(disk.folder(), arguments);
        assert_refused(&ended, 1, &["scratch file of ", "the disk is full", "--size", "name a target"]);
        assert!(disk.folder().names().is_empty(), "{:?}", disk.folder().names());
    }
}

#[test]
fn a_disk_too_small_for_the_results_is_a_failure_that_leaves_no_part_of_them() {
    let _lock = io_uring_stays();
    let Some(disk) = SmallDisk::mount("disk full for results") else { return };
    disk.folder().file("target", 1 << 20);
    // The space left is smaller than a record.
    disk.folder().file("filler", (3 << 20) - 4096);
    let ended = iolane(disk.folder(), ["probe", "target", "--direct", "false", "--json", "probe.json"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
    assert!(ended.stderr.contains("writing probe.json") && ended.stderr.contains("no space"), "{ended:#?}");
    assert_eq!(disk.folder().names(), ["filler", "target"]);
}

#[test]
fn outputs_that_take_nothing_change_no_exit_code_but_of_what_they_lose() {
    let _lock = io_uring_stays();
    let folder = folder();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let said_to_none =
        |arguments: &[&str]| finish(common::command(&folder, arguments).stderr(full()).spawn().unwrap()).code;
    assert_eq!(said_to_none(&["run", "--depth", "0"]), Some(2));
    let study = ["study", "--path", "psync", "--depth", "1", "--runtime", "100ms", "--repeat", "1", "--size", "1m"];
    assert_eq!(said_to_none(&[&study[..], &["--out", "folder"]].concat()), Some(0));
    for arguments in [&["probe", "good"][..], &["probe", "good", "--json", "-"], &["--help"], &["--version"]] {
        let ended = finish(common::command(&folder, arguments).stdout(full()).spawn().unwrap());
        assert_refused(&ended, 1, &["standard output", "no space left", "send it elsewhere"]);
    }
}

/// Disables io_uring on the machine, and restores the setting when dropped.
struct IoUringOff {
    before: String,
    _lock: RwLockWriteGuard<'static, ()>,
}

const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

impl IoUringOff {
    fn turn(test: &str) -> Option<Self> {
        let lock = io_uring_is_mine();
        let turned = fs::read_to_string(SYSCTL).and_then(|before| fs::write(SYSCTL, "2").map(|()| before));
        match turned {
            Ok(before) => Some(Self { before, _lock: lock }),
            Err(error) => {
                skipped(test, &format!("{SYSCTL}: {error}"));
                None
            }
        }
    }
}

impl Drop for IoUringOff {
    fn drop(&mut self) {
        fs::write(SYSCTL, self.before.trim()).expect("io_uring is turned on again");
    }
}

#[test]
fn io_uring_that_is_disabled_is_named_with_the_sysctl_and_the_other_paths_go_on() {
    let folder = folder();
    let Some(_off) = IoUringOff::turn("io_uring disabled") else { return };
    let ended = iolane(&folder, ["run", "--target", "good", "--path", "io_uring"]);
    assert_refused(&ended, 3, &["io_uring", "kernel.io_uring_disabled", "sysctl"]);
    let probe = iolane(&folder, ["probe", "good", "--json", "-"]).done().json();
    assert_valid("probe", &probe);
    for path in probe["paths"].as_array().unwrap() {
        let name = path["path"].as_str().unwrap();
        assert!(!name.starts_with("io_uring") || path["available"] == false, "{path}");
        assert!(name != "psync" || path["available"] == true, "{path}");
    }
    iolane(&folder, ["run", "--path", "psync"].iter().chain(&SHORT)).done();
}

#[test]
fn results_are_not_written_over_the_target_that_the_environment_names() {
    let folder = Folder::new();
    folder.file("good", ODD_BYTES);
    let before = folder.contents();
    for words in [&["run", "--json", "good"][..], &["study", "--json", "good"], &["probe", "--json", "good"]] {
        let ended = finish(command(&folder, words).env("IOLANE_TARGET", "good").spawn().unwrap());
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.stderr.contains("writing good: it is a target"), "{ended:#?}");
    }
    assert_eq!(folder.contents(), before);
    // `run` does use it as its target.
    let run = ["run", "--runtime", "50ms", "--warmup", "0s", "--direct", "false", "--json", "-"];
    let _uring = io_uring_stays();
    let record = finish(command(&folder, run).env("IOLANE_TARGET", "good").spawn().unwrap()).done().json();
    assert_eq!(record["target"]["name"], "good");
}

#[test]
fn a_run_of_which_many_transfers_are_short_fails_and_names_the_likely_cause() {
    let folder = Folder::new();
    let words = ["--path", "sim", "--target", "sim:16m,short=0.5", "--bs", "8k"];
    let run = iolane(&folder, ["run", "--runtime", "50ms"].iter().chain(&words).copied());
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stdout.contains("the target has become shorter"), "{run:#?}");
    let study = ["study", "--runtime", "50ms", "--repeat", "1", "--depth", "1", "--out", "out"];
    let study = iolane(&folder, study.iter().chain(&words).copied());
    assert_eq!(study.code, Some(1), "{study:#?}");
    let said = format!("{}{}", study.stdout, study.stderr);
    assert!(said.contains("requests were short: the target became shorter"), "{study:#?}");
}
