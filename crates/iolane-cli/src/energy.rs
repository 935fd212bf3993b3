//! Energy on the command line: the meter that `run` and `study` were asked to read, and `iolane energy`, which lays an
//! external meter's file over a study's results. The library does all of it; this opens, prints and writes.

use iolane::Error;
use iolane_study::energy::{MeterSpec, Work, trace};
use iolane_study::record::RunRecord;
use iolane_study::report::{self, RECORDS_FILE, REPORT_FILE, Remade};
use iolane_study::run::{RunOutcome, RunPlan};
use iolane_study::session::Metering;

use crate::Outcome;
use crate::arguments::{EnergyArguments, MeterArguments};
use crate::output;

/// Opens the meter that was asked for. One that was asked for by name must be there.
pub(crate) fn metering(arguments: &MeterArguments, steps: bool) -> anyhow::Result<Metering> {
    let metering = Metering::open(arguments.spec(), steps);
    match (&metering.spec, &metering.meter) {
        (MeterSpec::Auto | MeterSpec::None, _) | (_, Ok(_)) => Ok(metering),
        (spec, Err(why)) => {
            Err(Error::unavailable(format!("meter {spec}"), why.reason.clone()).remedy(&why.remedy).into())
        }
    }
}

/// Adds the joules of a run to its record, or why there are none.
pub(crate) fn fill(record: &mut RunRecord, plan: &RunPlan, outcomes: &[RunOutcome], metering: &Metering) {
    let meter = metering.meter.as_ref().map_err(Clone::clone);
    match meter.and_then(|meter| plan.keeps_real_time().map(|()| meter)) {
        Err(why) => record.set_no_energy(&why),
        Ok(meter) => {
            let joules: Vec<_> =
                outcomes.iter().map(|outcome| meter.joules(outcome.span, Work::of_run(outcome))).collect();
            record.set_energy(&joules, meter.source());
        }
    }
}

/// `iolane energy`.
pub(crate) fn energy(arguments: &EnergyArguments) -> anyhow::Result<Outcome> {
    let EnergyArguments { folder, meter_csv } = arguments;
    let samples = trace::read(meter_csv)?;
    let name = meter_csv.file_name().map_or_else(String::new, |name| output::shown(name.as_ref()));
    let remade = report::with_trace(folder, &samples, &format!("meter file {name}"))?;
    let (records, report) = (folder.join(RECORDS_FILE), folder.join(REPORT_FILE));
    for file in [&records, &report] {
        output::check_writable(file, &[meter_csv.into()])?;
    }
    // One without the other is not whole.
    let json = output::json(&remade.json)?;
    output::write_files(&[(&records, &remade.records), (&report, json.as_bytes())])?;
    output::print(&page(&remade))?;
    let page = crate::report::page_of(folder).map_or_else(String::new, |page| format!("{}, ", page.display()));
    output::print(&format!("Results: {page}{}, {RECORDS_FILE}\n", report.display()))?;
    Ok(Outcome::Done)
}

fn page(remade: &Remade) -> String {
    let Remade { json, aligned, runs, .. } = remade;
    let clock = &aligned.clock;
    let drift_ppm = (1.0 / clock.rate - 1.0) * 1e6;
    let mut text = format!(
        "{runs} runs have joules. The meter's clock drifted by {drift_ppm:.0} ppm; load steps are where they should be \
         within {:.2} s. The idle machine takes {:.1} W.\n",
        clock.residual_s, aligned.idle_watts
    );
    text = format!("{}\n", output::wrap(text.trim_end(), 0));
    for claim in json["claims"].as_array().into_iter().flatten() {
        let words = |key: &str| claim[key].as_str().unwrap_or_default().to_owned();
        let line = format!("  {:<4} {}: {}", words("id"), words("verdict").to_uppercase(), words("says"));
        text.push_str(&format!("{}\n", output::wrap(&line, 7)));
    }
    text
}
