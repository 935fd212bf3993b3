//! Laws that every simulated load obeys, whatever the machine: nothing is lost, Little's law, no more processor time than there is,
//! and figures that can be computed by hand.

use std::collections::BTreeMap;

use iolane_model::{Drive, Length, Load, Machine, PathCosts, Processor, Scheduler, SchedulerKind, simulate};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const PATHS: [&str; 7] =
    ["psync", "psync+iopoll", "libaio,getevents", "io_uring", "io_uring+iopoll", "io_uring+sqpoll", "nvme"];

const COSTS: PathCosts = PathCosts {
    call_ns: 300.0,
    request_ns: 1_000.0,
    wait_ns: 200.0,
    interrupt_ns: 800.0,
    switch_ns: 1_500.0,
    poll_ns: 100.0,
    thread_ns: 900.0,
    handoff_ns: 150.0,
};

/// A drive that takes 50 us for a read, always, and as many as there are.
const DRIVE: Drive = Drive {
    read_ns: 50_000.0,
    write_ns: 20_000.0,
    spread: 0.0,
    units: 1_000.0,
    iops: 1e9,
    write_iops: None,
    bytes_per_s: 1e12,
    page_bytes: 4096,
    tags: 1_023,
};

fn machine(cores: usize) -> Machine {
    Machine {
        processor: Processor { cores, nodes: 1, smt: false, smt_speed: 0.6, idle_exit_ns: 0.0 },
        scheduler: Scheduler { kind: SchedulerKind::Cfs, hz: 250 },
        drive: DRIVE,
        link: None,
        paths: PATHS.iter().map(|path| ((*path).to_owned(), COSTS)).collect::<BTreeMap<_, _>>(),
        power: None,
    }
}

fn load(machine: &Machine, path: &str, depth: u32) -> Load {
    Load { depth, ..Load::new(machine, path).unwrap() }
}

fn mean_ns(machine: &Machine, load: &Load) -> f64 {
    simulate(machine, load, Length::of(load), 1).unwrap().latency.mean()
}

#[test]
fn at_depth_1_the_latency_of_a_blocking_call_is_the_sum_of_its_costs() {
    let machine = machine(1);
    let expected = 300.0 + 500.0 + 50_000.0 + 800.0 + 1_500.0 + 500.0;
    let found = mean_ns(&machine, &load(&machine, "psync", 1));
    assert!((found / expected - 1.0).abs() < 0.002, "{found} {expected}");
}

#[test]
fn at_depth_1_polling_saves_the_interrupt_and_the_switch() {
    let machine = machine(2);
    let [blocking, polling, bypass] =
        ["psync", "psync+iopoll", "nvme"].map(|path| mean_ns(&machine, &load(&machine, path, 1)));
    assert!((blocking - polling - (800.0 + 1_500.0 - 100.0)).abs() < 100.0, "{blocking} {polling}");
    // Nor is there a call.
    assert!((polling - bypass - 300.0).abs() < 100.0, "{polling} {bypass}");
}

#[test]
fn a_path_that_the_processor_limits_does_one_request_in_the_sum_of_its_costs() {
    let machine = machine(1);
    let mut load = load(&machine, "libaio,getevents", 256);
    (load.batch_submit, load.batch_complete_max) = (Some(1), Some(1));
    let outcome = simulate(&machine, &load, Length::of(&load), 1).unwrap();
    let most = 1e9 / (300.0 + 200.0 + 1_000.0 + 800.0);
    // Interrupts that bring two completions save a little.
    assert!((1.0..1.1).contains(&(outcome.iops() / most)), "{} {most}", outcome.iops());
    assert!((outcome.calls_per_io() - 2.0).abs() < 0.01 && outcome.switches_per_io() < 0.01);
}

#[test]
fn what_is_submitted_together_shares_the_call() {
    let machine = machine(1);
    let together = load(&machine, "io_uring", 16);
    let alone = Load { batch_submit: Some(1), batch_complete_max: Some(1), ..together.clone() };
    let [together, alone] = [together, alone].map(|load| simulate(&machine, &load, Length::of(&load), 1).unwrap());
    assert!(
        together.calls_per_io() < 0.6 && alone.calls_per_io() >= 1.0,
        "{} {}",
        together.calls_per_io(),
        alone.calls_per_io()
    );
}

#[test]
fn a_drive_does_no_more_than_its_ceilings() {
    let mut machine = machine(2);
    machine.drive.iops = 100_000.0;
    let by_controller = load(&machine, "nvme", 64);
    let iops = simulate(&machine, &by_controller, Length::of(&by_controller), 1).unwrap().iops();
    assert!((iops / 100_000.0 - 1.0).abs() < 0.01, "{iops}");
    machine.drive.iops = 1e9;
    machine.drive.bytes_per_s = 1e9;
    let by_bus = Load { block_bytes: 131_072, ..load(&machine, "nvme", 64) };
    let bytes = simulate(&machine, &by_bus, Length::of(&by_bus), 1).unwrap().bytes_per_s();
    assert!((bytes / 1e9 - 1.0).abs() < 0.01, "{bytes}");
    // Three quarters of the requests of one unit wait, as its queue is served one by one.
    machine.drive.units = 1.0;
    let by_unit = load(&machine, "nvme", 4);
    let iops = simulate(&machine, &by_unit, Length::of(&by_unit), 1).unwrap().iops();
    assert!((iops / 20_000.0 - 1.0).abs() < 0.01, "{iops}");
}

#[test]
fn requests_beyond_the_tags_of_a_drive_wait_in_the_kernel() {
    let mut machine = machine(2);
    machine.drive.tags = 8;
    let load = load(&machine, "nvme", 64);
    let outcome = simulate(&machine, &load, Length::of(&load), 1).unwrap();
    assert!((outcome.iops() / (8.0 * 1e9 / 50_000.0) - 1.0).abs() < 0.02, "{}", outcome.iops());
}

#[test]
fn on_one_core_a_submission_thread_and_its_program_take_turns_by_the_tick() {
    let machine = machine(1);
    // CFS: a slice of 3 ms ends at the next tick of 4 ms; a depth of requests in two slices.
    for depth in [1, 16, 128] {
        let load = load(&machine, "io_uring+sqpoll", depth);
        let outcome = simulate(&machine, &load, Length::of(&load), 1).unwrap();
        let expected = f64::from(depth) / 0.008;
        assert!((outcome.iops() / expected - 1.0).abs() < 0.1, "depth {depth}: {} {expected}", outcome.iops());
        assert!((outcome.percentile_ns(50.0) as f64 / 8e6 - 1.0).abs() < 0.05, "{}", outcome.percentile_ns(50.0));
    }
    // With a core for each, nothing of that is left.
    let machine = self::machine(2);
    let load = load(&machine, "io_uring+sqpoll", 128);
    assert!(simulate(&machine, &load, Length::of(&load), 1).unwrap().iops() > 400_000.0);
}

#[test]
fn a_busy_sibling_slows_a_hardware_thread_and_an_idle_one_does_not() {
    let mut machine = machine(4);
    let iops = |machine: &Machine, threads: usize| {
        let load = Load { threads, drives: threads, ..load(machine, "nvme", 128) };
        simulate(machine, &load, Length::of(&load), 1).unwrap().iops() / threads as f64
    };
    machine.drive.read_ns = 5_000.0;
    let alone = iops(&machine, 4);
    machine.processor.smt = true;
    let two = iops(&machine, 2);
    let four = iops(&machine, 4);
    assert!((two / alone - 1.0).abs() < 0.02, "{two} {alone}");
    assert!((four / alone / 0.6 - 1.0).abs() < 0.03, "{four} {alone}");
}

#[test]
fn a_machine_without_the_path_or_the_cores_is_refused() {
    let machine = machine(2);
    assert!(Load::new(&machine, "io_uring_cmd").unwrap_err().to_string().contains("not calibrated for it, but for"));
    let load = Load { cores: 3, ..load(&machine, "psync", 1) };
    assert!(simulate(&machine, &load, Length::of(&load), 1).unwrap_err().to_string().contains("has 2 cores"));
    let load = Load { depth: 2, ..self::load(&machine, "psync", 1) };
    assert!(
        simulate(&machine, &load, Length::of(&load), 1).unwrap_err().to_string().contains("has one request in flight")
    );
}

fn any_load() -> impl Strategy<Value = (Machine, Load, u64)> {
    let drive = (1_000.0..200_000.0, 0.0..1.0, 1.0..64.0, 1_u32..64, 1_u32..200);
    let shape = (0..PATHS.len(), 1_usize..6, 1_usize..4, 1_usize..5, 1_u32..40, 0.0..=1.0);
    let batches = (proptest::option::of(1_u32..5), proptest::option::of(1_u32..5), any::<bool>(), any::<bool>());
    (drive, shape, batches, any::<u64>()).prop_map(|(drive, shape, batches, seed)| {
        let (read_ns, spread, units, kib, tags) = drive;
        let (path, threads, drives, cores, depth, reads) = shape;
        let (batch_submit, batch_complete_max, smt, cfs) = batches;
        let mut machine = machine(cores);
        machine.processor.smt = smt;
        machine.scheduler.kind = if cfs { SchedulerKind::Cfs } else { SchedulerKind::Eevdf };
        machine.drive = Drive { read_ns, spread, units, tags, bytes_per_s: 2e9, ..machine.drive };
        let load = Load {
            threads,
            drives,
            reads,
            block_bytes: u64::from(kib) * 1024,
            batch_submit,
            batch_complete_max,
            ..load(&machine, PATHS[path], if PATHS[path].starts_with("psync") { 1 } else { depth })
        };
        (machine, load, seed)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_load_goes_on_obeys_littles_law_and_uses_no_more_than_the_machine_has((machine, load, seed) in any_load()) {
        let length = Length { requests_per_thread: 500, at_least_ns: 60_000_000, at_most_ns: 400_000_000 };
        let outcome = simulate(&machine, &load, length, seed).unwrap();
        prop_assert!(outcome.ios > 0, "nothing completed");
        let most = (load.threads * load.depth as usize) as f64;
        let in_flight = outcome.ios as f64 * outcome.latency.mean() / outcome.elapsed_ns as f64;
        // Requests that were started in the warm-up, or are not taken at the end, are counted in part.
        let edges = most * outcome.latency.max() as f64 / outcome.elapsed_ns as f64;
        prop_assert!(in_flight <= most + edges + 0.01, "{in_flight} in flight of {most}");
        prop_assert!(outcome.cores() <= load.cores as f64 + 0.01, "{} cores of {}", outcome.cores(), load.cores);
        let doubly = if machine.processor.smt { outcome.doubly_busy_core_ns } else { 0 };
        let threads_busy = (outcome.busy_core_ns + doubly) as f64 / outcome.elapsed_ns as f64;
        prop_assert!((threads_busy - outcome.cores()).abs() < 0.02 * load.cores as f64, "{threads_busy} {}", outcome.cores());
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome((machine, load, seed) in any_load()) {
        let length = Length { requests_per_thread: 200, at_least_ns: 5_000_000, at_most_ns: 50_000_000 };
        let text = |seed| format!("{:?}", simulate(&machine, &load, length, seed).unwrap());
        prop_assert_eq!(text(seed), text(seed));
    }
}
