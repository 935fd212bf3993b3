//! A meter that is a user's command: it prints watts, one number per line, either continuously or once per run. The meter's
//! thread reads it; the command and its process group are killed when the thread ends.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::live::Feed;
use crate::process::shown;
use crate::process::{Group, Pipe, wait};
use crate::telemetry::{Reading, Unavailable};

/// Interval between the starts of a command that ends after it has printed.
const PERIOD: Duration = Duration::from_secs(1);
/// A command that prints nothing for this time has failed.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Longest line, and most of stderr that is kept.
const BYTES_MAX: usize = 8 << 10;
/// A larger number is taken for an error.
const WATTS_MAX: f64 = 1e6;

/// Runs the command again and again until the meter is dropped.
pub(super) fn follow(command: &str, feed: &Feed) {
    while !feed.is_over() {
        let begun = Instant::now();
        if let Err(why) = run(command, feed) {
            feed.note_trouble(why);
        }
        feed.pause(PERIOD.saturating_sub(begun.elapsed()));
    }
}

/// Runs it once, to its end or until the meter is dropped.
fn run(command: &str, feed: &Feed) -> Reading<()> {
    let failed = |error: std::io::Error| {
        Unavailable::new(format!("the meter's command cannot be run: {}", iolane::error::describe(&error)))
    };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut group = Group::new(shell.spawn().map_err(failed)?);
    let mut stdout = Pipe::new(group.child.stdout.take()).map_err(failed)?;
    let mut stderr = Pipe::new(group.child.stderr.take()).map_err(failed)?;
    let (mut heard, mut lines) = (Instant::now(), 0);
    while !feed.is_over() {
        let ended = group.has_ended();
        if !ended {
            wait(&group, &stdout, &stderr);
        }
        read(&mut stdout, &mut stderr);
        for watts in take_watts(&mut stdout.kept, ended)? {
            feed.note(watts);
            (heard, lines) = (Instant::now(), lines + 1);
        }
        if ended {
            let status = group.finish().map_err(failed)?;
            return match (status.success(), lines) {
                (false, _) => {
                    Err(Unavailable::new(format!("the meter's command failed ({status}){}", said(&stderr.kept))))
                }
                (true, 0) => Err(Unavailable::new("the meter's command printed nothing")),
                (true, _) => Ok(()),
            };
        }
        if heard.elapsed() > SILENCE_MAX {
            let cause = format!("the meter's command printed nothing for {} s", SILENCE_MAX.as_secs());
            return Err(Unavailable::new(format!("{cause}{}", said(&stderr.kept))));
        }
    }
    Ok(())
}

fn read(stdout: &mut Pipe<impl Read + AsFd>, stderr: &mut Pipe<impl Read + AsFd>) {
    stdout.read();
    stderr.read();
    stderr.kept.drain(..stderr.kept.len().saturating_sub(BYTES_MAX));
}

/// The last line of stderr, to be appended to a message.
fn said(complaints: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaints);
    let last = text.lines().rev().map(|line| shown(line, 160)).find(|line| !line.is_empty());
    last.map_or(String::new(), |last| format!(": {last}"))
}

/// Removes the complete lines from a buffer and returns their watts. At the end of output the last line counts as complete.
fn take_watts(buffer: &mut Vec<u8>, at_end: bool) -> Reading<Vec<f64>> {
    let whole = match buffer.iter().rposition(|byte| *byte == b'\n') {
        _ if at_end => buffer.len(),
        Some(last) => last + 1,
        None => 0,
    };
    if buffer.len() - whole > BYTES_MAX {
        return Err(Unavailable::new("the meter's command prints no line breaks"));
    }
    let bytes: Vec<u8> = buffer.drain(..whole).collect();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter(|line| !line.trim().is_empty()).map(watts).collect()
}

/// `87.5`, `87.5 W`, `87.5 watts`.
fn watts(line: &str) -> Reading<f64> {
    let number = line.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = line.trim()[number.len()..].trim();
    let unit_is_right = ["", "w", "watt", "watts"].contains(&unit.to_ascii_lowercase().as_str());
    let watts = number.parse().ok().filter(|watts| unit_is_right && (0.0..=WATTS_MAX).contains(watts));
    watts.ok_or_else(|| {
        Unavailable::new(format!("the meter's command printed `{}`, which is not a number of watts", shown(line, 60)))
            .remedy("make it print one number per line, such as 87.5")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::meters::curve::Kind;
    use crate::meters::live::Live;

    #[test]
    fn whole_lines_are_taken_and_the_rest_is_left_for_later() {
        let mut buffer = b"87.5\n\n 90 W\n1".to_vec();
        assert_eq!(take_watts(&mut buffer, false).unwrap(), [87.5, 90.0]);
        buffer.extend(b"00 watts");
        assert_eq!(take_watts(&mut buffer, false).unwrap(), [0.0; 0]);
        assert_eq!(take_watts(&mut buffer, true).unwrap(), [100.0]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn invalid_output_is_quoted() {
        for line in ["Power: 87", "87.5 J", "-3", "nan", "inf", "1e9", "0x10", "W"] {
            let why = take_watts(&mut format!("{line}\n").into_bytes(), false).unwrap_err().to_string();
            assert!(why.contains(&format!("printed `{line}`, which is not a number of watts")), "{why}");
        }
        let mut endless = vec![b'x'; BYTES_MAX + 1];
        assert!(take_watts(&mut endless, false).unwrap_err().reason.contains("no line breaks"));
    }

    /// The result of starting a meter with this command.
    fn begun(command: &'static str) -> Reading<()> {
        let live = Live::fed(Kind::Gauge, move |feed| follow(command, &feed))?;
        live.begin(Duration::from_secs(60))
    }

    #[test]
    fn a_streaming_command_is_read_and_killed_with_all_it_started() {
        begun("while :; do echo 87.5; sleep 0.01; done").unwrap();
        begun("sleep 1000 & echo 5; sleep 0.01; echo 6; wait").unwrap();
    }

    #[test]
    fn a_command_that_fails_or_prints_something_else_is_unavailable_with_its_output() {
        let why = |command| begun(command).unwrap_err().to_string();
        let failed = why("echo no such meter >&2; exit 3");
        assert_eq!(failed, "the meter's command failed (exit status: 3): no such meter");
        assert!(why("echo hello").contains("`hello`"), "{}", why("echo hello"));
        assert_eq!(why("true"), "the meter's command printed nothing");
        assert!(why("/no/such/program").contains("not found"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at_end in any::<bool>()) {
            let mut buffer = bytes;
            let _ = take_watts(&mut buffer, at_end);
        }
    }
}
