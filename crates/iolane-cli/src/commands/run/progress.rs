//! Shows the runs of a schedule: a progress bar while they measure, and the text of each run when it ends.

use std::time::Duration;

use iolane_study::runs::Event;

use super::page;
use crate::output::{Bar, Outputs};

pub(super) struct Progress<'a> {
    outputs: &'a Outputs,
    bar: Option<Bar>,
    makes_scratch: bool,
    texts: usize,
    /// The first error of printing; measuring goes on without it.
    printed: anyhow::Result<()>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(outputs: &'a Outputs) -> Self {
        Self { outputs, bar: None, makes_scratch: false, texts: 0, printed: Ok(()) }
    }

    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::MakesScratch { written, total } => {
                if !std::mem::replace(&mut self.makes_scratch, true) {
                    self.bar = Some(Bar::bytes(*total, "writing the scratch file"));
                }
                self.bar.iter().for_each(|bar| bar.at(*written));
            }
            Event::Begins { labels, length } => {
                self.makes_scratch = false;
                // The old bar goes before the new one is drawn.
                drop(self.bar.take());
                self.bar = Some(measuring(&labels.join(", "), *length));
            }
            Event::Ended { plan, record } => {
                drop(self.bar.take());
                if self.printed.is_ok() {
                    let gap = if self.texts == 0 { "" } else { "\n" };
                    self.printed = self.outputs.text(&format!("{gap}{}", page::text(plan, record)));
                }
                self.texts += 1;
            }
        }
    }

    /// Removes what is left of the bar.
    ///
    /// # Errors
    /// The first error of printing.
    pub(super) fn end(self) -> anyhow::Result<()> {
        self.printed
    }
}

fn measuring(what: &str, length: Option<Duration>) -> Bar {
    match length {
        Some(length) => Bar::time(length, what),
        None => Bar::unknown(what),
    }
}
