//! The conformance table of all guests: path x kernel x device, with a letter for each reason why something was skipped.

use super::record::Found;
use crate::table::{Style, Table};

/// One table for each kernel; the reasons once, below them all.
pub(super) fn render(found: &[Found]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut text = String::new();
    for guest in found {
        let rows = &guest.record.rows;
        let mut devices: Vec<&str> = Vec::new();
        let mut paths: Vec<&str> = Vec::new();
        for row in rows {
            for (list, name) in [(&mut devices, row.device.as_str()), (&mut paths, row.path.as_str())] {
                if !list.contains(&name) {
                    list.push(name);
                }
            }
        }
        let headings = devices.iter().map(|device| device.trim_start_matches("/dev/"));
        let mut table = Table::new(&[guest.release.as_str()].into_iter().chain(headings).collect::<Vec<_>>());
        for path in paths {
            let mut cells = vec![path.to_owned()];
            for device in &devices {
                let row = rows.iter().find(|row| row.path == path && row.device == *device);
                cells.push(row.map_or(".".into(), |row| {
                    let letters: String = row.skipped.iter().map(|reason| letter(&mut reasons, reason)).collect();
                    match (row.failed, row.passed) {
                        (0, 0) => letters,
                        (0, passed) if letters.is_empty() => passed.to_string(),
                        (0, passed) => format!("{passed} {letters}"),
                        (failed, _) => format!("{failed} FAILED"),
                    }
                }));
            }
            table.row(cells);
        }
        text.push_str(&table.render(Style::Bare));
        text.push('\n');
    }
    for (index, reason) in reasons.iter().enumerate() {
        text.push_str(&format!("{}: {reason}\n", name(index)));
    }
    text
}

fn letter<'a>(reasons: &mut Vec<&'a str>, reason: &'a str) -> String {
    let index = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    name(index)
}

/// `a` to `z`, then numbers in brackets.
fn name(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => char::from(b'a' + index).into(),
        _ => format!("[{index}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Record, Row};
    use super::*;

    #[test]
    fn a_reason_has_the_same_letter_in_every_guest() {
        let row = |path: &str, device: &str, passed, failed, skipped: &[&str]| Row {
            path: path.into(),
            device: device.into(),
            passed,
            failed,
            skipped: skipped.iter().map(ToString::to_string).collect(),
        };
        let guest = |release: &str, rows| Found { release: release.into(), record: Record { rows } };
        let text = render(&[
            guest(
                "5.10",
                vec![row("psync", "/dev/nvme0n1", 24, 0, &[]), row("io_uring_cmd", "/dev/nvme0n1", 0, 0, &["old"])],
            ),
            guest(
                "6.1",
                vec![row("psync", "/dev/nvme0n1", 20, 0, &["new", "old"]), row("psync", "/dev/nullb0", 3, 2, &[])],
            ),
        ]);
        let expected = "\
5.10          nvme0n1
psync              24
io_uring_cmd        a

6.1    nvme0n1    nullb0
psync    20 ba  2 FAILED

a: old
b: new
";
        assert_eq!(text, expected);
    }
}
