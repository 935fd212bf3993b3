//! What every page has: its style, its scripts, the data of its charts, and the policy that forbids everything else.

use super::embedded;
use crate::charts::Chart;

pub(super) struct Shell {
    /// The Content-Security-Policy.
    pub(super) policy: String,
    pub(super) style: &'static str,
    /// The modules of Apache ECharts that the pages use, bundled by `cargo xtask assets`.
    pub(super) chart_library: &'static str,
    pub(super) script: &'static str,
    /// As JSON.
    pub(super) charts: String,
}

impl Shell {
    pub(super) fn new(charts: &[Chart]) -> Self {
        let style = include_str!("../../assets/report.css");
        let script = include_str!("../../assets/report.js");
        let chart_library = include_str!("../../assets/echarts.min.js");
        let policy = embedded::policy(&[chart_library, script], style);
        Self { policy, style, chart_library, script, charts: embedded::data(charts) }
    }
}
