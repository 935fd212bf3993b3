//! Predicts what the publications state of more jobs, cores and drives than the machines were fitted to, and prints both.
//! With `--write` it fits the machines anew first, and writes their files.
//!
//! `cargo run --release -p iolane-model --example published`

use std::error::Error;
use std::path::Path;

use iolane_model::{Expected, Figure, PUBLISHED, Statement, Verdict, calibrate, check};

fn main() -> Result<(), Box<dyn Error>> {
    let writes = std::env::args().any(|argument| argument == "--write");
    let mut all = Vec::new();
    for published in PUBLISHED {
        eprintln!("{}", published.name);
        let mut machine = if writes { calibrate(&published.observations()?)? } else { published.machine()? };
        let checked = check(&published, machine.clone())?;
        if writes {
            machine.held_out = checked.iter().filter_map(Statement::held_out).collect();
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
            std::fs::write(folder.join(format!("{}.machine.toml", published.name)), machine.to_text())?;
        }
        all.extend(checked);
    }
    for statement in &all {
        let (published, predicted) = shown(statement.expected, statement.predicted);
        let verdict = if statement.verdict == Verdict::Agrees { "" } else { "   DIFFERS" };
        println!("{:4} {:78} {published:>14}   {predicted}{verdict}", statement.claim, statement.says);
    }
    let agreeing = all.iter().filter(|statement| statement.verdict == Verdict::Agrees).count();
    println!("{agreeing} of {} agree", all.len());
    Ok(())
}

fn shown(expected: Expected, Figure { value, low, high }: Figure) -> (String, String) {
    match expected {
        Expected::Percent(published) => {
            (format!("{published:+.0} %"), format!("{value:+.0} % ({low:+.0} to {high:+.0})"))
        }
        Expected::PercentWithin(from, to) => {
            (format!("{from:+.0} to {to:+.0} %"), format!("{value:+.0} % ({low:+.0} to {high:+.0})"))
        }
        Expected::AtMost(share) => (format!("at most {share:.2}"), format!("{value:.2} ({low:.2} to {high:.2})")),
        Expected::AtLeast(share) => (format!("at least {share:.2}"), format!("{value:.2} ({low:.2} to {high:.2})")),
        Expected::Jobs(jobs) => (format!("{jobs:.0}"), format!("{value:.0} ({low:.0} to {high:.0})")),
    }
}
