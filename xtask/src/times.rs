//! How long the parts of a command took, told at its end.

use std::time::{Duration, Instant};

/// Parts in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<(String, Duration)>);

impl Times {
    /// Runs a part and keeps its time.
    pub(crate) fn measure<T>(&mut self, part: &str, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let outcome = run();
        self.add(part, began.elapsed());
        outcome
    }

    /// Keeps the time of a part that ran elsewhere; a part of a part begins with spaces.
    pub(crate) fn add(&mut self, part: &str, took: Duration) {
        self.0.push((part.to_owned(), took));
    }

    /// A line for each part.
    pub(crate) fn summary(&self) -> String {
        let width = self.0.iter().map(|(part, _)| part.len()).max().unwrap_or(0);
        let lines = self.0.iter().map(|(part, took)| format!("  {part:<width$}  {:>12}\n", shown(*took)));
        if self.0.is_empty() { String::new() } else { format!("\nTime:\n{}", lines.collect::<String>()) }
    }
}

/// `3 min 07 s`, or `7.5 s` below a minute.
fn shown(took: Duration) -> String {
    match took.as_secs() {
        0..60 => format!("{:.1} s", took.as_secs_f64()),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_listed_in_the_order_of_the_parts() {
        let mut times = Times::default();
        assert_eq!(times.summary(), "");
        times.add("build", Duration::from_secs(187));
        times.add("  Linux 6.1", Duration::from_millis(7540));
        assert_eq!(times.summary(), "\nTime:\n  build          3 min 07 s\n    Linux 6.1         7.5 s\n");
    }
}
