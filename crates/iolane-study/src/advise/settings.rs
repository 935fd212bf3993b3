//! A path's settings in the words of other programs and languages, for those who do not use iolane's library. One function for each
//! of them.

use iolane::IoPath;
use iolane::path::CompletionMode;
use serde::Serialize;

use crate::fio::engine::engine;

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

/// The settings of a path at a depth.
pub fn settings(path: &IoPath, depth: u32) -> Vec<Setting> {
    vec![
        Setting::new("iolane", Ok(format!("iolane run --path {path} --depth {depth}"))),
        Setting::new("Rust", Ok(of_library(path, depth))),
        Setting::new("C", of_c(path, depth)),
        Setting::new("fio", of_fio(path, depth)),
        Setting::new("SPDK", of_spdk(path, depth)),
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
fn of_c(path: &IoPath, depth: u32) -> Result<String, String> {
    match path.interface() {
        "psync" if path.asks_for_polling() => Ok("preadv2 and pwritev2 with RWF_HIPRI".into()),
        "psync" => Ok("pread and pwrite".into()),
        "posix_aio" => Ok(format!("aio_read, aio_write and aio_suspend, {depth} at a time")),
        "libaio" => Ok(format!("io_setup({depth}), io_submit, io_getevents")),
        "io_uring" | "io_uring_cmd" => Ok(of_ring(path, depth)),
        interface => Err(format!("{interface} is iolane's own")),
    }
}

fn of_ring(path: &IoPath, depth: u32) -> String {
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
    } else if options.coop {
        flags.push("IORING_SETUP_COOP_TASKRUN");
    } else if !options.plain {
        // Rings of iolane have them where the kernel does.
        flags.extend(["IORING_SETUP_SINGLE_ISSUER", "IORING_SETUP_DEFER_TASKRUN"]);
    }
    let flags = if flags.is_empty() { "0".to_owned() } else { flags.join(" | ") };
    let mut text = format!("io_uring_queue_init({depth}, &ring, {flags})");
    if options.fixed_buffers {
        text.push_str("; io_uring_register_buffers, io_uring_prep_read_fixed");
    }
    if options.fixed_files {
        text.push_str("; io_uring_register_files, IOSQE_FIXED_FILE");
    }
    if path.interface() == "io_uring_cmd" {
        text.push_str("; IORING_OP_URING_CMD with NVME_URING_CMD_IO on /dev/ngXnY");
    }
    if let Some(idle_ms) = options.sq_idle_ms {
        text.push_str(&format!("; sq_thread_idle = {idle_ms}"));
    }
    text
}

/// Names of SPDK's block devices and of its benchmark (doc/bdev.md, app/spdk_nvme_perf).
fn of_spdk(path: &IoPath, depth: u32) -> Result<String, String> {
    let plain = IoPath::new(path.interface());
    match path.interface() {
        "nvme" if *path == plain => {
            Ok(format!("bdev_nvme_attach_controller -b NAME -t PCIe -a BDF; queue depth {depth}"))
        }
        "libaio" if *path == plain => Ok(format!("bdev_aio_create FILE NAME; queue depth {depth}")),
        "io_uring" if *path == plain => Ok(format!("bdev_uring_create FILE NAME; queue depth {depth}")),
        _ => Err(format!("SPDK has no block device for {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &str, of: &str) -> Result<String, String> {
        let all = settings(&path.parse().unwrap(), 16);
        let one = all.into_iter().find(|setting| setting.of == of).unwrap();
        one.text.ok_or(one.why_not)
    }

    #[test]
    fn every_path_of_the_registry_has_settings_or_a_reason() {
        for path in iolane::interfaces().flat_map(|interface| interface.paths()) {
            for Setting { of, text, why_not } in settings(&path, 16) {
                assert_eq!(text.is_some(), why_not.is_empty(), "{of} of {path}: {text:?} {why_not}");
                assert!(text.is_some() || !matches!(of, "iolane" | "Rust"), "{of} of {path}: {why_not}");
            }
        }
    }

    #[test]
    fn a_polled_ring_with_registered_buffers_is_spelled_for_each() {
        let path = "io_uring+iopoll,fixedbufs";
        assert!(text_of(path, "Rust").unwrap().ends_with("&QueueConfig::new(16).pool(&pool))"));
        assert_eq!(text_of(path, "fio").unwrap(), "ioengine=io_uring hipri=1 fixedbufs=1 iodepth=16");
        let c = text_of(path, "C").unwrap();
        assert!(c.starts_with("io_uring_queue_init(16, &ring, IORING_SETUP_IOPOLL | "), "{c}");
        assert!(c.contains("io_uring_register_buffers") && !c.contains("FIXED_FILE"), "{c}");
        assert!(text_of(path, "SPDK").unwrap_err().contains("no block device"));
    }

    #[test]
    fn a_submission_thread_excludes_flags_that_the_kernel_refuses_beside_it() {
        let c = text_of("io_uring+sqpoll,sqidle=50", "C").unwrap();
        assert_eq!(c, "io_uring_queue_init(16, &ring, IORING_SETUP_SQPOLL); sq_thread_idle = 50");
        assert_eq!(text_of("io_uring,plain", "C").unwrap(), "io_uring_queue_init(16, &ring, 0)");
    }
}
