//! The syntax of fio's job files: sections of `key=value` lines, parsed into entries with line numbers. `options` knows
//! the keys. No input panics.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use iolane::units::Bytes;
use iolane::{Error, Result};

/// 1 MiB: far more than the 4096 jobs that fio accepts.
const FILE_BYTES_MAX: usize = 1 << 20;

/// fio's own limit (`OPT_LEN_MAX` in its `parse.h`, minus the terminator).
const LINE_BYTES_MAX: usize = 4095;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFile {
    /// Its name in error messages, with control characters replaced.
    pub name: String,
    /// In the order of the file; `[global]` may occur more than once.
    pub sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    /// The line of its header, from 1.
    pub line: u32,
    pub entries: Vec<Entry>,
}

/// One `key=value`, or a key without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    /// Trimmed; `None` without `=`.
    pub value: Option<String>,
    /// From 1.
    pub line: u32,
}

impl Section {
    /// Whether it applies to the jobs that follow instead of being one. fio too checks only the start of the name.
    pub fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

impl JobFile {
    /// Reads a file.
    ///
    /// # Errors
    /// `Usage` if it cannot be read, and as [`parse`](Self::parse).
    pub fn read(file: &Path) -> Result<Self> {
        let name = file.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(file).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| {
            Error::usage(format!("job file {}", shown(&name)), iolane::error::describe(&error))
                .remedy("check the name of the job file; targets are named with --target")
        })?;
        Self::parse(&name, &bytes)
    }

    /// Parses the content of a file; `name` is its name in error messages.
    ///
    /// The syntax is fio's (fio(1), "JOB FILE FORMAT"): `[NAME]` starts a section, whitespace around lines, keys and values
    /// is ignored, and `;` and `#` start a comment anywhere. fio's substitutions are not supported: `include`,
    /// `${VARIABLE}`, `$pagesize`, `$mb_memory` and `$ncpus`.
    ///
    /// # Errors
    /// `Usage` for the first invalid line, and if there is no job.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let name = shown(name);
        if bytes.len() > FILE_BYTES_MAX {
            let cause = format!("it is larger than {}", Bytes(FILE_BYTES_MAX as u64));
            return Err(Error::usage(format!("job file {name}"), cause).remedy("name a fio job file"));
        }
        let mut sections: Vec<Section> = Vec::new();
        for (line, text) in (1u32..).zip(bytes.split(|byte| *byte == b'\n')) {
            let refused = |(cause, remedy): Refusal| Error::usage(format!("{name} line {line}"), cause).remedy(remedy);
            match parse_line(text).map_err(refused)? {
                Line::Nothing => {}
                Line::Section(name) => sections.push(Section { name, line, entries: Vec::new() }),
                Line::Entry(key, value) => match sections.last_mut() {
                    Some(section) => section.entries.push(Entry { key, value, line }),
                    None => {
                        let cause = format!("`{key}` comes before the first section");
                        return Err(refused((cause, "put [global] or [NAME] above it")));
                    }
                },
            }
        }
        if sections.iter().all(Section::is_global) {
            return Err(Error::usage(format!("job file {name}"), "it contains no job")
                .remedy("add a section other than [global], such as [job]"));
        }
        Ok(Self { name, sections })
    }
}

/// Why a line is refused, and the remedy.
type Refusal = (String, &'static str);

enum Line {
    Nothing,
    Section(String),
    Entry(String, Option<String>),
}

fn parse_line(bytes: &[u8]) -> Result<Line, Refusal> {
    if bytes.len() > LINE_BYTES_MAX {
        return Err((format!("it is longer than {LINE_BYTES_MAX} bytes"), "shorten it; fio has the same limit"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ("it is not UTF-8".to_owned(), "name a fio job file"))?;
    let text = text.split([';', '#']).next().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(Line::Nothing);
    }
    if text.contains(char::is_control) {
        return Err(("it contains a control character".into(), "name a fio job file"));
    }
    if let Some(name) = text.strip_prefix('[') {
        let name = name.strip_suffix(']').ok_or(("the bracket is not closed".into(), "write, for example, [job]"))?;
        return Ok(Line::Section(name.into()));
    }
    if text.split_whitespace().next() == Some("include") {
        return Err(("`include` is not supported".into(), "copy the content of that file here"));
    }
    let variables = ["${", "$pagesize", "$mb_memory", "$ncpus"];
    if let Some(variable) = variables.into_iter().find(|variable| text.contains(variable)) {
        let cause = format!("fio's substitution of `{variable}` is not supported");
        return Err((cause, "write the value instead"));
    }
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key.trim_end(), Some(value.trim_start().to_owned())),
        None => (text, None),
    };
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err((format!("`{key}` is not a valid key"), "write, for example, bs=4k"));
    }
    Ok(Line::Entry(key.into(), value))
}

/// A name without control characters, for messages.
fn shown(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<JobFile> {
        JobFile::parse("job.fio", text.as_bytes())
    }

    #[test]
    fn sections_and_entries_know_their_names_values_and_lines() {
        let text = "; a comment\n[global]\nbs=4k # of pages\n  direct = 1  \r\n\n[a b]\ntime_based\nfilename=/a:/b=c\n[global]";
        let file = parse(text).unwrap();
        let entry =
            |key: &str, value: Option<&str>, line| Entry { key: key.into(), value: value.map(Into::into), line };
        let section = |name: &str, line, entries| Section { name: name.into(), line, entries };
        let expected = [
            section("global", 2, vec![entry("bs", Some("4k"), 3), entry("direct", Some("1"), 4)]),
            section("a b", 6, vec![entry("time_based", None, 7), entry("filename", Some("/a:/b=c"), 8)]),
            section("global", 9, vec![]),
        ];
        assert_eq!(file.sections, expected);
        assert_eq!(file.sections.iter().map(Section::is_global).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn what_is_not_of_the_form_is_refused_by_its_line() {
        for (text, parts) in [
            ("bs=4k\n[a]", &["job.fio line 1: ", "before the first section", "[global]"][..]),
            ("[a\n", &["line 1: ", "not closed"]),
            ("[a]\ninclude b.fio", &["line 2: ", "`include`", "copy"]),
            ("include b.fio\n[a]", &["line 1: ", "`include`"]),
            ("[a]\n\nsize=${SIZE}", &["line 3: ", "`${`", "write the value instead"]),
            ("[a]\nbs=$pagesize", &["line 2: ", "`$pagesize`"]),
            ("[a]\n=4k", &["line 2: ", "`` is not a valid key"]),
            ("[a]\nb s=4k", &["line 2: ", "`b s` is not a valid key"]),
            ("[a]\nname=\u{1b}[31m", &["line 2: ", "control character"]),
            ("", &["job file job.fio: ", "contains no job"]),
            ("[global]\nbs=4k", &["job file job.fio: ", "contains no job"]),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{text:?}: {error}");
        }
        let error = JobFile::parse("a\nb", b"[a]\n\xff").unwrap_err().to_string();
        assert!(error.contains("a?b line 2: it is not UTF-8"), "{error}");
    }

    #[test]
    fn lines_and_files_without_end_are_refused() {
        let line = |bytes: usize| format!("[a]\nname={}", "x".repeat(bytes - 5));
        assert!(parse(&line(LINE_BYTES_MAX)).is_ok());
        assert!(parse(&line(LINE_BYTES_MAX + 1)).unwrap_err().to_string().contains("line 2: it is longer"));
        let error = JobFile::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("larger than 1m"), "{error}");
        let error = JobFile::read(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("job file /: is a directory"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            text in "[\\[\\]a-c=;# \n\r\t$\\{]{0,60}",
        ) {
            let _ = JobFile::parse("job.fio", &bytes);
            let _ = parse(&text);
        }

        #[test]
        fn a_line_is_named_as_editors_count_it(before in 0usize..50) {
            let error = parse(&format!("[a]\n{}nonsense!", "\n".repeat(before))).unwrap_err().to_string();
            let named = format!("job.fio line {}: ", before + 2);
            prop_assert!(error.starts_with(&named));
        }
    }
}
