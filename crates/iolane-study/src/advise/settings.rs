//! A path's settings in the words of other programs and languages, for those who do not use iolane's library. One function for each
//! of them.

use iolane::IoPath;
use iolane::path::CompletionMode;
use serde::Serialize;

use crate::fio::engine::engine;
use crate::plan::Arm;

/// A path's settings in the words of one program or language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The program or language: `fio`, `C`.
    pub of: &'static str,
    /// The settings; `None` if it has none for this path.
    pub text: Option<String>,
    /// Why it has none; empty otherwise.
    pub why_not: String,
}

impl Setting {
    fn new(of: &'static str, text: Result<String, String>) -> Self {
        match text {
            Ok(text) => Self { of, text: Some(text), why_not: String::new() },
            Err(why_not) => Self { of, text: None, why_not },
        }
    }
}

/// Where it was measured, as far as settings depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Whether all targets were opened with O_DIRECT.
    pub is_direct: bool,
    /// The kernel's release.
    pub kernel: String,
}

/// The settings of an arm's path, depth and threads; not those of its load.
pub fn settings(arm: &Arm, place: &Place) -> Vec<Setting> {
    let Arm { path, threads, workload, .. } = arm;
    let depth = workload.depth;
    let direct = |text: String| if place.is_direct { format!("open with O_DIRECT; {text}") } else { text };
    let of_each = if *threads > 1 { format!("; in each of {threads} threads") } else { String::new() };
    let in_threads = |text: String| text + &of_each;
    let threads_option = if *threads > 1 { format!(" --threads {threads}") } else { String::new() };
    let buffered = if place.is_direct { "" } else { " --direct false" };
    vec![
        Setting::new("iolane", Ok(format!("--path {path} --depth {depth}{threads_option}{buffered}"))),
        Setting::new("Rust", Ok(in_threads(of_library(path, depth)))),
        Setting::new("C", of_c(path, depth, &place.kernel).map(direct).map(in_threads)),
        Setting::new(
            "fio",
            of_fio(path, depth).map(|text| format!("{text} direct={} numjobs={threads}", u8::from(place.is_direct))),
        ),
        Setting::new("SPDK", of_spdk(path).map(|text| format!("{text}; queue depth {depth}"))),
    ]
}

fn of_library(path: &IoPath, depth: u32) -> String {
    let pool = if path.options.fixed_buffers { ".pool(&pool)" } else { "" };
    format!("open_queue(&\"{path}\".parse()?, &target, &QueueConfig::new({depth}){pool})")
}

fn of_fio(path: &IoPath, depth: u32) -> Result<String, String> {
    let engine = engine(path)?;
    let options = engine.options.iter().map(|(name, value)| format!(" {name}={value}"));
    Ok(format!("ioengine={}{} iodepth={depth}", engine.name, options.collect::<String>()))
}

/// Calls and flags of the system's interfaces (man 2 io_uring_setup, io_submit, pread; man 3 aio, io_uring_register_buffers).
fn of_c(path: &IoPath, depth: u32, kernel: &str) -> Result<String, String> {
    match path.interface() {
        "psync" if path.asks_for_polling() => Ok("preadv2 and pwritev2 with RWF_HIPRI".into()),
        "psync" => Ok("pread and pwrite".into()),
        "posix_aio" => Ok(format!("aio_read, aio_write and aio_suspend, {depth} at a time")),
        "libaio" if path.options.getevents => Ok(format!("io_setup({depth}), io_submit, io_getevents")),
        "libaio" => {
            Ok(format!("io_setup({depth}), io_submit; completions from its ring in user space, io_getevents to wait"))
        }
        "io_uring" | "io_uring_cmd" => Ok(of_ring(path, depth, kernel)),
        interface => Err(format!("{interface} is iolane's own")),
    }
}

fn of_ring(path: &IoPath, depth: u32, kernel: &str) -> String {
    let options = path.options;
    let mut flags = Vec::new();
    if path.interface() == "io_uring_cmd" {
        flags.extend(["IORING_SETUP_SQE128", "IORING_SETUP_CQE32"]);
    }
    if path.asks_for_polling() {
        flags.push("IORING_SETUP_IOPOLL");
    }
    if path.completion == CompletionMode::Hybrid {
        flags.push("IORING_SETUP_HYBRID_IOPOLL");
    }
    if path.polls_submissions() {
        flags.push("IORING_SETUP_SQPOLL");
    } else if options.defer || !options.coop && !options.plain && is_at_least(kernel, (6, 1)) {
        // Rings of iolane have them where the kernel does.
        flags.extend(["IORING_SETUP_SINGLE_ISSUER", "IORING_SETUP_DEFER_TASKRUN"]);
    } else if options.coop || !options.plain && is_at_least(kernel, (5, 19)) {
        flags.push("IORING_SETUP_COOP_TASKRUN");
    }
    let flags = if flags.is_empty() { "0".to_owned() } else { flags.join(" | ") };
    let mut text = match options.sq_idle_ms {
        None => format!("io_uring_queue_init({depth}, &ring, {flags})"),
        Some(idle_ms) => {
            format!("io_uring_queue_init_params({depth}, &ring, {{ .flags = {flags}, .sq_thread_idle = {idle_ms} }})")
        }
    };
    if options.fixed_buffers {
        text.push_str("; io_uring_register_buffers, io_uring_prep_read_fixed");
    }
    if options.fixed_files {
        text.push_str("; io_uring_register_files, IOSQE_FIXED_FILE");
    }
    if path.interface() == "io_uring_cmd" {
        text.push_str("; IORING_OP_URING_CMD with NVME_URING_CMD_IO on /dev/ngXnY");
    }
    text
}

/// Whether a release such as `6.1.0-56-amd64` is of this version or a later one; an unknown one is.
pub(super) fn is_at_least(kernel: &str, version: (u32, u32)) -> bool {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= version,
        _ => true,
    }
}

/// Calls that make SPDK's block devices (doc/bdev.md).
fn of_spdk(path: &IoPath) -> Result<&'static str, String> {
    let has_modes = path.options.fixed_buffers || path.options.fixed_files || path.polls_submissions();
    match path.interface() {
        _ if path.asks_for_polling() || has_modes => Err(format!("SPDK has no block device for {path}")),
        "nvme" if *path == IoPath::new("nvme") => Ok("bdev_nvme_attach_controller -b NAME -t PCIe -a BDF"),
        "libaio" => Ok("bdev_aio_create FILE NAME"),
        "io_uring" => Ok("bdev_uring_create FILE NAME"),
        _ => Err(format!("SPDK has no block device for {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(path: &str, threads: usize) -> Arm {
        let mut arm = Arm { path: path.parse().unwrap(), threads, ..Arm::of_null(path) };
        arm.workload.depth = 16;
        arm
    }

    fn text_on(kernel: &str, path: &str, of: &str) -> Result<String, String> {
        let place = Place { is_direct: true, kernel: kernel.into() };
        let one = settings(&arm(path, 1), &place).into_iter().find(|setting| setting.of == of).unwrap();
        one.text.ok_or(one.why_not)
    }

    fn text_of(path: &str, of: &str) -> Result<String, String> {
        text_on("6.12.1", path, of)
    }

    #[test]
    fn every_path_of_the_registry_has_settings_or_a_reason() {
        for path in iolane::interfaces().flat_map(|interface| interface.paths()) {
            for Setting { of, text, why_not } in settings(&arm(&path.to_string(), 4), &Place::default()) {
                assert_eq!(text.is_some(), why_not.is_empty(), "{of} of {path}: {text:?} {why_not}");
                assert!(text.is_some() || !matches!(of, "iolane" | "Rust"), "{of} of {path}: {why_not}");
                assert!(text.is_none_or(|text| text.contains('4') || of == "SPDK"), "{of} of {path} has its threads");
            }
        }
    }

    #[test]
    fn a_polled_ring_with_registered_buffers_is_spelled_for_each() {
        let path = "io_uring+iopoll,fixedbufs";
        assert_eq!(text_of(path, "iolane").unwrap(), "--path io_uring+iopoll,fixedbufs --depth 16");
        assert!(text_of(path, "Rust").unwrap().ends_with("&QueueConfig::new(16).pool(&pool))"));
        let fio = "ioengine=io_uring hipri=1 fixedbufs=1 iodepth=16 direct=1 numjobs=1";
        assert_eq!(text_of(path, "fio").unwrap(), fio);
        let c = text_of(path, "C").unwrap();
        assert!(c.starts_with("open with O_DIRECT; io_uring_queue_init(16, &ring, IORING_SETUP_IOPOLL | "), "{c}");
        assert!(c.contains("io_uring_register_buffers") && !c.contains("FIXED_FILE"), "{c}");
        assert!(text_of(path, "SPDK").unwrap_err().contains("no block device"));
    }

    #[test]
    fn flags_are_those_that_the_measured_kernel_takes() {
        let flags = |kernel| text_on(kernel, "io_uring", "C").unwrap();
        assert!(flags("6.1.0-56-amd64").ends_with("IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)"));
        assert!(flags("5.19.2").ends_with("IORING_SETUP_COOP_TASKRUN)"));
        assert!(flags("5.10.0-46-amd64").ends_with("io_uring_queue_init(16, &ring, 0)"));
        assert!(text_of("io_uring,plain", "C").unwrap().ends_with("io_uring_queue_init(16, &ring, 0)"));
        let idle = text_of("io_uring+sqpoll,sqidle=50", "C").unwrap();
        let expected = "io_uring_queue_init_params(16, &ring, { .flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 50 })";
        assert!(idle.ends_with(expected), "{idle}");
    }

    #[test]
    fn libaio_says_where_its_completions_come_from() {
        assert!(text_of("libaio", "C").unwrap().contains("in user space"));
        assert!(text_of("libaio,getevents", "C").unwrap().ends_with("io_submit, io_getevents"));
        assert!(text_of("libaio,getevents", "SPDK").unwrap().starts_with("bdev_aio_create"));
    }
}
