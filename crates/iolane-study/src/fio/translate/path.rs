//! fio's engines and their options as paths.

use iolane::{IoPath, Result};

use crate::fio::options::Options;

/// Blocking engines, which have one request in flight regardless of iodepth.
const BLOCKING: [&str; 4] = ["psync", "sync", "pvsync", "pvsync2"];
const RINGS: [&str; 2] = ["io_uring", "io_uring_cmd"];

/// Engine-specific options, and the engines that have them.
const ENGINE_OPTIONS: [(&str, &[&str]); 7] = [
    ("hipri", &["pvsync2", "io_uring", "io_uring_cmd"]),
    ("sqthread_poll", &RINGS),
    ("sqthread_poll_cpu", &RINGS),
    ("fixedbufs", &RINGS),
    ("registerfiles", &RINGS),
    ("nonvectored", &RINGS),
    ("cmd_type", &["io_uring_cmd"]),
];

/// The path of an engine with its options.
pub(super) fn translate(options: &Options<'_>, notes: &mut Vec<String>) -> Result<IoPath> {
    let engine = options.text("ioengine")?.unwrap_or("psync");
    let interface = match engine {
        blocking if BLOCKING.contains(&blocking) => "psync",
        "posixaio" => "posix_aio",
        "libaio" | "io_uring" | "io_uring_cmd" | "null" => engine,
        _ => {
            let engines = "use psync, sync, pvsync, pvsync2, posixaio, libaio, io_uring, io_uring_cmd or null";
            return Err(options.refuse("ioengine", "iolane has no path for this engine", engines));
        }
    };
    let foreign = ENGINE_OPTIONS.iter().find(|(option, engines)| options.has(option) && !engines.contains(&engine));
    if let Some((option, engines)) = foreign {
        let cause = format!("ioengine={engine} does not have this option");
        return Err(options.refuse(option, &cause, &format!("leave it out, or use ioengine={}", engines.join(" or "))));
    }
    if options.text("cmd_type")?.is_some_and(|kind| kind != "nvme") {
        return Err(options.refuse("cmd_type", "only NVMe commands are supported", "use cmd_type=nvme"));
    }
    if engine == "sync" {
        notes.push("fio's sync engine makes an additional lseek system call per request; psync does not".into());
    }
    if options.number("nonvectored")? == Some(0) {
        notes.push("with nonvectored=0 fio submits vectored requests; iolane does not".into());
    }
    let mut path = IoPath::new(interface);
    if options.flag("hipri")? == Some(true) {
        path = path.iopoll();
    }
    path.options.fixed_buffers = options.flag("fixedbufs")?.unwrap_or(false);
    path.options.fixed_files = options.flag("registerfiles")?.unwrap_or(false);
    if options.flag("sqthread_poll")? == Some(true) {
        path = path.sqpoll();
        // fio always registers the file with sqthread_poll.
        path.options.fixed_files = options.flag("registerfiles")?.unwrap_or(true);
        if !path.options.fixed_files {
            notes.push(
                "fio registers the file with sqthread_poll regardless of registerfiles=0; iolane does not".into(),
            );
        }
    }
    Ok(path)
}
