//! The terminal's alternate screen, on standard error, for what a study shows while it runs. Whatever ends the program restores
//! the terminal: its end, an error, a panic, a second Ctrl-C. So does what stops it (Ctrl-Z), until it goes on.

use std::io::{IsTerminal, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, SetAttribute};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{Command, queue};
use unicode_width::UnicodeWidthChar;

use super::safe::{REPLACEMENT, is_harmless, safe};
use crate::session::is_in_foreground;

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Heading,
    Faint,
}

/// A line of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) look: Look,
    pub(crate) text: String,
}

impl Line {
    pub(crate) fn plain(text: String) -> Self {
        Self { look: Look::Plain, text }
    }

    pub(crate) fn heading(text: String) -> Self {
        Self { look: Look::Heading, text }
    }

    pub(crate) fn faint(text: String) -> Self {
        Self { look: Look::Faint, text }
    }
}

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// The size of a terminal that does not report one.
const USUAL: Size = Size { columns: 80, rows: 24 };

/// Whether the terminal shows the screen now. Written under standard error's lock, and read under it before drawing, so that nothing is drawn
/// after the terminal was restored.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Whether there is a [`Screen`], and whether the terminal has lost what it drew.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether standard error is a terminal that can move its cursor.
pub(crate) fn is_available() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}

/// The screen; dropping it restores the terminal.
pub(crate) struct Screen {
    drawn: Option<(Size, Vec<Line>)>,
}

impl Screen {
    /// Switches the terminal to the screen.
    pub(crate) fn take() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                report(panic);
            }));
        });
        IS_TAKEN.store(true, Ordering::Relaxed);
        show_again();
        Self { drawn: None }
    }

    /// Its current size.
    pub(crate) fn size(&self) -> Size {
        let told = rustix::termios::tcgetwinsize(std::io::stderr());
        let told = told.map(|size| Size { columns: size.ws_col.into(), rows: size.ws_row.into() });
        told.ok().filter(|size| size.columns > 0 && size.rows > 0).unwrap_or(USUAL)
    }

    /// Shows lines made for that size; writes nothing if they are already shown.
    pub(crate) fn draw(&mut self, size: Size, mut lines: Vec<Line>) {
        lines.resize(size.rows, Line::plain(String::new()));
        if IS_LOST.swap(false, Ordering::Relaxed) {
            self.drawn = None;
        }
        let drawn = Some((size, lines));
        if drawn == self.drawn {
            return;
        }
        let is_new_size = self.drawn.as_ref().is_none_or(|(old, _)| *old != size);
        self.drawn = drawn;
        let lines = self.drawn.iter().flat_map(|(_, lines)| lines);
        let text = frame(lines, is_new_size).unwrap_or_default();
        let mut stderr = std::io::stderr().lock();
        if SHOWN.load(Ordering::Relaxed) {
            let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Relaxed);
        give_back();
    }
}

/// Switches the terminal to the screen, if there is one and it is not shown: a program that was stopped goes on. In the background the
/// terminal is the shell's; the program gets the signal again when it comes to the foreground.
pub(crate) fn show_again() {
    if !IS_TAKEN.load(Ordering::Relaxed) || !is_in_foreground() {
        return;
    }
    let mut stderr = std::io::stderr().lock();
    if !SHOWN.swap(true, Ordering::Relaxed) {
        IS_LOST.store(true, Ordering::Relaxed);
        // If the terminal is gone, there is nowhere to report it.
        let _ = queue!(stderr, EnterAlternateScreen, Hide).and_then(|()| stderr.flush());
    }
}

/// Restores the terminal, if it shows the screen.
pub(crate) fn give_back() {
    // A writer may hold the lock for ever, where nobody reads what it writes.
    if !SHOWN.load(Ordering::Relaxed) {
        return;
    }
    let mut stderr = std::io::stderr().lock();
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = queue!(stderr, LeaveAlternateScreen, Show).and_then(|()| stderr.flush());
    }
}

/// The escape sequences that show these lines and nothing else, for one write. Terminals with synchronized updates show it at
/// once.
fn frame<'a>(lines: impl Iterator<Item = &'a Line>, clear: bool) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    BeginSynchronizedUpdate.write_ansi(&mut text)?;
    if clear {
        // Resizing a terminal wraps its lines again.
        Clear(ClearType::All).write_ansi(&mut text)?;
    }
    let mut row = 0;
    for line in lines {
        MoveTo(0, row).write_ansi(&mut text)?;
        match line.look {
            Look::Plain => {}
            Look::Heading => SetAttribute(Attribute::Bold).write_ansi(&mut text)?,
            Look::Faint => SetAttribute(Attribute::Dim).write_ansi(&mut text)?,
        }
        text.push_str(&safe(&line.text));
        SetAttribute(Attribute::Reset).write_ansi(&mut text)?;
        Clear(ClearType::UntilNewLine).write_ansi(&mut text)?;
        row = row.saturating_add(1);
    }
    EndSynchronizedUpdate.write_ansi(&mut text)?;
    Ok(text)
}

/// The text, cut to a width in columns; control and bidirectional characters are replaced by `?`.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let text: String = text.chars().map(|c| if is_harmless(c) { c } else { REPLACEMENT }).collect();
    if width(&text) <= columns {
        return text;
    }
    let (mut cut, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        // One column is for the ellipsis.
        if used >= columns {
            break;
        }
        cut.push(c);
    }
    if columns > 0 {
        cut.push('…');
    }
    cut
}

/// The width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_not_by_characters() {
        assert_eq!(fit("io_uring", 8), "io_uring");
        assert_eq!(fit("io_uring", 7), "io_uri…");
        assert_eq!(fit("ディスク", 6), "ディ…");
        assert_eq!(["", "…"], [fit("psync", 0), fit("psync", 1)]);
    }

    #[test]
    fn control_and_bidirectional_characters_are_replaced() {
        assert_eq!(fit("a\x1b[2J\nb\u{202e}c", 20), "a?[2J?b?c");
    }
}
