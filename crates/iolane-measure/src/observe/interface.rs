//! The interface through which a process does its I/O, as far as its descriptors and mappings show it.

use std::fs;
use std::path::PathBuf;

use iolane::IoPath;
use serde::Serialize;

use crate::host::parse_colon_value;

/// What a process has open for I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InterfaceInUse {
    /// Rings of io_uring that were in use; all of them where the kernel does not tell.
    pub rings: usize,
    /// Those with a submission thread.
    pub sqpoll_rings: usize,
    /// Whether a ring has registered buffers.
    pub fixed_buffers: bool,
    /// Whether a ring has registered files.
    pub fixed_files: bool,
    /// Whether it has a context of Linux AIO.
    pub libaio: bool,
    /// Whether it has a generic device of an NVMe namespace open, for passthrough.
    pub passthrough: bool,
}

/// What the descriptor of a ring links to (io_uring/io_uring.c).
const RING: &str = "anon_inode:[io_uring]";
/// The mapping of a Linux AIO context (fs/aio.c).
const AIO_MAPPING: &str = "/[aio]";

/// A process's interface while it is watched.
#[derive(Debug, Default)]
pub(super) struct InterfaceWatch {
    rings: Vec<Ring>,
    libaio: bool,
    passthrough: bool,
}

#[derive(Debug, Default)]
struct Ring {
    /// Its file in proc_pid_fdinfo(5).
    info: PathBuf,
    /// The end of its completion queue when it was seen first, and last.
    completed: Option<(u32, u32)>,
    has_thread: bool,
    fixed_buffers: bool,
    fixed_files: bool,
}

impl InterfaceWatch {
    /// Adds a descriptor: what it links to, and its file in fdinfo.
    pub(super) fn add(&mut self, link: &str, info: PathBuf) {
        self.passthrough |= link.starts_with("/dev/ng");
        if link == RING {
            self.rings.push(Ring { info, ..Ring::default() });
        }
    }

    /// Adds the mappings, proc_pid_maps(5).
    pub(super) fn add_mappings(&mut self, maps: &str) {
        self.libaio |= maps.lines().any(|line| line.contains(AIO_MAPPING));
    }

    /// Looks at the rings. The kernel leaves out what a ring in use does not let it read at that moment, so that several looks
    /// see more than one.
    pub(super) fn look(&mut self) {
        for ring in &mut self.rings {
            ring.add(&fs::read_to_string(&ring.info).unwrap_or_default());
        }
    }

    pub(super) fn seen(&self) -> InterfaceInUse {
        let Self { rings, libaio, passthrough } = self;
        let rings: Vec<&Ring> = rings.iter().filter(|ring| ring.is_in_use()).collect();
        InterfaceInUse {
            rings: rings.len(),
            sqpoll_rings: rings.iter().filter(|ring| ring.has_thread).count(),
            fixed_buffers: rings.iter().any(|ring| ring.fixed_buffers),
            fixed_files: rings.iter().any(|ring| ring.fixed_files),
            libaio: *libaio,
            passthrough: *passthrough,
        }
    }
}

impl Ring {
    /// Whether requests completed between two looks; true if the kernel does not tell.
    fn is_in_use(&self) -> bool {
        self.completed.is_none_or(|(first, last)| first != last)
    }

    fn add(&mut self, info: &str) {
        let number = |key: &str| parse_colon_value(info, key).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        let completed = parse_colon_value(info, "CqTail").and_then(|text| text.parse().ok());
        self.completed = match (self.completed, completed) {
            (Some((first, _)), Some(now)) => Some((first, now)),
            (None, Some(now)) => Some((now, now)),
            (before, None) => before,
        };
        // The thread's number; -1 without one.
        self.has_thread |= number("SqThread") > 0;
        self.fixed_buffers |= number("UserBufs") > 0;
        self.fixed_files |= number("UserFiles") > 0;
    }
}

impl InterfaceInUse {
    /// Whether there is any other than calls that block.
    pub fn is_any(&self) -> bool {
        self.rings > 0 || self.libaio
    }

    /// The path of a process that does its I/O by what it has.
    pub(super) fn path(&self) -> IoPath {
        let has_sqpoll = self.rings > 0 && self.sqpoll_rings == self.rings;
        let notation = match (self.rings, self.libaio) {
            (0, true) => "libaio".to_owned(),
            (0, false) => "psync".to_owned(),
            _ => {
                let mut notation = if self.passthrough { "io_uring_cmd" } else { "io_uring" }.to_owned();
                let parts =
                    [(has_sqpoll, "+sqpoll"), (self.fixed_buffers, ",fixedbufs"), (self.fixed_files, ",fixedfiles")];
                parts.iter().filter(|(has, _)| *has).for_each(|(_, part)| notation.push_str(part));
                notation
            }
        };
        // Each of them is a path of the registry, which a test asserts.
        notation.parse().unwrap_or_else(|_| IoPath::new("psync"))
    }

    pub(super) fn in_words(&self) -> String {
        let mut words = Vec::new();
        match self.rings {
            0 => {}
            1 => words.push("io_uring".to_owned()),
            rings => words.push(format!("io_uring with {rings} rings")),
        }
        match (self.sqpoll_rings, self.rings) {
            (0, _) => {}
            (with, all) if with == all => words.push("submission polled by a thread".to_owned()),
            (with, _) => words.push(format!("submission polled by a thread on {with} of them")),
        }
        if self.fixed_buffers {
            words.push("registered buffers".into());
        }
        if self.fixed_files {
            words.push("registered files".into());
        }
        if self.libaio {
            words.push("Linux AIO".into());
        }
        if self.passthrough {
            words.push("NVMe passthrough".into());
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FDINFO: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nSqMask:\t0xf\nSqThread:\t-1\nSqThreadCpu:\t-1\nUserFiles:\t2\nUserBufs:\t0\n";

    /// What is seen of descriptors, of which the rings have these texts.
    fn of(descriptors: &[(&str, &str)], maps: &str) -> InterfaceInUse {
        let mut watch = InterfaceWatch::default();
        descriptors.iter().for_each(|(link, _)| watch.add(link, PathBuf::new()));
        let infos = descriptors.iter().filter(|(link, _)| *link == RING).map(|(_, info)| *info);
        watch.rings.iter_mut().zip(infos).for_each(|(ring, info)| ring.add(info));
        watch.add_mappings(maps);
        watch.seen()
    }

    #[test]
    fn a_ring_is_described_by_its_descriptor() {
        let plain = of(&[(RING, FDINFO)], "");
        assert_eq!(plain.path().to_string(), "io_uring,fixedfiles");
        assert_eq!(plain.in_words(), "io_uring, registered files");
        let info = FDINFO.replace("SqThread:\t-1", "SqThread:\t77").replace("UserBufs:\t0", "UserBufs:\t9");
        let all = of(&[(RING, &info)], "");
        assert_eq!(all.path().to_string(), "io_uring+sqpoll,fixedbufs,fixedfiles");
        let passthrough = of(&[("/dev/ng0n1", ""), (RING, "SqThread:\t-1\n")], "");
        assert_eq!(passthrough.path().to_string(), "io_uring_cmd");
        assert_eq!(of(&[(RING, &info), (RING, FDINFO)], "").path().to_string(), "io_uring,fixedbufs,fixedfiles");
    }

    #[test]
    fn a_ring_on_which_nothing_completes_is_not_in_use() {
        let mut watch = InterfaceWatch::default();
        (0..2).for_each(|_| watch.add(RING, PathBuf::new()));
        let info = |tail: u32, thread: i32| format!("CqTail:\t{tail}\nSqThread:\t{thread}\n");
        for (idle, busy) in [(7, 100), (7, 160)] {
            watch.rings[0].add(&info(idle, -1));
            watch.rings[1].add(&info(busy, 55));
        }
        let seen = watch.seen();
        assert_eq!((seen.rings, &seen.path().to_string()[..]), (1, "io_uring+sqpoll"));
        assert_eq!(seen.in_words(), "io_uring, submission polled by a thread");
    }

    #[test]
    fn what_one_look_misses_another_one_finds() {
        let mut ring = Ring::default();
        [FDINFO, "pos:\t0\n"].iter().for_each(|info| ring.add(info));
        assert!(ring.fixed_files && !ring.fixed_buffers);
    }

    #[test]
    fn linux_aio_shows_in_the_mappings_and_blocking_calls_are_the_rest() {
        let aio = of(&[("/data", "")], "7f1c000-7f1d000 rw-s 00000000 00:0f 3081 /[aio] (deleted)\n");
        assert_eq!((aio.path().to_string(), aio.in_words()), ("libaio".into(), "Linux AIO".into()));
        let blocking = of(&[("/data", FDINFO), ("/dev/nvme0n1", "")], "7f1c000-7f1d000 r-xp 0 fe:00 30 /lib/libc.so\n");
        assert_eq!(blocking.path().to_string(), "psync");
    }

    #[test]
    fn every_combination_is_a_path_of_the_registry() {
        for bits in 0..64_u32 {
            let has = |bit: u32| bits & (1 << bit) != 0;
            let rings = usize::from(has(0)) + usize::from(has(0) && has(1));
            let interface = InterfaceInUse {
                rings,
                sqpoll_rings: if has(2) { rings } else { 0 },
                fixed_buffers: has(3) && rings > 0,
                fixed_files: has(4) && rings > 0,
                libaio: has(5),
                passthrough: has(1),
            };
            let path = interface.path();
            let of = iolane::interface_of(&path).unwrap();
            assert!(of.validate(&path).is_ok() && (rings == 0 || path.to_string().starts_with("io_uring")), "{path}");
        }
    }
}
