//! Job files of fio's: no bytes make reading or translating one panic, and what becomes of one can be asked for: each
//! job has threads, and a workload that makes sense. Never a run: a fuzzer must open nothing on the machine it runs on.
#![no_main]

use iolane_study::fio::{JobFile, Place, jobs};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = JobFile::parse("job.fio", bytes) else { return };
    assert!(file.sections.is_sorted_by(|a, b| a.line < b.line), "{file:?}");
    let Ok(jobs) = jobs(&file) else { return };
    assert_eq!(jobs.len(), file.sections.iter().filter(|section| !section.is_global()).count());
    for job in jobs {
        assert!((1..=4096).contains(&job.threads) && job.workload.validate().is_ok(), "{job:?}");
        match &job.place {
            Place::Named(names) => assert!((1..=job.threads).contains(&names.len()), "{job:?}"),
            Place::Scratch { bytes, .. } => assert!(*bytes > 0, "{job:?}"),
        }
    }
});
