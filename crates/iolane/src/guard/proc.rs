//! The mounts and the swap areas, as listed in /proc. A list that cannot be read or parsed refuses the target. Called by
//! `in_use`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;

use rustix::io::Errno;

use super::refusal::Refusal;
use super::sysfs::{Number, parse_number};

/// Every mount that this process can see.
pub(super) fn read_mounts() -> Result<Vec<Mount>, Refusal> {
    let path = "/proc/self/mountinfo";
    let text = fs::read(path).map_err(|error| Refusal::unreadable(path, error))?;
    parse_mountinfo(&text).ok_or_else(|| Refusal::unreadable(path, Errno::INVAL))
}

/// The names of the files and devices in use as swap.
pub(super) fn read_swaps() -> Result<Vec<OsString>, Refusal> {
    let path = "/proc/swaps";
    match fs::read(path) {
        Ok(text) => parse_swaps(&text).ok_or_else(|| Refusal::unreadable(path, Errno::INVAL)),
        // A kernel built without swap has no such file; the list of mounts has proved that /proc is there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Refusal::unreadable(path, error)),
    }
}

/// A line of /proc/self/mountinfo.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) number: Number,
    pub(super) point: OsString,
    pub(super) source: OsString,
}

/// Parses a list of mounts, proc_pid_mountinfo(5); `None` if a line has another format.
///
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_mountinfo(text: &[u8]) -> Option<Vec<Mount>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            // Fields are separated by one space each, since a source may be empty.
            let mut fields = line.split(|byte| *byte == b' ');
            let number = parse_number(fields.nth(2)?)?;
            let point = unescape(fields.nth(1)?);
            fields.find(|field| *field == b"-")?;
            Some(Mount { number, point, source: unescape(fields.nth(1)?) })
        })
        .collect()
}

/// Parses the list of swap areas, proc_swaps(5); `None` if it has another format.
fn parse_swaps(text: &[u8]) -> Option<Vec<OsString>> {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    if !lines.next()?.starts_with(b"Filename") {
        return None;
    }
    lines
        .map(|line| {
            let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
            (end > 0).then(|| unescape(&line[..end]))
        })
        .collect()
}

/// Undoes the kernel's escapes: a space is written `\040`.
fn unescape(field: &[u8]) -> OsString {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_of_mountinfo_gives_number_point_and_source() {
        let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue\n\
            41 27 0:40 /a /my\\040disk rw - btrfs /dev/\\134x\\011y rw\n\
            42 27 0:41 / /empty rw - fuse  rw\n";
        let mount = |number, point: &str, source: &str| Mount { number, point: point.into(), source: source.into() };
        let expected = [
            mount((98, 0), "/mnt2", "/dev/root"),
            mount((0, 40), "/my disk", "/dev/\\x\ty"),
            mount((0, 41), "/empty", ""),
        ];
        assert_eq!(parse_mountinfo(text).unwrap(), expected);
    }

    #[test]
    fn a_line_of_mountinfo_that_makes_no_sense_is_not_passed_over() {
        for line in
            ["x", "1 2 3 / / rw - ext4 /dev/a", "1 2 8:1 / / rw ext4 /dev/a", "1 2 8:1 / / rw -", "1 2 8:-1 / / - a b"]
        {
            let text = format!("36 35 98:0 / / rw - ext3 /dev/root rw\n{line}\n");
            assert_eq!(parse_mountinfo(text.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn swaps_are_named_without_the_padding_and_the_escapes() {
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let text = format!(
            "{header}/dev/sda2                               partition\t8\t\t0\t\t-2\n\
             /a\\040b\\040(deleted)\t\t\t\tfile\t\t8\t\t0\t\t-3\n"
        );
        assert_eq!(parse_swaps(text.as_bytes()).unwrap(), ["/dev/sda2", "/a b (deleted)"]);
        assert_eq!(parse_swaps(header.as_bytes()).unwrap(), [""; 0]);
        for text in ["", "/dev/sda2 partition 8 0 -2\n", &format!("{header}noend"), &format!("{header} x\n")] {
            assert_eq!(parse_swaps(text.as_bytes()), None, "{text}");
        }
    }

    /// As the kernel writes names in its lists (seq_path).
    fn escape(name: &[u8]) -> Vec<u8> {
        let escaped = |byte: &u8| match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
            _ => vec![*byte],
        };
        name.iter().flat_map(escaped).collect()
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "(\\PC|[ \t\n\\\\0-9:-]|Filename ){0,60}", bytes: Vec<u8>) {
            for text in [text.as_bytes(), &bytes] {
                let _ = parse_mountinfo(text);
                let _ = parse_swaps(text);
                let _ = parse_number(text);
                let _ = unescape(text);
            }
        }

        #[test]
        fn names_of_any_bytes_survive_the_lists(point: Vec<u8>, source: Vec<u8>, major: u32, minor: u32) {
            let (point_text, source_text) = (escape(&point), escape(&source));
            let start = format!("1 2 {major}:{minor} / ");
            let line = [start.as_bytes(), &point_text, b" rw - x ", &source_text, b" rw\n"].concat();
            let (point, source) = (OsString::from_vec(point), OsString::from_vec(source));
            let expected = Mount { number: (major, minor), point, source: source.clone() };
            prop_assert_eq!(parse_mountinfo(&line).unwrap(), [expected]);
            if !source.is_empty() {
                let swaps = [b"Filename\n", &source_text[..], b" file\n"].concat();
                prop_assert_eq!(parse_swaps(&swaps).unwrap(), [source]);
            }
        }
    }
}
