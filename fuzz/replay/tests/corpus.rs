//! Each fuzz target of `fuzz/fuzz_targets` on each file of its corpus, without a fuzzer: what was found once is tried by every compiler and
//! in every run of the tests. `cargo xtask fuzz` goes on from these files.

#![allow(unused_attributes, reason = "each target is a program of its own elsewhere, and says no_main")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

macro_rules! targets {
    ($($name:ident)*) => {
        #[path = "../../fuzz_targets"]
        mod fuzz_targets {
            $(pub(crate) mod $name;)*
        }
        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), fuzz_targets::$name::run)),*];
    };
}

targets! {
    block_sizes fio_job_file lab_frames machine_file meter_csv mountinfo nvme_completions nvme_identify offsets path path_memory
    records_journal sim_settings study_file study_json sysfs target units verify_content
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_target_has_a_corpus_and_is_run_here() {
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names_in(&fuzz().join("fuzz_targets")), known);
    assert_eq!(names_in(&fuzz().join("corpus")), known);
}

#[test]
fn no_target_fails_on_its_corpus() {
    for (name, run) in TARGETS {
        let folder = fuzz().join("corpus").join(name);
        let files = names_in(&folder);
        assert!(!files.is_empty(), "{} is empty", folder.display());
        for file in files {
            let at = folder.join(file);
            let bytes = fs::read(&at).unwrap();
            std::panic::catch_unwind(|| run(&bytes)).unwrap_or_else(|_| panic!("{name} fails on {}", at.display()));
        }
    }
}

/// Mutants of each target: some seconds in all.
const MUTANTS: usize = 1000;

/// A corpus file with a few changes: bits flipped, bytes replaced by extremes, a piece cut out, or its rest taken from another file.
fn mutant(random: &mut Xoshiro256PlusPlus, files: &[Vec<u8>]) -> Vec<u8> {
    let mut below = |most: usize| random.next_u64() as usize % most.max(1);
    let mut bytes = files[below(files.len())].clone();
    for _ in 0..=below(3) {
        let place = below(bytes.len());
        match (below(4), bytes.get_mut(place)) {
            (0, Some(byte)) => *byte ^= 1 << below(8),
            (1, Some(byte)) => *byte = [0, 0x7f, 0x80, 0xff, b'"', b'\n', b'-', b'9'][below(8)],
            (2, Some(_)) => _ = bytes.drain(place..(place + 1 + below(8)).min(bytes.len())),
            _ => {
                let other = &files[below(files.len())];
                bytes.truncate(place);
                bytes.extend(&other[below(other.len()).min(other.len())..]);
            }
        }
    }
    bytes
}

/// A slice of fuzzing: `cargo xtask fuzz` does it with an eye on what code is reached, and for longer.
#[test]
fn no_target_fails_on_what_is_near_its_corpus() {
    for (name, run) in TARGETS {
        let folder = fuzz().join("corpus").join(name);
        let files: Vec<Vec<u8>> = names_in(&folder).iter().map(|file| fs::read(folder.join(file)).unwrap()).collect();
        for seed in 0..MUTANTS as u64 {
            let bytes = mutant(&mut Xoshiro256PlusPlus::seed_from_u64(seed), &files);
            let failed = std::panic::catch_unwind(|| run(&bytes)).is_err();
            assert!(!failed, "{name} fails on mutant {seed}: {bytes:02x?}");
        }
    }
}

#[test]
fn a_target_that_takes_a_structure_gets_it_from_the_bytes() {
    // Without bytes there is no structure; with some there is one, and the target runs to its end.
    fuzz_targets::nvme_identify::run(&[]);
    fuzz_targets::nvme_identify::run(&[7; 600]);
}
