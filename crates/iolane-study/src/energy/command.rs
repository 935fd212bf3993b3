//! A meter that is a program of the user's: it prints watts, a number a line, either all the time or once each time it is
//! run. Read by a thread of the meter's; the program and all that it started is gone when the thread ends.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::live::Feed;
use crate::peers::process::{Group, Pipe, wait};
use crate::peers::shown;
use crate::telemetry::{Reading, Unavailable};

/// A program that ends after it has printed is run again so long after its start.
const PERIOD: Duration = Duration::from_secs(1);
/// One that says nothing for so long has failed.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// No line is longer, and no complaint that is kept.
const BYTES_MAX: usize = 8 << 10;
/// No machine that is studied takes more.
const WATTS_MAX: f64 = 1e6;

/// Runs the command until nobody wants more.
pub(super) fn follow(command: &str, feed: &Feed) {
    while !feed.is_over() {
        let begun = Instant::now();
        if let Err(why) = run(command, feed) {
            feed.note_trouble(why);
        }
        feed.pause(PERIOD.saturating_sub(begun.elapsed()));
    }
}

/// Runs it once, to its end or until nobody wants more.
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
            let cause = format!("the meter's command said nothing for {} s", SILENCE_MAX.as_secs());
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

/// The last line of what it complained about.
fn said(complaints: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaints);
    let last = text.lines().rev().map(|line| shown(line, 160)).find(|line| !line.is_empty());
    last.map_or(String::new(), |last| format!(": {last}"))
}

/// The watts of the whole lines in a buffer, which are taken out; of the last too if no more comes.
fn take_watts(buffer: &mut Vec<u8>, at_end: bool) -> Reading<Vec<f64>> {
    let whole = match buffer.iter().rposition(|byte| *byte == b'\n') {
        _ if at_end => buffer.len(),
        Some(last) => last + 1,
        None => 0,
    };
    if buffer.len() - whole > BYTES_MAX {
        return Err(Unavailable::new("the meter's command prints something that has no lines"));
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
        Unavailable::new(format!("the meter's command printed `{}`, which is no number of watts", shown(line, 60)))
            .remedy("let it print a number a line, such as 87.5")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::energy::curve::Kind;
    use crate::energy::live::Live;

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
    fn nonsense_is_told_in_its_own_words() {
        for line in ["Power: 87", "87.5 J", "-3", "nan", "inf", "1e9", "0x10", "W"] {
            let why = take_watts(&mut format!("{line}\n").into_bytes(), false).unwrap_err().to_string();
            assert!(why.contains(&format!("printed `{line}`, which is no number of watts")), "{why}");
        }
        let mut endless = vec![b'x'; BYTES_MAX + 1];
        assert!(take_watts(&mut endless, false).unwrap_err().reason.contains("has no lines"));
    }

    /// What a command comes to, once it has told power twice or failed.
    fn begun(command: &'static str) -> Reading<()> {
        let live = Live::fed(Kind::Gauge, move |feed| follow(command, &feed))?;
        live.begin(Duration::from_secs(60))
    }

    #[test]
    fn a_command_that_streams_is_followed_and_ended_with_all_it_started() {
        begun("while :; do echo 87.5; sleep 0.01; done").unwrap();
        begun("sleep 1000 & echo 5; sleep 0.01; echo 6; wait").unwrap();
    }

    #[test]
    fn a_command_that_fails_or_prints_nonsense_is_unavailable_with_its_words() {
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
