//! `cargo xtask redb`: runs redb's own tests on a copy of redb whose file backend is `crates/iolane/examples/redb_backend.rs`.
//! The tests come with the crate; the copy is in target/redb. Nothing else in xtask builds code that is not of this workspace.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child::{cargo, cargo_metadata, root, succeeds};

const PATHS_DEFAULT: [&str; 3] = ["psync", "io_uring,fixedbufs,fixedfiles", "auto"];

/// Methods of redb's backend, as they are and as they call iolane. What concerns locks stays as it is.
const CALLS: [(&str, &str); 6] = [
    ("Ok(self.file.metadata()?.len())", "Ok(self.iolane.len()?)"),
    ("self.file.read_exact_at(out, offset)?;", "self.iolane.read(offset, out)?;"),
    ("self.file.set_len(len)?;", "self.iolane.set_len(len)?;"),
    ("self.file.sync_data()?;", "self.iolane.sync_data()?;"),
    ("self.file.write_all_at(data, offset)?;", "self.iolane.write(offset, data)?;"),
    (
        "            file,\n        }",
        "            iolane: crate::iolane_backend::backend_of(&file),\n            file,\n        }",
    ),
];

/// The module that redb's copy gets: the example, and how to open it. O_DIRECT is set on the description that both share.
const MODULE: &str = r#"
extern crate self as redb;

#[path = "EXAMPLE"]
#[allow(clippy::all, clippy::pedantic, dead_code)]
mod iolane_backend_example;

mod iolane_backend {
    pub(crate) fn backend_of(file: &std::fs::File) -> crate::iolane_backend_example::IolaneBackend {
        let path: iolane::IoPath = std::env::var("IOLANE_REDB_PATH").unwrap().parse().unwrap();
        if std::env::var_os("IOLANE_REDB_DIRECT").is_some() {
            let flags = rustix::fs::fcntl_getfl(file).unwrap();
            rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::DIRECT).unwrap();
        }
        crate::iolane_backend_example::IolaneBackend::new(file.try_clone().unwrap(), &path).unwrap()
    }
}
"#;

/// Runs them on each path, past the page cache and through it; `Ok(false)` if one fails.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let folder = root().join("target/redb");
    let copy = copy_of_redb(&folder)?;
    let scratch = folder.join("scratch");
    let mut failed = Vec::new();
    let paths: Vec<&str> = match arguments {
        [] => PATHS_DEFAULT.to_vec(),
        given => given.iter().map(String::as_str).collect(),
    };
    for path in &paths {
        for direct in [true, false] {
            let through = if direct { "O_DIRECT" } else { "the page cache" };
            println!("\n== redb's tests on {path}, {through}");
            // What a killed test left behind would fill the disk in time.
            let _ = fs::remove_dir_all(&scratch);
            fs::create_dir_all(&scratch)?;
            let mut test = cargo(&["test", "--quiet", "--tests", "--no-fail-fast"]);
            test.current_dir(&copy).env("CARGO_TARGET_DIR", folder.join("build")).env("TMPDIR", &scratch);
            test.env("IOLANE_REDB_PATH", path);
            if direct {
                test.env("IOLANE_REDB_DIRECT", "1");
            }
            if !succeeds(&mut test)? {
                failed.push(format!("{path}, {through}"));
            }
        }
    }
    println!("\nredb's tests ran {} times, {} with failures {}", 2 * paths.len(), failed.len(), failed.join("; "));
    Ok(failed.is_empty())
}

/// Copies the redb that the example is built with, and makes its file backend call the example.
fn copy_of_redb(folder: &Path) -> Result<PathBuf> {
    let metadata: Value = cargo_metadata()?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let redb = packages.iter().find(|package| package["name"] == "redb").context("redb is no dependency")?;
    let manifest = redb["manifest_path"].as_str().context("redb without a manifest")?;
    let source = Path::new(manifest).parent().context("a manifest in no folder")?;
    let copy = folder.join("redb");
    let _ = fs::remove_dir_all(&copy);
    copy_folder(source, &copy)?;

    let example = root().join("crates/iolane/examples/redb_backend.rs");
    append(&copy.join("src/lib.rs"), &MODULE.replace("EXAMPLE", &example.display().to_string()))?;
    let dependencies = format!(
        "\n[dependencies.iolane]\npath = \"{}\"\n[dependencies.rustix]\nversion = \"1\"\nfeatures = [\"fs\"]\n[workspace]\n",
        root().join("crates/iolane").display()
    );
    append(&copy.join("Cargo.toml"), &dependencies)?;
    fs::copy(root().join("Cargo.lock"), copy.join("Cargo.lock"))?;
    let _ = fs::remove_file(copy.join("rust-toolchain"));

    let backend = copy.join("src/tree_store/page_store/file_backend/optimized.rs");
    let mut text = fs::read_to_string(&backend).with_context(|| format!("{}", backend.display()))?;
    for (theirs, ours) in CALLS {
        ensure!(text.matches(theirs).count() == 1, "redb's file backend has changed: `{theirs}` is not there once");
        text = text.replace(theirs, ours);
    }
    let field = "    file: File,\n}";
    ensure!(text.matches(field).count() == 1, "redb's file backend has changed: it has no field `file`");
    text = text.replace(field, "    file: File,\n    iolane: crate::iolane_backend_example::IolaneBackend,\n}");
    fs::write(&backend, text)?;
    Ok(copy)
}

fn append(file: &Path, text: &str) -> Result<()> {
    let before = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    fs::write(file, before + text).with_context(|| format!("{}", file.display()))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("{}", from.display()))? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &copy)?;
        } else {
            fs::copy(entry.path(), copy)?;
        }
    }
    Ok(())
}
