//! The journal of a study: no bytes make reading one panic, exactly its whole lines are read, and whatever row is taken can
//! be used and kept.
#![no_main]

use std::path::Path;

use iolane_study::plan::Metric;
use iolane_study::records::{Results, journal, parquet};
use libfuzzer_sys::{arbitrary, fuzz_target};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    rows: Vec<Patches<'a>>,
    /// Lines, or pieces of them, as they come.
    rest: &'a [u8],
}

/// Places of a true row and what stands there instead.
type Patches<'a> = Vec<(u16, &'a str)>;

const HEADING: &str = "{\"schema\":\"iolane.journal/1\",\"setup\":\"as it was\"}\n";

const ROW: &str = concat!(
    r#"{"arm":{"name":"iou+k","path":"io_uring+spoll,fixedbufs","peer":null,"rw":"randread","bs":"4k","depth":16,"#,
    r#""threads":2,"drives":1,"cores":2},"targets":"disk","cpus":"0-1","spoll_cpus":"2-3","repeat":3,"attempt":0,"#,
    r#""worthless":null,"started_unix_s":1.5,"elapsed_s":0.25,"ios":8,"errors":0,"bytes":32768,"mean_ns":1.5,"#,
    r#""latency":[[1500,7],[3000000000,1]],"submit":[[20,1]],"user_s":0.1,"system_s":0.2,"kernel_threads_s":null,"#,
    r#""context_switches":3,"syscalls_per_io":0.5,"cycles":12,"cache_references":4,"cache_misses":1,"joules":2.5,"#,
    r#""warnings":["one"]}"#
);

const METRICS: [Metric; 12] = [
    Metric::Iops,
    Metric::BytesPerS,
    Metric::MeanNs,
    Metric::P50Ns,
    Metric::P99Ns,
    Metric::SubmitP50Ns,
    Metric::SyscallsPerIo,
    Metric::Cores,
    Metric::CacheMissRate,
    Metric::CyclesPerIo,
    Metric::IosPerJoule,
    Metric::Watts,
];

fn patched(patches: &Patches<'_>) -> String {
    let mut row = ROW.to_owned();
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
    let mut bytes = HEADING.as_bytes().to_vec();
    for patches in input.rows.iter().take(8) {
        bytes.extend(patched(patches).into_bytes());
        bytes.push(b'\n');
    }
    bytes.extend(input.rest);
    let _ = journal::parse::<String>(input.rest, Path::new("journal.jsonl"));
    match journal::parse::<String>(&bytes[..], Path::new("journal.jsonl")) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok((begun, whole_bytes)) => {
            let begun = begun.expect("its first line is whole");
            let whole = &bytes[..whole_bytes as usize];
            assert!(whole.ends_with(b"\n") && !bytes[whole.len()..].contains(&b'\n'));
            assert_eq!(begun.rows.len() + 1, whole.iter().filter(|byte| **byte == b'\n').count());
            assert!(parquet::write(&begun.rows).is_ok());
            for results in Results::new(&begun.rows, Vec::new()).arms {
                let _ = METRICS.map(|metric| results.values(metric));
                let _ = results.latency();
            }
        }
    }
});
