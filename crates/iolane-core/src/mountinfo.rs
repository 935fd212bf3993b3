//! The mounts that a process sees, as /proc/PID/mountinfo lists them. The guard looks for a target among them, and a run records the file
//! system of its target by them. Nothing here opens a file.
//! Source: proc_pid_mountinfo(5).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::target::parse_number;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The number of the mount, which a descriptor has too that was opened through it (`mnt_id`, proc_pid_fdinfo(5)).
    pub id: u32,
    /// Major and minor number of its device; an artificial one if the file system has no block device of its own (btrfs, overlayfs).
    pub number: (u32, u32),
    /// The mount point, below the root directory of the process.
    pub point: OsString,
    /// The type of the file system: `ext4`, `fuse.sshfs`.
    pub kind: OsString,
    /// What is mounted, in the words of the file system: often the name of a device, and it may be empty.
    pub source: OsString,
}

/// Parses a list of mounts; `None` if a line has another format.
///
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
pub fn parse(text: &[u8]) -> Option<Vec<Mount>> {
    lines(text).map(parse_line).collect()
}

/// The mount with this number in a list of mounts, for those who have no use for the others: lines of another format are passed over.
pub fn find(text: &[u8], id: u32) -> Option<Mount> {
    lines(text).filter_map(parse_line).find(|mount| mount.id == id)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Number, parent, device, root, mount point, options, any number of optional fields, `-`, type, source, options.
fn parse_line(line: &[u8]) -> Option<Mount> {
    // Fields are separated by one space each, since a source may be empty.
    let mut fields = line.split(|byte| *byte == b' ');
    let id = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let number = parse_number(str::from_utf8(fields.nth(1)?).ok()?)?;
    let point = unescape(fields.nth(1)?);
    fields.find(|field| *field == b"-")?;
    Some(Mount { id, number, point, kind: unescape(fields.next()?), source: unescape(fields.next()?) })
}

/// Undoes the escapes of a name in the kernel's lists, such as `\040` for a space (`mangle_path` in fs/seq_file.c). What is no escape stands
/// for itself.
pub fn unescape(field: &[u8]) -> OsString {
    let mut name = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        rest = match rest {
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..] => {
                name.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                after
            }
            _ => {
                name.push(*first);
                after
            }
        };
    }
    OsString::from_vec(name)
}

/// Writes a name as the kernel does in its lists: the inverse of [`unescape`], for tests of what reads them.
pub fn escape(name: &OsStr) -> Vec<u8> {
    let escaped = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
        _ => vec![*byte],
    };
    name.as_bytes().iter().flat_map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_gives_numbers_point_type_and_source() {
        let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue\n\
            41 27 0:40 /a /my\\040disk rw - btrfs /dev/\\134x\\011y rw\n\
            42 27 0:41 / /empty rw - fuse.sshfs  rw\n";
        let mount = |id, number, point: &str, kind: &str, source: &str| Mount {
            id,
            number,
            point: point.into(),
            kind: kind.into(),
            source: source.into(),
        };
        let expected = [
            mount(36, (98, 0), "/mnt2", "ext3", "/dev/root"),
            mount(41, (0, 40), "/my disk", "btrfs", "/dev/\\x\ty"),
            mount(42, (0, 41), "/empty", "fuse.sshfs", ""),
        ];
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn a_line_that_makes_no_sense_spoils_the_list_and_not_the_mount_that_is_looked_for() {
        for line in [
            "x",
            "x 2 8:1 / / rw - ext4 /dev/a",
            "1 2 3 / / rw - ext4 /dev/a",
            "1 2 8:1 / / rw ext4 /dev/a",
            "1 2 8:1 / / rw -",
            "1 2 8:1 / / rw - ext4",
            "1 2 8:-1 / / - a b",
        ] {
            let text = format!("36 35 98:0 / / rw - ext3 /dev/root rw\n{line}\n");
            assert_eq!(parse(text.as_bytes()), None, "{line}");
            let found = [36, 1].map(|id| find(text.as_bytes(), id).map(|mount| mount.source));
            assert_eq!(found, [Some("/dev/root".into()), None], "{line}");
        }
    }

    #[test]
    fn what_is_no_escape_stands_for_itself() {
        for (field, name) in [("a\\040b", "a b"), ("\\40", "\\40"), ("\\400\\048", "\\400\\048"), ("\\", "\\")] {
            assert_eq!(unescape(field.as_bytes()), name);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(\\PC|[ \t\n\\\\0-9:-]){0,60}", bytes: Vec<u8>) {
            for text in [text.as_bytes(), &bytes] {
                let _ = parse(text);
                let _ = unescape(text);
                let _ = str::from_utf8(text).map(parse_number);
            }
        }

        #[test]
        fn names_of_any_bytes_survive_the_list(id: u32, major: u32, minor: u32, names: [Vec<u8>; 3]) {
            let [point, kind, source] = names.map(OsString::from_vec);
            let start = format!("{id} 2 {major}:{minor} / ");
            let fields = [&point, &kind, &source].map(|name| escape(name));
            let line = [start.as_bytes(), &fields[0], b" rw - ", &fields[1], b" ", &fields[2], b" rw\n"].concat();
            let expected = Mount { id, number: (major, minor), point, kind, source };
            prop_assert_eq!(parse(&line).unwrap(), [expected]);
        }
    }
}
