//! A program on its way into a guest: the file itself and the libraries that its loader would map here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iolane_core::{Error, Result};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};

use crate::files;

/// Every file that running `program` takes beside itself; none for one that is linked statically.
///
/// # Errors
/// If it is not a program for this machine, or a library of it is missing.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let bytes = files::read(program)?;
    let what = || format!("program {}", program.display());
    let Some(loader) = interpreter(&bytes).map_err(|cause| Error::usage(what(), cause))? else { return Ok(Vec::new()) };
    // The loader knows its search path, and is asked rather than imitated: ld.so(8), `--list`.
    let output = Command::new(&loader)
        .arg("--list")
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::system(format!("{} of {}", loader.display(), what()), error))?;
    let listed = String::from_utf8_lossy(&output.stdout);
    if let Some(missing) = listed.lines().find(|line| line.contains("not found")) {
        return Err(Error::unavailable(what(), missing.trim().to_owned()).remedy("install that library"));
    }
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::failed(what(), format!("its libraries cannot be listed: {cause}")));
    }
    let mut libraries: Vec<PathBuf> = listed.lines().filter_map(listed_library).collect();
    libraries.push(loader);
    Ok(libraries)
}

/// `/lib/libc.so.6` of `libc.so.6 => /lib/libc.so.6 (0x00007f...)`; the vdso has no file.
fn listed_library(line: &str) -> Option<PathBuf> {
    let (_, path) = line.split_once("=> ")?;
    path.split_whitespace().next().filter(|path| path.starts_with('/')).map(PathBuf::from)
}

/// The loader that a program asks for (ELF's PT_INTERP).
fn interpreter(bytes: &[u8]) -> Result<Option<PathBuf>, &'static str> {
    const NOT_ONE: &str = "not a 64-bit ELF program for x86-64";
    let header = elf::FileHeader64::<Endianness>::parse(bytes).map_err(|_| NOT_ONE)?;
    let endian = header.endian().map_err(|_| NOT_ONE)?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(NOT_ONE);
    }
    let segments = header.program_headers(endian, bytes).map_err(|_| NOT_ONE)?;
    let found = segments.iter().find_map(|segment| segment.interpreter(endian, bytes).ok().flatten());
    found.map(|path| std::str::from_utf8(path).map(PathBuf::from).map_err(|_| NOT_ONE)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_with_its_loader_and_libraries() {
        let this = std::env::current_exe().unwrap();
        let libraries = libraries(&this).unwrap();
        let has = |name: &str| libraries.iter().any(|path| path.to_string_lossy().contains(name));
        assert!(cfg!(target_feature = "crt-static") || (has("ld-linux") && has("libc.so")), "{libraries:?}");
        libraries.iter().for_each(|library| assert!(library.exists(), "{library:?}"));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = libraries(&script).unwrap_err();
        assert!(error.to_string().contains("not a 64-bit ELF program"), "{error}");
    }
}
