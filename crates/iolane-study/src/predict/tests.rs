//! What is predicted, and what is refused.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use iolane_model::{MachineFile, Number, Observations, calibrate};

use super::*;

/// A machine of 4 cores that was calibrated with reads of 4 KiB.
fn machine() -> MachineFile {
    static MACHINE: LazyLock<MachineFile> = LazyLock::new(|| machine_with(""));
    MACHINE.clone()
}

fn machine_with(more: &str) -> MachineFile {
    let text = format!(
        "name = \"test\"\n\
         [processor]\ncores = 4\n[scheduler]\nkind = \"eevdf\"\nhz = 250\n{more}\n\
         [[observation]]\npath = \"psync\"\niops = 10000.0\nnoise = 0.01\n\
         [[observation]]\npath = \"io_uring\"\niops = 10500.0\nnoise = 0.01\n\
         [[observation]]\npath = \"io_uring\"\ndepth = 32\niops = 180000.0\ncpu_ns_per_io = 4000.0\nnoise = 0.01\n"
    );
    calibrate(&Observations::parse(&text, "test").unwrap()).unwrap()
}

fn asked() -> Asked {
    Asked {
        paths: Vec::new(),
        threads: vec![1],
        cores: Vec::new(),
        drives: 1,
        depths: vec![1],
        block_bytes: vec![4096],
        read_percents: vec![100],
        batch_submit: None,
        batch_complete_max: None,
        goal: Goal::Throughput,
    }
}

fn play(machine: MachineFile, asked: &Asked) -> Predicted {
    Job::new(machine, asked).unwrap().play(&AtomicBool::new(false), |_| {}).unwrap()
}

#[track_caller]
fn refused(machine: MachineFile, asked: &Asked, says: &[&str]) {
    let error = Job::new(machine, asked).unwrap_err();
    assert_eq!(error.kind(), iolane::ErrorKind::Usage);
    let error = error.to_string();
    assert!(says.iter().all(|words| error.contains(words)) && error.lines().count() == 1, "{error}");
}

#[test]
fn a_prediction_has_intervals_around_what_was_observed_and_states_what_is_left_out() {
    let predicted = play(machine(), &asked());
    let [load] = &predicted.loads[..] else { panic!("{predicted:#?}") };
    let psync = load.paths.iter().find(|path| path.path == "psync").unwrap();
    assert!((psync.iops.value / 10_000.0 - 1.0).abs() < 0.1, "{psync:?}");
    assert!(psync.iops.low < psync.iops.value && psync.iops.value < psync.iops.high, "{psync:?}");
    assert!(predicted.complete && !predicted.left_out.is_empty());
}

#[test]
fn a_path_that_blocks_has_no_depth_and_the_others_are_predicted() {
    let predicted = play(machine(), &Asked { depths: vec![32], ..asked() });
    let [load] = &predicted.loads[..] else { panic!("{predicted:#?}") };
    let names: Vec<&str> = load.paths.iter().map(|path| path.path.as_str()).collect();
    assert_eq!((names, load.not_played[0].path.as_str()), (vec!["io_uring"], "psync"));
    assert!(load.not_played[0].reason.contains("more threads"), "{load:#?}");
    assert_eq!(load.best.path.as_deref(), Some("io_uring"));
}

#[test]
fn what_the_machine_was_not_calibrated_for_is_refused_with_what_to_measure() {
    let with = |change: &dyn Fn(&mut Asked)| {
        let mut asked = asked();
        change(&mut asked);
        asked
    };
    let libaio = with(&|asked| asked.paths = vec!["libaio".parse().unwrap()]);
    refused(machine(), &libaio, &["--path libaio", "but for io_uring; psync", "calibrate --measure --path libaio"]);
    let large = with(&|asked| asked.block_bytes = vec![65_536]);
    refused(machine(), &large, &["--bs 64k", "calibrated with 4k", "--bs 4k,128k"]);
    let writes = with(&|asked| asked.read_percents = vec![70]);
    refused(machine(), &writes, &["calibrated without writes", "--rw randwrite", "drive.write_ns"]);
    refused(machine(), &with(&|asked| asked.threads = vec![0]), &["--threads 0"]);
    let many = with(&|asked| {
        asked.threads = (1..=400).collect();
        asked.depths = (1..=400).collect();
    });
    refused(machine(), &many, &["more than 20000 loads"]);
}

#[test]
fn what_a_data_sheet_gives_is_known() {
    let known = machine_with("[known]\nwrite_ns = 20000.0\nbytes_per_s = 3e9");
    let asked = Asked { block_bytes: vec![65_536], read_percents: vec![0], ..asked() };
    let predicted = play(known, &asked);
    assert!(predicted.loads[0].paths.iter().all(|path| path.bytes_per_s.value <= 3.1e9), "{predicted:#?}");
    // Within a page, a block takes as long as the page.
    play(machine(), &Asked { block_bytes: vec![512], read_percents: vec![100], ..asked });
}

#[test]
fn more_cores_than_the_machine_has_stand_for_a_larger_machine() {
    let predicted = play(machine(), &Asked { cores: vec![2, 16], threads: vec![2], drives: 2, ..asked() });
    assert_eq!((predicted.machine.cores, predicted.machine.predicted_cores), (4, 16));
    let cores: Vec<usize> = predicted.loads.iter().map(|load| load.cores).collect();
    assert_eq!(cores, [2, 16]);
}

#[test]
fn paths_that_differ_by_less_than_is_known_show_no_difference() {
    let mut same = machine();
    let costs = same.paths["io_uring"].clone();
    same.paths.insert("io_uring,fixedbufs".to_owned(), costs);
    for (name, draws) in same.draws.clone() {
        if let Some(number) = name.strip_prefix("io_uring.") {
            same.draws.insert(format!("io_uring,fixedbufs.{number}"), draws);
        }
    }
    let predicted = play(same.clone(), &Asked { depths: vec![16], ..asked() });
    let best = &predicted.loads[0].best;
    assert_eq!(best.no_difference().count(), 1, "{best:#?}");
    // One that costs three times as much, in every draw, is shown to be worse.
    let slow = same.paths.get_mut("io_uring,fixedbufs").unwrap();
    *slow = iolane_model::Costs(slow.0.map(|_, number| Number::Plain(number.value() * 3.0)));
    same.draws.retain(|name, _| !name.starts_with("io_uring,fixedbufs."));
    let predicted = play(same, &Asked { depths: vec![32], goal: Goal::Efficiency, ..asked() });
    let best = &predicted.loads[0].best;
    assert_eq!((best.path.as_deref(), best.no_difference().count()), (Some("io_uring"), 0), "{best:#?}");
    assert!(best.others[0].ratio.unwrap().value > 1.5, "{best:#?}");
}

#[test]
fn a_prediction_that_is_stopped_has_what_is_complete() {
    let job = Job::new(machine(), &Asked { threads: vec![1, 2, 3], ..asked() }).unwrap();
    assert_eq!(job.cells(), 6);
    let predicted = job.play(&AtomicBool::new(true), |_| {}).unwrap();
    assert!(!predicted.complete && predicted.loads.is_empty());
}

#[test]
fn what_was_measured_of_a_load_stands_beside_its_prediction() {
    let observed: iolane_model::Observation =
        toml::from_str("path = \"io_uring\"\niops = 10500.0\ncpu_ns_per_io = 4000.0").unwrap();
    let predicted = play(machine(), &Asked { cores: vec![2, 4], ..asked() }).beside(&[observed]);
    let measured = |load: usize, path: usize| predicted.loads[load].paths[path].measured;
    assert_eq!(measured(1, 0).and_then(|measured| measured.iops), Some(10_500.0), "{predicted:#?}");
    assert_eq!(measured(1, 0).and_then(|measured| measured.cores()), Some(0.042));
    assert_eq!((measured(0, 0), measured(1, 1)), (None, None), "fewer cores, another path");
}
