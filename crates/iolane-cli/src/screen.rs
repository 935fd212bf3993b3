//! A screen of the terminal's own (the alternate one, on standard error) for what a study shows while it runs. Whatever ends
//! the program gives the terminal back as it was: an end, a failure, a panic, a second Ctrl-C.

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

/// How a line looks.
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

/// What a terminal has that does not tell.
const USUAL: Size = Size { columns: 80, rows: 24 };

/// Whether the terminal shows the screen now. Read and written under standard error's lock, so that nothing is drawn once
/// the terminal has been given back.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Whether a screen can be had: standard error is a terminal that can move its cursor.
pub(crate) fn can_be_had() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}

/// The screen; the terminal is given back when this is dropped.
pub(crate) struct Screen {
    drawn: Option<(Size, Vec<Line>)>,
}

impl Screen {
    /// Takes the terminal.
    pub(crate) fn take() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                report(panic);
            }));
        });
        let mut stderr = std::io::stderr().lock();
        SHOWN.store(true, Ordering::Relaxed);
        // There is nowhere to say that a terminal went away.
        let _ = queue!(stderr, EnterAlternateScreen, Hide).and_then(|()| stderr.flush());
        Self { drawn: None }
    }

    /// How large it is now.
    pub(crate) fn size(&self) -> Size {
        let told = rustix::termios::tcgetwinsize(std::io::stderr());
        let told = told.map(|size| Size { columns: size.ws_col.into(), rows: size.ws_row.into() });
        told.ok().filter(|size| size.columns > 0 && size.rows > 0).unwrap_or(USUAL)
    }

    /// Shows lines that are made for that size; nothing is written where all of it stands there already.
    pub(crate) fn draw(&mut self, size: Size, mut lines: Vec<Line>) {
        lines.resize(size.rows, Line::plain(String::new()));
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
        give_back();
    }
}

/// Gives the terminal back, if it was taken.
pub(crate) fn give_back() {
    let mut stderr = std::io::stderr().lock();
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = queue!(stderr, LeaveAlternateScreen, Show).and_then(|()| stderr.flush());
    }
}

/// What makes a terminal show these lines and nothing else. It goes out in one write, which terminals that know of
/// synchronized updates show as one.
fn frame<'a>(lines: impl Iterator<Item = &'a Line>, clear: bool) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    BeginSynchronizedUpdate.write_ansi(&mut text)?;
    if clear {
        // A terminal that was resized has broken its lines anew.
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
        text.push_str(&line.text);
        SetAttribute(Attribute::Reset).write_ansi(&mut text)?;
        Clear(ClearType::UntilNewLine).write_ansi(&mut text)?;
        row = row.saturating_add(1);
    }
    EndSynchronizedUpdate.write_ansi(&mut text)?;
    Ok(text)
}

/// The text, no wider than so many columns; what would move the cursor or turn the line around stands as `?`.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let harmless = |c: char| if c.width().is_none() || is_bidirectional_control(c) { '?' } else { c };
    let text: String = text.chars().map(harmless).collect();
    if width(&text) <= columns {
        return text;
    }
    let (mut cut, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        // One column is the ellipsis's.
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

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Unicode Standard Annex 9, table 4 and section 2.6.
fn is_bidirectional_control(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_its_columns_however_wide_its_characters_are() {
        assert_eq!(fit("io_uring", 8), "io_uring");
        assert_eq!(fit("io_uring", 7), "io_uri…");
        assert_eq!(fit("ディスク", 6), "ディ…");
        assert_eq!(["", "…"], [fit("psync", 0), fit("psync", 1)]);
    }

    #[test]
    fn names_move_no_cursor_and_turn_no_line_around() {
        assert_eq!(fit("a\x1b[2J\nb\u{202e}c", 20), "a?[2J?b?c");
    }
}
