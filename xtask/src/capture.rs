//! `cargo xtask capture [FILE...] [--only TEXT]`: runs the commands that the documentation shows, or those that contain a text, and
//! puts what they print in place of what stood there, so that no output in it is ever typed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Files that show captured output.
const FILES: [&str; 6] =
    ["README.md", "docs/advising.md", "docs/lab.md", "docs/model.md", "docs/predicting.md", "docs/reliability.md"];

/// What stands in the line above a block: `<!-- capture: COMMAND -->`.
const MARK: (&str, &str) = ("<!-- capture: ", " -->");

pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (files, only) = match arguments {
        [files @ .., option, text] if option == "--only" => (files, text.as_str()),
        files => (files, ""),
    };
    let files: Vec<PathBuf> = match files {
        [] => FILES.iter().map(PathBuf::from).collect(),
        files => files.iter().map(PathBuf::from).collect(),
    };
    for file in files {
        capture(&file, only).with_context(|| format!("{}", file.display()))?;
    }
    Ok(true)
}

fn capture(file: &Path, only: &str) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    let renewed = renew(&text, only, output_of)?;
    if renewed != text {
        std::fs::write(file, renewed)?;
    }
    Ok(())
}

/// The text with each marked block's content replaced by what its command prints, if the command contains `only`.
fn renew(text: &str, only: &str, mut output_of: impl FnMut(&str) -> Result<String>) -> Result<String> {
    let mut renewed = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        renewed.push_str(line);
        renewed.push('\n');
        let command = line.strip_prefix(MARK.0).and_then(|rest| rest.strip_suffix(MARK.1));
        let Some(command) = command.filter(|command| command.contains(only)) else { continue };
        let fence = lines.next().filter(|line| line.starts_with("```"));
        let Some(fence) = fence else { bail!("no block follows the mark of `{command}`") };
        if !lines.by_ref().any(|line| line == "```") {
            bail!("the block of `{command}` has no end");
        }
        let output = output_of(command)?;
        renewed.push_str(&format!("{fence}\n{}\n```\n", output.trim_end()));
    }
    Ok(renewed)
}

/// What a command prints to standard output; its progress goes to the terminal.
fn output_of(command: &str) -> Result<String> {
    eprintln!("$ {command}");
    let output = Command::new("sh").args(["-c", command]).stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("`{command}` ended with {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_block_is_replaced_and_all_else_stays() {
        let text = "a\n<!-- capture: say it -->\n```text\nold\nlines\n```\nb\n```\nkept\n```\n";
        let renewed = renew(text, "", |command| Ok(format!("ran {command}\n"))).unwrap();
        assert_eq!(renewed, "a\n<!-- capture: say it -->\n```text\nran say it\n```\nb\n```\nkept\n```\n");
        assert_eq!(renew(text, "other", |_| panic!("it was not asked for")).unwrap(), text);
    }

    #[test]
    fn a_mark_without_a_block_is_an_error() {
        assert!(renew("<!-- capture: x -->\nno fence\n", "", |_| Ok(String::new())).is_err());
        assert!(renew("<!-- capture: x -->\n```\nno end\n", "", |_| Ok(String::new())).is_err());
    }
}
