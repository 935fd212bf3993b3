//! Settings of the measured device that make requests of the recommended paths cost more than they need to, with what they
//! cost in instructions. The costs are those of `host_costs.csv`, which `cargo xtask bench --settings` writes.

use iolane::IoPath;
use iolane_measure::workload::Workload;
use serde::{Deserialize, Serialize};

use super::settings::is_at_least;
use crate::run_record::HostRecord;

/// A setting that would help.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSetting {
    /// Its attribute in /sys/block/DEVICE/queue.
    pub name: &'static str,
    pub device: String,
    pub now: String,
    pub better: &'static str,
    /// What the kernel does because of it.
    pub effect: &'static str,
    /// What would be lost; empty if nothing.
    pub loses: &'static str,
    /// What it costs the recommended paths, as far as that was counted.
    pub costs: Vec<Cost>,
    /// The command that changes it until the next boot.
    pub command: String,
}

/// What a setting costs a path: instructions per I/O of a program and the kernel, on a device that completes at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The path and the depth that were counted, which are the nearest to a recommended one.
    pub path: String,
    pub depth: u32,
    /// The version of the kernel that was counted.
    pub kernel: String,
    pub now: f64,
    pub better: f64,
}

/// A row of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Row {
    kernel: String,
    #[serde(with = "iolane_measure::serde_text")]
    path: IoPath,
    depth: u32,
    defaults: f64,
    mq_deadline: f64,
    no_iostats: f64,
    no_merges: f64,
}

/// The instructions with a setting as it is, and with the better one.
type NowAndBetter = fn(&Row) -> (f64, f64);

const COSTS: &str = include_str!("host_costs.csv");

/// The settings of the measured device that would help these paths, each with its load.
pub(super) fn host_settings(record: &HostRecord, recommended: &[(&IoPath, &Workload)]) -> Vec<HostSetting> {
    let HostRecord { host, device: Some(device) } = record else { return Vec::new() };
    let Some(disk) = &device.disk else { return Vec::new() };
    // A virtual disk reports that it is rotational unless it was configured otherwise.
    let is_rotational = device.rotational == Some(true) && host.hypervisor != Some(true);
    let kernel = &host.kernel_release;
    let through_block_layer: Vec<&(&IoPath, &Workload)> =
        recommended.iter().filter(|(path, _)| BLOCK_LAYER.contains(&path.interface())).collect();
    if through_block_layer.is_empty() {
        return Vec::new();
    }
    let rows = rows();
    let found = |name, now: &str, better, effect, loses, costs: Option<NowAndBetter>| HostSetting {
        name,
        device: disk.clone(),
        now: now.to_owned(),
        better,
        effect,
        loses,
        costs: costs.map_or_else(Vec::new, |of| of_paths(&rows, kernel, &through_block_layer, of)),
        command: format!("echo {better} > /sys/block/{disk}/queue/{name}"),
    };
    let mut settings = Vec::new();
    if let Some(scheduler) = device.scheduler.as_deref().filter(|scheduler| *scheduler != "none" && !is_rotational) {
        let costs: Option<NowAndBetter> = match scheduler {
            "mq-deadline" => Some(|row| (row.mq_deadline, row.defaults)),
            // They were not counted.
            _ => None,
        };
        let effect = "it queues and sorts requests; at depth 1 a kernel worker hands each one to the drive";
        settings.push(found("scheduler", scheduler, "none", effect, "", costs));
    }
    if device.iostats == Some(true) {
        let effect = "the kernel counts each request and takes its time twice";
        let loses = "iostat, /proc/diskstats and `iolane advise --pid` need it";
        settings.push(found("iostats", "1", "0", effect, loses, Some(|row| (row.defaults, row.no_iostats))));
    }
    let is_random = through_block_layer.iter().all(|(_, load)| load.access.is_random());
    if device.nomerges.is_some_and(|nomerges| nomerges < 2) && is_random {
        let effect = "the kernel looks for a queued request next to each new one, of which random loads have none";
        let loses = "sequential loads of small blocks need it";
        let now = device.nomerges.unwrap_or_default().to_string();
        // 1 omits a part of the search, which was not counted.
        let costs: Option<NowAndBetter> = match device.nomerges {
            Some(0) => Some(|row| (row.defaults, row.no_merges)),
            _ => None,
        };
        settings.push(found("nomerges", &now, "2", effect, loses, costs));
    }
    settings
}

/// The interfaces whose requests pass the kernel's block layer, with scheduler, accounting and merging.
const BLOCK_LAYER: [&str; 4] = ["psync", "posix_aio", "libaio", "io_uring"];

fn rows() -> Vec<Row> {
    // A test asserts that every row is read.
    csv::Reader::from_reader(COSTS.as_bytes()).deserialize().flatten().collect()
}

/// What a setting costs each path, by the nearest that was counted; each once.
fn of_paths(rows: &[Row], kernel: &str, recommended: &[&(&IoPath, &Workload)], of: NowAndBetter) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::new();
    for row in recommended.iter().filter_map(|(path, load)| nearest(rows, kernel, path, load.depth)) {
        let (now, better) = of(row);
        let cost = Cost { path: row.path.to_string(), depth: row.depth, kernel: row.kernel.clone(), now, better };
        if !costs.contains(&cost) {
            costs.push(cost);
        }
    }
    costs
}

/// The row of the newest kernel that is not newer, of the same interface and way to complete; then with the same options, then
/// the nearest depth. A submission thread does the work of a path in another place, which was not counted.
fn nearest<'a>(rows: &'a [Row], kernel: &str, path: &IoPath, depth: u32) -> Option<&'a Row> {
    let version = |row: &Row| {
        let (major, minor) = row.kernel.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    let is_reached = |row: &&Row| version(row).is_some_and(|version| is_at_least(kernel, version));
    let newest =
        rows.iter().filter(is_reached).filter_map(version).max().or_else(|| rows.iter().filter_map(version).min());
    let is_alike = |row: &&Row| {
        row.path.interface() == path.interface()
            && row.path.asks_for_polling() == path.asks_for_polling()
            && !path.polls_submissions()
    };
    let distance = |row: &&Row| {
        let other_options = row.path.options.fixed_buffers != path.options.fixed_buffers;
        let octaves = (f64::from(row.depth.max(1)) / f64::from(depth.max(1))).log2().abs();
        (other_options, (octaves * 1000.0) as u64)
    };
    rows.iter().filter(|row| version(row) == newest).filter(is_alike).min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use iolane_measure::host::{DeviceHost, Host};
    use iolane_measure::workload::Access;

    use super::*;

    fn device(scheduler: &str) -> DeviceHost {
        DeviceHost {
            name: Some("nvme0n1p2".into()),
            disk: Some("nvme0n1".into()),
            scheduler: Some(scheduler.into()),
            iostats: Some(true),
            nomerges: Some(0),
            ..DeviceHost::default()
        }
    }

    fn of(device: &DeviceHost, kernel: &str, path: &str, load: Workload) -> Vec<HostSetting> {
        let host = Host { kernel_release: kernel.into(), ..Host::default() };
        let record = HostRecord { host, device: Some(device.clone()) };
        host_settings(&record, &[(&path.parse().unwrap(), &load)])
    }

    fn load(depth: u32) -> Workload {
        Workload { depth, ..Workload::default() }
    }

    fn names(settings: &[HostSetting]) -> Vec<&str> {
        settings.iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn every_row_of_the_costs_is_read() {
        assert_eq!(rows().len(), COSTS.lines().count() - 1);
        assert!(rows().len() >= 16);
    }

    #[test]
    fn a_scheduler_costs_what_was_counted_for_the_nearest_arm() {
        let found = of(&device("mq-deadline"), "6.12.9-amd64", "io_uring", load(24));
        assert_eq!(names(&found), ["scheduler", "iostats", "nomerges"]);
        let HostSetting { now, better, command, costs, .. } = &found[0];
        assert_eq!((&now[..], *better), ("mq-deadline", "none"));
        assert_eq!(command, "echo none > /sys/block/nvme0n1/queue/scheduler");
        let [cost] = &costs[..] else { panic!("{costs:?}") };
        assert_eq!((&cost.path[..], cost.depth, &cost.kernel[..]), ("io_uring", 16, "6.1"));
        assert!(cost.now > 1.1 * cost.better, "{cost:?}");
        let newer = of(&device("mq-deadline"), "7.3.0", "psync", load(1));
        assert_eq!((&newer[0].costs[0].kernel[..], newer[0].costs[0].depth), ("7.2", 1));
        let older = of(&device("mq-deadline"), "5.10.0", "psync", load(1));
        assert_eq!(older[0].costs[0].kernel, "6.1");
        let polled = of(&device("mq-deadline"), "6.1.0", "io_uring+iopoll", load(2));
        assert_eq!(
            (&polled[0].costs[0].path[..], polled[0].costs[0].depth),
            ("io_uring+iopoll,fixedbufs,fixedfiles", 1)
        );
    }

    #[test]
    fn what_was_not_counted_has_no_figures() {
        let bfq = of(&device("bfq"), "6.1.0", "psync", load(1));
        assert!(bfq[0].costs.is_empty() && !bfq[1].costs.is_empty(), "{bfq:?}");
        let thread = of(&device("mq-deadline"), "6.1.0", "io_uring+sqpoll", load(1));
        assert!(thread.iter().all(|setting| setting.costs.is_empty()), "{thread:?}");
    }

    #[test]
    fn settings_that_are_right_or_do_not_matter_are_not_named() {
        let quiet = DeviceHost { iostats: Some(false), nomerges: Some(2), ..device("none") };
        assert_eq!(of(&quiet, "6.1.0", "psync", load(1)), []);
        let disk = DeviceHost { rotational: Some(true), ..device("mq-deadline") };
        assert_eq!(names(&of(&disk, "6.1.0", "psync", load(1))), ["iostats", "nomerges"]);
        let scan = Workload { access: Access::Read, ..load(1) };
        assert_eq!(names(&of(&device("none"), "6.1.0", "psync", scan)), ["iostats"]);
        assert_eq!(of(&device("mq-deadline"), "6.1.0", "nvme", load(1)), []);
        assert_eq!(of(&DeviceHost::default(), "6.1.0", "psync", load(1)), []);
    }
}
