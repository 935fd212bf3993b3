//! The live display of a study: on a real terminal, behind a pseudo terminal, whose screen a parser of escape sequences
//! keeps. With IOLANE_GALLERY=FOLDER the screens are also written there, as docs/gallery shows them.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use common::{Folder, IOLANE, command_of, finish, has, pid, skipped, wait_until};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A study that outlasts the checks of its display.
const LONG: &str = "study --path psync --path libaio --path io_uring --depth 1 --depth 4 --depth 16 --size=16m \
                    --runtime=400ms --warmup=0s --repeat 10 --fresh";

/// A terminal in which a program runs.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: JoinHandle<()>,
    child: Child,
}

impl Terminal {
    /// Starts the program in a new terminal as its controlling terminal, so that Ctrl-C sends a signal.
    fn with(folder: &Folder, term: &str, size: (u16, u16), arguments: &str) -> Self {
        let words: Vec<&str> = [IOLANE].into_iter().chain(arguments.split(' ')).collect();
        Self::of(folder, term, size, &words)
    }

    /// The same for any command.
    fn of(folder: &Folder, term: &str, (columns, rows): (u16, u16), words: &[&str]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tcsetwinsize(&slave, winsize(columns, rows)).unwrap();
        let mut command = command_of("setsid", folder, ["--ctty"].iter().chain(words));
        let [input, output] = [&slave, &slave].map(|slave| slave.try_clone().unwrap());
        let child = command.env("TERM", term).stdin(input).stdout(output).stderr(slave).spawn().unwrap();
        // This closes our copies of the terminal, so that it ends with the program.
        drop(command);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (mut output, shown) = (File::from(keyboard.try_clone().unwrap()), Arc::clone(&screen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails once nobody can write to the terminal.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { keyboard: keyboard.into(), screen, reader, child }
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.keyboard, winsize(columns, rows)).unwrap();
    }

    fn press(&mut self, key: &[u8]) {
        self.keyboard.write_all(key).unwrap();
    }

    /// The text on the screen, without trailing spaces.
    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn has_own_screen(&self) -> bool {
        self.screen.lock().unwrap().screen().alternate_screen()
    }

    #[track_caller]
    fn wait_for(&self, what: &str) {
        wait_until(&format!("the screen shows {what:?}"), || self.text().contains(what));
    }

    /// Waits until a run has progressed so far that its rate is known.
    #[track_caller]
    fn wait_for_rate(&self) {
        wait_until("the screen shows how fast it is", || {
            let text = self.text();
            let rate = text.lines().find_map(|line| Some(line.split_once(" IOPS, ")?.0.trim()));
            rate.is_some_and(|rate| rate.starts_with(|first: char| first.is_ascii_digit()))
        });
    }

    /// The exit code, and the final state of the terminal.
    fn end(self) -> (Option<i32>, vt100::Parser) {
        let code = finish(self.child).code;
        drop(self.keyboard);
        self.reader.join().unwrap();
        (code, Arc::into_inner(self.screen).unwrap().into_inner().unwrap())
    }
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Asserts that the program has restored the terminal, and left only its output.
#[track_caller]
fn assert_in_order(terminal: &vt100::Parser) {
    let screen = terminal.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bold(), "{}", screen.contents());
}

fn keep_for_gallery(name: &str, text: &str) {
    if let Some(folder) = std::env::var_os("IOLANE_GALLERY") {
        let lines: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        std::fs::write(std::path::Path::new(&folder).join(name), lines).unwrap();
    }
}

#[test]
fn a_study_keeps_a_steady_screen_in_a_terminal_of_any_size_and_gives_it_back_at_ctrl_c() {
    let test = "a_study_keeps_a_steady_screen_in_a_terminal_of_any_size_and_gives_it_back_at_ctrl_c";
    if !has("setsid") {
        return skipped(test, "needs setsid, of util-linux");
    }
    let folder = Folder::new();
    let mut terminal = Terminal::with(&folder, "xterm-256color", (100, 30), LONG);
    terminal.wait_for("] 12/");
    terminal.wait_for_rate();
    let text = terminal.text();
    assert!(terminal.has_own_screen());
    for part in ["study survey", "scratch file", "[", " left", "now ", "last runs", "p99", "best so far", "Ctrl-C"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    keep_for_gallery("live-wide.txt", &text);
    // Each size in turn, down to almost nothing: no line of the previous size is left.
    for (columns, rows) in [(44, 16), (10, 3), (1, 1), (200, 50), (44, 16)] {
        terminal.resize(columns, rows);
        let begin: String = "study survey".chars().take((columns as usize - 1).min(12)).collect();
        let headings = if rows == 16 { "best so far" } else { "" };
        wait_until(&format!("it is drawn in {columns} x {rows}"), || {
            let text = terminal.text();
            let stale = columns == 44 && text.contains("p99");
            let drawn = if rows >= 6 { text.starts_with(&begin) } else { !text.contains("study survey") };
            drawn && text.contains(headings) && !stale
        });
    }
    terminal.wait_for_rate();
    keep_for_gallery("live-narrow.txt", &terminal.text());
    assert!(terminal.text().lines().all(|line| line.chars().count() < 44), "{}", terminal.text());
    // High enough for all of the final output.
    terminal.resize(100, 200);
    terminal.press(b"\x03");
    let (code, left) = terminal.end();
    assert_eq!(code, Some(1), "{}", left.screen().contents());
    assert_in_order(&left);
    let text = left.screen().contents();
    assert!(text.contains("note: interrupted") && text.contains("Results: results/survey/"), "{text}");
    assert!(!text.contains("best so far"), "{text}");
}

#[test]
fn a_study_that_is_asked_to_terminate_gives_the_terminal_back() {
    if !has("setsid") {
        return skipped("a_study_that_is_asked_to_terminate_gives_the_terminal_back", "needs setsid, of util-linux");
    }
    let folder = Folder::new();
    let terminal = Terminal::with(&folder, "xterm-256color", (80, 24), LONG);
    terminal.wait_for("] 1/");
    kill_process(pid(&terminal.child), Signal::TERM).unwrap();
    let (code, left) = terminal.end();
    assert_eq!(code, Some(1), "{}", left.screen().contents());
    assert_in_order(&left);
}

#[test]
fn a_study_that_is_stopped_gives_the_terminal_back_until_it_goes_on() {
    if !has("setsid") || !has("bash") {
        return skipped(
            "a_study_that_is_stopped_gives_the_terminal_back_until_it_goes_on",
            "needs setsid, of util-linux, and bash",
        );
    }
    let folder = Folder::new();
    // A shell that controls jobs, and waits for a key before the study goes on.
    let script = format!("set -m; {IOLANE} {LONG}; echo the shell is back; read; fg");
    let mut terminal = Terminal::of(&folder, "xterm-256color", (80, 24), &["bash", "-c", &script]);
    terminal.wait_for("] 1/");
    terminal.press(b"\x1a");
    terminal.wait_for("the shell is back");
    assert!(!terminal.has_own_screen());
    terminal.press(b"\n");
    wait_until("it shows its screen again", || terminal.has_own_screen());
    terminal.wait_for("study survey");
    terminal.press(b"\x03");
    assert_in_order(&terminal.end().1);
}

#[test]
fn a_study_in_a_terminal_without_a_shell_is_not_stopped_since_nobody_would_let_it_go_on() {
    let test = "a_study_in_a_terminal_without_a_shell_is_not_stopped_since_nobody_would_let_it_go_on";
    if !has("setsid") {
        return skipped(test, "needs setsid, of util-linux");
    }
    let folder = Folder::new();
    let mut terminal = Terminal::with(&folder, "xterm-256color", (80, 24), LONG);
    terminal.wait_for("] 1/");
    terminal.press(b"\x1a");
    terminal.wait_for("] 12/");
    assert!(terminal.has_own_screen());
    terminal.press(b"\x03");
    assert_in_order(&terminal.end().1);
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_gets_lines() {
    if !has("setsid") {
        return skipped("a_terminal_that_cannot_move_its_cursor_gets_lines", "needs setsid, of util-linux");
    }
    let folder = Folder::new();
    let mut terminal = Terminal::with(&folder, "dumb", (200, 24), LONG);
    terminal.wait_for("study: 10 of ");
    assert!(!terminal.has_own_screen());
    let text = terminal.text();
    assert!(text.contains("; last ") && text.contains(" IOPS, p99 "), "{text}");
    terminal.press(b"\x03");
    assert_in_order(&terminal.end().1);
}
