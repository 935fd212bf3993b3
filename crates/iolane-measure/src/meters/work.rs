//! How much CPU time a run used: the input of a power model.

use crate::figures::RunFigures;

/// Time and CPU time of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Seconds that the run measured.
    pub elapsed_s: f64,
    /// CPU seconds, including those of kernel threads and of interrupts where they are known; `None` if not even the
    /// process's own are.
    pub cpu_s: Option<f64>,
}

impl Work {
    /// The work of a run that took `elapsed_s` seconds and has these figures.
    pub fn new(elapsed_s: f64, figures: &RunFigures) -> Self {
        Self { elapsed_s, cpu_s: figures.cpu_s() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::RunFigure;
    use crate::telemetry::Sourced;

    #[test]
    fn every_cpu_second_counts_including_kernel_threads_and_interrupts() {
        let mut figures = RunFigures::default();
        assert_eq!(Work::new(2.0, &figures), Work { elapsed_s: 2.0, cpu_s: None });
        let mut set = |figure, seconds| figures.set(figure, Ok(Sourced::new(seconds, "test")));
        set(RunFigure::UserS, 0.5);
        set(RunFigure::SystemS, 1.0);
        set(RunFigure::KernelThreadsS, 2.0);
        set(RunFigure::InterruptApartS, 0.25);
        assert_eq!(Work::new(2.0, &figures).cpu_s, Some(3.75));
    }
}
