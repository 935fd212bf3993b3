//! A machine that is fitted to what another one does predicts what that one does under other loads; and its file is read as written.

use std::collections::BTreeMap;

use iolane_model::{
    Behaviour, Drive, Length, Load, Machine, MachineFile, Number, Observation, Observations, PUBLISHED, PathCosts,
    Processor, Scheduler, SchedulerKind, calibrate, predict, residuals, simulate,
};

const PATHS: [&str; 4] = ["libaio", "io_uring", "io_uring+iopoll", "io_uring+sqpoll"];

fn truth() -> Machine {
    let costs = |path: &str| {
        let all = PathCosts {
            call_ns: 350.0,
            request_ns: 1_900.0,
            wait_ns: 300.0,
            interrupt_ns: 1_400.0,
            switch_ns: 2_600.0,
            poll_ns: 120.0,
            thread_ns: 1_700.0,
            handoff_ns: 250.0,
        };
        let behaviour = Behaviour::of(&path.parse().unwrap()).unwrap();
        match behaviour.submission {
            iolane_model::Submission::Thread => PathCosts { call_ns: 0.0, wait_ns: 0.0, switch_ns: 0.0, ..all },
            _ => PathCosts { thread_ns: 0.0, handoff_ns: 0.0, ..all },
        }
    };
    Machine {
        processor: Processor { cores: 8, nodes: 1, smt: false, smt_speed: 0.6, idle_exit_ns: 0.0 },
        scheduler: Scheduler { kind: SchedulerKind::Eevdf, hz: 1000 },
        drive: Drive {
            read_ns: 70_000.0,
            write_ns: 20_000.0,
            spread: 0.15,
            units: 64.0,
            iops: 500_000.0,
            write_iops: None,
            bytes_per_s: 3e9,
            page_bytes: 4096,
            tags: 1023,
        },
        link: None,
        paths: PATHS.iter().map(|path| ((*path).to_owned(), costs(path))).collect::<BTreeMap<_, _>>(),
        power: None,
    }
}

/// What the truth does at some depths of one thread, as exact as it is.
fn observed(depths: &[u32]) -> Observations {
    observed_of(&truth(), &PATHS, depths)
}

fn observed_of(truth: &Machine, paths: &[&str], depths: &[u32]) -> Observations {
    let mut observations = Vec::new();
    for path in paths {
        for depth in depths {
            let load = Load { depth: *depth, ..Load::new(truth, path).unwrap() };
            let outcome = simulate(truth, &load, Length::of(&load), 99).unwrap();
            let text = format!("path = '{path}'\ndepth = {depth}\niops = {}\nnoise = 0.01", outcome.iops());
            let mut observation: Observation = toml::from_str(&text).unwrap();
            observation.p50_ns = Some(outcome.percentile_ns(50.0) as f64);
            observations.push(observation);
        }
    }
    Observations {
        name: "truth".to_owned(),
        processor: truth.processor.map(|_, value| Some(*value)),
        scheduler: truth.scheduler,
        power: None,
        known: iolane_model::Known::default(),
        seed: 1,
        observations,
    }
}

#[test]
fn fitted_to_few_depths_of_one_thread_it_predicts_others_and_more_threads() {
    let file = calibrate(&observed(&[1, 16, 128])).unwrap();
    for residual in residuals(&file.best(), &observed(&[4, 64]).observations).unwrap() {
        let off = residual.predicted / residual.observed - 1.0;
        assert!(
            off.abs() < 0.08,
            "{}: {} predicted, {} observed",
            residual.what,
            residual.predicted,
            residual.observed
        );
    }
    let machine = file.best();
    for path in PATHS {
        let load = Load { threads: 3, drives: 3, depth: 64, ..Load::new(&machine, path).unwrap() };
        let prediction = predict(&file, &load).unwrap().iops;
        let truth = simulate(&truth(), &load, Length::of(&load), 7).unwrap().iops();
        assert!((prediction.value / truth - 1.0).abs() < 0.1, "{path}: {prediction:?} predicted, {truth} observed");
        assert!(prediction.low <= prediction.value && prediction.value <= prediction.high);
    }
}

#[test]
fn the_exit_from_idleness_shows_beside_a_path_that_never_sleeps() {
    let mut truth = truth();
    truth.processor.idle_exit_ns = 40_000.0;
    let mut observations = observed_of(&truth, &["io_uring", "io_uring+iopoll"], &[1, 4, 64]);
    observations.processor.idle_exit_ns = None;
    let file = calibrate(&observations).unwrap();
    let Number::Fitted(found) = &file.processor.idle_exit_ns else { panic!("{:?}", file.processor) };
    assert!(found.determined && (found.value / 40_000.0 - 1.0).abs() < 0.1, "{found:?}");
    assert_ne!(file.draw(0).processor.idle_exit_ns, file.draw(1).processor.idle_exit_ns);
}

#[test]
fn what_the_observations_do_not_tell_is_said_not_to_be_determined() {
    let file = calibrate(&observed(&[1])).unwrap();
    let is_determined = |number: &Number| matches!(number, Number::Fitted(fitted) if fitted.determined);
    // One request at a time tells the drive's latency, but not how many it could serve at once, nor the parts of a sum.
    assert!(is_determined(&file.drive.read_ns), "{:?}", file.drive.read_ns);
    assert!(!is_determined(&file.drive.units) && !is_determined(&file.drive.iops));
    let costs = &file.paths["libaio"].0;
    assert!(!is_determined(&costs.call_ns) && !is_determined(&costs.wait_ns), "{costs:?}");
}

#[test]
fn calibrating_twice_gives_the_same_file_and_the_file_is_read_as_written() {
    let observations = observed(&[1, 16]);
    let [file, again] = [(); 2].map(|()| calibrate(&observations).unwrap());
    assert_eq!(file.to_text(), again.to_text());
    assert_eq!(MachineFile::parse(&file.to_text(), "test").unwrap(), file);
    assert_eq!(file.draw_count(), 24);
    assert_ne!(file.draw(0), file.draw(1));
}

#[test]
fn a_file_that_cannot_be_a_machine_is_refused_in_one_line() {
    let good = calibrate(&observed(&[1])).unwrap().to_text();
    for (from, to, says) in [
        ("iolane.machine/1", "iolane.machine/9", "its schema is iolane.machine/9"),
        ("cores = 8", "cores = 0", "0 cores on 1 nodes"),
        ("value = 0.15", "value = -1.0", "drive.spread is -1"),
        ("tags = 1023", "tags = 0", "drive.tags is 0"),
        ("tags = 1023", "tags = 1023\nwrite_iops = 0.0", "drive.write_iops is 0"),
        ("hz = 1000", "hz = 0", "scheduler.hz is 0"),
        ("smt_speed = 0.62", "smt_speed = nan", "processor.smt_speed is NaN"),
        ("nodes = 1", "nodes = 1\nsockets = 2", "unknown field `sockets`"),
    ] {
        let text = good.replace("smt_speed = 0.6\n", "smt_speed = 0.62\n").replace(from, to);
        let error = MachineFile::parse(&text, "m.toml").unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains("machine m.toml") && shown.contains(says), "{shown}");
        assert!(!shown.contains('\n') && !error.remedy_text().is_empty(), "{shown}");
    }
}

#[test]
fn observations_without_a_figure_or_with_a_bad_one_are_refused() {
    let head =
        "name = 'x'\n[processor]\ncores = 1\n[scheduler]\nkind = 'cfs'\nhz = 250\n[[observation]]\npath = 'psync'\n";
    for (figure, says) in
        [("", "has no figure"), ("iops = -1", "is not positive"), ("iops = 1\nnoise = 9", "the noise of")]
    {
        let error = Observations::parse(&format!("{head}{figure}"), "o.toml").unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let unknown = Observations::parse(&format!("{head}iops = 1").replace("'psync'", "'posix_aio'"), "o.toml").unwrap();
    assert!(calibrate(&unknown).unwrap_err().to_string().contains("does not know how it behaves"));
}

#[test]
fn the_published_machines_are_those_that_fit_and_explain_what_they_were_fitted_to() {
    for published in PUBLISHED {
        let (observations, file) = (published.observations().unwrap(), published.machine().unwrap());
        let anew = MachineFile { held_out: file.held_out.clone(), ..calibrate(&observations).unwrap() };
        assert!(anew == file, "{}: write it anew by `--example published -- --write`", published.name);
        for residual in residuals(&file.best(), &observations.observations).unwrap() {
            let off = residual.predicted / residual.observed - 1.0;
            assert!(
                off.abs() < 0.12,
                "{}: {} predicted, {} published",
                residual.what,
                residual.predicted,
                residual.observed
            );
        }
    }
}
