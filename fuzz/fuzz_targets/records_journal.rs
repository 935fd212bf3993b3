//! The journal of a study: no bytes make reading one panic, exactly its whole lines are read, and whatever row is taken can be used, and kept
//! in a Parquet file that is read back the same. Other bytes of Parquet are not tried: the library that reads them panics on some, and a file is read
//! only if its checksum is that of `study.json`.
#![no_main]

use std::path::Path;

use bytes::Bytes;
use iolane_measure::figures::RunFigure;
use iolane_measure::telemetry::{Sourced, Unavailable};
use iolane_study::plan::{Arm, Metric};
use iolane_study::rows::{Results, Row, Warning, journal, parquet};
use libfuzzer_sys::{arbitrary, fuzz_target};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    rows: Vec<Patches<'a>>,
    /// Lines, or pieces of them, as they come.
    rest: &'a [u8],
}

/// Places of a true row and what stands there instead.
type Patches<'a> = Vec<(u16, &'a str)>;

fn heading() -> String {
    journal::line_of(&format!("{{\"schema\":\"{}\",\"setup\":\"as it was\"}}", journal::SCHEMA))
}

/// A run as the journal writes it, without its checksum.
fn row() -> String {
    let arm: Arm = serde_json::from_str(concat!(
        r#"{"name":"iou+k","path":"io_uring+sqpoll,fixedbufs","peer":null,"rw":"randread","bs":"4k","depth":16,"#,
        r#""threads":2,"drives":1,"cores":2}"#
    ))
    .expect("an arm as journals have it");
    let mut row = Row { ios: 8, bytes: 32768, elapsed_s: 0.25, mean_ns: Some(1.5), ..Row::new(arm, 3) };
    row.latency.record_n(1500, 7).expect("within the bounds");
    row.figures.set(RunFigure::Cycles, Ok(Sourced::new(12u64, "perf")));
    row.figures.set::<f64>(RunFigure::Joules, Err(Unavailable::new("no meter")));
    row.warnings = vec![Warning::note("one")];
    serde_json::json!({ "run": row }).to_string()
}

const METRICS: [Metric; 12] = [
    Metric::Iops,
    Metric::BytesPerS,
    Metric::MeanNs,
    Metric::P50,
    Metric::P99,
    Metric::SubmitP50Ns,
    Metric::SyscallsPerIo,
    Metric::Cores,
    Metric::CacheMissRate,
    Metric::CyclesPerIo,
    Metric::IosPerJoule,
    Metric::Watts,
];

fn patched(patches: &Patches<'_>) -> String {
    let mut row = row();
    for (place, text) in patches {
        let place = usize::from(*place) % row.len();
        let end = (place + text.len()).min(row.len());
        if row.is_char_boundary(place) && row.is_char_boundary(end) {
            row.replace_range(place..end, text);
        }
    }
    row
}

fuzz_target!(|input: Input<'_>| {
    let mut bytes = heading().into_bytes();
    for patches in input.rows.iter().take(8) {
        bytes.extend(journal::line_of(&patched(patches)).into_bytes());
    }
    bytes.extend(input.rest);
    let _ = journal::parse::<String>(input.rest, Path::new("journal.jsonl"));
    match journal::parse::<String>(&bytes[..], Path::new("journal.jsonl")) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok((begun, whole_bytes)) => {
            let begun = begun.expect("its first line is whole");
            let whole = &bytes[..whole_bytes as usize];
            assert!(whole.ends_with(b"\n") && !bytes[whole.len()..].contains(&b'\n'));
            assert!(begun.rows.len() + begun.damaged.len() < whole.iter().filter(|byte| **byte == b'\n').count());
            let file = parquet::write(&begun.rows).expect("a row that is taken can be kept");
            let back = parquet::decode(Bytes::from(file), "records.parquet").expect("what is kept can be read");
            assert_eq!(format!("{back:?}"), format!("{:?}", begun.rows));
            for results in Results::new(&begun.rows, Vec::new()).arms {
                let _ = METRICS.map(|metric| results.values(metric));
                let _ = results.latency();
            }
        }
    }
});
