//! Finds the program of a peer, by environment variable or on PATH.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iolane::{Error, Result};
use iolane_measure::process::{self, Limits, shown};

use super::peer::Peer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub program: PathBuf,
    /// As it prints it; `None` if it does not.
    pub version: Option<String>,
}

/// Looks for a peer at the path in `IOLANE_PEER_NAME` (`IOLANE_PEER_FIO`, `IOLANE_PEER_SPDK_NVME_PERF`), else on PATH.
///
/// # Errors
/// `Unavailable`, with how to install it.
pub fn find(peer: &dyn Peer) -> Result<Installed> {
    find_in(peer, std::env::var_os(variable(peer)), std::env::var_os("PATH"))
}

pub(super) fn find_in(peer: &dyn Peer, named: Option<OsString>, path: Option<OsString>) -> Result<Installed> {
    let variable = variable(peer);
    let missing = |cause: String| {
        let remedy = format!("{}, or set {variable} to the path of the program", peer.remedy());
        Error::unavailable(format!("peer {}", peer.name()), cause).remedy(remedy)
    };
    let program = match named.filter(|named| !named.is_empty()) {
        Some(named) => Some(PathBuf::from(&named)).filter(|program| is_program(program)).ok_or_else(|| {
            missing(format!("{variable} is set to {}, which is not an executable file", named.display()))
        })?,
        None => std::env::split_paths(&path.unwrap_or_default())
            .map(|folder| folder.join(peer.name()))
            .find(|program| is_program(program))
            .ok_or_else(|| missing("not found on PATH".into()))?,
    };
    let version = match peer.version_argument() {
        Some(argument) => version(&program, argument).map_err(|error| missing(error.to_string()))?,
        None => None,
    };
    Ok(Installed { program, version })
}

fn variable(peer: &dyn Peer) -> String {
    format!("IOLANE_PEER_{}", peer.name().to_ascii_uppercase())
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The first line that the program prints about itself; `None` if it prints none or fails.
fn version(program: &Path, argument: &str) -> Result<Option<String>> {
    let limits = Limits { time: Duration::from_secs(10), patience: Duration::from_secs(3) };
    let finished = process::capture(Command::new(program).arg(argument), &limits, &AtomicBool::new(false))?;
    let line = finished.stdout.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(line.filter(|_| finished.succeeded()).map(|line| shown(line, 80)))
}
