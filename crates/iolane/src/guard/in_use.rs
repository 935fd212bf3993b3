//! Whether the target is in use: it, or a device related to it, is mounted, swap, held by another device or behind a loop device.
//! A `Survey` collects the related devices and files, and compares them with the kernel's lists of what is in use.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use iolane_core::loop_device::loop_backing;
use iolane_core::mountinfo::Mount;
use iolane_core::open_files::Opener;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::exports::{Export, read_exports};
use super::identity::{Identity, identify};
use super::proc::{read_mounts, read_swaps};
use super::refusal::{Refusal, shown};
use super::sysfs::{BlockDevice, Loop, Sysfs};

/// How a device or file relates to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Itself,
    Partition,
    Disk,
    Holder,
    Backing,
    /// What md, dm or bcache made it of, or the disk of that.
    Component,
}

/// A device or file that writes to the target may damage.
#[derive(Debug)]
struct Concern {
    identity: Identity,
    role: Role,
    name: String,
    bytes: u64,
}

impl Concern {
    /// Its name in messages, in which the target is "it".
    fn phrase(&self) -> String {
        match self.role {
            Role::Itself => "it".into(),
            Role::Partition => format!("its partition {}", self.name),
            Role::Disk => format!("its disk {}", self.name),
            Role::Holder => format!("{} (built on it)", self.name),
            Role::Backing | Role::Component => format!("{} (which it is made of)", self.name),
        }
    }
}

/// Everything that writes to the target may damage.
#[derive(Debug, Default)]
pub(super) struct Survey {
    concerns: Vec<Concern>,
    /// The loop devices from the target down to its backing, which are no reason to refuse.
    own_loops: Vec<String>,
}

impl Survey {
    pub(super) fn of_file(identity: Identity, bytes: u64) -> Self {
        let concern = Concern { identity, role: Role::Itself, name: String::new(), bytes };
        Self { concerns: vec![concern], own_loops: Vec::new() }
    }

    pub(super) fn of_device(device: &BlockDevice) -> Result<Self, Refusal> {
        let mut survey = Self::default();
        survey.add_with_disk(device, Role::Itself)?;
        Ok(survey)
    }

    /// Adds a device with everything above it, its disk, and everything below it.
    fn add_with_disk(&mut self, device: &BlockDevice, role: Role) -> Result<(), Refusal> {
        self.add_with_partitions(device, role)?;
        let Some(disk) = device.disk()? else { return self.add_backing(device) };
        // The other partitions of that disk are not affected.
        self.add_with_holders(&disk, if role == Role::Itself { Role::Disk } else { role })?;
        self.add_backing(&disk)
    }

    fn add_with_partitions(&mut self, device: &BlockDevice, role: Role) -> Result<(), Refusal> {
        if self.add_with_holders(device, role)? {
            for partition in device.partitions()? {
                self.add_with_partitions(&partition, if role == Role::Itself { Role::Partition } else { role })?;
            }
        }
        Ok(())
    }

    /// Adds a device and, level by level, what is built on it; false if it was added before.
    fn add_with_holders(&mut self, device: &BlockDevice, role: Role) -> Result<bool, Refusal> {
        if !self.add(device, role)? {
            return Ok(false);
        }
        for holder in device.holders()? {
            self.add_with_partitions(&holder, Role::Holder)?;
        }
        Ok(true)
    }

    /// Adds a device alone; false if it was added before.
    fn add(&mut self, device: &BlockDevice, role: Role) -> Result<bool, Refusal> {
        let identity = Identity::Block(device.number);
        if self.concern(Some(identity)).is_some() {
            return Ok(false);
        }
        self.concerns.push(Concern { identity, role, name: device.name.clone(), bytes: device.bytes()? });
        Ok(true)
    }

    /// Adds what a disk is made of.
    fn add_backing(&mut self, disk: &BlockDevice) -> Result<(), Refusal> {
        for component in disk.slaves()? {
            self.add_component(&component)?;
        }
        self.add_backing_of_loop(disk)
    }

    /// Adds a device that another is built on, with its disk and what that is made of. What else is built on it is not affected: it
    /// has other parts of it.
    fn add_component(&mut self, device: &BlockDevice) -> Result<(), Refusal> {
        if !self.add(device, Role::Component)? {
            return Ok(());
        }
        match device.disk()? {
            Some(disk) => self.add_component(&disk),
            None => self.add_backing(device),
        }
    }

    /// Adds the backing of a loop device, which can be mounted although the loop device exists.
    fn add_backing_of_loop(&mut self, device: &BlockDevice) -> Result<(), Refusal> {
        let Some(made) = device.as_loop()? else { return Ok(()) };
        if self.own_loops.contains(&made.name) {
            return Ok(());
        }
        self.own_loops.push(made.name.clone());
        // The kernel's report first: a file that was deleted, or is in another mount namespace, may be in use under another name.
        match System::ask(&made).or_else(|| identify(&made.backing)) {
            Some(Identity::Block(number)) => self.add_with_disk(&Sysfs::HERE.block(number)?, Role::Backing),
            Some(identity) => {
                let name = shown(&made.backing);
                self.concerns.push(Concern { identity, role: Role::Backing, name, bytes: made.end });
                Ok(())
            }
            None => Err(Refusal::unreadable(&made.backing, Errno::NOENT)),
        }
    }

    /// Refuses if any of it is in use on this machine, or if the lists cannot be read.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.refusals(&System::read(self.is_device())?).next().map_or(Ok(()), Err)
    }

    fn is_device(&self) -> bool {
        self.concerns.iter().any(|concern| matches!(concern.identity, Identity::Block(_)))
    }

    /// Every use of any of it on this machine, such as "it is mounted at /".
    pub(super) fn uses(&self) -> Result<Vec<String>, Refusal> {
        Ok(self.refusals(&System::read(self.is_device())?).map(|refusal| refusal.cause).collect())
    }

    fn refusals(&self, system: &System) -> impl Iterator<Item = Refusal> {
        let uses = self.mounted(system).chain(self.swapped_to(system)).chain(self.held());
        uses.chain(self.behind_loop(system)).chain(self.exported(system))
    }

    /// Whether a process counts that only reads it: not if it is a part of what the target is made of, since programs watch over such parts
    /// (multipathd has each path of a disk open).
    pub(super) fn counts_readers(&self, identity: Option<Identity>) -> bool {
        self.concern(identity).is_none_or(|concern| concern.role != Role::Component)
    }

    /// Refuses if what a process has open is any of it.
    pub(super) fn opened(&self, identity: Option<Identity>, opener: &Opener) -> Option<Refusal> {
        let cause = format!("{opener} has {} open", self.concern(identity)?.phrase());
        Some(Refusal::in_use(cause, "end that process first, or have it close that"))
    }

    fn concern(&self, identity: Option<Identity>) -> Option<&Concern> {
        self.concerns.iter().find(|concern| Some(concern.identity) == identity)
    }

    /// Compared by number and by name: btrfs, and a file that is mounted (erofs), have an artificial number.
    fn mounted(&self, system: &System) -> impl Iterator<Item = Refusal> {
        system.mounts.iter().filter_map(|mount| {
            let by_number = self.concern(Some(Identity::Block(mount.number)));
            let concern = by_number.or_else(|| self.concern((system.resolve)(&mount.source)))?;
            let point = shown(&mount.point);
            let cause = format!("{} is mounted at {point}", concern.phrase());
            Some(Refusal::in_use(cause, format!("unmount it first (umount {point})")))
        })
    }

    /// A name that leads nowhere (deleted, or in another mount namespace) is skipped: the kernel claims the devices it
    /// swaps to, and refuses writes to swap files (ETXTBSY).
    fn swapped_to(&self, system: &System) -> impl Iterator<Item = Refusal> {
        system.swaps.iter().filter_map(|swap| {
            let cause = format!("{} is in use as swap", self.concern((system.resolve)(swap))?.phrase());
            Some(Refusal::in_use(cause, format!("turn that off first (swapoff {})", shown(swap))))
        })
    }

    fn held(&self) -> impl Iterator<Item = Refusal> {
        self.concerns.iter().filter(|concern| concern.role == Role::Holder).map(|holder| {
            Refusal::in_use(format!("{} is built on it", holder.name), format!("stop {} first (lsblk)", holder.name))
        })
    }

    /// An export whose name leads nowhere here may be any device. A file that is exported is open, which shows otherwise, unless this process
    /// has it open too.
    fn exported(&self, system: &System) -> impl Iterator<Item = Refusal> {
        system.exports.iter().filter_map(|export| {
            let phrase = match (system.resolve)(&export.device) {
                Some(identity) => self.concern(Some(identity))?.phrase(),
                None if self.is_device() => format!("{}, which may be it", shown(&export.device)),
                None => return None,
            };
            Some(export.refusal(&phrase))
        })
    }

    fn behind_loop(&self, system: &System) -> impl Iterator<Item = Refusal> {
        system.loops.iter().filter(|made| !self.own_loops.contains(&made.name)).filter_map(|made| {
            let backing = (system.ask)(made).or_else(|| (system.resolve)(&made.backing));
            let is_behind = |concern: &&Concern| match backing {
                Some(backing) => concern.identity == backing,
                // By its size, which says nothing of a device.
                None => matches!(concern.identity, Identity::File { .. }) && made.may_be_made_of(concern.bytes),
            };
            let concern = self.concerns.iter().find(is_behind)?;
            let (name, phrase) = (&made.name, concern.phrase());
            Some(match backing {
                Some(_) => Refusal::in_use(
                    format!("loop device {name} is made of {phrase}"),
                    format!("detach it first (losetup -d /dev/{name})"),
                ),
                None => Refusal::in_use(
                    format!("loop device {name} may be made of {phrase}, by its size"),
                    format!("find out what it is made of (losetup -l /dev/{name}), or run as root"),
                ),
            })
        })
    }
}

/// The lists of what is in use on this machine.
struct System {
    mounts: Vec<Mount>,
    swaps: Vec<OsString>,
    loops: Vec<Loop>,
    exports: Vec<Export>,
    /// Looks up a name of these lists; a field, so that tests can supply their own.
    resolve: fn(&OsStr) -> Option<Identity>,
    /// The backing of a loop device as the kernel reports it, if permitted.
    ask: fn(&Loop) -> Option<Identity>,
}

impl System {
    /// What is exported decides about devices. A file that is exported is open, which shows otherwise in all but one case: that is asked for
    /// where the configuration can be read, which it cannot in most containers.
    fn read(is_device: bool) -> Result<Self, Refusal> {
        let (mounts, swaps, loops) = (read_mounts()?, read_swaps()?, Sysfs::HERE.loops()?);
        let exports = match read_exports(Path::new(Sysfs::HERE.0)) {
            Err(_) if !is_device => Vec::new(),
            exports => exports?,
        };
        Ok(Self { mounts, swaps, loops, exports, resolve: Self::resolve, ask: Self::ask })
    }

    /// The kernel's report is right where the name is stale: the file was deleted, or is in another mount namespace.
    fn ask(made: &Loop) -> Option<Identity> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open(format!("/dev/{}", made.name), flags, Mode::empty()).ok()?;
        let backing = loop_backing(device)?;
        Some(match backing.block_device {
            0 => Identity::File { device: backing.device, inode: backing.inode },
            number => Identity::Block((rustix::fs::major(number), rustix::fs::minor(number))),
        })
    }

    /// The source of a mount may be any word (`tmpfs`), which is not a file in the working directory.
    fn resolve(name: &OsStr) -> Option<Identity> {
        Path::new(name).is_absolute().then(|| identify(name)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::fake_sysfs::FakeSysfs;
    use crate::guard::sysfs::Number;
    use std::fs;

    impl FakeSysfs {
        fn survey(&self, number: Number) -> Survey {
            Survey::of_device(&self.sysfs().block(number).unwrap()).unwrap()
        }

        fn concerns(&self, number: Number) -> Vec<(String, Role)> {
            let survey = self.survey(number);
            let mut concerns: Vec<_> = survey.concerns.into_iter().map(|c| (c.name, c.role)).collect();
            concerns.sort_by(|a, b| a.0.cmp(&b.0));
            concerns
        }
    }

    #[test]
    fn a_disk_answers_for_its_partitions_and_a_partition_not_for_its_siblings() {
        let fake = FakeSysfs::new("survey");
        let named =
            |list: &[(&str, Role)]| list.iter().map(|(name, role)| (name.to_string(), *role)).collect::<Vec<_>>();
        let (md0, md0p1) = (("md0", Role::Holder), ("md0p1", Role::Holder));
        let sda1 = [md0, md0p1, ("sda", Role::Disk), ("sda1", Role::Itself)];
        let sda = [md0, md0p1, ("sda", Role::Itself), ("sda1", Role::Partition), ("sda2", Role::Partition)];
        assert_eq!(fake.concerns((8, 1)), named(&sda1));
        assert_eq!(fake.concerns((8, 2)), named(&[("sda", Role::Disk), ("sda2", Role::Itself)]));
        assert_eq!(fake.concerns((8, 0)), named(&sda));
        let below = [("sda", Role::Component), ("sda1", Role::Component)];
        assert_eq!(
            fake.concerns((9, 0)),
            named(&[("md0", Role::Itself), ("md0p1", Role::Partition), below[0], below[1]])
        );
        let of_partition = [("md0", Role::Disk), ("md0p1", Role::Itself), below[0], below[1]];
        assert_eq!(fake.concerns((259, 0)), named(&of_partition));
    }

    const IDLE: System = System {
        mounts: Vec::new(),
        swaps: Vec::new(),
        loops: Vec::new(),
        exports: Vec::new(),
        resolve,
        ask: |_| None,
    };

    fn mount(number: Number, source: &str) -> System {
        let (point, kind, source) = ("/data".into(), "ext4".into(), source.into());
        System { mounts: vec![Mount { id: 1, number, point, kind, source }], ..IDLE }
    }

    /// What the tests' names stand for.
    fn resolve(name: &OsStr) -> Option<Identity> {
        match name.to_str()? {
            "/dev/sda" => Some(Identity::Block((8, 0))),
            "/dev/sda1" => Some(Identity::Block((8, 1))),
            "/dev/sda2" => Some(Identity::Block((8, 2))),
            "/file" => Some(Identity::File { device: 1, inode: 2 }),
            _ => None,
        }
    }

    fn cause(survey: &Survey, system: &System) -> String {
        survey.refusals(system).next().map(|refusal| refusal.cause).unwrap_or_default()
    }

    #[test]
    fn every_use_is_told_in_the_order_of_what_weighs_most() {
        let fake = FakeSysfs::new("uses");
        let mut system = mount((8, 1), "/dev/sda1");
        system.swaps = vec!["/dev/sda2".into()];
        let causes: Vec<String> = fake.survey((8, 0)).refusals(&system).map(|refusal| refusal.cause).collect();
        let expected = [
            "its partition sda1 is mounted at /data",
            "its partition sda2 is in use as swap",
            "md0 is built on it",
            "md0p1 is built on it",
        ];
        assert_eq!(causes, expected);
    }

    #[test]
    fn a_mount_speaks_against_the_device_by_number_by_name_and_through_a_holder() {
        let fake = FakeSysfs::new("mounts");
        let (sda, sda1, sda2) = (fake.survey((8, 0)), fake.survey((8, 1)), fake.survey((8, 2)));
        assert_eq!(cause(&sda1, &mount((8, 1), "/dev/root")), "it is mounted at /data");
        assert_eq!(cause(&sda1, &mount((0, 40), "/dev/sda1")), "it is mounted at /data");
        assert_eq!(cause(&sda, &mount((0, 40), "/dev/sda2")), "its partition sda2 is mounted at /data");
        assert_eq!(cause(&sda, &mount((259, 0), "/dev/md0p1")), "md0p1 (built on it) is mounted at /data");
        assert_eq!(cause(&sda2, &mount((8, 0), "/dev/sda")), "its disk sda is mounted at /data");
        assert_eq!(cause(&sda2, &mount((8, 1), "/dev/sda1")), "");
        assert_eq!(cause(&sda2, &mount((0, 40), "sda2")), "");
    }

    #[test]
    fn a_device_with_a_holder_is_refused_though_nothing_is_mounted() {
        let fake = FakeSysfs::new("holders");
        assert_eq!(cause(&fake.survey((8, 1)), &IDLE), "md0 is built on it");
        assert_eq!(cause(&fake.survey((8, 0)), &IDLE), "md0 is built on it");
        assert_eq!(cause(&fake.survey((8, 2)), &IDLE), "");
        assert_eq!(cause(&fake.survey((9, 0)), &IDLE), "");
    }

    #[test]
    fn an_export_speaks_against_the_disk_of_the_partition_it_exports() {
        let fake = FakeSysfs::new("exported");
        let export =
            Export { subsystem: "nqn.a".into(), device: "/dev/sda1".into(), switch: "/config/nqn.a/enable".into() };
        let system = System { exports: vec![export], ..IDLE };
        assert_eq!(cause(&fake.survey((8, 0)), &system), "md0 is built on it");
        let causes: Vec<String> = fake.survey((8, 0)).refusals(&system).map(|refusal| refusal.cause).collect();
        assert!(causes.contains(&"NVMe target nqn.a exports its partition sda1".into()), "{causes:?}");
        assert_eq!(cause(&fake.survey((8, 2)), &system), "");
    }

    #[test]
    fn a_process_speaks_against_what_it_has_open_and_its_disk() {
        let fake = FakeSysfs::new("opened");
        let opener = Opener { pid: 7, program: "qemu".into() };
        let cause = |number, open| {
            let refusal = fake.survey(number).opened(Some(Identity::Block(open)), &opener);
            refusal.map(|refusal| refusal.cause).unwrap_or_default()
        };
        assert_eq!(cause((8, 2), (8, 2)), "qemu (pid 7) has it open");
        assert_eq!(cause((8, 0), (8, 2)), "qemu (pid 7) has its partition sda2 open");
        assert_eq!(cause((8, 2), (8, 0)), "qemu (pid 7) has its disk sda open");
        assert_eq!(cause((8, 2), (8, 1)), "");
    }

    #[test]
    fn a_process_that_may_write_what_a_device_is_made_of_speaks_against_it_and_one_that_reads_does_not() {
        let fake = FakeSysfs::new("components");
        let md0 = fake.survey((9, 0));
        let opener = Opener { pid: 7, program: "qemu".into() };
        for (number, name) in [((8, 1), "sda1"), ((8, 0), "sda")] {
            let identity = Some(Identity::Block(number));
            let refusal = md0.opened(identity, &opener).unwrap();
            assert_eq!(refusal.cause, format!("qemu (pid 7) has {name} (which it is made of) open"));
            assert!(!md0.counts_readers(identity) && fake.survey(number).counts_readers(identity));
        }
        let export = Export { subsystem: "a".into(), device: "/dev/sda".into(), switch: "/config/a/enable".into() };
        let exports = System { exports: vec![export], ..IDLE };
        assert_eq!(cause(&md0, &exports), "NVMe target a exports sda (which it is made of)");
        // Its other parts are not affected.
        assert_eq!(cause(&md0, &mount((8, 2), "/dev/sda2")), "");
    }

    #[test]
    fn an_exported_file_is_in_use_though_this_process_has_it_open_and_an_unknown_export_is_no_file() {
        let file = Survey::of_file(Identity::File { device: 1, inode: 2 }, 4096);
        let exports = |device: &str| {
            let export = Export { subsystem: "a".into(), device: device.into(), switch: "/config/a/enable".into() };
            System { exports: vec![export], ..IDLE }
        };
        assert_eq!(cause(&file, &exports("/file")), "NVMe target a exports it");
        assert_eq!(cause(&file, &exports("/nowhere")), "");
    }

    #[test]
    fn devices_that_are_made_of_each_other_are_surveyed_once() {
        let fake = FakeSysfs::new("ring");
        for (name, number) in [("dm-0", "254:0"), ("dm-1", "254:1")] {
            fake.device(name, number);
        }
        fake.link("devices/dm-0/slaves/dm-1", "../../dm-1");
        fake.link("devices/dm-1/slaves/dm-0", "../../dm-0");
        let names: Vec<String> = fake.concerns((254, 0)).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["dm-0", "dm-1"]);
    }

    #[test]
    fn swap_speaks_against_device_and_file() {
        let fake = FakeSysfs::new("swaps");
        let swaps = |name: &str| System { swaps: vec![name.into()], ..IDLE };
        let file = Survey::of_file(Identity::File { device: 1, inode: 2 }, 4096);
        assert_eq!(cause(&fake.survey((8, 0)), &swaps("/dev/sda2")), "its partition sda2 is in use as swap");
        assert_eq!(cause(&file, &swaps("/file")), "it is in use as swap");
        assert_eq!(cause(&file, &swaps("/dev/sda2")), "");
    }

    #[test]
    fn a_loop_device_whose_file_cannot_be_found_is_matched_by_size() {
        let of = |backing: &str, end, limited| System {
            loops: vec![Loop { name: "loop3".into(), backing: backing.into(), end, limited }],
            ..IDLE
        };
        let file = Survey::of_file(Identity::File { device: 1, inode: 2 }, 4196);
        assert_eq!(cause(&file, &of("/file", 512, false)), "loop device loop3 is made of it");
        assert_eq!(
            cause(&file, &of("/gone (deleted)", 4096, false)),
            "loop device loop3 may be made of it, by its size"
        );
        assert_eq!(
            cause(&file, &of("/gone (deleted)", 1024, true)),
            "loop device loop3 may be made of it, by its size"
        );
        assert_eq!(cause(&file, &of("/gone (deleted)", 1024, false)), "");
        assert_eq!(cause(&file, &of("/gone (deleted)", 8192, true)), "");
        assert_eq!(cause(&file, &of("/dev/sda", 4096, false)), "");
    }

    #[test]
    fn the_kernels_own_answer_decides_where_the_name_of_a_loop_devices_file_leads_nowhere() {
        let of = |ask| System {
            loops: vec![Loop { name: "loop3".into(), backing: "/gone (deleted)".into(), end: 4096, limited: false }],
            ask,
            ..IDLE
        };
        let file = Survey::of_file(Identity::File { device: 1, inode: 2 }, 4096);
        let told = |inode| cause(&file, &of(inode));
        assert_eq!(told(|_| Some(Identity::File { device: 1, inode: 2 })), "loop device loop3 is made of it");
        assert_eq!(told(|_| Some(Identity::File { device: 1, inode: 3 })), "");
    }

    #[test]
    fn a_word_in_the_kernels_lists_is_not_taken_for_a_file_here() {
        assert!(identify(OsStr::new("Cargo.toml")).is_some());
        assert_eq!(System::resolve(OsStr::new("Cargo.toml")), None);
    }

    #[test]
    fn what_sysfs_does_not_tell_counts_against_writing() {
        let fake = FakeSysfs::new("broken");
        assert!(fake.sysfs().block((8, 9)).is_err());
        fs::remove_dir(fake.0.join("devices/sda/sda2/holders")).unwrap();
        let refusal = Survey::of_device(&fake.sysfs().block((8, 2)).unwrap()).unwrap_err();
        assert!(refusal.cause.contains("cannot be told from"), "{refusal:?}");
        assert!(refusal.cause.contains("sda2/holders"), "{refusal:?}");
        fs::write(fake.0.join("devices/sda/sda1/size"), "many").unwrap();
        assert!(Survey::of_device(&fake.sysfs().block((8, 1)).unwrap()).is_err());
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(64))]

        /// Whatever stands in one file, or none where one should be, hides no use: the survey fails, or names the array.
        #[test]
        fn no_content_of_sysfs_hides_a_holder(
            place in 0..10usize,
            text in proptest::option::of("\\PC{0,12}|[0-9:\n -]{0,12}"),
            asked in proptest::sample::select(vec![(8, 0), (8, 1)]),
        ) {
            let fake = FakeSysfs::new("any-content");
            let file = [
                "sda/dev", "sda/size", "sda/sda1/dev", "sda/sda1/size", "sda/sda1/partition", "sda/sda2/dev", "md0/dev", "md0/size",
                "md0/md0p1/dev", "md0/md0p1/partition",
            ][place];
            let path = fake.0.join("devices").join(file);
            // A false number is a lie of the kernel; that is not what this is about.
            let is_number = |text: &str| iolane_core::target::parse_number(text).is_some();
            proptest::prop_assume!(!text.as_deref().is_some_and(is_number));
            match &text {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            // A partition that is not called one is none of its disk.
            let is_partition = file == "sda/sda1/partition" && text.is_none() && asked == (8, 0);
            if let Ok(survey) = fake.sysfs().block(asked).and_then(|device| Survey::of_device(&device)) {
                let names: Vec<&str> = survey.concerns.iter().map(|concern| concern.name.as_str()).collect();
                proptest::prop_assert!(names.contains(&"md0") || is_partition, "{file} with {text:?}: {names:?}");
            }
        }
    }
}
