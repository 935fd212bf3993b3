//! A progress bar on standard error for work that takes seconds. Without a terminal it shows nothing.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::safe::safe;

/// A progress bar, removed when it is dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Work measured in bytes.
    pub(crate) fn bytes(total: u64, what: &str) -> Self {
        Self::new(total, what, "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes}, {eta} left")
    }

    /// Work in steps.
    pub(crate) fn steps(total: usize, what: &str) -> Self {
        Self::new(total as u64, what, "{msg} [{bar:30}] {pos}/{len}, {eta} left")
    }

    /// Work of known length that reports nothing meanwhile.
    pub(crate) fn time(total: Duration, what: &str) -> Self {
        let bar = Self::new(total.as_millis() as u64, what, "{msg} [{bar:30}] {eta} left");
        let begun = Instant::now();
        bar.at_intervals(Duration::from_millis(100), move |bar| bar.set_position(begun.elapsed().as_millis() as u64));
        bar
    }

    /// Work of unknown length.
    pub(crate) fn unknown(what: &str) -> Self {
        let bar = Self::new(0, what, "{msg}, {elapsed} so far");
        bar.at_intervals(Duration::from_secs(1), ProgressBar::tick);
        bar
    }

    /// Has a thread change a bar that is shown until it is removed. Without the thread it does not move.
    fn at_intervals(&self, interval: Duration, change: impl Fn(&ProgressBar) + Send + 'static) {
        let bar = self.0.clone();
        let watch = move || {
            while !bar.is_finished() {
                change(&bar);
                std::thread::sleep(interval);
            }
        };
        if !self.0.is_hidden() {
            let _ = std::thread::Builder::new().name("progress".into()).spawn(watch);
        }
    }

    fn new(total: u64, what: &str, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(safe(what).into_owned());
        Self(bar)
    }

    /// Sets the amount of work done.
    pub(crate) fn at(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
