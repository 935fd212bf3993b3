//! Builds test programs with cargo, and says what was built and where it runs. `test` runs them here, `guests` in virtual
//! machines. Running each by itself tells which one failed, how it ended, and how long it took.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::child::{cannot_start, cargo, program, shown};

/// A program that cargo built.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    /// As people call it: `iolane unit tests`, `iolane tests/guard.rs`.
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) path: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
    /// Whether it holds tests.
    pub(crate) is_test: bool,
}

/// What cargo prints for each thing that it built.
#[derive(Deserialize)]
struct Message {
    target: MessageTarget,
    profile: MessageProfile,
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct MessageTarget {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct MessageProfile {
    test: bool,
}

impl Program {
    /// Runs it as cargo would.
    pub(crate) fn command(&self) -> Command {
        let mut command = program(&self.path.display().to_string());
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// The package that it belongs to.
    pub(crate) fn package(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    fn of(message: Message) -> Option<Self> {
        let folder = message.manifest_path.parent().unwrap_or(Path::new("/")).to_owned();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kind = message.target.kind.first().map_or("", String::as_str);
        let name = match kind {
            "lib" | "bin" if message.profile.test => format!("{package} unit tests"),
            _ => {
                let source = message.target.src_path.strip_prefix(&folder).unwrap_or(&message.target.src_path);
                format!("{package} {}", source.display())
            }
        };
        Some(Self {
            name,
            target: message.target.name,
            path: message.executable?,
            folder,
            is_test: message.profile.test,
        })
    }
}

/// Builds with these arguments of cargo, and gives the programs; `None` if that failed, which cargo has explained.
pub(crate) fn build(arguments: &[&str]) -> Result<Option<Vec<Program>>> {
    let mut command = cargo(arguments);
    let name = shown(&command);
    eprintln!("$ {name}");
    command.args(["--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output().with_context(|| cannot_start(&name))?;
    if !output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // Other messages lack these fields.
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    Ok(Some(messages.filter_map(Program::of).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, source: &str, test: bool) -> Option<Program> {
        let line = format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/iolane/Cargo.toml","target":{{"name":"x","kind":["{kind}"],
            "src_path":"/w/crates/iolane/{source}"}},"profile":{{"test":{test}}},"executable":"/t/x"}}"#
        );
        Program::of(serde_json::from_str(&line).unwrap())
    }

    #[test]
    fn programs_are_called_by_package_and_source() {
        for (kind, source, test, name) in [
            ("lib", "src/lib.rs", true, "iolane unit tests"),
            ("test", "tests/guard.rs", true, "iolane tests/guard.rs"),
            ("example", "examples/copy.rs", true, "iolane examples/copy.rs"),
            ("bin", "src/main.rs", false, "iolane src/main.rs"),
        ] {
            let program = of(kind, source, test).unwrap();
            assert_eq!((program.name.as_str(), program.is_test), (name, test));
        }
    }
}
