//! The hardware of a guest, and QEMU's arguments for it. `qemu` starts it; no process is started here.

use std::path::PathBuf;
use std::str::FromStr;

use iolane_core::units::Bytes;
use iolane_core::{Error, Result};

use crate::accelerator::Accelerator;
use crate::drive_speed::DriveSpeed;
use crate::shared_time;

#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    pub cpus: u32,
    pub memory: Bytes,
    /// One controller each: nvme0, nvme1 and so on.
    pub drives: Vec<Drive>,
    /// Count instructions instead of time: those of all processors together.
    pub exact: bool,
    /// Huge pages of 2 MiB that are reserved at boot.
    pub huge_pages: u32,
    /// Devices of null_blk: nullb0, nullb1 and so on.
    pub null_blks: u32,
    /// The most requests that a queue of null_blk holds (`hw_queue_depth`).
    pub null_blk_tags: u32,
}

/// The tags of null_blk if nobody says otherwise (Documentation/block/null_blk.rst, hw_queue_depth).
pub const NULL_BLK_TAGS: u32 = 64;
const NULL_BLKS_MAX: u32 = 64;
/// The most tags of any queue (include/linux/blk-mq.h, BLK_MQ_MAX_DEPTH).
const TAGS_MAX: u32 = 10_240;

/// An NVMe controller with one namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Drive {
    /// Size of the namespace.
    pub bytes: Bytes,
    /// 512 or 4096.
    pub block_bytes: u32,
    /// Metadata per block.
    pub metadata_bytes: u16,
    /// The metadata follows the data of each block (extended LBAs), instead of being in a buffer of its own.
    pub extended_blocks: bool,
    /// The metadata begins with protection information of type 1; it needs 8 bytes.
    pub protection: bool,
    /// I/O queue pairs; the guest's driver takes some of them for polling.
    pub queue_pairs: u16,
    pub backing: Backing,
    pub speed: DriveSpeed,
    /// In a slot from which it can be removed while the guest runs.
    pub removable: bool,
    pub attached: Attached,
    /// The host's file in which QEMU records each write and each flush when the drive has done it (`blklogwrites`). Its format is that of
    /// the kernel's dm-log-writes, drivers/md/dm-log-writes.c. It is complete up to the last flush.
    pub log: Option<PathBuf>,
}

impl Default for Drive {
    fn default() -> Self {
        Self {
            bytes: Bytes(1 << 30),
            block_bytes: 512,
            metadata_bytes: 0,
            extended_blocks: false,
            protection: false,
            queue_pairs: 31,
            backing: Backing::File,
            speed: DriveSpeed::default(),
            removable: false,
            attached: Attached::Nvme,
            log: None,
        }
    }
}

/// How a drive is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// By an NVMe controller of its own. QEMU's drive ignores the bit of a write that makes it durable (FUA), of which the kernel's driver makes use.
    Nvme,
    /// By virtio-blk, after all NVMe drives: vda, vdb and so on. It has no FUA, so that the kernel sends a flush instead.
    Virtio,
}

/// What holds the data of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// A sparse file without a name, in the lab's cache folder.
    File,
    /// Nothing: reads return zeroes, writes are discarded (QEMU's `null-co`).
    Null,
    /// A file with unreadable sectors of 512 bytes (QEMU's `blkdebug`).
    BadSectors(&'static [u64]),
}

impl FromStr for Backing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "file" => Ok(Self::File),
            "null" => Ok(Self::Null),
            _ => Err(Error::usage(format!("backing `{text}`"), "not one of file and null")),
        }
    }
}

const DRIVES_MAX: usize = 16;
/// The first drive is 0000:00:04.0, as documented; the others follow.
const DRIVE_SLOT_FIRST: usize = 4;
/// The emulated controller has interrupt vectors for this many.
const QUEUE_PAIRS_MAX: u16 = 63;
const EXACT_CPUS_BEYOND: u32 = 33;
const MEMORY_MIN: Bytes = Bytes(512 << 20);
/// Queue pairs that the guest's driver uses for polling.
pub(crate) const POLL_QUEUES: u32 = 2;

impl Machine {
    /// One whose time is the host's, without huge pages, and with null_blk as it is.
    pub fn new(cpus: u32, memory: Bytes, drives: Vec<Drive>) -> Self {
        Self { cpus, memory, drives, exact: false, huge_pages: 0, null_blks: 1, null_blk_tags: NULL_BLK_TAGS }
    }

    /// Checks it against the limits of QEMU and the guest's kernel.
    ///
    /// # Errors
    /// A usage error that names the limit.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String, cause: &str| Err(Error::usage(what, cause));
        match self.cpus {
            0 => return refuse("a guest without cpus".into(), "it needs at least 1"),
            EXACT_CPUS_BEYOND.. if self.exact => {
                return refuse(
                    format!("{} cpus in exact mode", self.cpus),
                    "it runs them in turn, each as slow as there are many: at most 32",
                );
            }
            256.. => return refuse(format!("{} cpus", self.cpus), "QEMU's machine has at most 255"),
            _ => {}
        }
        if self.memory < MEMORY_MIN {
            return refuse(format!("a guest of {}", self.memory), "its kernel and this program need at least 512m");
        }
        if self.drives.len() > DRIVES_MAX {
            return refuse(format!("{} drives", self.drives.len()), "a guest has 16 slots");
        }
        if !(1..=NULL_BLKS_MAX).contains(&self.null_blks) {
            return refuse(format!("{} devices of null_blk", self.null_blks), "a guest has 1 to 64");
        }
        if !(1..=TAGS_MAX).contains(&self.null_blk_tags) {
            return refuse(format!("null_blk with {} tags", self.null_blk_tags), "a queue has 1 to 10,240");
        }
        self.drives.iter().try_for_each(Drive::check)
    }

    /// How many of the drives are NVMe drives.
    pub(crate) fn nvme_drives(&self) -> usize {
        self.drives.iter().filter(|drive| drive.attached == Attached::Nvme).count()
    }

    /// Whether its processors count instructions on one clock.
    pub(crate) fn shares_time(&self) -> bool {
        self.exact && self.cpus > 1
    }

    /// QEMU's arguments, except those for the lab's own channels; `disks` are the files of the drives.
    pub(crate) fn arguments(&self, accelerator: Accelerator, disks: &[Disk]) -> Vec<String> {
        let mut arguments = Words::default();
        arguments.add("-nodefaults -no-user-config -display none -no-reboot");
        arguments.add("-machine q35,kernel-irqchip=split,hpet=off");
        arguments.add(match accelerator {
            Accelerator::Kvm => "-accel kvm -cpu host",
            Accelerator::Tcg => "-accel tcg,thread=multi -cpu max",
            // Without ERMS the kernel copies and clears memory by words; the translator takes as long for a byte.
            Accelerator::TcgInTurn => "-accel tcg,thread=single -cpu max,-erms",
            Accelerator::Exact => "-accel tcg,thread=single -icount shift=0,sleep=off -cpu max",
        });
        // For a machine that never has a second processor the translator leaves out memory barriers, which the thread of the drives needs.
        let cpus_max = if accelerator == Accelerator::Tcg { self.cpus.max(2) } else { self.cpus };
        match self.shares_time() {
            true => arguments.add(&format!("-smp {}", self.cpus + shared_time::SPARE_CPUS)),
            false => arguments.add(&format!("-smp {},maxcpus={cpus_max}", self.cpus)),
        }
        arguments.add(&format!("-m {}b", self.memory.0));
        arguments.add("-device intel-iommu,intremap=on");
        for (index, (drive, disk)) in self.drives.iter().zip(disks).enumerate() {
            drive.add_arguments(index, disk, drive.speed.on(accelerator), &mut arguments);
        }
        arguments.0
    }

    /// The kernel's command line.
    pub(crate) fn kernel_line(&self, accelerator: Accelerator) -> String {
        // A kernel that went on after an oops would hang sooner or later, or measure something else.
        //
        // On a busy host the emulated timer may bring too few interrupts in the tenth of a second for which the kernel tests
        // it, upon which it would panic: `timer_irq_works` in arch/x86/kernel/apic/io_apic.c. Guests on KVM leave it out too.
        //
        // The time stamp counter is sound in every one of these machines, though translated processors do not say so;
        // without these words the guest's clock would be a device, and reading it a system call and an exit.
        let line = "console=ttyS0 quiet oops=panic panic=-1 mitigations=off no_timer_check tsc=reliable clocksource=tsc intel_iommu=on iommu=pt \
                    random.trust_cpu=on rdinit=/init";
        let line = match self.huge_pages {
            0 => line.to_owned(),
            pages => format!("{line} hugepages={pages}"),
        };
        match accelerator {
            // Process 1 starts the others, when the kernel's code is left to change no more: `code_patching`.
            Accelerator::Tcg => format!("{line} maxcpus=1 kfence.sample_interval=0"),
            // The same addresses every time, so that figures repeat.
            Accelerator::Exact if self.shares_time() => {
                format!("{line} nokaslr {}", shared_time::kernel_words(self.cpus))
            }
            Accelerator::Exact => format!("{line} nokaslr"),
            // Memory that is about to be written is not cleared first, which takes a tenth of these guests' time.
            Accelerator::TcgInTurn => format!("{line} init_on_alloc=0"),
            Accelerator::Kvm => line,
        }
    }
}

/// The paths by which QEMU opens the files of a drive.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) data: Option<String>,
    pub(crate) log: Option<String>,
}

impl Drive {
    /// The PCI address of the drive with that index, for one that is not removable.
    pub fn address(index: usize) -> String {
        format!("0000:00:{:02x}.0", DRIVE_SLOT_FIRST + index)
    }

    fn check(&self) -> Result<()> {
        let refuse = |what: String, cause: &str| Err(Error::usage(what, cause));
        if !matches!(self.block_bytes, 512 | 4096) {
            return refuse(
                format!("blocks of {}", self.block_bytes),
                "a drive of the lab has blocks of 512 or 4096 bytes",
            );
        }
        if self.bytes.0 < 1 << 20 || !self.bytes.0.is_multiple_of(u64::from(self.block_bytes)) {
            return refuse(format!("a drive of {}", self.bytes), "it needs at least 1m, in whole blocks");
        }
        if !(3..=QUEUE_PAIRS_MAX).contains(&self.queue_pairs) {
            return refuse(
                format!("{} queue pairs", self.queue_pairs),
                "a drive of the lab has 3 to 63, 2 of them for polling",
            );
        }
        if self.speed.latency.is_some() && self.backing != Backing::Null {
            return refuse("a drive with a latency".into(), "only one that holds no data has it (--nvme-backing null)");
        }
        if self.log.is_some() && self.speed != DriveSpeed::default() {
            return refuse("a recorded drive with limits".into(), "a drive has one of the two");
        }
        if self.metadata_bytes > 64 {
            return refuse(format!("metadata of {} bytes", self.metadata_bytes), "a drive of the lab has at most 64");
        }
        if self.protection && self.metadata_bytes < 8 {
            return refuse("protection information without metadata".into(), "it needs 8 bytes of metadata");
        }
        Ok(())
    }

    /// Whether its data is in a file.
    pub(crate) fn has_file(&self) -> bool {
        matches!(self.backing, Backing::File | Backing::BadSectors(_))
    }

    fn add_arguments(&self, index: usize, disk: &Disk, speed: DriveSpeed, arguments: &mut Words) {
        let bytes = self.bytes.0;
        let file = |prefix: &str| {
            let disk = disk.data.as_deref().unwrap_or("/dev/null");
            format!("{prefix}driver=file,{prefix}filename={disk},{prefix}locking=off,{prefix}discard=unmap")
        };
        let (limits, latency_ns) = (speed.throttling(), speed.latency.map_or(0, |latency| latency.as_nanos()));
        let is_below = !limits.is_empty() || disk.log.is_some();
        let node = format!("node-name={}{index}", if is_below { "whole" } else { "disk" });
        // The bytes are lost with the guest; flushing them to the host's disk would only take time.
        let volatile = "cache.no-flush=on,discard=unmap";
        arguments.add(&match self.backing {
            Backing::File => format!("-blockdev driver=raw,{node},{volatile},{}", file("file.")),
            Backing::Null => {
                format!("-blockdev driver=null-co,{node},size={bytes},read-zeroes=on,latency-ns={latency_ns}")
            }
            Backing::BadSectors(sectors) => {
                let rules: String = sectors.iter().enumerate().map(bad_sector).collect();
                format!("-blockdev driver=blkdebug,{node},{volatile}{rules},{}", file("image."))
            }
        });
        if !limits.is_empty() {
            arguments.add(&format!("-object throttle-group,id=limits{index}{limits}"));
            arguments.add(&format!(
                "-blockdev driver=throttle,node-name=disk{index},throttle-group=limits{index},file=whole{index}"
            ));
        }
        if let Some(log) = &disk.log {
            let block = self.block_bytes;
            arguments.add(&format!(
                "-blockdev driver=blklogwrites,node-name=disk{index},file=whole{index},log-sector-size={block},log.driver=file,log.filename={log},log.locking=off"
            ));
        }
        let mut place = format!(",addr={:#x}", DRIVE_SLOT_FIRST + index);
        if self.removable {
            arguments.add(&format!("-device pcie-root-port,id=slot{index},chassis={},slot={index}", index + 1));
            place = format!(",bus=slot{index}");
        }
        if self.attached == Attached::Virtio {
            return arguments.add(&format!("-device virtio-blk-pci,drive=disk{index},write-cache=on{place}"));
        }
        let queues = self.queue_pairs;
        let vectors = queues + 1;
        arguments.add(&format!(
            "-device nvme,id=nvme{index},serial=lab{index},max_ioqpairs={queues},msix_qsize={vectors}{place}"
        ));
        let (block, metadata) = (self.block_bytes, self.metadata_bytes);
        let (extended, protection) = (u8::from(self.extended_blocks), u8::from(self.protection));
        arguments.add(&format!(
            "-device nvme-ns,bus=nvme{index},drive=disk{index},nsid=1,logical_block_size={block},physical_block_size={block},ms={metadata},mset={extended},pi={protection}"
        ));
    }
}

/// A rule of blkdebug: reading that sector fails with errno 5 (EIO), always.
fn bad_sector((rule, sector): (usize, &u64)) -> String {
    [("event", "none"), ("iotype", "read"), ("errno", "5"), ("once", "off"), ("sector", &sector.to_string())]
        .map(|(key, value)| format!(",inject-error.{rule}.{key}={value}"))
        .concat()
}

/// Arguments, added as lines of words.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn add(&mut self, words: &str) {
        self.0.extend(words.split_whitespace().map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine::new(2, Bytes(1 << 30), vec![Drive::default()])
    }

    #[test]
    fn what_cannot_be_is_named() {
        let drive = |drive: Drive| Machine { drives: vec![drive], ..machine() };
        for (machine, cause) in [
            (Machine { cpus: 0, ..machine() }, "without cpus"),
            (Machine { exact: true, cpus: 33, ..machine() }, "33 cpus in exact mode"),
            (Machine { null_blks: 0, ..machine() }, "0 devices of null_blk"),
            (Machine { memory: Bytes(1 << 20), ..machine() }, "a guest of 1m"),
            (Machine { null_blk_tags: 0, ..machine() }, "null_blk with 0 tags"),
            (Machine { drives: vec![Drive::default(); 17], ..machine() }, "17 drives"),
            (drive(Drive { block_bytes: 1000, ..Drive::default() }), "blocks of 1000"),
            (drive(Drive { bytes: Bytes(4096), ..Drive::default() }), "a drive of 4k"),
            (drive(Drive { queue_pairs: 64, ..Drive::default() }), "64 queue pairs"),
            (drive(Drive { metadata_bytes: 65, ..Drive::default() }), "metadata of 65"),
            (drive(Drive { protection: true, ..Drive::default() }), "protection information without metadata"),
        ] {
            let error = machine.check().unwrap_err().to_string();
            assert!(error.contains(cause), "{error}");
        }
        machine().check().unwrap();
    }

    #[test]
    fn a_translated_guest_in_real_time_could_have_a_second_processor_and_one_in_exact_mode_could_not() {
        let of = |accelerator| Machine { cpus: 1, ..machine() }.arguments(accelerator, &[]).join(" ");
        assert!(of(Accelerator::Tcg).contains("-smp 1,maxcpus=2 "));
        assert!(of(Accelerator::Exact).contains("-smp 1,maxcpus=1 "));
    }

    #[test]
    fn each_drive_gets_its_controller_and_its_file() {
        let drives = vec![Drive::default(), Drive { block_bytes: 4096, backing: Backing::Null, ..Drive::default() }];
        let machine = Machine { drives, ..machine() };
        let disk = Disk { data: Some("/proc/self/fd/9".into()), log: None };
        let words = machine.arguments(Accelerator::Tcg, &[disk, Disk::default()]).join(" ");
        for part in [
            "driver=raw,node-name=disk0,",
            "file.filename=/proc/self/fd/9",
            "driver=null-co,node-name=disk1,size=1073741824",
            "-device nvme,id=nvme1,serial=lab1,",
            "nvme-ns,bus=nvme1,drive=disk1,nsid=1,logical_block_size=4096",
            "-smp 2,maxcpus=2 -m 1073741824b",
        ] {
            assert!(words.contains(part), "{part} is missing in {words}");
        }
    }

    #[test]
    fn a_recorded_drive_is_above_its_data_and_its_log() {
        let drive = Drive { log: Some("log".into()), block_bytes: 4096, ..Drive::default() };
        let machine = Machine { drives: vec![drive], ..machine() };
        let disk = Disk { data: Some("/proc/self/fd/9".into()), log: Some("/proc/self/fd/10".into()) };
        let words = machine.arguments(Accelerator::Tcg, &[disk]).join(" ");
        let recorded = "driver=blklogwrites,node-name=disk0,file=whole0,log-sector-size=4096,log.driver=file,log.filename=/proc/self/fd/10";
        assert!(words.contains("driver=raw,node-name=whole0,") && words.contains(recorded), "{words}");
    }

    #[test]
    fn exact_mode_counts_instructions_on_one_processor() {
        let machine = Machine { cpus: 1, exact: true, ..machine() };
        let words = machine.arguments(Accelerator::Exact, &[Disk::default()]).join(" ");
        assert!(words.contains("-icount shift=0,sleep=off"), "{words}");
        assert!(machine.kernel_line(Accelerator::Exact).ends_with("nokaslr"));
    }

    #[test]
    fn several_processors_in_exact_mode_have_a_spare_behind_them_that_the_kernel_does_not_see() {
        let machine = Machine { exact: true, ..machine() };
        let words = machine.arguments(Accelerator::Exact, &[Disk::default()]).join(" ");
        assert!(words.contains("-smp 3 "), "{words}");
        assert!(machine.kernel_line(Accelerator::Exact).ends_with("iomem=relaxed nr_cpus=2"));
    }
}
