//! The mounts and the swap areas, as listed in /proc. A list that cannot be read or parsed refuses the target. Called by
//! `in_use`.

use std::ffi::OsString;
use std::fs;
use std::io;

use iolane_core::mountinfo::{self, Mount, unescape};
use rustix::io::Errno;

use super::refusal::Refusal;

/// Every mount that this process can see.
pub(super) fn read_mounts() -> Result<Vec<Mount>, Refusal> {
    let path = "/proc/self/mountinfo";
    let text = fs::read(path).map_err(|error| Refusal::unreadable(path, error))?;
    mountinfo::parse(&text).ok_or_else(|| Refusal::unreadable(path, Errno::INVAL))
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(\\PC|[ \t\n\\\\0-9-]|Filename ){0,60}", bytes: Vec<u8>) {
            for text in [text.as_bytes(), &bytes] {
                let _ = parse_swaps(text);
            }
        }

        #[test]
        fn a_name_of_any_bytes_survives_the_list(name in prop::collection::vec(any::<u8>(), 1..100)) {
            let name = OsString::from_vec(name);
            let swaps = [b"Filename\n", &mountinfo::escape(&name)[..], b" file\n"].concat();
            prop_assert_eq!(parse_swaps(&swaps).unwrap(), [name]);
        }
    }
}
