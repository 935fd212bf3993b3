//! A binary that needs nothing installed: linked statically against glibc, so that it runs on any Linux of its architecture and
//! keeps POSIX aio, which is part of glibc. `cargo xtask dist` writes it with its checksum to target/dist.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::child::{cargo, program, root, succeeds};

/// Builds the binary, runs it once, and prints where it is.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "it takes no options");
    let arch = std::env::consts::ARCH;
    let target = format!("{arch}-unknown-linux-gnu");
    let mut build = cargo(&["build", "--release", "--package", "iolane-cli", "--target", &target]);
    // With a target named, these flags are not those of build scripts, which cannot be static.
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    ensure!(succeeds(&mut build)?, "it could not be built: see above");
    let built = root().join("target").join(&target).join("release/iolane");
    let binary = fs::read(&built).with_context(|| format!("reading {}", built.display()))?;
    ensure!(!has_interpreter(&binary)?, "it is linked dynamically");
    let output = program(&built.display().to_string()).arg("--version").output().context("starting it")?;
    let version = String::from_utf8(output.stdout).unwrap_or_default();
    let version = version.trim().strip_prefix("iolane ").context("it does not print its version")?.to_owned();
    let folder = root().join("target/dist");
    fs::create_dir_all(&folder)?;
    let name = format!("iolane-{version}-{arch}-linux");
    fs::copy(&built, folder.join(&name))?;
    let checksum = program("sha256sum").current_dir(&folder).arg(&name).output().context("starting sha256sum")?;
    fs::write(folder.join(format!("{name}.sha256")), &checksum.stdout)?;
    println!("target/dist/{name}  {:.1} MB, static", binary.len() as f64 / 1e6);
    Ok(true)
}

/// Whether an ELF file of 64 bits names a dynamic linker: it has a program header of type PT_INTERP (elf(5)).
fn has_interpreter(elf: &[u8]) -> Result<bool> {
    const PT_INTERP: u32 = 3;
    let bytes = |at: usize, length: usize| elf.get(at..at + length).context("it is cut short");
    ensure!(bytes(0, 5)? == b"\x7fELF\x02", "it is no ELF file of 64 bits");
    let half = |at| Ok::<_, anyhow::Error>(usize::from(u16::from_le_bytes(bytes(at, 2)?.try_into()?)));
    let headers = usize::try_from(u64::from_le_bytes(bytes(32, 8)?.try_into()?))?;
    let (size, count) = (half(54)?, half(56)?);
    for index in 0..count {
        if u32::from_le_bytes(bytes(headers + index * size, 4)?.try_into()?) == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_has_an_interpreter_and_what_is_no_program_is_refused() {
        // This test is linked dynamically, as every test is.
        let this = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(has_interpreter(&this).unwrap());
        assert!(has_interpreter(b"#!/bin/sh").is_err() && has_interpreter(&this[..60]).is_err());
    }
}
