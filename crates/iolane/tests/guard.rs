//! Tries to lose data on real loop devices, mounts, swap and partitions, and expects the guard to refuse.
//! Most tests need root and a few tools, and print SKIPPED without them. Everything is undone, also after a failure.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iolane::guard::{WritePermit, claim_disk, permit_writes, refuse_doubles, uses_of_disk};
use iolane::{Error, ErrorKind, Target};

/// Why a test that needs root and these tools cannot run here.
fn missing(tools: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    let is_there = |tool: &&&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(tool).exists())
    };
    if let Some(tool) = tools.iter().find(|tool| !is_there(tool)) {
        return Some(format!("{tool} is not installed"));
    }
    (!Path::new("/dev/loop-control").exists()).then(|| "no loop devices here (/dev/loop-control)".into())
}

/// Written past the test harness, which would keep it to itself.
fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// Leaves the test with a SKIPPED line unless it is run by root and these tools are installed.
macro_rules! needs {
    ($test:literal, $($tool:literal),+) => {
        if let Some(reason) = missing(&[$($tool),+]) {
            return skip($test, &reason);
        }
    };
}

fn try_run(tool: &str, args: &[&Path]) -> Result<String, String> {
    let output = Command::new(tool).args(args).output().map_err(|error| format!("{tool}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
        false => Err(format!("{tool} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "))),
    }
}

fn run(tool: &str, args: &[&str]) -> String {
    let args: Vec<&Path> = args.iter().map(Path::new).collect();
    try_run(tool, &args).unwrap()
}

/// A folder that goes with the test, and the test's turn: a process being started shares every descriptor of this one
/// until its exec, so that in tests side by side a claim may outlive its permit.
struct Scratch {
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Scratch {
    fn new(test: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guard-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self { folder, _turn: turn }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A file of zeros without blocks.
    fn file(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A loop device, detached when dropped.
struct Loop(String);

impl Loop {
    fn of(file: &Path) -> Self {
        Self(run("losetup", &["-P", "-f", "--show", file.to_str().unwrap()]))
    }

    /// A partition from 1 MiB on of 32 MiB. The kernel may have found it by the table, if it was built to look.
    fn partition(&self) -> String {
        let partition = format!("{}p1", self.0);
        if !Path::new(&partition).exists() {
            run("addpart", &[&self.0, "1", "2048", "65536"]);
        }
        partition
    }

    fn kernel_name(&self) -> &str {
        self.0.trim_start_matches("/dev/")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = try_run("losetup", &["-d".as_ref(), self.0.as_ref()]);
        // Whoever looks for a free loop device has this one open for a moment, which puts the detaching off.
        let attached = format!("/sys/block/{}/loop", self.kernel_name());
        for _ in 0..200 {
            if !Path::new(&attached).exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A mount, undone when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(options: &[&str], device: &str, point: PathBuf) -> Self {
        Self::attempt(options, device, point).unwrap()
    }

    fn attempt(options: &[&str], device: &str, point: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&point).unwrap();
        let mut args: Vec<&Path> = options.iter().map(Path::new).collect();
        args.extend([Path::new(device), &point]);
        try_run("mount", &args)?;
        Ok(Self(point))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if try_run("umount", &[&self.0]).is_err() {
            let _ = try_run("umount", &["-l".as_ref(), &self.0]);
        }
    }
}

/// Swap in use, turned off when dropped.
struct Swap(PathBuf);

impl Swap {
    fn on(path: &Path) -> Result<Self, String> {
        try_run("mkswap", &[path])?;
        try_run("swapon", &[path])?;
        Ok(Self(path.into()))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = try_run("swapoff", &[&self.0]);
    }
}

/// The guard's answer when the target itself is named with --allow-writes.
fn ask(target: impl AsRef<Path>) -> Result<WritePermit, Error> {
    let target = target.as_ref().as_os_str();
    permit_writes(target, &[target.to_owned()], false)
}

/// As [`ask`], with --erase.
fn ask_to_erase(target: impl AsRef<Path>) -> Result<WritePermit, Error> {
    let target = target.as_ref().as_os_str();
    permit_writes(target, &[target.to_owned()], true)
}

/// The text of a refusal that must name all of `parts` on one line.
#[track_caller]
fn assert_refused(answer: Result<WritePermit, Error>, parts: &[&str]) {
    let error = answer.expect_err("the guard let it pass");
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
        let error = permit_writes(file.as_os_str(), &allowed, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let remedy = format!("--allow-writes {}", file.display());
        assert!(error.to_string().ends_with(&remedy), "{error}");
    }
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
        drop(permit_writes(file.as_os_str(), &[name.clone().into()], false).unwrap());
        drop(permit_writes(name.as_os_str(), &[file.clone().into()], false).unwrap());
    }
}

#[test]
fn what_is_made_up_or_missing_needs_no_permission() {
    for target in ["null", "null:1g", "sim:64m,seed=7", "/no/such/file", "/dev/null/no/file"] {
        drop(permit_writes(target.as_ref(), &[], false).unwrap());
    }
}

#[test]
fn a_permit_does_not_cover_what_the_name_leads_to_afterwards() {
    let scratch = Scratch::new("covers");
    let (file, other, name) = (scratch.file("file", 1), scratch.file("other", 1), scratch.path("name"));
    let open = || Target::options().direct(false).write(true).open(&name).unwrap();
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
    let error = permit_writes(disk.0.as_ref(), &[partition.clone().into()], true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(permit_writes(partition.as_ref(), &[link.clone().into()], true).unwrap_err().kind(), ErrorKind::Usage);
    drop(permit_writes(disk.0.as_ref(), &[link.clone().into()], false).unwrap());
    drop(permit_writes(link.as_ref(), &[disk.0.clone().into()], false).unwrap());
    let permit = ask(&partition).unwrap();
    permit.covers(&Target::options().write(true).open(&partition).unwrap()).unwrap();
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
    assert_refused(ask(&disk.0), &["a swap area", "--erase"]);
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
    drop(ask(&file).unwrap());
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
    assert_refused(ask(&disk.0), &[&disk.0, "ext4", "--erase"]);
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
        assert_refused(ask(&Loop::of(&file).0), &["it carries", name, "--erase"]);
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
    assert_refused(ask(&disk.0), &["it carries an MBR partition table", "--erase"]);
    assert_refused(ask(&partition), &["it carries an ext2, ext3 or ext4", "--erase"]);
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
    let answer = permit_writes(node.as_os_str(), &[disk.0.clone().into()], true);
    assert_refused(answer, &["cannot be opened", "permission denied"]);
}
