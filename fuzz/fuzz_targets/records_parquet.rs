//! The records of a study: no bytes make reading them panic, and what is taken is written again and read back the same.
#![no_main]

use bytes::Bytes;
use iolane_study::rows::parquet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(rows) = parquet::decode(Bytes::copy_from_slice(bytes), "records.parquet") else { return };
    let again = parquet::write(&rows).expect("rows that were read can be written");
    let back = parquet::decode(Bytes::from(again), "records.parquet").expect("what was written can be read");
    assert_eq!(format!("{rows:?}"), format!("{back:?}"));
});
