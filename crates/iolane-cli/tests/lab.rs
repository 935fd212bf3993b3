//! `iolane lab`: commands in a guest behave as on the host, their files and exit codes are returned, and however a
//! guest ends, nothing of it stays. Guests need QEMU and a kernel, which is fetched once; without them these tests are
//! skipped.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command};

use common::guest::{self, KERNEL, guest_or_skip};
use common::{Ended, Folder, assert_valid, command, finish, iolane, is_root, pid, skipped, wait_until};
use iolane_lab::cache::Cache;
use iolane_lab::guest::KERNEL_LINE;
use iolane_lab::{Drive, Ended as GuestEnded, GuestCommand, Lab};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

fn lab<'a>(options: &'a [&str], inner: &'a [&str]) -> Vec<&'a str> {
    [&["lab", "run", "--kernel", KERNEL], options, &["--"], inner].concat()
}

/// The QEMU process that a lab has started.
fn guest_of(child: &Child) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).ok()?;
    let mut guests = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    guests.find(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu")))
}

/// Starts a lab, and waits until its guest is up and runs its command.
fn start(command: &mut Command) -> (Child, u32, BufReader<ChildStderr>) {
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("; booted in ") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before its guest was up");
    }
    let guest = guest_of(&child).expect("QEMU runs");
    (child, guest, stderr)
}

fn is_gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}")).exists()
}

/// The contents of the cache, without kernels.
fn cached_names(cache: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A cache of one test, with the kernels of the shared cache.
fn own_cache(folder: &Folder) -> PathBuf {
    let listed = iolane(folder, ["lab", "kernels"]).done().stdout;
    let kept = listed.lines().find_map(|line| line.strip_prefix("Cached in ")).unwrap();
    let cache = folder.join("cache");
    fs::create_dir(&cache).unwrap();
    std::os::unix::fs::symlink(Path::new(kept).join("kernels"), cache.join("kernels")).unwrap();
    cache
}

#[test]
fn in_exact_mode_each_of_two_processors_is_half_as_fast_as_one() {
    guest_or_skip!("two processors in exact mode");
    let folder = Folder::new();
    let run = |cpus: &str, on: &str| {
        let inner = ["run", "--target", "nullb0", "--path", "io_uring", "--depth", "16", "--cpus", on];
        let times = ["--warmup", "20ms", "--runtime", "100ms", "--json", "-"];
        let options = ["--exact", "--cpus", cpus, "--nvme", "0"];
        iolane(&folder, lab(&options, &[&inner[..], &times].concat()))
    };
    let first = run("2", "0");
    if first.code == Some(3) && first.stderr.contains("QEMU 8.1 or later") {
        return skipped("two processors in exact mode", "QEMU is too old, and no newer one can be fetched");
    }
    let rate = |ended: Ended| ended.done().json()["result"]["iops"].as_f64().unwrap();
    let whole = rate(run("1", "0"));
    let halves = [rate(first), rate(run("2", "1"))];
    // Seen: 0.501 and 0.500. Without a spare processor behind them it is 0.63 and 0.37.
    assert!(halves.iter().all(|half| (0.49..0.51).contains(&(half / whole))), "{halves:?} of {whole}");
}

#[test]
fn probe_in_the_lab_finds_every_path_that_the_kernel_has() {
    guest_or_skip!("probe in the lab");
    let folder = Folder::new();
    let document = iolane(&folder, lab(&[], &["probe", "--json", "-"])).done().json();
    assert_valid("probe", &document);
    let paths = document["paths"].as_array().unwrap();
    let missing: Vec<&str> =
        paths.iter().filter(|path| path["available"] == false).map(|path| path["path"].as_str().unwrap()).collect();
    // Paths that Linux 6.1 no longer has, does not have yet, or would crash by, and those that need a drive without a kernel
    // driver.
    let polled_passthrough = ["io_uring_cmd+iopoll", "io_uring_cmd+iopoll,fixedbufs,fixedfiles"];
    assert_eq!(
        missing,
        [&["psync+iopoll", "io_uring+hybrid"], &polled_passthrough[..], &["nvme", "nvme+int"]].concat()
    );
    let on = |name: &str| paths.iter().find(|path| path["path"] == name).unwrap()["target"].clone();
    assert_eq!((on("io_uring+iopoll"), on("io_uring_cmd")), ("nvme0".into(), "/dev/ng0n1".into()));
}

#[test]
fn drives_are_called_by_short_names_and_files_come_back_to_the_same_places() {
    guest_or_skip!("names and files of the lab");
    let folder = Folder::new();
    let short = ["--runtime", "100ms", "--warmup", "0s", "--repeat", "1", "--depth", "1", "--path", "psync"];
    let targets = ["--target", "nvme0", "--target", "nvme1n1", "--target", "nullb0"];
    let words = [&["study"], &short[..], &targets, &["--out", "results/of/study", "--json=../beside.json"]].concat();
    fs::create_dir(folder.join("here")).unwrap();
    let mut child = command(&folder, lab(&["--nvme", "2", "--nvme-block", "512,4k"], &words));
    let ended = finish(child.current_dir(folder.join("here")).spawn().unwrap()).done();
    assert!(ended.stdout.contains("nvme1n1 (1 GiB block, O_DIRECT)"), "{ended:#?}");
    for file in ["here/results/of/study/study.json", "beside.json"] {
        let study: Value = serde_json::from_slice(&fs::read(folder.join(file)).unwrap()).unwrap();
        assert_valid("study", &study);
        assert_eq!(study["targets"].as_array().unwrap().len(), 3, "{study:#}");
    }
    assert_eq!(folder.names(), ["beside.json", "here"]);
}

#[test]
fn a_command_that_fails_inside_gives_its_exit_code_and_its_words() {
    guest_or_skip!("exit codes of the lab");
    let folder = Folder::new();
    let ended = iolane(&folder, lab(&["--nvme", "0"], &["run", "--target", "nvme7"]));
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert!(ended.stderr.ends_with("iolane: target nvme7: no such file or device; check the name\n"), "{ended:#?}");
    assert_eq!(ended.stdout, "");
}

#[test]
fn an_interrupted_command_keeps_what_it_measured_and_its_guest_is_gone() {
    guest_or_skip!("interrupting the lab");
    let folder = Folder::new();
    let run = ["run", "--target", "nullb0", "--runtime", "3m", "--warmup", "0s", "--json", "record.json"];
    let (child, guest, mut stderr) = start(&mut command(&folder, lab(&["--nvme", "0"], &run)));
    kill_process(pid(&child), Signal::INT).unwrap();
    let reader = std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    let ended = finish(child);
    reader.join().unwrap().unwrap();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    // It may have been interrupted before there was anything to keep; then nothing is written.
    if let Ok(record) = fs::read(folder.join("record.json")) {
        assert_valid("run", &serde_json::from_slice(&record).unwrap());
    }
    assert!(is_gone(guest));
}

#[test]
fn an_interrupted_study_in_a_guest_replaces_neither_complete_results_nor_a_journal_of_this_machine() {
    guest_or_skip!("an interrupted study in the lab");
    let folder = Folder::new();
    fs::create_dir(folder.join("results")).unwrap();
    let kept = [
        ("study.json", r#"{"schema": "iolane.study/1", "complete": true}"#),
        ("journal.jsonl", "that of this machine"),
    ];
    for (name, text) in kept {
        fs::write(folder.join("results").join(name), text).unwrap();
    }
    let runs = ["--path", "psync", "--depth", "1", "--runtime", "50ms", "--warmup", "0s", "--repeat", "2000"];
    let words = [&["study", "--target", "nullb0", "--out", "results"], &runs[..]].concat();
    let (child, _, mut stderr) = start(&mut command(&folder, lab(&["--nvme", "0"], &words)));
    let mut line = String::new();
    while !line.contains("study: 10 of 2000 runs") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before ten runs had");
    }
    kill_process(pid(&child), Signal::INT).unwrap();
    let reader = std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    let ended = finish(child);
    reader.join().unwrap().unwrap();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("a study in a guest is not resumed"), "{ended:#?}");
    for (name, text) in kept {
        assert_eq!(fs::read_to_string(folder.join("results").join(name)).unwrap(), text, "{name}");
    }
}

#[test]
fn a_killed_lab_leaves_no_process_and_no_file() {
    guest_or_skip!("killing the lab");
    let folder = Folder::new();
    let cache = own_cache(&folder);
    let run = ["run", "--target", "nvme0", "--runtime", "3m", "--json", "record.json"];
    let mut command = command(&folder, lab(&["--accel", "tcg"], &run));
    let (child, guest, _stderr) = start(command.env("IOLANE_LAB_CACHE", &cache));
    kill_process(pid(&child), Signal::KILL).unwrap();
    finish(child);
    wait_until("the guest is gone", || is_gone(guest));
    assert_eq!(cached_names(&cache), ["kernels"]);
    assert_eq!(folder.names(), ["cache"]);
}

#[test]
fn a_command_that_hangs_is_ended_and_the_console_is_kept() {
    guest_or_skip!("the lab's time limit");
    let folder = Folder::new();
    let cache = own_cache(&folder);
    let run = ["run", "--target", "nullb0", "--runtime", "10m"];
    let mut command = command(&folder, lab(&["--nvme", "0", "--timeout", "3s", "--accel", "tcg"], &run));
    let ended = finish(command.env("IOLANE_LAB_CACHE", &cache).spawn().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let last = ended.stderr.lines().last().unwrap();
    let log = cache.join("iolane-console.log");
    assert!(last.starts_with("iolane: the guest: it was not done after"), "{ended:#?}");
    assert!(last.ends_with(&format!("its console is in {}", log.display())), "{ended:#?}");
    assert!(log.exists());
}

#[test]
fn files_named_in_a_command_go_in() {
    guest_or_skip!("files that go into the lab");
    // Under /tmp, which the guest has too.
    let folder = Folder::for_nobody();
    folder.file("small", 64 << 10);
    let run = ["run", "--target", "small", "--direct", "false", "--runtime", "50ms", "--warmup", "0s", "--json", "-"];
    let record = iolane(&folder, lab(&["--nvme", "0"], &run)).done().json();
    assert_eq!((record["target"]["kind"].as_str(), record["target"]["bytes"].as_u64()), (Some("file"), Some(64 << 10)));
    assert_eq!(folder.names(), ["program", "small", "work"], "what only went in does not come back");
}

/// A kernel in the cache other than that of the other guests.
fn another_kernel(folder: &Folder) -> Option<String> {
    let listed = iolane(folder, ["lab", "kernels"]).done().stdout;
    let names = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let is_version = |name: &&str| name.split('.').all(|part| part.parse::<u32>().is_ok());
    names.filter(is_version).find(|name| *name != KERNEL).map(str::to_owned)
}

#[test]
fn a_study_on_several_kernels_leaves_a_folder_for_each_and_their_comparison() {
    guest_or_skip!("a matrix of kernels");
    let folder = Folder::new();
    let Some(another) = another_kernel(&folder) else {
        return skipped("a matrix of kernels", "only one kernel is in the cache; iolane lab fetch 6.12");
    };
    folder.file("vmlinuz", 8192);
    let kernels = format!("{KERNEL},./vmlinuz,{another}");
    let matrix = ["lab", "matrix", "--kernel", &kernels, "--json", "compared.json"];
    let small = ["--nvme", "0", "--accel", "tcg", "--cpus", "1", "--memory", "1g", "--"];
    let study = ["study", "--target", "nullb0", "--path", "psync", "--depth", "1", "--out=x"];
    let short = ["--runtime", "50ms", "--warmup", "0s", "--repeat", "1"];
    let ended = iolane(&folder, matrix.iter().chain(&small).chain(&study).chain(&short));
    assert_eq!(ended.code, Some(1), "one of the kernels is none: {ended:#?}");
    assert!(ended.stderr.contains("lab: kernel ./vmlinuz: kernel ./vmlinuz: not an x86 boot image"), "{ended:#?}");
    let folders = [format!("x-{KERNEL}"), format!("x-{another}")];
    assert!(ended.stdout.contains(&format!("{} against {}", folders[1], folders[0])), "{ended:#?}");
    assert!(ended.stdout.contains("what differs") && ended.stdout.contains("kernel build"), "{ended:#?}");
    assert!(!ended.stdout.contains("Results:"), "the studies' own pages are left out: {ended:#?}");
    let document: Value = serde_json::from_slice(&fs::read(folder.join("compared.json")).unwrap()).unwrap();
    assert_valid("compare", &document);
    assert_eq!(document["folders"][1]["folder"], folders[1].as_str());
    let again = iolane(&folder, ["compare", &folders[0], &folders[1]]).done();
    assert_eq!(again.stdout, ended.stdout);
}

/// Runs a lab that must be refused, and checks its one line.
#[track_caller]
fn refused(ended: Ended, code: i32, says: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:#?}");
    assert_eq!(ended.stdout, "", "{ended:#?}");
    let last = ended.stderr.lines().last().unwrap_or_default();
    says.iter().for_each(|words| assert!(last.contains(words), "`{words}` is not in {ended:#?}"));
}

#[test]
fn what_cannot_be_run_in_a_guest_is_refused_before_one_is_made() {
    let folder = Folder::new();
    for (words, code, says) in [
        (&["lab", "run", "--", "lab", "kernels"][..], 2, &["lab run: a lab cannot run in a lab"][..]),
        (&["lab", "matrix", "--kernel", "6.1", "--", "probe"], 2, &["lab matrix: the command is not a study"]),
        (&["lab", "matrix", "--kernel", "6.1", "--", "study", "--dry-run"], 2, &["would measure nothing"]),
        (&["lab", "matrix", "--kernel", "6.1", "--", "study", "--json", "x"], 2, &["to one file", "before the --"]),
        (&["lab", "matrix", "--kernel", "6.1,6.1", "--", "study"], 2, &["--kernel 6.1: two kernels with one name"]),
        (&["lab", "matrix", "--kernel", "6.1", "--", "study", "nothing"], 2, &["no built-in study has that name"]),
        (&["lab", "run", "--cpus", "33", "--exact", "--", "probe"], 2, &["33 cpus in exact mode", "at most 32"]),
        (&["lab", "run", "--null-blk", "0", "--", "probe"], 2, &["0 devices of null_blk"]),
        (&["lab", "run", "--memory", "1m", "--", "probe"], 2, &["a guest of 1m"]),
        (&["lab", "run", "--nvme", "17", "--", "probe"], 2, &["17 drives", "16"]),
        (&["lab", "run", "--nvme-block", "1k", "--", "probe"], 2, &["blocks of 1024", "512 or 4096"]),
    ] {
        refused(iolane(&folder, words), code, says);
    }
    // The argument parser's own refusals name the argument.
    for (words, says) in [
        (&["lab", "run", "--", "run", "--depth", "x"][..], "--depth"),
        (&["lab", "run", "--kernel", "six", "--", "probe"], "kernel `six`"),
        (&["lab", "run", "--nvme-backing", "tape", "--", "probe"], "backing `tape`"),
        (&["lab", "run"], "<COMMAND>"),
        (&["lab", "matrix", "--", "study"], "--kernel"),
    ] {
        let ended = iolane(&folder, words);
        assert!(ended.code == Some(2) && ended.stderr.contains(says), "{ended:#?}");
    }
    assert!(folder.names().is_empty());
}

#[test]
fn help_of_a_command_in_the_lab_needs_no_guest() {
    let folder = Folder::new();
    let ended = iolane(&folder, ["lab", "run", "--", "run", "--help"]).done();
    assert!(ended.stdout.contains("Measure one path with one workload"), "{ended:#?}");
}

#[test]
fn a_kernel_that_is_none_is_named() {
    let folder = Folder::new();
    let cache = folder.join("cache");
    folder.file("vmlinuz", 8192);
    fs::write(folder.join("cut.deb"), b"!<arch>\ndebian-binary").unwrap();
    for (kernel, code, says) in [
        ("./vmlinuz", 2, &["kernel ./vmlinuz: not an x86 boot image", "name a vmlinuz"][..]),
        ("./nowhere", 3, &["./nowhere", "no such file"]),
        ("./cut.deb", 3, &["cut.deb", "dpkg-deb", "fetch it again"]),
    ] {
        let mut command = command(&folder, ["lab", "run", "--kernel", kernel, "--", "probe"]);
        refused(finish(command.env("IOLANE_LAB_CACHE", &cache).spawn().unwrap()), code, says);
    }
    assert_eq!(cached_names(&cache), ["lock"]);
}

#[test]
fn without_a_network_the_fetch_says_so_and_leaves_nothing() {
    let folder = Folder::new();
    let cache = folder.join("cache");
    let mut command = command(&folder, ["lab", "fetch", "6.1"]);
    // No server listens there.
    let nowhere = "http://127.0.0.1:9";
    command.env("IOLANE_LAB_CACHE", &cache).env("http_proxy", nowhere).env("https_proxy", nowhere);
    let ended = finish(command.spawn().unwrap());
    refused(ended, 3, &["Debian's kernels", "reachable", "--kernel ./vmlinuz"]);
    assert_eq!(cached_names(&cache), ["lock"]);
}

#[test]
fn without_qemu_the_package_is_named() {
    guest_or_skip!("a lab without QEMU");
    let folder = Folder::new();
    let ended = finish(command(&folder, lab(&[], &["probe"])).env("PATH", folder.path()).spawn().unwrap());
    refused(ended, 3, &["qemu-system-x86_64 is not installed", "apt-get install qemu-system-x86"]);
}

#[test]
fn a_guest_larger_than_this_machine_is_refused() {
    guest_or_skip!("a lab that is too large");
    let folder = Folder::new();
    refused(
        iolane(&folder, lab(&["--memory", "4000g"], &["probe"])),
        1,
        &["a guest of 4000g", "free here", "--memory"],
    );
}

#[test]
fn a_cache_that_is_full_or_cannot_be_written_is_named() {
    let folder = Folder::new();
    let full = folder.join("full");
    fs::create_dir(&full).unwrap();
    let mounted = is_root()
        && Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(&full)
            .status()
            .is_ok_and(|status| status.success());
    if !mounted {
        return skipped("a cache on a full disk", "mounting takes root");
    }
    let run = |cache: &Path| {
        let mut command = command(&folder, ["lab", "fetch", "6.1"]);
        finish(command.env("IOLANE_LAB_CACHE", cache).spawn().unwrap())
    };
    let ended = run(&full);
    let _ = Command::new("umount").arg(&full).status();
    refused(ended, 1, &["unpacking a kernel takes 1g", "IOLANE_LAB_CACHE"]);
    refused(run(Path::new("/proc/cache")), 1, &["/proc/cache"]);
}

#[test]
fn a_guest_that_panics_is_quoted_and_its_console_is_kept() {
    guest_or_skip!("a guest that panics");
    let folder = Folder::new();
    let cache = Cache::at(&own_cache(&folder)).unwrap();
    // When process 1 exits, its kernel stops.
    let lab = Lab { iolane: "/bin/true".into(), ..guest::lab(&cache, Vec::new()) };
    let error = guest::run(&lab, Vec::new()).0.unwrap_err().to_string();
    assert!(error.starts_with("the guest: Kernel panic - not syncing: Attempted to kill init!"), "{error}");
    let log = cache.folder().join("iolane-console.log");
    assert!(error.ends_with(&format!("its console is in {}", log.display())), "{error}");
    assert!(fs::read_to_string(log).unwrap().contains("Attempted to kill init!"));
}

#[test]
fn commands_run_one_after_the_other_however_each_one_ends() {
    guest_or_skip!("commands in a guest");
    let folder = Folder::new();
    let cache = Cache::at(&own_cache(&folder)).unwrap();
    let commands = vec![
        guest::shell("echo $NAME; echo said >&2").with("NAME", "first"),
        guest::shell("kill -SEGV $$"),
        GuestCommand::new(["/bin/no-such-program"]),
        // A command's background processes do not delay its end.
        guest::shell("while :; do :; done & exit 7"),
    ];
    let (outcome, heard) = guest::run(&guest::lab(&cache, Vec::new()), commands);
    outcome.unwrap();
    use GuestEnded::{Code, Signal};
    assert_eq!(heard.ends, [Code(0), Signal(11), Code(127), Code(7)]);
    assert_eq!((heard.stdout(0), heard.stderr(0)), ("first\n", "said\n"));
    assert!(heard.stderr(2).starts_with("lab: /bin/no-such-program: No such file or directory"), "{heard:?}");
}

/// io_uring gives a request that it cannot begin at once to a worker, unless its file is open with O_NONBLOCK: then it fails.
#[test]
fn io_uring_reads_from_a_device_whose_driver_may_wait() {
    guest_or_skip!("a device whose driver may wait");
    const DMSETUP: &str = "/usr/sbin/dmsetup";
    if !Path::new(DMSETUP).exists() {
        return skipped("a device whose driver may wait", "dmsetup is not installed; as root: apt-get install dmsetup");
    }
    let folder = Folder::new();
    let cache = Cache::at(&own_cache(&folder)).unwrap();
    let whole = guest::lab(&cache, vec![Drive::default()]);
    let programs = [("/bin/sh", "/bin/sh"), (DMSETUP, "/bin/dmsetup")].map(|(here, there)| (here.into(), there.into()));
    let lab = Lab { modules: &["dm_mod", "dm_crypt"], programs: programs.into(), ..whole };
    let encrypt = "dmsetup create plain --table '0 65536 crypt cipher_null-ecb - 0 /dev/nvme0n1 0'";
    let run = |path: &str| {
        GuestCommand::new([
            "/init",
            "run",
            "--target",
            "/dev/dm-0",
            "--path",
            path,
            "--depth",
            "4",
            "--runtime",
            "50ms",
        ])
    };
    let paths = ["io_uring", "io_uring,fixedbufs,fixedfiles", "libaio"].map(run);
    let (outcome, heard) = guest::run(&lab, [guest::shell(encrypt)].into_iter().chain(paths).collect());
    outcome.unwrap();
    assert_eq!(heard.ends, [GuestEnded::Code(0); 4], "{heard:?}");
}

#[test]
fn a_command_that_fails_ends_with_the_kernels_warnings_if_it_asks_for_them() {
    guest_or_skip!("the kernel's warnings");
    let folder = Folder::new();
    let cache = Cache::at(&own_cache(&folder)).unwrap();
    let write = |text: &str, code: u32| guest::shell(&format!("echo '<4>{text}' > /dev/kmsg; exit {code}"));
    let information = guest::shell("echo '<6>information' > /dev/kmsg; exit 1").tells_kernel_warnings();
    let commands = vec![
        write("not asked for", 1),
        write("of a success", 0).tells_kernel_warnings(),
        information,
        write("a warning", 1).tells_kernel_warnings(),
    ];
    let (outcome, heard) = guest::run(&guest::lab(&cache, Vec::new()), commands);
    outcome.unwrap();
    let ours = ["not asked for", "of a success", "information", "a warning"];
    let told = |command| -> Vec<&str> {
        let is_told = |text: &&str| heard.stderr(command).contains(text);
        ours.into_iter().filter(is_told).collect()
    };
    assert_eq!([0, 1, 2, 3].map(told), [vec![], vec![], vec![], vec!["a warning"]], "{heard:?}");
    assert!(heard.stderr(3).lines().all(|line| line.starts_with(KERNEL_LINE)), "{heard:?}");
}
