//! `iolane energy`: aligns an external meter's recording with a study's results, and writes the joules into them.

use std::path::Path;

use iolane_study::energy::trace;
use iolane_study::format::{self, number};
use iolane_study::plan::Metric;
use iolane_study::results::{self, RECORDS_FILE, REPORT_FILE, Remade};

use super::report_page;
use crate::arguments::EnergyArguments;
use crate::outcome::Outcome;
use crate::output::{self, printable, wrap};

pub(crate) fn energy(arguments: &EnergyArguments) -> anyhow::Result<Outcome> {
    let EnergyArguments { folder, meter_csv } = arguments;
    let samples = trace::read(meter_csv)?;
    let name = meter_csv.file_name().map_or_else(String::new, |name| printable(Path::new(name)));
    let remade = results::with_trace(folder, &samples, &format!("meter file {name}"))?;
    results::write_remade(folder, &remade, &[meter_csv.into()])?;
    output::print(&text(&remade))?;
    let page = report_page::renew(folder);
    let shown = page.as_ref().map_or_else(String::new, |page| format!("{}, ", page.display()));
    output::print(&format!("Results: {shown}{}, {RECORDS_FILE}\n", folder.join(REPORT_FILE).display()))?;
    Ok(Outcome::failed_if(page.is_none()))
}

fn text(remade: &Remade) -> String {
    let Remade { report, aligned, runs, .. } = remade;
    let clock = &aligned.clock;
    let drift_ppm = (1.0 / clock.rate - 1.0) * 1e6;
    let sentence = format!(
        "{runs} runs have joules. The meter's clock drifted by {} ppm; load steps align within {}. The idle machine draws {}.",
        number(drift_ppm.round()),
        format::time(clock.residual_s * 1e9),
        format::quantity(Metric::Watts, aligned.idle_watts)
    );
    let mut text = format!("{}\n", wrap(&sentence, 0));
    for claim in &report.claims {
        let line = format!("  {:<4} {}: {}", claim.id, claim.verdict.name().to_uppercase(), claim.says);
        text.push_str(&format!("{}\n", wrap(&line, 7)));
    }
    text
}
