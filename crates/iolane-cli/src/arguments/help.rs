//! The help that follows the options of each command: examples, and the lists that only registries know.

use iolane_study::plan::{BUILT_IN, Study};

use crate::output;

pub(super) const EXIT_CODES: &str =
    "Exit codes: 0 success, 1 failed or interrupted, 2 invalid usage, 3 target or path unavailable.";

pub(super) const START: &str = "\
Start with
  iolane study                                   compare every path on a scratch file
  iolane probe /dev/nvme0n1                      the paths to a drive
  iolane run --path io_uring --depth 32          one path, on a scratch file
  iolane run --path psync --json - | jq .result  for scripts
  iolane study systor22 --dry-run                what a published study would run here
  iolane advise                                  which path to take, from the last study
  iolane calibrate --measure && iolane predict   what more threads, cores and drives would do
  iolane compare results/a results/b             two machines, kernels or settings
  iolane lab run -- study                        in a virtual machine with an NVMe drive";

pub(super) const ADVISE: &str = "\
For each load and goal: the path to take, how sure that is, what every other path would give up,
and the settings for fio, C, Rust and SPDK. It comes from the results of a study, or from a minute
of measuring; without --allow-writes a target is only read.

  iolane advise --target /dev/nvme0n1 --bs 16k --depth 1,16      measures and advises
  iolane advise results/survey --goal throughput --json - | jq '.advice[0].take'

A running process shows its load: sizes, mix, requests in flight, threads, and its path. It is
neither stopped nor traced, and nothing is written.

  iolane advise --pid $(pgrep -n fio)
  iolane advise --pid 4711 --watch 1m --target /mnt/nvme/copy    measures each path with this load

In a build: exit code 1 if a path is shown to be at least 5 % better than the one in use. All
comparisons share an error of 5 %, so noise alone fails at most one build in twenty.

  iolane advise results/survey --goal latency --check libaio --min-gain 5%";

pub(super) const CALIBRATE: &str = "\
Fits the costs of each path and the numbers of the drive to measurements of this machine. The file,
machine.toml, has each number with its 95 % interval, and can be edited: a number that you know,
such as drive.bytes_per_s from the data sheet, is written as a plain number.

  iolane calibrate --measure --target /dev/nvme0n1     measures for a minute; only reads
  iolane calibrate --measure --depth 1,16,64           one depth more shows how good predictions are
  iolane calibrate results/survey                      from a study
  iolane calibrate run.json other.json --out server.toml
  iolane predict --machine machine.toml --threads 1..16

Used are random reads and writes of one block size in a closed loop, on psync, libaio, io_uring,
io_uring_cmd and nvme. Everything else is listed with the reason.";

pub(super) const PREDICT: &str = "\
Plays each load on a model of the machine. Each value is the median of 24 machines that explain the
measurements about equally well; the line below has the interval that contains 95 % of them. For the
goal, the best path is named, and the paths beside which no difference is shown. Predictions of
measurements that the model did not see show how far it is off.

  iolane predict                                       the machine in machine.toml
  iolane predict --threads 1..16 --cores 4,8,16 --depth 32
  iolane predict --drives 8 --threads 8 --path libaio,io_uring --goal efficiency
  iolane predict --machine results/survey --depth 1,16,64 --page predicted.html
  iolane predict --machine systor22 --cores 1..20 --threads 20 --drives 20 --depth 128 \\
    --batch-submit 1 --batch-complete-max 1            a published machine, loaded as by fio
  iolane predict --json - | jq '.loads[] | {threads, cores, best: .best.path}'";

pub(super) const REPORT: &str = "\
The page is one self-contained file: it opens in any browser without a network, and can be sent or
printed. A study writes it when it ends; this command rebuilds it from study.json and
records.parquet with the charts of this version.

  iolane report results/systor22
  iolane report results/systor22 --text -
  iolane report results/systor22 --out systor22-laptop.html
  iolane report results/systor22 --png figures --csv tables --md summary.md";

pub(super) const ENERGY: &str = "\
For a power meter between the machine and the wall socket that records by itself, with its own
clock. With --meter-steps the study alternates between full load and idle. This pattern aligns the
meter's clock with the study's, so that each run gets the watts recorded during it. A recording
that does not match is refused, and the results stay as they are.

  iolane study hotstorage23 --target /dev/nvme0n1 --runtime 10s --meter-steps
  iolane energy results/hotstorage23 --meter-csv hobo.csv

Each run must last at least eight samples of the meter: 8 s at one sample per second.";

pub(super) const COMPARE: &str = "\
A ratio divides the median of an arm's repeats in a later folder by its median in the first folder,
with a 95 % bootstrap interval over the repeats of both. A ratio whose interval includes 1 shows no
significant difference and is marked with ~. The folders were measured at different times, so the
ratio includes any other change on the machine. To estimate that, repeat the first study at the end
and compare its two results.

  iolane study --target /dev/nvme0n1 --out before
  echo mq-deadline | sudo tee /sys/block/nvme0n1/queue/scheduler
  iolane study --target /dev/nvme0n1 --out after
  iolane compare before after
  iolane compare laptop server cloud --json compared.json
  iolane lab matrix --kernel 5.10,6.1 -- study systor22     a study on several kernels

The output lists differences between machines and settings, then each arm, the arms that a folder
lacks with the reason, and the claims whose verdict differs.";

pub(super) const NVME_BIND: &str = "\
Requires root, an IOMMU, and the module vfio-pci. A controller is refused if one of its namespaces
or partitions is mounted, swap, part of an array or a volume, behind a loop device, or open, or if
its IOMMU group has another device with a kernel driver. The previous driver is recorded in
/run/iolane/nvme first; `iolane nvme restore` returns the controller to it, even if iolane was
killed.

  iolane nvme list
  sudo iolane nvme bind 0000:00:05.0 --user alice
  sudo iolane nvme restore";

pub(super) const LAB_RUN: &str = "\
Targets in the guest: nvme0 (or nvme0n1), nvme1, ... through the kernel's driver; ng0n1 for NVMe
passthrough; nullb0; pci:BDF for a drive through iolane's user-space driver. Without --target,
commands use nvme0; a published study uses half of the drives through the kernel and half through
the user-space driver (pci:), and may write to all of them. Files named in COMMAND are copied into
the guest; files it writes in this folder, or under --out and --json, are copied back. A Debian
kernel is downloaded once and cached. --full needs a longer --timeout.

  iolane lab run -- probe
  iolane lab run --nvme 2 --cpus 2 -- study systor22 --out results/systor22
  iolane lab run --nvme 2 -- study --target nvme0 --target nvme1 --out results
  iolane lab run --kernel 5.10 -- run --target nvme0 --path psync+iopoll
  iolane lab run --exact -- run --target nullb0 --path io_uring+iopoll --depth 16

The exit code is that of COMMAND; 1 if the guest fails, 3 if QEMU or the kernel is unavailable.";

pub(super) const LAB_MATRIX: &str = "\
The results of each kernel go to a folder of their own: DIR-KERNEL if the study has --out DIR,
otherwise results/NAME-KERNEL. The comparison printed at the end shows each arm's IOPS on every
kernel as a ratio to the first, and the verdict of each claim; `iolane compare` prints it again from
the folders.

  iolane lab matrix --kernel 5.10,6.1,6.12,7.2 -- study systor22
  iolane lab matrix --kernel 6.1,7.2 --nvme 2 -- study --depth 1,16 --out before-and-after
  iolane compare before-and-after-6.1 before-and-after-7.2

If the study fails on a kernel, the others continue, and the exit code is 1.";

/// Help of `study`, with the built-in studies.
pub(super) fn studies() -> String {
    let mut help = String::from("Built-in studies:\n");
    for built_in in BUILT_IN {
        let title =
            Study::parse(built_in.text, built_in.name).map_or_else(|error| error.to_string(), |study| study.title);
        help.push_str(&format!("{}\n", output::wrap(&format!("  {:<13} {title}", built_in.name), 16)));
    }
    help.push_str(
        "\n  iolane study                                     every path, on a scratch file\n\
         \x20 iolane study systor22 --target /dev/nvme0n1      only reads; writes need --allow-writes\n\
         \x20 iolane study hotstorage23 --dry-run              what it would run, and for how long\n\
         \x20 iolane study --print systor22 > my.toml          a template for your own study\n\
         \x20 iolane lab run --nvme 2 -- study systor22        in a virtual machine, with the user-space driver\n\n\
         An interrupted or killed study continues when the same command is given again.",
    );
    help
}

/// Help of `run`, with the registered interfaces.
pub(super) fn paths() -> String {
    let mut help = String::from("Paths: INTERFACE[+sqpoll][+int|+iopoll|+hybrid][,OPTION...], where INTERFACE is\n");
    for interface in iolane::interfaces() {
        let line = format!("  {:<13} {}", interface.name(), interface.summary());
        help.push_str(&format!("{}\n", output::wrap(&line, 16)));
    }
    help.push_str(
        "and the modes, for io_uring and in part for others, are\n\
         \x20 +sqpoll       a kernel thread submits\n\
         \x20 +int          completion by interrupt\n\
         \x20 +iopoll       completion by polling\n\
         \x20 +hybrid       completion by sleeping, then polling\n\
         and OPTION, for io_uring and io_uring_cmd, is\n\
         \x20 fixedbufs     register buffers with the kernel once\n\
         \x20 fixedfiles    register the target with the kernel once\n\
         \x20 defer, coop   IORING_SETUP_DEFER_TASKRUN or COOP_TASKRUN [default: the better one available]\n\
         \x20 plain         no optional setup flags, like the programs of the publications\n\
         \x20 sqidle=MS     idle time after which the submission thread sleeps\n\
         \x20 share         share one submission thread among queues\n\
         and for libaio\n\
         \x20 getevents     fetch completions by io_getevents, as libaio's own functions do\n\
         and for auto\n\
         \x20 goal=GOAL     aim at throughput, latency or efficiency [default: throughput]\n\
         \x20 cores=N       take no path that keeps more cores busy, such as 0.5 or 1\n\
         \x20 nosqpoll      take no path with a submission thread\n\
         \x20 noexplore     send no request to a path only to measure it\n\
         \x20 restless      change the path every few requests, as a test of what a change could break",
    );
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_registered_interface() {
        let help = paths();
        for interface in iolane::interfaces() {
            assert!(help.contains(&format!("\n  {} ", interface.name())), "{}", interface.name());
        }
    }
}
