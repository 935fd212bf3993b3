//! Starting other programs: cargo in the repository's root, installers, and children whose memory is measured.
//! Every command here uses these; nothing else in xtask starts a process by hand.

use std::ffi::OsString;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;

/// The folder that holds the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or(xtask.clone(), PathBuf::from)
}

/// A program to be run in the root, with the administrator's folders on its search path.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).stdin(Stdio::null()).env("PATH", search_path());
    command
}

/// Cargo, run in the root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = program("cargo");
    command.args(arguments);
    command
}

/// `PATH` with the folders of mkfs and sfdisk, which Debian leaves out for users other than root.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

/// Whether a program is installed.
pub(crate) fn is_installed(name: &str) -> bool {
    find_program(name).is_some()
}

/// Where a program is installed.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs a program for its exit status alone; one that cannot be started has failed.
pub(crate) fn succeeds_quietly(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs a program whose output the reader sees, and says whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let name = shown(command);
    eprintln!("$ {name}");
    Ok(command.status().with_context(|| cannot_start(&name))?.success())
}

/// What `cargo metadata` says of this workspace and every package that it depends on.
pub(crate) fn cargo_metadata<T: DeserializeOwned>() -> Result<T> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked", "--offline"])
        .output()
        .context("running cargo metadata")?;
    // Offline it fails where a package for another platform was never fetched.
    let output = if output.status.success() {
        output
    } else {
        cargo(&["metadata", "--format-version", "1"]).output().context("running cargo metadata")?
    };
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).context("reading what cargo metadata printed")
}

/// Installs a cargo subcommand from crates.io unless it is there.
pub(crate) fn ensure_cargo_subcommand(subcommand: &str) -> Result<()> {
    let binary = format!("cargo-{subcommand}");
    if is_installed(&binary) {
        return Ok(());
    }
    eprintln!("{binary} is missing: installing it from crates.io, which takes some minutes");
    ensure!(
        succeeds(&mut cargo(&["install", "--locked", &binary]))?,
        "{binary} could not be installed: see above; if crates.io cannot be reached, install it by other means"
    );
    Ok(())
}

/// Installs cargo-deny unless it is there. Not optimised, which takes a third of the time to build; it checks in seconds all
/// the same.
pub(crate) fn ensure_deny() -> Result<()> {
    if is_installed("cargo-deny") {
        return Ok(());
    }
    eprintln!("cargo-deny is missing: installing it from crates.io, which takes some minutes");
    let mut install = cargo(&["install", "--locked", "--debug", "cargo-deny"]);
    install.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    let remedy = "if crates.io cannot be reached, install it by other means";
    ensure!(succeeds(&mut install)?, "cargo-deny could not be installed: see above; {remedy}");
    Ok(())
}

/// A command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// What to tell when a program cannot be started.
pub(crate) fn cannot_start(name: &str) -> String {
    format!("cannot start `{name}`; is it installed and on PATH?")
}

/// What a child left behind that ended well.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: String,
    /// The most memory that was resident at once. Never less than this program's own peak, from which the kernel
    /// starts counting when std starts a child by vfork; that peak is some MiB, for xtask holds no large buffers.
    pub(crate) resident_bytes_max: u64,
}

/// Runs a program to its end, keeps what it printed, and asks the kernel for its largest resident set.
///
/// # Errors
/// If it cannot be started or fails; the message carries the last lines it wrote to stderr.
pub(crate) fn run_measured(command: &mut Command) -> Result<Finished> {
    let name = shown(command);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().with_context(|| cannot_start(&name))?;
    let (mut stdout, mut stderr) = (child.stdout.take().context("no stdout")?, child.stderr.take());
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        // A pipe that breaks leaves what was read so far, which is all that is wanted of it.
        let _ = stderr.as_mut().map(|stderr| stderr.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut printed = String::new();
    let read = stdout.read_to_string(&mut printed);
    let (status, resident_bytes_max) = wait_measured(child.id()).with_context(|| format!("waiting for `{name}`"))?;
    let complaints = complaints.join().unwrap_or_default();
    if !status.success() {
        let lines: Vec<&str> = complaints.trim_end().lines().collect();
        bail!("`{name}` failed ({status}):\n{}", lines[lines.len().saturating_sub(8)..].join("\n"));
    }
    read.with_context(|| format!("reading what `{name}` printed"))?;
    Ok(Finished { stdout: printed, resident_bytes_max })
}

/// Waits for a child; std's own wait throws the resource usage away.
fn wait_measured(id: u32) -> io::Result<(ExitStatus, u64)> {
    let id = libc::pid_t::try_from(id).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live locals of the right types; the call writes to nothing else. The id is that
        // of a child nobody has waited for yet, so the kernel cannot have given it to another process.
        let waited = unsafe { libc::wait4(id, &mut status, 0, usage.as_mut_ptr()) };
        if waited == id {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: rusage is plain integers, for which the zeroes it began with are valid too.
    let usage = unsafe { usage.assume_init() };
    Ok((ExitStatus::from_raw(status), usage.ru_maxrss as u64 * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_where_the_workspace_is() {
        assert!(root().join("Cargo.lock").is_file());
    }

    #[test]
    fn a_childs_memory_is_its_own() {
        let touch = |mib: u64| {
            let block = format!("bs={mib}M");
            run_measured(program("dd").args(["if=/dev/zero", "of=/dev/null", "count=1", &block])).unwrap()
        };
        let (small, large) = (touch(1).resident_bytes_max, touch(200).resident_bytes_max);
        assert!(large >= 200 << 20, "{large}");
        assert!(small < 100 << 20, "{small}");
    }

    #[test]
    fn a_failed_child_is_reported_with_its_last_words() {
        let error = run_measured(program("sh").args(["-c", "echo went wrong >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("went wrong") && error.contains("exit status: 3"), "{error}");
        let error = run_measured(&mut program("no-such-program")).unwrap_err().to_string();
        assert!(error.contains("is it installed"), "{error}");
    }
}
