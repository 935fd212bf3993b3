//! Tries to lose data on real loop devices, mounts, swap and partitions, and expects the guard to refuse.
//! Most tests need root and a few tools, and print SKIPPED without them. Everything is undone, also after a failure.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iolane::guard::{Reason, Refused, WritePermit, claim_disk, refuse_doubles, uses_of_disk};
use iolane::{Error, ErrorKind, Target, WritePermission as _};

#[macro_use]
mod guard_fixtures;
use guard_fixtures::{Holder, Loop, Mounted, Scratch, Swap, missing, open, run, skip, try_run};

fn ask(target: impl AsRef<Path>) -> Result<WritePermit, Refused> {
    once_unlooked(|| WritePermit::request(target.as_ref()))
}

/// Asks again while a program that is none of the test's has the device open: on a busy machine one that looks for a free loop device, or at
/// a new one, may have it open for longer than the guard waits.
fn once_unlooked(ask: impl Fn() -> Result<WritePermit, Refused>) -> Result<WritePermit, Refused> {
    const MOST: Duration = Duration::from_secs(30);
    let began = Instant::now();
    loop {
        let answer = ask();
        let is_looked_at = answer.as_ref().is_err_and(|refused| {
            let text = refused.to_string();
            text.contains(" (pid ") && !text.contains(&format!("{} (pid ", Holder::PROGRAM))
        });
        if !is_looked_at || began.elapsed() > MOST {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ask_to_erase(target: impl AsRef<Path>) -> Result<WritePermit, Refused> {
    once_unlooked(|| WritePermit::options().erase(true).request(target.as_ref()))
}

fn ask_among(target: impl AsRef<Path>, names: &[OsString]) -> Result<WritePermit, Refused> {
    WritePermit::options().among(names).erase(true).request(target.as_ref())
}

/// The text of a refusal that must name all of `parts` on one line.
#[track_caller]
fn assert_refused(answer: Result<WritePermit, Refused>, parts: &[&str]) {
    let error = Error::from(answer.expect_err("the guard let it pass"));
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{text} lacks one of {parts:?}");
    assert!(!text.contains('\n') && !error.remedy_text().is_empty(), "{text}");
}

#[test]
fn a_plain_file_is_written_only_when_it_is_named() {
    let scratch = Scratch::new("plain");
    let (file, other) = (scratch.file("file", 1), scratch.file("other", 1));
    for allowed in [vec![], vec![OsString::from(&other)], vec!["/no/such/file".into()]] {
        let refused = ask_among(&file, &allowed).unwrap_err();
        assert_eq!(refused.reason(), Reason::NotNamed);
        assert_eq!(Error::from(refused).kind(), ErrorKind::Usage);
    }
    drop(ask_among(&file, &[other.into(), file.clone().into()]).unwrap());
    drop(ask(&file).unwrap());
}

#[test]
fn a_file_may_be_allowed_by_any_of_its_names() {
    let scratch = Scratch::new("names");
    let file = scratch.file("file", 1);
    symlink(&file, scratch.path("symlink")).unwrap();
    fs::hard_link(&file, scratch.path("link")).unwrap();
    for name in ["symlink", "link", "./file"] {
        let name = scratch.path(name);
        drop(ask_among(&file, &[name.clone().into()]).unwrap());
        drop(ask_among(&name, &[file.clone().into()]).unwrap());
    }
}

#[test]
fn what_is_made_up_or_missing_needs_no_permission() {
    for target in ["null", "null:1g", "sim:64m,seed=7", "/no/such/file", "/dev/null/no/file"] {
        drop(ask_among(target, &[]).unwrap());
    }
}

#[test]
fn a_permit_does_not_cover_what_the_name_leads_to_afterwards() {
    let scratch = Scratch::new("covers");
    let (file, other, name) = (scratch.file("file", 1), scratch.file("other", 1), scratch.path("name"));
    let open = || Target::options().direct(false).write_unguarded().open(&name).unwrap();
    let missing = ask(&name).unwrap();
    symlink(&file, &name).unwrap();
    let permit = ask(&name).unwrap();
    permit.covers(&open()).unwrap();
    assert_eq!(missing.covers(&open()).unwrap_err().kind(), ErrorKind::Unavailable);
    fs::remove_file(&name).unwrap();
    symlink(&other, &name).unwrap();
    let error = permit.covers(&open()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("something else"), "{error}");
    permit.covers(&Target::open("null").unwrap()).unwrap();
}

#[test]
fn a_file_that_another_process_has_open_is_refused_under_any_of_its_names() {
    let scratch = Scratch::new("opened");
    let (file, link) = (scratch.file("vm.img", 1), scratch.path("link"));
    fs::hard_link(&file, &link).unwrap();
    for write in [true, false] {
        let holder = Holder::of(open(&file, write));
        let pid = format!("tail (pid {}) has it open", holder.0.id());
        assert_refused(ask_to_erase(&file), &[&pid]);
        assert_refused(ask_to_erase(&link), &[&pid]);
        assert_eq!(ask(&file).unwrap_err().reason(), Reason::InUse);
    }
    drop(ask(&file).unwrap());
}

#[test]
fn a_file_is_written_by_one_permit_at_a_time_and_the_target_keeps_it() {
    let scratch = Scratch::new("one-writer");
    let (file, link) = (scratch.file("file", 1), scratch.path("link"));
    fs::hard_link(&file, &link).unwrap();
    let permit = ask(&file).unwrap();
    let target = Target::options().direct(false).write(permit.clone()).open(&file).unwrap();
    drop(permit);
    assert_refused(ask(&link), &["it is locked"]);
    let second = target.clone();
    drop(target);
    assert_refused(ask(&link), &["it is locked"]);
    drop(second);
    drop(ask(&link).unwrap());
}

#[test]
fn a_file_that_only_this_process_has_open_is_permitted() {
    let scratch = Scratch::new("own");
    let file = scratch.file("file", 1);
    let _reader = Target::options().direct(false).open(&file).unwrap();
    drop(ask(&file).unwrap());
    let _writer = open(&file, true);
    drop(ask(&file).unwrap());
}

/// A mapping keeps a file open without a descriptor, as the kernel does for a moment after a process with a ring has ended.
#[test]
fn a_file_that_is_open_without_a_descriptor_is_permitted_once_it_is_closed_and_refused_if_it_stays() {
    let scratch = Scratch::new("mapped");
    let file = scratch.file("file", 1);
    let opened = open(&file, true);
    // SAFETY: a new mapping, which nothing reads or writes.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, opened.as_raw_fd(), 0) };
    assert_ne!(address, libc::MAP_FAILED);
    drop(opened);
    assert_refused(ask(&file), &["in a process that cannot be looked into or in the kernel"]);
    let asking = std::thread::spawn({
        let file = file.clone();
        move || ask(&file).map(drop)
    });
    // Only a broken guard needs the time: it has looked by then, and refused.
    std::thread::sleep(std::time::Duration::from_millis(100));
    // SAFETY: the mapping from above, once.
    assert_eq!(unsafe { libc::munmap(address, 4096) }, 0);
    asking.join().unwrap().unwrap();
}

#[test]
fn the_disks_of_a_virtual_machine_are_refused() {
    needs!("the_disks_of_a_virtual_machine_are_refused", "qemu-system-x86_64", "losetup");
    let scratch = Scratch::new("machine");
    let (image, behind) = (scratch.file("image", 8), scratch.file("behind", 8));
    let disk = Loop::of(&behind);
    for (driver, name) in [("file", image.as_path()), ("host_device", Path::new(&disk.0))] {
        let drive = format!("driver={driver},filename={},node-name=disk", name.display());
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-machine", "none", "-nodefaults", "-display", "none", "-qmp", "stdio", "-blockdev", &drive]);
        let mut machine = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = String::new();
        BufReader::new(machine.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        assert!(greeting.contains("QMP"), "{greeting}");
        let machine = Holder(machine);
        assert_refused(ask_to_erase(name), &[&format!("(pid {}) has it open", machine.0.id())]);
        drop(machine);
        drop(ask(name).unwrap());
    }
}

/// A container's disk image is in the upper layer of an overlay, where the file has other numbers than in the container.
#[test]
fn a_file_that_is_open_through_an_overlay_is_refused_by_the_name_that_it_has_in_its_layer() {
    let name = "a_file_that_is_open_through_an_overlay_is_refused_by_the_name_that_it_has_in_its_layer";
    if let Some(reason) = missing(&["mount"]) {
        return skip(name, &reason);
    }
    let scratch = Scratch::new("overlay");
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| scratch.path(name));
    for folder in [&lower, &upper, &work] {
        fs::create_dir(folder).unwrap();
    }
    for folder in [&lower, &upper] {
        fs::write(folder.join(folder.file_name().unwrap()), vec![0; 1 << 20]).unwrap();
    }
    let layers = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let merged = match Mounted::attempt(&["-t", "overlay", "-o", &layers], "none", scratch.path("merged")) {
        Ok(merged) => merged,
        Err(why) => return skip(name, &format!("no overlay here: {why}")),
    };
    for (layer, write) in [("upper", true), ("lower", false)] {
        let real = scratch.path(layer).join(layer);
        let holder = Holder::of(open(merged.0.join(layer), write));
        assert_refused(ask_to_erase(&real), &["in a process that cannot be looked into or in the kernel"]);
        assert_refused(ask_to_erase(merged.0.join(layer)), &["tail (pid "]);
        drop(holder);
        drop(ask(&real).unwrap());
    }
}

/// As root every process can be looked into; this one hides by a user of its own, whom the asking process leaves root to be.
#[test]
fn a_file_that_a_hidden_process_writes_is_refused_by_the_kernels_own_count() {
    needs!("a_file_that_a_hidden_process_writes_is_refused_by_the_kernels_own_count", "setpriv");
    // Where any user may look, with a program that any user may run.
    let scratch = Scratch::under(&std::env::temp_dir(), "hidden");
    let (file, program) = (scratch.file("file", 1), scratch.path("program"));
    let nobody = 65534;
    std::os::unix::fs::chown(&file, Some(nobody), None).unwrap();
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    run("chmod", &["755", scratch.folder.to_str().unwrap(), program.to_str().unwrap()]);
    let ask_as_nobody = || {
        let id = nobody.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(&program);
        command.args(["--exact", "asks_for_what_the_environment_names", "--nocapture"]).env("GUARD_TARGET", &file);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(ask_as_nobody().contains("ANSWER permitted"), "{}", ask_as_nobody());
    let holder = Holder::of(open(&file, true));
    assert!(ask_as_nobody().contains("ANSWER writing to"), "{}", ask_as_nobody());
    assert!(ask_as_nobody().contains("it is open, in a process that cannot be looked into"), "{}", ask_as_nobody());
    drop(holder);
    // Of another's file the kernel does not say whether it is open.
    std::os::unix::fs::chown(&file, Some(0), None).unwrap();
    run("chmod", &["666", file.to_str().unwrap()]);
    assert!(
        ask_as_nobody().contains("processes that cannot be looked into has it open cannot be told"),
        "{}",
        ask_as_nobody()
    );
}

/// No test of its own: run by another one, as another user.
#[test]
fn asks_for_what_the_environment_names() {
    let Some(target) = std::env::var_os("GUARD_TARGET") else { return };
    match ask(&target) {
        Ok(_) => println!("ANSWER permitted"),
        Err(refused) => println!("ANSWER {refused}"),
    }
}

#[test]
fn a_file_with_a_disk_image_or_a_database_in_it_is_refused_unless_it_may_be_erased() {
    let scratch = Scratch::new("images");
    let file = scratch.file("file", 1);
    for (offset, magic, name) in [
        (0, &b"QFI\xfb\0\0\0\x03"[..], "a qcow disk image"),
        (0, b"SQLite format 3\0", "an SQLite database"),
        (512, b"EFI PART", "a GPT partition table"),
        ((1 << 20) - 512, b"conectix", "a VHD disk image"),
    ] {
        open(&file, true).write_all_at(magic, offset).unwrap();
        assert_refused(ask(&file), &["it carries", name, "erased"]);
        assert_eq!(ask(&file).unwrap_err().reason(), Reason::HoldsData);
        drop(ask_to_erase(&file).unwrap());
        open(&file, true).write_all_at(&vec![0; magic.len()], offset).unwrap();
    }
    drop(ask(&file).unwrap());
}

#[test]
fn a_device_that_another_process_has_open_without_a_claim_is_refused() {
    needs!("a_device_that_another_process_has_open_without_a_claim_is_refused", "losetup", "addpart");
    let scratch = Scratch::new("raw");
    let disk = Loop::of(&scratch.file("disk", 64));
    let partition = disk.partition();
    let name = disk.kernel_name();
    let holder = Holder::of(open(&disk.0, true));
    assert_refused(ask_to_erase(&disk.0), &["tail (pid", "has it open"]);
    assert_refused(ask_to_erase(&partition), &["tail (pid", &format!("has its disk {name} open")]);
    drop(holder);
    let holder = Holder::of(open(&partition, false));
    assert_refused(ask_to_erase(&disk.0), &["tail (pid", &format!("has its partition {name}p1 open")]);
    drop(holder);
    drop(ask(&disk.0).unwrap());
}

#[test]
fn a_device_on_a_file_that_another_process_has_open_is_refused() {
    needs!("a_device_on_a_file_that_another_process_has_open_is_refused", "losetup");
    let scratch = Scratch::new("backing-opened");
    let file = scratch.file("disk", 16);
    let disk = Loop::of(&file);
    let holder = Holder::of(open(&file, true));
    assert_refused(ask_to_erase(&disk.0), &["tail (pid", "(which it is made of) open"]);
    drop(holder);
    drop(ask(&disk.0).unwrap());
}

#[test]
fn a_disk_that_a_program_has_locked_is_refused_and_one_with_a_permit_is_locked() {
    needs!("a_disk_that_a_program_has_locked_is_refused", "losetup");
    let scratch = Scratch::new("disk-lock");
    let disk = Loop::of(&scratch.file("disk", 16));
    let lock = |file: &File| rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockShared);
    let other = open(&disk.0, false);
    let permit = ask(&disk.0).unwrap();
    assert_eq!(lock(&other), Err(rustix::io::Errno::WOULDBLOCK));
    drop(permit);
    lock(&other).unwrap();
    assert_refused(ask(&disk.0), &["it is locked (flock(2))", "lslocks"]);
    drop(other);
    drop(ask(&disk.0).unwrap());
}

#[test]
fn the_doors_of_the_kernel_are_refused() {
    assert_refused(ask_to_erase("/proc/self/comm"), &["/proc/self/comm", "a file of proc"]);
    assert_refused(ask_to_erase("/sys/kernel/uevent_seqnum"), &["a file of sysfs"]);
}

#[test]
fn what_is_neither_file_nor_block_device_is_refused() {
    let scratch = Scratch::new("kinds");
    let fifo = scratch.path("fifo");
    run("mkfifo", &[fifo.to_str().unwrap()]);
    for target in [scratch.folder.as_path(), &fifo, Path::new("/dev/zero")] {
        assert_refused(ask_to_erase(target), &["neither a file"]);
    }
}

#[test]
fn a_file_given_twice_is_refused_by_whatever_name() {
    let scratch = Scratch::new("doubles");
    let (file, other) = (scratch.file("file", 1), scratch.file("other", 1));
    symlink(&file, scratch.path("symlink")).unwrap();
    fs::hard_link(&file, scratch.path("link")).unwrap();
    for name in ["file", "symlink", "link", "./file"] {
        let error =
            refuse_doubles(&[file.clone().into(), other.clone().into(), scratch.path(name).into()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("the same as") && text.contains("/file"), "{text}");
    }
    refuse_doubles(&[file.into(), other.into(), "null".into(), "null".into(), "/no/x".into(), "/no/x".into()]).unwrap();
}

#[test]
fn a_device_given_twice_is_refused_and_so_is_a_disk_with_its_partition() {
    needs!("a_device_given_twice_is_refused_and_so_is_a_disk_with_its_partition", "losetup", "addpart");
    let scratch = Scratch::new("double-devices");
    let (disk, other) = (Loop::of(&scratch.file("disk", 64)), Loop::of(&scratch.file("other", 64)));
    let (partition, link) = (disk.partition(), scratch.path("link"));
    symlink(&disk.0, &link).unwrap();
    let text =
        |a: &str, b: &str| refuse_doubles(&[a.into(), b.into()]).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(text(&disk.0, link.to_str().unwrap()).contains("the same as"));
    assert!(text(&disk.0, &partition).contains("it is a partition of"));
    assert!(text(&partition, &disk.0).contains("is a partition of it"));
    assert_eq!(text(&disk.0, &other.0), "");
}

#[test]
fn a_blank_device_is_written_only_when_it_is_named() {
    needs!("a_blank_device_is_written_only_when_it_is_named", "losetup", "addpart");
    let scratch = Scratch::new("blank");
    let disk = Loop::of(&scratch.file("disk", 64));
    let (partition, link) = (disk.partition(), scratch.path("by-id"));
    symlink(&disk.0, &link).unwrap();
    let reason = |answer: Result<WritePermit, Refused>| answer.unwrap_err().reason();
    assert_eq!(reason(ask_among(&disk.0, &[partition.clone().into()])), Reason::NotNamed);
    assert_eq!(reason(ask_among(&partition, &[link.clone().into()])), Reason::NotNamed);
    drop(ask_among(&disk.0, &[link.clone().into()]).unwrap());
    drop(ask_among(&link, &[disk.0.clone().into()]).unwrap());
    let permit = ask(&partition).unwrap();
    permit.covers(&Target::options().write_unguarded().open(&partition).unwrap()).unwrap();
    assert!(permit.covers(&Target::open(&disk.0).unwrap()).is_err());
}

#[test]
fn a_mounted_device_is_refused_even_to_be_erased() {
    needs!("a_mounted_device_is_refused_even_to_be_erased", "losetup", "mkfs.ext4");
    let scratch = Scratch::new("mounted");
    let disk = Loop::of(&scratch.file("disk", 64));
    run("mkfs.ext4", &["-q", &disk.0]);
    let mounted = Mounted::new(&[], &disk.0, scratch.path("a mount"));
    let point = mounted.0.to_str().unwrap();
    assert_refused(ask(&disk.0), &[&disk.0, "it is mounted at", point, "umount"]);
    assert_refused(ask_to_erase(&disk.0), &[&disk.0, "it is mounted at", point, "umount"]);
}

#[test]
fn a_mount_with_an_invented_device_number_is_recognised_by_its_source() {
    needs!("a_mount_with_an_invented_device_number_is_recognised_by_its_source", "losetup", "mkfs.btrfs");
    let scratch = Scratch::new("btrfs");
    let disk = Loop::of(&scratch.file("disk", 128));
    run("mkfs.btrfs", &["-q", &disk.0]);
    match Mounted::attempt(&[], &disk.0, scratch.path("mount")) {
        Ok(mounted) => {
            assert_refused(ask_to_erase(&disk.0), &["it is mounted at", mounted.0.to_str().unwrap()]);
        }
        Err(reason) => skip("a_mount_with_an_invented_device_number_is_recognised_by_its_source", &reason),
    }
}

#[test]
fn the_claim_keeps_a_mount_away_until_the_permit_is_dropped() {
    needs!("the_claim_keeps_a_mount_away_until_the_permit_is_dropped", "losetup", "mkfs.ext4", "addpart");
    let scratch = Scratch::new("claim");
    let disk = Loop::of(&scratch.file("disk", 64));
    let partition = disk.partition();
    run("mkfs.ext4", &["-q", &partition]);
    for target in [&disk.0, &partition] {
        let permit = ask_to_erase(target).unwrap();
        assert!(Mounted::attempt(&[], &partition, scratch.path("mount")).is_err(), "mounted despite the claim");
        assert_refused(ask_to_erase(target), &["it is claimed"]);
        drop(permit);
        drop(Mounted::new(&[], &partition, scratch.path("mount")));
    }
}

#[test]
fn swap_is_refused_while_in_use_and_afterwards_for_its_header() {
    needs!("swap_is_refused_while_in_use_and_afterwards_for_its_header", "losetup", "mkswap", "swapon");
    let scratch = Scratch::new("swap");
    let disk = Loop::of(&scratch.file("disk", 16));
    match Swap::on(disk.0.as_ref()) {
        Ok(_swap) => {
            assert_refused(ask(&disk.0), &["it is in use as swap", "swapoff"]);
            assert_refused(ask_to_erase(&disk.0), &["it is in use as swap", "swapoff"]);
        }
        Err(reason) => return skip("swap_is_refused_while_in_use_and_afterwards_for_its_header", &reason),
    }
    assert_refused(ask(&disk.0), &["a swap area", "erased"]);
    drop(ask_to_erase(&disk.0).unwrap());
}

#[test]
fn a_file_in_use_as_swap_is_refused() {
    needs!("a_file_in_use_as_swap_is_refused", "mkswap", "swapon");
    let scratch = Scratch::new("swapfile");
    let (file, link) = (scratch.path("a swap file"), scratch.path("link"));
    fs::write(&file, vec![0; 16 << 20]).unwrap();
    run("chmod", &["600", file.to_str().unwrap()]);
    symlink(&file, &link).unwrap();
    match Swap::on(&file) {
        Ok(_swap) => {
            assert_refused(ask_to_erase(&file), &["it is in use as swap"]);
            assert_refused(ask_to_erase(&link), &["it is in use as swap"]);
        }
        Err(reason) => return skip("a_file_in_use_as_swap_is_refused", &reason),
    }
    assert_refused(ask(&file), &["it carries a swap area", "erased"]);
    drop(ask_to_erase(&file).unwrap());
}

#[test]
fn a_file_behind_a_loop_device_is_refused() {
    needs!("a_file_behind_a_loop_device_is_refused", "losetup");
    let scratch = Scratch::new("backing");
    let (file, other) = (scratch.file("a file", 3), scratch.file("other", 2));
    fs::hard_link(&file, scratch.path("link")).unwrap();
    let disk = Loop::of(&file);
    assert_refused(ask_to_erase(&file), &["loop device", disk.kernel_name(), "losetup -d"]);
    assert_refused(ask_to_erase(scratch.path("link")), &["loop device", disk.kernel_name()]);
    drop(ask(&other).unwrap());
    // Now the kernel knows the file by no name at all; it still knows which one it is.
    fs::remove_file(&file).unwrap();
    assert_refused(ask_to_erase(scratch.path("link")), &["is made of it", disk.kernel_name()]);
    drop(disk);
    drop(ask(scratch.path("link")).unwrap());
}

#[test]
fn a_loop_device_of_a_deleted_file_is_the_same_disk_as_another_one_of_it() {
    needs!("a_loop_device_of_a_deleted_file_is_the_same_disk", "losetup", "mkfs.ext4");
    let scratch = Scratch::new("deleted");
    let file = scratch.file("disk", 64);
    let (disk, other) = (Loop::of(&file), Loop::of(&file));
    run("mkfs.ext4", &["-q", &other.0]);
    let mounted = Mounted::new(&[], &other.0, scratch.path("mount"));
    fs::hard_link(&file, scratch.path("link")).unwrap();
    fs::remove_file(&file).unwrap();
    let made = format!("loop device {} is made of", other.kernel_name());
    assert_refused(ask_to_erase(&disk.0), &[&made]);
    drop((mounted, other));
    let holder = Holder::of(open(scratch.path("link"), true));
    assert_refused(ask_to_erase(&disk.0), &["tail (pid", "(which it is made of) open"]);
    drop(holder);
    drop(ask_to_erase(&disk.0).unwrap());
}

#[test]
fn two_partitions_of_a_disk_are_permitted_to_one_process() {
    needs!("two_partitions_of_a_disk_are_permitted_to_one_process", "losetup", "addpart");
    let scratch = Scratch::new("siblings");
    let disk = Loop::of(&scratch.file("disk", 64));
    let partition = disk.partition();
    run("addpart", &[&disk.0, "2", "67584", "8192"]);
    let (one, other) = (ask(&partition).unwrap(), ask(format!("{}p2", disk.0)).unwrap());
    drop((one, other));
    drop(ask(&disk.0).unwrap());
}

#[test]
fn loop_devices_are_seen_through_in_both_directions() {
    needs!("loop_devices_are_seen_through_in_both_directions", "losetup", "mkfs.ext4");
    let scratch = Scratch::new("stacked");
    let lower = Loop::of(&scratch.file("disk", 64));
    let upper = Loop::of(lower.0.as_ref());
    run("mkfs.ext4", &["-q", &lower.0]);
    let made = format!("loop device {} is made of it", upper.kernel_name());
    assert_refused(ask_to_erase(&lower.0), &[&made]);
    drop(ask_to_erase(&upper.0).unwrap());
    let mounted = Mounted::new(&[], &lower.0, scratch.path("mount"));
    let below = format!("{} (which it is made of) is mounted at", lower.kernel_name());
    assert_refused(ask_to_erase(&upper.0), &[&below, mounted.0.to_str().unwrap()]);
}

#[test]
fn a_file_system_is_refused_unless_it_may_be_erased() {
    needs!("a_file_system_is_refused_unless_it_may_be_erased", "losetup", "mkfs.ext4");
    let scratch = Scratch::new("signature");
    let disk = Loop::of(&scratch.file("disk", 64));
    drop(ask(&disk.0).unwrap());
    run("mkfs.ext4", &["-q", &disk.0]);
    assert_refused(ask(&disk.0), &[&disk.0, "ext4", "erased"]);
    drop(ask_to_erase(&disk.0).unwrap());
}

#[test]
fn whatever_the_tools_here_make_is_recognised() {
    let test = "whatever_the_tools_here_make_is_recognised";
    needs!("whatever_the_tools_here_make_is_recognised", "losetup");
    let scratch = Scratch::new("tools");
    let folder = scratch.path("content");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("file"), [7; 4096]).unwrap();
    let (folder, key) = (folder.to_str().unwrap(), folder.join("file"));
    let key = key.to_str().unwrap();
    // DEV stands for the device. Left out are the makers that leave a trace on the machine: udev starts what mdadm and
    // make-bcache make.
    let makers: &[(&str, &[&str], &str)] = &[
        ("mkfs.ext4", &["-q", "DEV"], "ext4"),
        ("mkfs.xfs", &["-q", "DEV"], "xfs"),
        ("mkfs.btrfs", &["-q", "DEV"], "btrfs"),
        ("mkfs.f2fs", &["-q", "DEV"], "f2fs"),
        ("mkfs.nilfs2", &["-q", "DEV"], "nilfs2"),
        ("mkfs.jfs", &["-q", "DEV"], "JFS"),
        ("mkfs.vfat", &["-I", "-F", "32", "DEV"], "FAT file system"),
        ("mkfs.vfat", &["-I", "-F", "16", "DEV"], "FAT file system"),
        ("mkfs.exfat", &["DEV"], "exFAT"),
        ("mkntfs", &["-q", "-f", "-F", "DEV"], "NTFS"),
        ("mkudffs", &["DEV"], "UDF"),
        ("mkfs.erofs", &["DEV", folder], "erofs"),
        ("mksquashfs", &[folder, "DEV", "-noappend", "-quiet", "-no-progress"], "squashfs"),
        ("genisoimage", &["-quiet", "-o", "DEV", folder], "ISO 9660"),
        ("mkswap", &["DEV"], "swap area"),
        ("mkswap", &["-p", "65536", "DEV"], "swap area"),
        ("pvcreate", &["-q", "--config", "devices/use_devicesfile=0", "DEV"], "LVM2"),
        ("cryptsetup", &["luksFormat", "-q", "--type", "luks1", "--iter-time", "1", "DEV", key], "LUKS"),
        (
            "cryptsetup",
            &["luksFormat", "-q", "--type", "luks2", "--pbkdf", "pbkdf2", "--iter-time", "1", "DEV", key],
            "LUKS",
        ),
        ("veritysetup", &["format", key, "DEV"], "verity"),
    ];
    for (tool, args, name) in makers {
        if let Some(reason) = missing(&[tool]) {
            skip(test, &reason);
            continue;
        }
        let disk = Loop::of(&scratch.file("disk", 320));
        let args: Vec<&Path> =
            args.iter().map(|arg| Path::new(if *arg == "DEV" { disk.0.as_str() } else { arg })).collect();
        match try_run(tool, &args) {
            Ok(_) => assert_refused(ask(&disk.0), &[name]),
            Err(reason) => skip(test, &reason),
        }
    }
}

#[test]
fn a_partition_table_and_its_backup_are_signatures_of_the_disk() {
    needs!("a_partition_table_and_its_backup_are_signatures_of_the_disk", "losetup", "sfdisk");
    let scratch = Scratch::new("table");
    for (label, name) in [("dos", "an MBR partition table"), ("gpt", "a GPT partition table")] {
        let file = scratch.file("disk", 16);
        let script = scratch.path("script");
        fs::write(&script, format!("label: {label}\n,8M\n")).unwrap();
        run("sh", &["-c", &format!("sfdisk -q '{}' < '{}'", file.display(), script.display())]);
        assert_refused(ask(&Loop::of(&file).0), &["it carries", name, "erased"]);
        if label == "gpt" {
            fs::OpenOptions::new().write(true).open(&file).unwrap().write_all_at(&[0; 64 << 10], 0).unwrap();
            assert_refused(ask(&Loop::of(&file).0), &["it carries a GPT partition table (backup)"]);
        }
    }
}

/// A partition table of the MBR kind with the partition that [`Loop::partition`] makes.
fn disk_with_table(scratch: &Scratch) -> Loop {
    let path = scratch.file("disk", 64);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let entry = [&[0, 0, 0, 0, 0x83, 0, 0, 0][..], &2048_u32.to_le_bytes(), &65536_u32.to_le_bytes()].concat();
    file.write_all_at(&entry, 446).unwrap();
    file.write_all_at(&[0x55, 0xaa], 510).unwrap();
    Loop::of(&path)
}

#[test]
fn a_mounted_partition_protects_its_disk_and_itself_alone() {
    needs!("a_mounted_partition_protects_its_disk_and_itself_alone", "losetup", "addpart", "mkfs.ext4");
    let scratch = Scratch::new("partition");
    let disk = disk_with_table(&scratch);
    let partition = disk.partition();
    run("addpart", &[&disk.0, "2", "67584", "8192"]);
    let sibling = format!("{}p2", disk.0);
    run("mkfs.ext4", &["-q", &partition]);
    let mounted = Mounted::new(&[], &partition, scratch.path("mount"));
    let point = mounted.0.to_str().unwrap();
    assert_refused(
        ask_to_erase(&disk.0),
        &["its partition", partition.trim_start_matches("/dev/"), "is mounted at", point],
    );
    assert_refused(ask_to_erase(&partition), &["it is mounted at", point]);
    drop(ask(&sibling).unwrap());
    drop(mounted);
    assert_refused(ask(&disk.0), &["it carries an MBR partition table", "erased"]);
    assert_refused(ask(&partition), &["it carries an ext2, ext3 or ext4", "erased"]);
    drop(ask_to_erase(&disk.0).unwrap());
}

#[test]
fn a_disk_is_claimed_whole_once_nothing_of_it_is_mounted_and_whatever_it_carries() {
    needs!("a_disk_is_claimed_whole", "losetup", "addpart", "mkfs.ext4");
    let scratch = Scratch::new("claim");
    let disk = disk_with_table(&scratch);
    let partition = disk.partition();
    run("mkfs.ext4", &["-q", &partition]);
    let mounted = Mounted::new(&[], &partition, scratch.path("mount"));
    let name = disk.kernel_name();
    let use_made = format!("its partition {name}p1 is mounted at {}", mounted.0.display());
    assert_eq!(uses_of_disk(name).unwrap(), [use_made.as_str()]);
    let refusal = claim_disk(name, "taking it").unwrap_err();
    assert_eq!((refusal.kind(), refusal.cause()), (ErrorKind::Unavailable, use_made.as_str()));
    drop(mounted);
    assert!(uses_of_disk(name).unwrap().is_empty());
    let claim = claim_disk(name, "taking it").unwrap();
    let kept_away = Mounted::attempt(&[], &partition, scratch.path("mount"));
    assert!(kept_away.is_err_and(|error| error.contains("already mounted or mount point busy")));
    drop(claim);
    drop(Mounted::new(&[], &partition, scratch.path("mount")));
}

#[test]
fn a_mounted_disk_protects_the_partitions_left_on_it() {
    needs!("a_mounted_disk_protects_the_partitions_left_on_it", "losetup", "addpart", "mkfs.ext4");
    let scratch = Scratch::new("whole");
    let disk = Loop::of(&scratch.file("disk", 64));
    run("mkfs.ext4", &["-q", &disk.0]);
    let partition = disk.partition();
    let mounted = Mounted::new(&[], &disk.0, scratch.path("mount"));
    assert_refused(ask_to_erase(&partition), &["its disk", "is mounted at", mounted.0.to_str().unwrap()]);
}

#[test]
fn a_file_system_on_a_partition_is_seen_though_the_disk_was_read_before_it_was_made() {
    needs!(
        "a_file_system_on_a_partition_is_seen_though_the_disk_was_read_before_it_was_made",
        "losetup",
        "addpart",
        "mkfs.ext4"
    );
    let scratch = Scratch::new("stale");
    let disk = Loop::of(&scratch.file("disk", 64));
    // As long as it stays open, the disk's page cache remembers zeros.
    let mut file = File::open(&disk.0).unwrap();
    file.read_exact(&mut vec![0; 8 << 20]).unwrap();
    let partition = disk.partition();
    run("mkfs.ext4", &["-q", &partition]);
    assert_refused(ask(&disk.0), &["its partition", partition.trim_start_matches("/dev/"), "carries an ext2"]);
    drop(ask_to_erase(&disk.0).unwrap());
}

#[test]
fn a_device_that_another_program_claims_is_refused() {
    needs!("a_device_that_another_program_claims_is_refused", "losetup");
    let scratch = Scratch::new("claimed");
    let disk = Loop::of(&scratch.file("disk", 16));
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL;
    let claim = rustix::fs::open(&disk.0, flags, rustix::fs::Mode::empty()).unwrap();
    assert_refused(ask_to_erase(&disk.0), &["it is claimed", "lsblk"]);
    drop(claim);
    drop(ask(&disk.0).unwrap());
}

#[test]
fn a_device_that_cannot_be_opened_to_look_at_it_is_refused() {
    needs!("a_device_that_cannot_be_opened_to_look_at_it_is_refused", "losetup", "mknod");
    let scratch = Scratch::new("nodev");
    let disk = Loop::of(&scratch.file("disk", 16));
    // Not even root may open devices on a file system mounted with nodev.
    let mounted = Mounted::new(&["-t", "tmpfs", "-o", "nodev"], "none", scratch.path("mount"));
    let (node, minor) = (mounted.0.join("node"), disk.kernel_name().trim_start_matches("loop"));
    run("mknod", &[node.to_str().unwrap(), "b", "7", minor]);
    let answer = ask_among(&node, &[disk.0.clone().into()]);
    assert_refused(answer, &["cannot be opened", "permission denied"]);
}
