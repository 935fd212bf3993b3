//! Facts about the machine and the target's device, read once per run from /proc and /sys and written into every record.
//! Reading and parsing are separate: the parsers take text. A fact that the kernel does not report is `None`, never a guess.

mod lab;
mod limit;

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use iolane::nvme::Bdf;
use iolane::{Target, TargetKind, mountinfo};
use rustix::process::Resource;
use serde::{Deserialize, Serialize};

pub use lab::{LAB_VARIABLE, LabMachine};
pub use limit::Limit;

/// The machine, its kernel, and settings that measurements depend on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    pub iolane_version: String,
    /// The command line, the program first, with invalid UTF-8 replaced. In a guest of the lab, the command line of the lab.
    pub command_line: Vec<String>,
    /// The architecture, as in uname(2).
    pub arch: String,
    pub kernel_release: String,
    pub kernel_version: String,
    /// The processor's name, if /proc/cpuinfo has it (not on arm64).
    pub cpu_model: Option<String>,
    /// Online CPUs, as the kernel lists them: `0-3,8`.
    pub cpus_online: Option<String>,
    /// The frequency governor; several, joined by commas, if CPUs differ. `None` without cpufreq.
    pub governor: Option<String>,
    /// Whether hardware threads share a core.
    pub smt: Option<bool>,
    /// Whether the machine is virtual; only x86 reports it.
    pub hypervisor: Option<bool>,
    pub mitigations: Option<Mitigations>,
    /// Memory that the kernel may use, in bytes.
    pub memory_bytes: Option<u64>,
    /// Reserved huge pages of the default size.
    pub huge_pages: Option<HugePages>,
    /// Whether the kernel makes other memory of huge pages: `always`, `madvise` (where a program asks), or `never`. `None` if it
    /// cannot.
    pub transparent_huge_pages: Option<String>,
    /// The sysctl kernel.io_uring_disabled: 0 enabled, 1 for one group only, 2 disabled (Linux 6.6).
    pub io_uring_disabled: Option<u32>,
    /// Bytes that the process may lock in memory, `ulimit -l` (soft limit).
    pub memlock_bytes: Option<Limit>,
    /// Descriptors that the process may have open, `ulimit -n` (soft limit).
    pub nofile: Option<Limit>,
    /// Number of IOMMU groups; 0 if no IOMMU is in use.
    pub iommu_groups: Option<usize>,
    /// In a guest of the lab, what is behind it.
    pub lab: Option<LabMachine>,
}

/// The variable in which a guest of the lab finds the command line of the lab, as a JSON array of words.
pub const COMMAND_LINE_VARIABLE: &str = "IOLANE_COMMAND_LINE";

/// Number of the processor's known vulnerabilities in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mitigations {
    /// The kernel works around them, at a cost.
    pub mitigated: u32,
    /// The kernel does not, or not fully, work around them.
    pub vulnerable: u32,
    pub not_affected: u32,
    /// Unknown to the kernel, or in a state unknown here.
    pub unknown: u32,
    /// The boot option `mitigations=`.
    pub boot_option: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Reserved pages, used or not.
    pub count: u64,
    pub page_bytes: u64,
}

impl Host {
    /// Reads the facts; takes some milliseconds on a large machine.
    pub fn gather() -> Self {
        let uname = rustix::system::uname();
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let meminfo = read("/proc/meminfo").unwrap_or_default();
        Self {
            iolane_version: env!("CARGO_PKG_VERSION").into(),
            command_line: command_line(),
            arch: uname.machine().to_string_lossy().into_owned(),
            kernel_release: uname.release().to_string_lossy().into_owned(),
            kernel_version: uname.version().to_string_lossy().into_owned(),
            cpu_model: parse_colon_value(&cpuinfo, "model name").map(str::to_owned),
            cpus_online: read("/sys/devices/system/cpu/online"),
            governor: join_distinct(governors()),
            smt: read("/sys/devices/system/cpu/smt/active").as_deref().and_then(parse_switch),
            hypervisor: parse_hypervisor(&cpuinfo),
            mitigations: mitigations(),
            memory_bytes: parse_kibibytes(&meminfo, "MemTotal"),
            huge_pages: parse_huge_pages(&meminfo),
            transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .map(|text| parse_choice(&text).to_owned()),
            io_uring_disabled: read("/proc/sys/kernel/io_uring_disabled").and_then(|text| text.parse().ok()),
            memlock_bytes: Some(Limit::of(Resource::Memlock)),
            nofile: Some(Limit::of(Resource::Nofile)),
            iommu_groups: fs::read_dir("/sys/kernel/iommu_groups").ok().map(Iterator::count),
            lab: LabMachine::of_this_guest(),
        }
    }
}

/// The device behind a target, and the file system of a file. What the device's driver does not report is `None`; on a file
/// system without a block device of its own (tmpfs, overlayfs, btrfs) that is everything except `file_system`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceHost {
    /// The device's name: `nvme0n1`, `sda1`. The other fields of a partition are those of its disk.
    pub name: Option<String>,
    /// The disk that it is, or is a partition of.
    pub disk: Option<String>,
    pub model: Option<String>,
    pub scheduler: Option<String>,
    /// Whether requests can be polled: the device has poll queues.
    pub io_poll: Option<bool>,
    /// Requests that the scheduler may hold per hardware queue.
    pub nr_requests: Option<u64>,
    /// Whether the kernel counts requests (queue/iostats).
    pub iostats: Option<bool>,
    /// How much it looks for adjacent requests to merge: 0 fully, 1 a little, 2 not at all (queue/nomerges).
    pub nomerges: Option<u32>,
    /// Size of a logical block, in bytes.
    pub logical_block_bytes: Option<u64>,
    /// Whether the device reports that it is rotational.
    pub rotational: Option<bool>,
    /// The kernel's view of its volatile cache: `write back`, which a sync flushes, or `write through`, where a sync has nothing
    /// to flush.
    pub write_cache: Option<String>,
    /// The NUMA node it is attached to; `None` without NUMA.
    pub numa_node: Option<u32>,
    /// Poll queues requested of its driver: the module parameter of nvme, virtio_blk and null_blk.
    pub poll_queues: Option<u32>,
    pub file_system: Option<FileSystem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its type: `ext4`, `xfs`, `fuse.sshfs`.
    pub kind: String,
    pub mount_point: String,
}

impl DeviceHost {
    /// Reads the facts about the device that holds the target's data; `None` for a simulated device.
    pub fn gather(target: &Target) -> Option<Self> {
        let file_system = match target.kind() {
            TargetKind::File => target.fd().and_then(file_system),
            _ => None,
        };
        Some(Self { file_system, ..Self::read(Path::new("/sys"), target.device()?) })
    }

    fn read(sys: &Path, (major, minor): (u32, u32)) -> Self {
        let Some((device, disk)) = folders(sys, (major, minor)) else { return Self::default() };
        let queue = |attribute: &str| read(disk.join("queue").join(attribute));
        Self {
            name: file_name(&device),
            model: read(disk.join("device/model")),
            scheduler: queue("scheduler").map(|text| parse_choice(&text).to_owned()),
            io_poll: queue("io_poll").as_deref().and_then(parse_switch),
            nr_requests: queue("nr_requests").and_then(|text| text.parse().ok()),
            logical_block_bytes: queue("logical_block_size").and_then(|text| text.parse().ok()),
            rotational: queue("rotational").as_deref().and_then(parse_switch),
            write_cache: queue("write_cache"),
            numa_node: numa_node(&disk),
            iostats: queue("iostats").as_deref().and_then(parse_switch),
            nomerges: queue("nomerges").and_then(|text| text.parse().ok()),
            poll_queues: file_name(&disk).and_then(|name| poll_queues(sys, &name)),
            disk: file_name(&disk),
            file_system: None,
        }
    }
}

/// The folders of a block device and of the disk that it is, or is a partition of.
fn folders(sys: &Path, (major, minor): (u32, u32)) -> Option<(PathBuf, PathBuf)> {
    let device = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    let disk = match device.parent() {
        Some(disk) if device.join("partition").exists() => disk.to_owned(),
        _ => device.clone(),
    };
    Some((device, disk))
}

/// The name in /sys/block of the disk that holds a target's data.
pub(super) fn disk_name(sys: &Path, target: &Target) -> Option<String> {
    file_name(&folders(sys, target.device()?)?.1)
}

/// Its number, `259:0`.
pub(crate) fn disk_number(sys: &Path, target: &Target) -> Option<String> {
    read(folders(sys, target.device()?)?.1.join("dev"))
}

/// The address in the name of a controller without a kernel driver, `pci:00:04.0,ns=2`.
pub(crate) fn controller_address(name: &str) -> Option<Bdf> {
    name.strip_prefix("pci:")?.split(',').next()?.parse().ok()
}

/// The NUMA node that a target's drive is attached to: a block device or what holds a file, or a controller without a kernel driver.
pub(crate) fn numa_node_of(sys: &Path, target: &Target) -> Option<u32> {
    match controller_address(target.name()) {
        Some(address) => numa_node(&sys.join(format!("bus/pci/devices/{address}"))),
        None => numa_node(&folders(sys, target.device()?)?.1),
    }
}

/// The trimmed text of a file; `None` if it cannot be read or is empty.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

/// The command line that repeats this run: this program's, or in a guest of the lab that of the lab, with invalid UTF-8
/// replaced.
pub fn command_line() -> Vec<String> {
    handed_over(std::env::var(COMMAND_LINE_VARIABLE).ok().as_deref())
}

fn handed_over(words: Option<&str>) -> Vec<String> {
    words
        .and_then(|words| serde_json::from_str(words).ok())
        .unwrap_or_else(|| std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect())
}

fn governors() -> impl Iterator<Item = String> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    cpus.filter_map(|cpu| read(cpu.path().join("cpufreq/scaling_governor")))
}

fn mitigations() -> Option<Mitigations> {
    let files = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").ok()?;
    let states: Vec<_> = files.flatten().filter_map(|file| read(file.path())).collect();
    let boot_option = read("/proc/cmdline").and_then(|text| parse_boot_option(&text, "mitigations"));
    Some(Mitigations { boot_option, ..count_mitigations(states.iter().map(String::as_str)) })
}

/// The NUMA node of the nearest ancestor that has one: a disk's folder has none, its controller's has. The kernel writes -1
/// for no node.
fn numa_node(disk: &Path) -> Option<u32> {
    let nearest = disk.ancestors().find_map(|folder| read(folder.join("numa_node")))?;
    nearest.parse().ok()
}

/// The poll queues requested of the driver that the disk's name implies. A null_blk made through configfs has its own setting.
fn poll_queues(sys: &Path, disk: &str) -> Option<u32> {
    let module = match disk {
        name if name.starts_with("nvme") => "nvme",
        name if name.starts_with("nullb") => "null_blk",
        name if name.starts_with("vd") => "virtio_blk",
        _ => return None,
    };
    let own = sys.join("kernel/config/nullb").join(disk).join("poll_queues");
    let parameter = sys.join("module").join(module).join("parameters/poll_queues");
    read(own).or_else(|| read(parameter))?.parse().ok()
}

/// The mount through which a descriptor was opened, by the mount id in proc_pid_fdinfo(5) and mountinfo. Unlike the longest
/// matching mount point, it is correct for bind mounts and for moved or deleted files.
fn file_system(fd: BorrowedFd<'_>) -> Option<FileSystem> {
    let fdinfo = read(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
    let mount_id = parse_colon_value(&fdinfo, "mnt_id")?.parse().ok()?;
    find_mount(&fs::read("/proc/self/mountinfo").ok()?, mount_id)
}

/// The mount of this number in a list of mounts, proc_pid_mountinfo(5).
fn find_mount(mountinfo: &[u8], mount_id: u32) -> Option<FileSystem> {
    let mount = mountinfo::find(mountinfo, mount_id)?;
    let text = |name: OsString| name.to_string_lossy().into_owned();
    Some(FileSystem { kind: text(mount.kind), mount_point: text(mount.point) })
}

/// The value of the first line `KEY : VALUE`, as in cpuinfo, meminfo and fdinfo.
pub(crate) fn parse_colon_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find_map(|(name, value)| (name.trim() == key).then(|| value.trim())).filter(|value| !value.is_empty())
}

/// A size in /proc/meminfo, given in kB of 1024 bytes (proc_meminfo(5)), in bytes.
fn parse_kibibytes(meminfo: &str, key: &str) -> Option<u64> {
    parse_colon_value(meminfo, key)?.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn parse_huge_pages(meminfo: &str) -> Option<HugePages> {
    Some(HugePages {
        count: parse_colon_value(meminfo, "HugePages_Total")?.parse().ok()?,
        page_bytes: parse_kibibytes(meminfo, "Hugepagesize")?,
    })
}

/// The flag that x86 processors show a guest. Other architectures list `Features`, or nothing, and do not report it.
fn parse_hypervisor(cpuinfo: &str) -> Option<bool> {
    Some(parse_colon_value(cpuinfo, "flags")?.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// `0` or `1`, as sysfs writes switches.
pub(super) fn parse_switch(text: &str) -> Option<bool> {
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The choice in brackets of `none [mq-deadline] kyber`; a text without brackets is the choice.
fn parse_choice(text: &str) -> &str {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(choice, _)| choice).trim()
}

/// The last value of an option on the kernel's command line, which is the one in effect.
fn parse_boot_option(cmdline: &str, option: &str) -> Option<String> {
    let mut words = cmdline.split_ascii_whitespace().rev();
    words.find_map(|word| Some(word.strip_prefix(option)?.strip_prefix('=')?.to_owned()))
}

/// Counts the texts of /sys/devices/system/cpu/vulnerabilities by their first words
/// (Documentation/ABI/testing/sysfs-devices-system-cpu). One of them may open with `KVM: `.
fn count_mitigations<'a>(states: impl Iterator<Item = &'a str>) -> Mitigations {
    let mut counts = Mitigations::default();
    for state in states {
        let state = state.strip_prefix("KVM: ").unwrap_or(state);
        let count = match state {
            _ if state.starts_with("Mitigation") => &mut counts.mitigated,
            _ if state.starts_with("Vulnerable") || state.starts_with("Processor vulnerable") => &mut counts.vulnerable,
            _ if state.starts_with("Not affected") => &mut counts.not_affected,
            _ => &mut counts.unknown,
        };
        *count += 1;
    }
    counts
}

fn join_distinct(words: impl Iterator<Item = String>) -> Option<String> {
    let words: std::collections::BTreeSet<_> = words.collect();
    (!words.is_empty()).then(|| words.into_iter().collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sysfs_fixture::Fixture;

    const CPUINFO_X86: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\n\
                               flags\t\t: fpu vme hypervisor lahf_lm\nbugs\t\t: sysret_ss_attrs\n\n\
                               processor\t: 1\nmodel name\t: another\nflags\t\t: fpu\n";
    const CPUINFO_ARM64: &str = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm\nCPU part\t: 0xd0c\n";
    const MEMINFO: &str = "MemTotal:       24684092 kB\nMemFree:         1000 kB\nHugePages_Total:     512\n\
                           HugePages_Free:      500\nHugepagesize:       2048 kB\nHugetlb:         1048576 kB\n";
    const MOUNTINFO: &[u8] = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                               27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
                               28 27 8:17 /a /mnt/two\\040words\\134 rw shared:2 master:3 - fuse.sshfs me@there:/ rw\n\
                               2 27 0:30 / /short rw - tmpfs none rw\n";

    #[test]
    fn the_processor_is_named_where_the_kernel_names_it() {
        assert_eq!(parse_colon_value(CPUINFO_X86, "model name"), Some("AMD EPYC 9654"));
        assert_eq!(parse_colon_value(CPUINFO_ARM64, "model name"), None);
    }

    #[test]
    fn a_virtual_machine_is_recognised_by_its_flag_and_never_guessed() {
        assert_eq!(parse_hypervisor(CPUINFO_X86), Some(true));
        assert_eq!(parse_hypervisor(&CPUINFO_X86.replace("hypervisor ", "")), Some(false));
        assert_eq!(parse_hypervisor(CPUINFO_ARM64), None);
    }

    #[test]
    fn memory_is_in_bytes_and_huge_pages_are_those_reserved() {
        assert_eq!(parse_kibibytes(MEMINFO, "MemTotal"), Some(24_684_092 * 1024));
        assert_eq!(parse_huge_pages(MEMINFO), Some(HugePages { count: 512, page_bytes: 2 << 20 }));
        assert_eq!(parse_huge_pages("MemTotal: 1 kB\n"), None);
        assert_eq!(parse_kibibytes("MemTotal: 18446744073709551615 kB\n", "MemTotal"), None);
    }

    #[test]
    fn mitigations_are_counted_by_state() {
        let states = [
            "Not affected",
            "Mitigation: usercopy/swapgs barriers and __user pointer sanitization",
            "KVM: Mitigation: VMX disabled",
            "Vulnerable",
            "Vulnerable: Clear CPU buffers attempted, no microcode; SMT Host state unknown",
            "Processor vulnerable",
            "Unknown: Dependent on hypervisor status",
        ];
        let counts = count_mitigations(states.into_iter());
        assert_eq!((counts.mitigated, counts.vulnerable, counts.not_affected, counts.unknown), (2, 3, 1, 1));
    }

    #[test]
    fn the_last_boot_option_counts() {
        let cmdline = "quiet mitigations=auto nomitigations=1 mitigations=off";
        assert_eq!(parse_boot_option(cmdline, "mitigations").as_deref(), Some("off"));
        assert_eq!(parse_boot_option("quiet mitigations", "mitigations"), None);
    }

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert_eq!(parse_choice("none [mq-deadline] kyber bfq"), "mq-deadline");
        assert_eq!(parse_choice("[none] mq-deadline"), "none");
        assert_eq!(parse_choice("none"), "none");
    }

    #[test]
    fn cpus_with_different_governors_show_all_of_them() {
        let words = |text: &str| join_distinct(text.split_whitespace().map(str::to_owned));
        assert_eq!(words("powersave performance powersave").as_deref(), Some("performance,powersave"));
        assert_eq!(words(""), None);
    }

    #[test]
    fn a_mount_is_found_by_its_number_and_its_name_unescaped() {
        let mount = |id| find_mount(MOUNTINFO, id).map(|mount| (mount.kind, mount.mount_point));
        assert_eq!(mount(27), Some(("ext4".into(), "/".into())));
        assert_eq!(mount(28), Some(("fuse.sshfs".into(), "/mnt/two words\\".into())));
        assert_eq!(mount(2), Some(("tmpfs".into(), "/short".into())));
        assert_eq!(mount(1), None);
    }

    #[test]
    fn a_partition_is_named_and_its_disk_answers_for_the_rest() {
        let sys = Fixture::new();
        let disk = "devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
        sys.write("devices/pci0000:00/0000:01:00.0/numa_node", "1\n")
            .write("devices/pci0000:00/0000:01:00.0/nvme/nvme0/model", "Fast SSD 7 TB          \n")
            .write(&format!("{disk}/nvme0n1p2/partition"), "2\n")
            .write(&format!("{disk}/queue/scheduler"), "[none] mq-deadline\n")
            .write(&format!("{disk}/queue/io_poll"), "1\n")
            .write(&format!("{disk}/queue/nr_requests"), "1023\n")
            .write(&format!("{disk}/queue/iostats"), "1\n")
            .write(&format!("{disk}/queue/nomerges"), "2\n")
            .write(&format!("{disk}/queue/logical_block_size"), "4096\n")
            .write(&format!("{disk}/queue/rotational"), "0\n")
            .write(&format!("{disk}/queue/write_cache"), "write back\n")
            .write("module/nvme/parameters/poll_queues", "4\n")
            .link(&format!("{disk}/device"), "../../nvme0")
            .link("dev/block/259:2", &format!("../../{disk}/nvme0n1p2"));
        let expected = DeviceHost {
            name: Some("nvme0n1p2".into()),
            disk: Some("nvme0n1".into()),
            model: Some("Fast SSD 7 TB".into()),
            scheduler: Some("none".into()),
            io_poll: Some(true),
            nr_requests: Some(1023),
            iostats: Some(true),
            nomerges: Some(2),
            logical_block_bytes: Some(4096),
            rotational: Some(false),
            write_cache: Some("write back".into()),
            numa_node: Some(1),
            poll_queues: Some(4),
            file_system: None,
        };
        assert_eq!(DeviceHost::read(&sys.path(""), (259, 2)), expected);
    }

    #[test]
    fn what_a_device_does_not_report_is_null() {
        let sys = Fixture::new();
        sys.write("devices/virtual/block/loop0/queue/rotational", "maybe\n")
            .write("devices/virtual/numa_node", "-1\n")
            .write("module/nvme/parameters/poll_queues", "4\n")
            .link("dev/block/7:0", "../../devices/virtual/block/loop0");
        let device = DeviceHost::read(&sys.path(""), (7, 0));
        assert_eq!(
            device,
            DeviceHost { name: Some("loop0".into()), disk: Some("loop0".into()), ..DeviceHost::default() }
        );
        assert_eq!(DeviceHost::read(&sys.path(""), (0, 30)), DeviceHost::default());
        let json = serde_json::to_value(&device).unwrap();
        assert!(json["model"].is_null() && json["poll_queues"].is_null() && json["numa_node"].is_null(), "{json}");
    }

    #[test]
    fn a_null_blk_of_its_own_settings_is_asked_before_the_module() {
        let sys = Fixture::new();
        sys.write("module/null_blk/parameters/poll_queues", "1\n")
            .write("kernel/config/nullb/nullb1/poll_queues", "2\n");
        assert_eq!((poll_queues(&sys.path(""), "nullb0"), poll_queues(&sys.path(""), "nullb1")), (Some(1), Some(2)));
        assert_eq!(poll_queues(&sys.path(""), "sda"), None);
    }

    #[test]
    fn in_the_lab_the_command_line_is_that_of_the_lab() {
        let outer = r#"["iolane", "lab", "run", "--", "study", "a b"]"#;
        assert_eq!(handed_over(Some(outer)).join(" "), "iolane lab run -- study a b");
        assert_eq!(handed_over(None), handed_over(Some("no JSON")));
    }

    #[test]
    fn this_host_agrees_with_other_sources() {
        let host = Host::gather();
        assert_eq!(host.arch, std::env::consts::ARCH);
        assert_eq!(Some(&host.kernel_release), read("/proc/sys/kernel/osrelease").as_ref());
        assert_eq!(host.memory_bytes.map(|bytes| bytes >> 20), Some(rustix::system::sysinfo().totalram as u64 >> 20));
        assert!(host.cpus_online.is_some());
        assert!(!host.command_line.is_empty());
        let json = serde_json::to_value(&host).unwrap();
        assert_eq!(json["iolane_version"], env!("CARGO_PKG_VERSION"));
        assert!(json["governor"].is_null() == host.governor.is_none());
    }

    #[test]
    fn a_file_is_recorded_with_its_file_system_and_a_simulated_device_with_nothing() {
        let path = std::env::temp_dir().join(format!("iolane-host-{}", std::process::id()));
        let target = Target::options().direct(false).create(4096).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let device = DeviceHost::gather(&target).unwrap();
        let file_system = device.file_system.as_ref().unwrap();
        let folder = fs::canonicalize(std::env::temp_dir()).unwrap();
        assert!(folder.starts_with(&file_system.mount_point), "{file_system:?} for {folder:?}");
        assert_eq!(DeviceHost::gather(&Target::open("null").unwrap()), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[\\PC\n\\\\:=\\[\\]0-9 -]{0,200}") {
            let _ = (parse_colon_value(&text, "a"), parse_kibibytes(&text, ""), parse_huge_pages(&text));
            let _ = (parse_hypervisor(&text), parse_switch(&text), parse_choice(&text));
            let _ = (parse_boot_option(&text, "a"), count_mitigations(text.lines()));
        }
    }
}
