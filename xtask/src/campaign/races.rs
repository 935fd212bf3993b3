//! `cargo xtask campaign races`: the tests of the crates whose threads share memory, with every access watched for another thread's that no
//! synchronisation orders (ThreadSanitizer). It has to see the standard library's own accesses too, so that this is built with it, from the
//! compiler's source as Debian ships it.

use std::env::consts::ARCH;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use iolane_lab::debian;

use crate::child::{cargo, program, root, succeeds};

/// The arguments of cargo: the tests of what lies below a queue, and those of queues.
///
/// Of the conformance suite those with threads. In the others glibc's POSIX aio makes threads that the sanitizer does not know, which ends the
/// process, and signals come later than the kernel sent them.
const STEPS: [&str; 3] = [
    "test --no-fail-fast -p iolane-core -p iolane-kernel -p iolane-nvme --lib --test model --test faults",
    "test --no-fail-fast -p iolane --lib --test blocking --test closing --test small_files",
    "test -p iolane --test conformance -- threads soaking",
];

/// The kernel maps the ring of completions and unmaps it, which the sanitizer does not see: it takes the memory for what was there before.
const SUPPRESSIONS: &str = "race:iolane_kernel::libaio\n";

/// Instruments the standard library, too, and has `rustix` map and unmap memory by the C library, where the sanitizer notices.
const FLAGS: &str = "-Zsanitizer=thread --cfg=rustix_use_libc";

/// Seeds of each test of the user-space driver on faulty controllers. With watched accesses a seed takes many times as long.
const MODEL_SEEDS: &str = "200";

/// `Ok(false)` if a test fails, or two accesses race.
pub(super) fn run() -> Result<bool> {
    let library = library(&root().join("target/races"))?;
    let target = format!("{ARCH}-unknown-linux-gnu");
    let mut suppressions = tempfile::NamedTempFile::new().context("making a file")?;
    suppressions.write_all(SUPPRESSIONS.as_bytes()).context("writing what is left out")?;
    let mut passes = true;
    for step in STEPS {
        let words = ["-Zbuild-std", "--target", &target].into_iter();
        let mut step = step.split_whitespace();
        let mut command = cargo(&step.next().into_iter().chain(words).chain(step).collect::<Vec<_>>());
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", FLAGS)
            .env("CARGO_TARGET_DIR", "target/races")
            .env("IOLANE_MODEL_SEEDS", MODEL_SEEDS)
            .env("TSAN_OPTIONS", format!("suppressions={}", suppressions.path().display()))
            .env("__CARGO_TESTS_ONLY_SRC_ROOT", &library);
        passes &= succeeds(&mut command)?;
    }
    Ok(passes)
}

/// The source of the compiler's standard library, fetched once into the folder.
fn library(folder: &Path) -> Result<PathBuf> {
    let version = compiler_version()?;
    let home = folder.join(format!("rust-src-{version}"));
    let library = home.join(format!("usr/src/rustc-{version}/library"));
    if !home.exists() {
        eprintln!("fetching the source of Rust {version} from Debian, once (45 MB)");
        debian::unpack_packages(debian::BACKPORTS, &[format!("rust-src={version}*")], &home)?;
    }
    ensure!(library.exists(), "Debian's package rust-src {version} has no usr/src/rustc-{version}/library");
    Ok(library)
}

/// `1.95.0`.
fn compiler_version() -> Result<String> {
    let output = program("rustc").arg("--version").output().context("asking rustc for its version")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(1).with_context(|| format!("rustc --version printed {text:?}"))?;
    Ok(version.to_owned())
}
