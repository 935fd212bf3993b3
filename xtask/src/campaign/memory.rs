//! `cargo xtask campaign memory`: the tests of the crates with unsafe code, where every access to memory is checked and what nobody frees is
//! reported (AddressSanitizer and LeakSanitizer). The pinned compiler brings both; only the switch is called unstable.

use std::env::consts::ARCH;
use std::io::Write;

use anyhow::{Context, Result};

use crate::child::{cargo, succeeds};

/// What is never freed on purpose.
const LEAKS: &str = "\
# A queue whose kernel has failed keeps what the kernel may still write.
leak:iolane_kernel::fake_kernel
# A region that a test gives to a pool for good.
leak:a_region_keeps_its_owner_until_the_last_buffer_is_gone
";

/// The arguments of cargo: the tests of what lies below a queue, the programs that some tests run, and the tests of queues.
const STEPS: [&str; 3] = [
    "test --no-fail-fast -p iolane-core -p iolane-kernel -p iolane-nvme --lib --test model --test faults",
    "build -p iolane --examples",
    "test --no-fail-fast -p iolane --lib --test conformance --test blocking --test closing --test examples --test page_writer \
     --test redb_backend --test small_files --test tokio_reader --test write_ahead",
];

/// Seeds of each test of the user-space driver on faulty controllers. With checked accesses a seed takes several times as long.
const MODEL_SEEDS: &str = "1000";

/// `Ok(false)` if a test fails, or an access is wrong.
pub(super) fn run() -> Result<bool> {
    let mut leaks = tempfile::NamedTempFile::new().context("making a file")?;
    leaks.write_all(LEAKS.as_bytes()).context("writing the list of leaks")?;
    // With a target named, the sanitizer is not linked to what the compiler itself loads.
    let target = format!("{ARCH}-unknown-linux-gnu");
    let mut passes = true;
    for step in STEPS {
        let mut command = cargo(&step.split_whitespace().chain(["--target", &target]).collect::<Vec<_>>());
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env("CARGO_TARGET_DIR", "target/memory")
            .env("IOLANE_MODEL_SEEDS", MODEL_SEEDS)
            .env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", leaks.path().display()));
        passes &= succeeds(&mut command)?;
    }
    Ok(passes)
}
