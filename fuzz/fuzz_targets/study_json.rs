//! The results of a study: no bytes make reading study.json panic, what is taken is written again, and whoever uses results can: advice, a
//! comparison, a summary and tables.
#![no_main]

use iolane_report::{summary, tables};
use iolane_study::advise::Advised;
use iolane_study::compare::Comparison;
use iolane_study::plan::Arm;
use iolane_study::results::{Loaded, StudyReport, fixtures, to_json};
use libfuzzer_sys::fuzz_target;

/// An arm on a path, as study.json has it.
fn arm(path: &str) -> Arm {
    let workload = r#""rw":"randread","bs":"4k","depth":1,"threads":1,"drives":1,"cores":null"#;
    let text = format!(r#"{{"name":"{path}","path":"{path}","peer":null,{workload}}}"#);
    serde_json::from_str(&text).expect("an arm as results have it")
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = serde_json::from_slice::<StudyReport>(bytes) else { return };
    assert!(to_json(&document).is_ok());
    let arms = ["null", "sim"].map(arm);
    let rows: Vec<_> = (0..3).flat_map(|repeat| fixtures::runs(&arms, repeat)).collect();
    let loaded = || {
        let document = serde_json::from_slice(bytes).expect("the same bytes");
        Loaded { folder: "results".into(), document, rows: rows.clone() }
    };
    let _ = Advised::new(&loaded(), &[]);
    let _ = Comparison::new(&[loaded(), loaded()]);
    let _ = summary(&loaded());
    let _ = tables(&loaded());
});
