//! `iolane nvme` on controllers of a guest: they are listed, taken from the kernel and given back, and controllers in
//! use are refused. On the host only what needs no controller is tested: its own are not touched.

mod common;

use std::path::{Path, PathBuf};

use common::guest::{self, guest_or_skip};
use common::{Folder, assert_valid, has, iolane, skipped};
use iolane_lab::cache::Cache;
use iolane_lab::session::PROGRAM;
use iolane_lab::{Drive, Ended, GuestCommand};
use serde_json::Value;

/// The addresses of a guest's drives: most tests leave the first alone, and take the second.
const FIRST: &str = "0000:00:04.0";
const SECOND: &str = "0000:00:05.0";

fn nvme(words: &[&str]) -> GuestCommand {
    GuestCommand::new([&[PROGRAM, "nvme"], words].concat())
}

/// Runs commands in a guest with two drives, the shell, and these programs of the host.
fn run(programs: &[&str], commands: Vec<GuestCommand>) -> guest::Heard {
    run_with(vec![Drive::default(); 2], programs, commands)
}

/// As [`run`], with other drives.
fn run_with(drives: Vec<Drive>, programs: &[&str], commands: Vec<GuestCommand>) -> guest::Heard {
    let cache = Cache::of_user().unwrap();
    let mut lab = guest::lab(&cache, drives);
    lab.machine.cpus = 2;
    lab.timeout = std::time::Duration::from_secs(180);
    lab.programs.extend(programs.iter().map(|name| (found(name).unwrap(), Path::new("/bin").join(name))));
    let count = commands.len();
    let (outcome, heard) = guest::run(&lab, commands);
    outcome.unwrap();
    assert_eq!(heard.ends.len(), count);
    heard
}

/// The path of a program on the host.
fn found(name: &str) -> Option<PathBuf> {
    ["/bin", "/sbin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|path| path.exists())
}

fn controllers(json: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_valid("nvme", &document);
    document["controllers"].as_array().unwrap().clone()
}

#[test]
fn a_controller_is_listed_taken_for_a_user_and_given_back() {
    guest_or_skip!("taking a controller");
    if !has("setpriv") {
        return skipped("taking a controller", "there is no setpriv");
    }
    let as_user =
        "exec setpriv --reuid 1000 --regid 1000 --clear-groups /bin/sh -c 'exec 3<>/dev/vfio/3 && echo opened'";
    let heard = run(
        &["setpriv"],
        vec![
            nvme(&["list", "--json", "-"]),
            nvme(&["bind", SECOND]),
            guest::shell(as_user),
            nvme(&["bind", "00:05.0", "--user", "1000", "--group", "1000"]),
            guest::shell(as_user),
            nvme(&["list"]),
            nvme(&["list", "--json", "-"]),
            guest::shell("exec 3<>/dev/vfio/3; /bin/iolane nvme restore; exit $?"),
            nvme(&["restore", FIRST, SECOND]),
            nvme(&["list", "--json", "-"]),
            nvme(&["restore"]),
            guest::shell("exec setpriv --reuid 1000 --regid 1000 --clear-groups /bin/iolane nvme bind 00:05.0"),
        ],
    );
    let code = |command: usize| match heard.ends[command] {
        Ended::Code(code) => code,
        Ended::Signal(signal) => panic!("{signal}: {heard:#?}"),
    };
    let codes: Vec<i32> = (0..heard.ends.len()).map(code).collect();
    assert_eq!(codes, [0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 3], "{heard:#?}");

    let before = controllers(heard.stdout(0));
    assert_eq!((&before[0]["address"], &before[1]["address"]), (&FIRST.into(), &SECOND.into()));
    assert_eq!(before[1]["namespaces"][0]["name"], "nvme1n1");
    assert_eq!(before[1]["namespaces"][0]["bytes"], 1 << 30);

    assert!(heard.stdout(1).starts_with("0000:00:05.0: taken from nvme; IOMMU group /dev/vfio/3;"), "{heard:#?}");
    assert!(heard.stderr(2).contains("Permission denied"), "{heard:#?}");
    assert!(heard.stdout(3).starts_with("0000:00:05.0: already taken; IOMMU group /dev/vfio/3\n"), "{heard:#?}");
    assert!(heard.stdout(3).contains("ulimit -l"), "{heard:#?}");
    assert_eq!(heard.stdout(4), "opened\n");

    assert!(heard.stdout(5).contains("taken by `iolane nvme bind`"), "{heard:#?}");
    assert!(heard.stdout(5).lines().all(|line| line.chars().count() <= 100), "{heard:#?}");
    let taken = &controllers(heard.stdout(6))[1];
    assert_eq!((&taken["driver"], &taken["taken"]), (&"vfio-pci".into(), &true.into()));
    assert_eq!((&taken["vfio_node"], &taken["model"]), (&"/dev/vfio/3".into(), &before[1]["model"]));

    let busy = heard.stderr(7);
    assert!(busy.starts_with("iolane: giving 0000:00:05.0 back: sh (pid "), "{busy}");
    assert!(busy.contains("has /dev/vfio/3 open; end that process first"), "{busy}");
    let expected = "0000:00:04.0: nothing to restore, its driver is nvme\n0000:00:05.0: given back to nvme\n";
    assert_eq!(heard.stdout(8), expected);
    assert_eq!(controllers(heard.stdout(9)), before);
    assert_eq!(heard.stdout(10), "Nothing to restore: iolane has taken no controller.\n");
    assert!(heard.stderr(11).ends_with("permission denied; run it as root (sudo)\n"), "{heard:#?}");
}

#[test]
fn a_drive_in_use_is_not_taken_and_one_that_is_not_is_refused_with_it() {
    guest_or_skip!("refusing a drive in use");
    if ["mkswap", "swapon"].iter().any(|name| found(name).is_none()) {
        return skipped("refusing a drive in use", "there is no mkswap or swapon");
    }
    let heard = run(
        &["mkswap", "swapon"],
        vec![
            guest::shell("exec 3</dev/ng0n1; /bin/iolane nvme list; /bin/iolane nvme bind 0000:00:04.0; exit $?"),
            guest::shell("mkswap /dev/nvme1n1 && swapon /dev/nvme1n1"),
            nvme(&["bind", FIRST, SECOND]),
            nvme(&["list"]),
        ],
    );
    assert_eq!(heard.ends, [3, 0, 3, 0].map(Ended::Code), "{heard:#?}");
    assert!(heard.stdout(0).contains("has ng0n1 open"), "{heard:#?}");
    assert!(heard.stderr(0).starts_with("iolane: taking 0000:00:04.0 (/dev/ng0n1): sh (pid "), "{heard:#?}");
    let refusal =
        "iolane: taking 0000:00:05.0 (nvme1n1): it is in use as swap; turn that off first (swapoff /dev/nvme1n1)\n";
    assert_eq!((heard.stdout(2), heard.stderr(2)), ("", refusal));
    let listed: Vec<&str> = heard.stdout(3).lines().collect();
    assert!(listed[1].starts_with(FIRST) && listed[1].contains(" nvme "), "{heard:#?}");
    assert!(listed[2].ends_with("it is in use as swap"), "{heard:#?}");
}

#[test]
fn a_drive_that_is_pulled_out_while_it_is_taken_is_forgotten_with_a_word() {
    guest_or_skip!("pulling a drive that is taken");
    // Behind a port of its own, which is in its IOMMU group and has a kernel driver.
    let drives = vec![Drive { removable: true, ..Drive::default() }];
    let pull = "echo unplug nvme0 >/run/lab-events; while [ -e /sys/bus/pci/devices/0000:01:00.0 ]; do :; done";
    let commands = vec![nvme(&["bind", "01:00.0"]), guest::shell(pull), nvme(&["restore"]), nvme(&["list"])];
    let heard = run_with(drives, &[], commands);
    assert_eq!(heard.ends, [0; 4].map(Ended::Code), "{heard:#?}");
    assert_eq!(heard.stdout(2), "0000:01:00.0: no longer in the machine; its record was removed\n");
    assert!(heard.stdout(3).starts_with("This machine has no NVMe controller"), "{heard:#?}");
}

#[test]
fn a_bind_or_restore_that_is_killed_at_any_moment_is_undone_by_the_next_start() {
    guest_or_skip!("killing a bind or restore");
    // The kill comes when `until` becomes false, and a little later in each round, until it comes too late.
    let rounds = |prepare: &str, command: &str, until: &str| {
        guest::shell(&format!(
            "for delay in 0 50 200 1000 5000 20000; do
                {prepare}
                /bin/iolane nvme {command} >/dev/null &
                while {until}; do :; done
                turn=0; while [ $turn -lt $delay ]; do turn=$((turn + 1)); done
                kill -9 $! 2>/dev/null; wait $! 2>/dev/null
                /bin/iolane nvme list 2>&1 >/dev/null || exit 9
                if [ -e /sys/bus/pci/drivers/vfio-pci/{SECOND} ]; then
                    [ -e /run/iolane/nvme/{SECOND}.json ] || exit 8
                    /bin/iolane nvme restore || exit 7
                fi
                [ -e /sys/bus/pci/drivers/nvme/{SECOND} ] || exit 6
                [ ! -e /run/iolane/nvme/{SECOND}.json ] || exit 5
            done"
        ))
    };
    let bind = rounds("", &format!("bind {SECOND}"), &format!("[ ! -e /run/iolane/nvme/{SECOND}.json ]"));
    let taken = format!("/bin/iolane nvme bind {SECOND} >/dev/null || exit 4");
    let restore = rounds(&taken, "restore", &format!("[ -e /sys/bus/pci/drivers/vfio-pci/{SECOND} ]"));
    let heard = run(&[], vec![bind, restore, nvme(&["list", "--json", "-"])]);
    assert_eq!(heard.ends, [0; 3].map(Ended::Code), "{heard:#?}");
    let said = "0000:00:05.0: half taken by a process that was killed; now given back to nvme\n";
    for killed in 0..2 {
        assert!(heard.stdout(killed).contains(said), "none was killed halfway: {heard:#?}");
    }
    let second = &controllers(heard.stdout(2))[1];
    assert_eq!((&second["driver"], &second["namespaces"][0]["name"]), (&"nvme".into(), &"nvme1n1".into()));
}

/// A command on drives that the guest takes from the kernel before it runs, because its words name them.
fn on_taken(words: &[&str]) -> GuestCommand {
    GuestCommand::new([&[PROGRAM], words].concat())
}

#[test]
fn a_drive_without_a_kernel_driver_is_written_only_by_permission_and_never_over_a_file_system() {
    guest_or_skip!("guarding drives without a kernel driver");
    let (first, second) = (&*format!("pci:{FIRST}"), &*format!("pci:{SECOND}"));
    let workload = ["--path", "nvme", "--rw", "randwrite", "--bs", "4k", "--runtime", "100ms", "--warmup", "0s"];
    let write = |words: &[&str]| on_taken(&[&["run"], words, &workload].concat());
    // Signatures of ext4 and a GPT at their offsets, on drives with blocks of 512 and 4096 bytes.
    let sign = guest::shell(
        "printf '\\123\\357' | dd of=/dev/nvme0n1 bs=1 seek=1080 conv=notrunc,fsync &&
         printf 'EFI PART' | dd of=/dev/nvme1n1 bs=1 seek=4096 conv=notrunc,fsync",
    );
    let commands = vec![
        sign,
        write(&["--target", first]),
        write(&["--target", first, "--allow-writes", second]),
        write(&["--target", first, "--allow-writes", &format!("{first},ns=1")]),
        write(&["--target", first, "--allow-writes", first]),
        write(&["--target", &format!("{second},timeout=5s"), "--allow-writes", "pci:00:05.0"]),
        write(&["--target", first, "--target", second, "--allow-writes", first, "--allow-writes", second, "--erase"]),
        // Overwrites the signature itself.
        on_taken(
            &[
                &["run", "--target", first, "--allow-writes", first, "--erase", "--size", "64k", "--rw", "write"],
                &["--path", "nvme", "--bs", "64k", "--runtime", "50ms", "--warmup", "0s"][..],
            ]
            .concat(),
        ),
        write(&["--target", first, "--allow-writes", "pci:00:04.0,timeout=9s"]),
        write(&["--target", first, "--target", "pci:00:04.0,ns=1", "--allow-writes", first]),
    ];
    let drives = vec![Drive::default(), Drive { block_bytes: 4096, ..Drive::default() }];
    let heard = run_with(drives, &["dd"], commands);
    assert_eq!(heard.ends, [0, 2, 2, 2, 3, 3, 0, 0, 0, 2].map(Ended::Code), "{heard:#?}");
    let refusal = format!("writing to {first}: it exists, and what is in it would be lost; to permit it add");
    let says = format!("iolane: {refusal} --allow-writes {first}\n");
    assert_eq!((heard.stdout(1), heard.stderr(1)), ("", &*says));
    for (command, named) in [(2, second.to_owned()), (3, format!("{first},ns=1"))] {
        let says =
            format!("iolane: --allow-writes {named}: it is not a target of this command; the targets are {first}");
        assert!(heard.stdout(command).is_empty() && heard.stderr(command).starts_with(&says), "{heard:#?}");
    }
    let erase = "if all that is on it may be lost add --erase";
    let carries = [
        format!("iolane: writing to {first}: it carries an ext2, ext3 or ext4 file system; {erase}\n"),
        format!("iolane: writing to {second},timeout=5s: it carries a GPT partition table; {erase}\n"),
    ];
    assert_eq!([heard.stderr(4), heard.stderr(5)], carries.each_ref().map(|text| &**text));
    assert!(heard.stderr(9).contains("it may be the same as"), "{heard:#?}");
}

#[test]
fn what_cannot_be_had_of_a_drive_is_said_in_a_line_with_the_remedy_and_a_user_may_drive_one_that_was_bound_for_him() {
    guest_or_skip!("driving a drive without root");
    if !has("setpriv") {
        return skipped("driving a drive without root", "there is no setpriv");
    }
    // Short addresses, so that the guest does not take the drives itself beforehand.
    let read = "--path nvme --rw randread --bs 4k --runtime 50ms --warmup 0s";
    let run_on = |words: &str| guest::shell(&format!("exec /bin/iolane run {read} --target pci:00:04.0 {words}"));
    let as_user = |limit_kib: u32, depth: u32| {
        guest::shell(&format!(
            "cd /tmp; ulimit -l {limit_kib}; exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
             /bin/iolane run {read} --target pci:00:04.0 --depth {depth}"
        ))
    };
    let two_at_once = guest::shell(&format!(
        "/bin/iolane run --path nvme --rw randread --target pci:00:04.0 --runtime 20s >/dev/null 2>&1 &
         until /bin/iolane nvme list --json - | grep -q '/dev/vfio/2 open'; do [ -e /proc/$! ] || exit 9; done
         /bin/iolane run {read} --target pci:00:04.0; code=$?; exec 2>/dev/null; kill -9 $!; wait $!; exit $code"
    ));
    let probe = |target: &str| on_taken(&["probe", target]);
    let steps = [
        (probe("pci:00:04.0"), 3, "pci:0000:00:04.0: the kernel's driver nvme has it; take it with: iolane nvme bind"),
        (run_on("--target nvme0n1"), 3, "the kernel's driver nvme has it"),
        (
            guest::shell(&format!("exec /bin/iolane run {read} --target nvme0n1")),
            3,
            "run `iolane nvme bind BDF`, then name it pci:BDF",
        ),
        (nvme(&["bind", FIRST, SECOND, "--user", "65534"]), 0, ""),
        (
            probe("pci:00:09.0"),
            3,
            "pci:0000:00:09.0: there is no such PCI device; iolane nvme list shows the controllers",
        ),
        (probe("pci:00:00.0"), 3, "pci:0000:00:00.0: it is not an NVMe controller"),
        (probe("pci:00:04"), 2, "PCI address `00:04`: it is not of the form 0000:00:04.0"),
        (
            probe("pci:00:04.0,ns=99"),
            3,
            "pci:00:04.0,ns=99: the controller has no active namespace 99; name one it has: ns=1",
        ),
        (probe("pci:00:04.0,speed=9"), 2, "`speed=9` is not a valid setting; settings are ns=NUMBER"),
        (probe("pci:00:05.0"), 3, "its format has 8 bytes of metadata with each block, which is not supported; choose"),
        (run_on("--depth 5000"), 2, "nvme: depth 5000: this path supports a depth of at most 2047"),
        (run_on("--threads 4"), 1, "all of its 3 I/O queues are taken; use fewer threads"),
        (two_at_once, 3, "opening its IOMMU group /dev/vfio/2: another process uses it; end that process"),
        (probe("pci:00:04.0"), 0, ""),
        (as_user(276, 31), 0, ""),
        (as_user(272, 31), 1, "exceed the limit of 272k (RLIMIT_MEMLOCK); raise it (ulimit -l 276 or more)"),
    ];
    let drive = Drive { queue_pairs: 3, ..Drive::default() };
    let drives = vec![drive.clone(), Drive { metadata_bytes: 8, ..drive }];
    let (commands, expected): (Vec<_>, Vec<_>) =
        steps.into_iter().map(|(command, code, says)| (command, (code, says))).unzip();
    let heard = run_with(drives, &["setpriv", "grep"], commands);
    for (step, (code, says)) in expected.into_iter().enumerate() {
        let stderr = heard.stderr(step);
        assert_eq!(heard.ends[step], Ended::Code(code), "step {step}: {heard:#?}");
        assert!(stderr.contains(says), "step {step}: `{says}` is not in {stderr}");
        assert_eq!(stderr.lines().count(), usize::from(!says.is_empty()), "step {step}: {stderr}");
    }
    assert!(heard.stdout(13).contains("\nnvme ") && heard.stdout(13).contains("\nnvme+int "), "{heard:#?}");
}

#[test]
fn a_namespace_with_metadata_or_protection_information_gets_no_command_by_passthrough_nor_without_a_kernel_driver() {
    guest_or_skip!("namespaces with metadata");
    let drive = Drive { metadata_bytes: 8, ..Drive::default() };
    let formats = [
        (Drive::default(), ""),
        (drive.clone(), "its format has 8 bytes of metadata with each block, which is not supported"),
        (Drive { protection: true, ..drive.clone() }, "8 bytes of metadata with each block"),
        (Drive { protection: true, extended_blocks: true, ..drive.clone() }, "8 bytes of metadata in each block"),
        // The kernel gives this one no capacity, so that passthrough does not come to ask for its format.
        (Drive { extended_blocks: true, ..drive }, "as for a format with metadata in each block (extended LBAs)"),
    ];
    let addresses: Vec<String> = (4..9).map(|slot| format!("0000:00:{slot:02x}.0")).collect();
    let (mut commands, mut expected) = (Vec::new(), Vec::new());
    for (index, (_, says)) in formats.iter().enumerate() {
        let generic = format!("/dev/ng{index}n1");
        let read = format!("--path io_uring_cmd --rw randread --runtime 10ms --warmup 0s --target {generic}");
        commands.push(guest::shell(&format!("exec /bin/iolane run {read}")));
        commands.push(guest::shell(&format!("exec /bin/iolane probe {generic} 2>&1")));
        expected.extend([*says; 2]);
    }
    commands.push(nvme(&["bind", &addresses[4], &addresses[3], &addresses[2], &addresses[1], &addresses[0]]));
    expected.push("");
    for ((_, says), address) in formats.iter().zip(&addresses) {
        commands.push(on_taken(&["probe", &format!("pci:{}", address.trim_start_matches("0000:"))]));
        expected.push(if says.contains("LBAs") { "8 bytes of metadata in each block" } else { says });
    }
    let heard = run_with(formats.iter().map(|(drive, _)| drive.clone()).collect(), &[], commands);
    for (step, says) in expected.iter().enumerate() {
        let told = format!("{}{}", heard.stdout(step), heard.stderr(step));
        assert!(told.contains(says), "step {step}: `{says}` is not in {told}");
        let is_probe_of_generic = step < 10 && step % 2 == 1;
        let code = if says.is_empty() { 0 } else { 3 };
        assert!(is_probe_of_generic || heard.ends[step] == Ended::Code(code), "step {step}: {heard:#?}");
    }
}

#[test]
fn addresses_that_cannot_be_and_users_that_are_not_are_wrong_use() {
    let folder = Folder::new();
    // A bus without devices on any machine.
    let nowhere = "fffe:fe:1f.7";
    for (words, code, says) in [
        (&["nvme", "bind"][..], 2, &["<BDF>"][..]),
        (&["nvme"], 2, &["list", "bind", "restore"]),
        (&["nvme", "bind", "nvme0"], 2, &["PCI address `nvme0`", "0000:00:04.0"]),
        (&["nvme", "bind", "00:04"], 2, &["PCI address `00:04`"]),
        (&["nvme", "restore", "/dev/nvme0n1"], 2, &["PCI address `/dev/nvme0n1`", "iolane nvme list"]),
        (&["nvme", "bind", nowhere, "--user", "no such user"], 2, &["--user no such user", "/etc/passwd"]),
        (&["nvme", "bind", nowhere, "--group", "4294967295"], 2, &["--group 4294967295"]),
        (&["nvme", "bind", nowhere], 3, &["taking fffe:fe:1f.7: there is no such PCI device", "iolane nvme list"]),
        (&["nvme", "list", "--json", "/nonexistent/list.json"], 1, &["writing /nonexistent/list.json"]),
    ] {
        let ended = iolane(&folder, words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{words:?}: {ended:#?}");
        says.iter().for_each(|words| assert!(ended.stderr.contains(words), "`{words}` is not in {ended:#?}"));
    }
    assert!(folder.names().is_empty());
}

#[test]
fn the_list_of_this_machine_is_as_the_schema_says() {
    let folder = Folder::new();
    let ended = iolane(&folder, ["nvme", "list", "--json", "list.json"]).done();
    let listed = controllers(&std::fs::read_to_string(folder.join("list.json")).unwrap());
    let text = ended.stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    match listed[..] {
        [] => assert!(text.contains("no NVMe controller") && text.contains("iolane lab run"), "{text}"),
        _ => assert!(listed.iter().all(|controller| text.contains(controller["address"].as_str().unwrap())), "{text}"),
    }
}

#[test]
fn interrupts_of_a_device_are_counted_where_it_raises_them_and_stay_away_where_it_is_polled() {
    guest_or_skip!("interrupts of a device");
    let run_on = |target: &str, path: &str| {
        let words = ["run", "--target", target, "--path", path, "--depth", "1", "--runtime", "300ms", "--json", "-"];
        GuestCommand::new([&[PROGRAM][..], &words].concat())
    };
    let taken = format!("pci:{SECOND}");
    let heard = run(
        &[],
        vec![
            nvme(&["bind", SECOND]),
            run_on("/dev/nvme0n1", "io_uring"),
            run_on("/dev/nvme0n1", "io_uring+iopoll"),
            run_on(&taken, "nvme+int"),
            run_on(&taken, "nvme"),
            run_on("/dev/nullb0", "psync"),
        ],
    );
    let record = |command: usize| -> Value {
        serde_json::from_str(heard.stdout(command)).unwrap_or_else(|error| panic!("{error}: {heard:#?}"))
    };
    let per_io = |command: usize| {
        let record = record(command);
        let interrupts = record["telemetry"]["device_interrupts"]["value"].as_f64();
        interrupts.unwrap_or_else(|| panic!("{record:#}")) / record["result"]["ios"].as_f64().unwrap()
    };
    // At depth 1 each I/O raises an interrupt, or none does. Those of `nvme+int` merge where the thread finds the completion
    // before the interrupt arrives, and its next command completes meanwhile: on a busy machine that is a third of them.
    for (command, path, least) in [(1, "io_uring", 0.5), (3, "nvme+int", 0.05)] {
        assert!((least..1.2).contains(&per_io(command)), "{:#} {path}: {} per I/O", record(command), per_io(command));
    }
    for (command, path) in [(2, "io_uring+iopoll"), (4, "nvme")] {
        assert!(per_io(command) < 0.01, "{:#} {path}: {} per I/O", record(command), per_io(command));
    }
    let made_up = record(5);
    let why = made_up["telemetry"]["device_interrupts"]["unavailable"].as_str().unwrap();
    assert!(why.contains("nullb0 is a virtual device of the kernel"), "{why}");
}
