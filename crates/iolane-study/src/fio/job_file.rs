//! The syntax of fio's job files: sections of `key=value` lines, parsed into entries with line numbers, together with the
//! files they include. `substitute` replaces variables; `options` knows the keys. No input panics.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use iolane::units::Bytes;
use iolane::{Error, Result};

use super::substitute::{Nowhere, Refusal, Surroundings, ThisMachine, substitute};

/// 1 MiB for a file with all that it includes: far more than the 4096 jobs that fio accepts.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Files that include one another: more are a circle.
const INCLUDES_MAX: usize = 16;

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
    /// The included file that it is in; `None` for the job file itself.
    pub included: Option<Arc<str>>,
}

impl Section {
    /// Whether it applies to the jobs that follow instead of being one. fio too checks only the start of the name.
    pub fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

impl JobFile {
    /// Reads a file and those that it includes, with variables from the environment.
    ///
    /// # Errors
    /// `Usage` if one cannot be read, and as [`parse`](Self::parse).
    pub fn read(file: &Path) -> Result<Self> {
        Self::read_sections(file, &[])
    }

    /// As [`read`](Self::read), with only the jobs whose sections have these names; all of them without a name. The lines of
    /// other sections are not looked at, as with fio's `--section`; `[global]` is always there.
    ///
    /// # Errors
    /// As [`read`](Self::read), and `Usage` for a name that no job has.
    pub fn read_sections(file: &Path, wanted: &[String]) -> Result<Self> {
        let name = file.display().to_string();
        let bytes = ThisMachine.file(file, FILE_BYTES_MAX).map_err(|error| {
            Error::usage(format!("job file {}", shown(&name)), iolane::error::describe(&error))
                .remedy("check the name of the job file; targets are named with --target")
        })?;
        Self::parse_in(&name, file, &bytes, wanted, &ThisMachine)
    }

    /// Parses the content of a file; `name` is its name in error messages. Nothing is read: a file that includes another is
    /// refused, and so is a variable.
    ///
    /// The syntax is fio's (fio(1), "JOB FILE FORMAT"): `[NAME]` starts a section, whitespace around lines, keys and values
    /// is ignored, and `;` and `#` start a comment anywhere.
    ///
    /// # Errors
    /// `Usage` for the first invalid line, and if there is no job.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        Self::parse_in(name, Path::new(name), bytes, &[], &Nowhere)
    }

    fn parse_in(
        name: &str,
        path: &Path,
        bytes: &[u8],
        wanted: &[String],
        surroundings: &dyn Surroundings,
    ) -> Result<Self> {
        let name = shown(name);
        if bytes.len() > FILE_BYTES_MAX {
            let cause = format!("it is larger than {}", Bytes(FILE_BYTES_MAX as u64));
            return Err(Error::usage(format!("job file {name}"), cause).remedy("name a fio job file"));
        }
        let bytes_left = FILE_BYTES_MAX - bytes.len();
        let mut parser = Parser { surroundings, wanted, bytes_left, jobs: Vec::new(), sections: Vec::new() };
        parser.parse(&Source { name: &name, path, including: None }, bytes)?;
        let Parser { sections, jobs, .. } = parser;
        if let Some(missing) = wanted.iter().find(|wanted| !jobs.contains(wanted))
            && !jobs.is_empty()
        {
            let cause = format!("{name} has no job of that name; its jobs are {}", jobs.join(", "));
            return Err(Error::usage(format!("--section {}", shown(missing)), cause).remedy("name one of them"));
        }
        if sections.iter().all(Section::is_global) {
            return Err(Error::usage(format!("job file {name}"), "it contains no job")
                .remedy("add a section other than [global], such as [job]"));
        }
        Ok(Self { name, sections })
    }
}

/// A file that is parsed.
struct Source<'a> {
    /// Without control characters.
    name: &'a str,
    path: &'a Path,
    /// The file that includes it.
    including: Option<&'a Self>,
}

impl Source<'_> {
    /// Itself and the files that include it, innermost first.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |source| source.including)
    }
}

struct Parser<'a> {
    surroundings: &'a dyn Surroundings,
    /// The names of the jobs that are parsed; empty for all.
    wanted: &'a [String],
    /// What may still be included.
    bytes_left: usize,
    /// The names of all jobs, each once.
    jobs: Vec<String>,
    /// Those of the jobs that are wanted, and `[global]`.
    sections: Vec<Section>,
}

impl Parser<'_> {
    fn parse(&mut self, source: &Source<'_>, bytes: &[u8]) -> Result<()> {
        let included: Option<Arc<str>> = source.including.map(|_| source.name.into());
        let mut skips = false;
        for (line, text) in (1u32..).zip(bytes.split(|byte| *byte == b'\n')) {
            let refused =
                |(cause, remedy): Refusal| Error::usage(format!("{} line {line}", source.name), cause).remedy(remedy);
            let text = meaningful(text).map_err(refused)?;
            if text.is_empty() || (skips && !text.starts_with('[')) {
                continue;
            }
            match parse_line(text, self.surroundings).map_err(refused)? {
                Line::Section(_) if included.is_some() => {
                    return Err(refused(("an included file has no sections, as in fio".into(), "leave it out")));
                }
                Line::Section(name) => skips = !self.begin(Section { name, line, entries: Vec::new() }),
                Line::Include(_) if self.sections.is_empty() => return Err(refused(outside("include"))),
                Line::Include(file) => {
                    let (path, bytes) = self.included(source, &file).map_err(refused)?;
                    let name = shown(&path.display().to_string());
                    self.parse(&Source { name: &name, path: &path, including: Some(source) }, &bytes)?;
                }
                Line::Entry(key, value) => match self.sections.last_mut() {
                    Some(section) => section.entries.push(Entry { key, value, line, included: included.clone() }),
                    None => return Err(refused(outside(&key))),
                },
            }
        }
        Ok(())
    }

    /// Begins a section; whether its lines are parsed.
    fn begin(&mut self, section: Section) -> bool {
        let is_parsed = section.is_global() || self.wanted.is_empty() || self.wanted.contains(&section.name);
        if !section.is_global() && !self.jobs.contains(&section.name) {
            self.jobs.push(section.name.clone());
        }
        if is_parsed {
            self.sections.push(section);
        }
        is_parsed
    }

    /// The file that an `include` in `source` names, with its content: relative to the working directory, or else to the
    /// folder of `source`, as in fio.
    fn included(&mut self, source: &Source<'_>, file: &str) -> Result<(PathBuf, Vec<u8>), Refusal> {
        let refused =
            |cause: String| (format!("`include {file}`: {cause}"), "check the name, or copy its content here");
        let beside = source.path.parent().map_or_else(|| file.into(), |folder| folder.join(file));
        if source.chain().any(|outer| outer.path == Path::new(file) || outer.path == beside) {
            return Err(refused("the file includes itself".into()));
        }
        if source.chain().count() > INCLUDES_MAX {
            return Err(refused(format!("more than {INCLUDES_MAX} files include one another; is it a circle?")));
        }
        let read = |path: PathBuf| Ok((self.surroundings.file(&path, self.bytes_left)?, path));
        let (bytes, path) = read(file.into())
            .or_else(|error: std::io::Error| match error.kind() {
                std::io::ErrorKind::NotFound => read(beside),
                _ => Err(error),
            })
            .map_err(|error| refused(iolane::error::describe(&error)))?;
        self.bytes_left = self.bytes_left.checked_sub(bytes.len()).ok_or_else(|| {
            refused(format!("the job file and all that it includes are larger than {}", Bytes(FILE_BYTES_MAX as u64)))
        })?;
        Ok((path, bytes))
    }
}

fn outside(key: &str) -> Refusal {
    (format!("`{key}` comes before the first section"), "put [global] or [NAME] above it")
}

enum Line {
    Section(String),
    /// The name of a file.
    Include(String),
    Entry(String, Option<String>),
}

/// A line without its comment and the spaces around it.
fn meaningful(bytes: &[u8]) -> Result<&str, Refusal> {
    if bytes.len() > LINE_BYTES_MAX {
        return Err((format!("it is longer than {LINE_BYTES_MAX} bytes"), "shorten it; fio has the same limit"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ("it is not UTF-8".to_owned(), "name a fio job file"))?;
    let text = text.split([';', '#']).next().unwrap_or_default().trim();
    match text.contains(char::is_control) {
        true => Err(("it contains a control character".into(), "name a fio job file")),
        false => Ok(text),
    }
}

fn parse_line(text: &str, surroundings: &dyn Surroundings) -> Result<Line, Refusal> {
    if let Some(name) = text.strip_prefix('[') {
        let name = name.strip_suffix(']').ok_or(("the bracket is not closed".into(), "write, for example, [job]"))?;
        return Ok(Line::Section(name.into()));
    }
    if let Some(file) = text.strip_prefix("include").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return match file.trim() {
            "" => Err(("`include` needs the name of a file".into(), "write, for example, include common.fio")),
            file => Ok(Line::Include(file.into())),
        };
    }
    let text = substitute(text, surroundings, LINE_BYTES_MAX)?;
    let text = text.trim();
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key.trim_end(), Some(value.trim_start().to_owned())),
        None => (text, None),
    };
    if key.is_empty()
        || key.starts_with('-')
        || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    {
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
        let entry = |key: &str, value: Option<&str>, line| Entry {
            key: key.into(),
            value: value.map(Into::into),
            line,
            included: None,
        };
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
            ("[a]\ninclude b.fio", &["line 2: ", "`include b.fio`: ", "copy"]),
            ("[a]\ninclude", &["line 2: ", "`include` needs the name of a file"]),
            ("include b.fio\n[a]", &["line 1: ", "`include` comes before the first section"]),
            ("[a]\n\nsize=${SIZE}", &["line 3: ", "`${SIZE}`", "write the value instead"]),
            ("[a]\nbs=$pagesize*4k", &["line 2: ", "`4k` is not a whole number"]),
            ("[a]\n--bs=4k", &["line 2: ", "`--bs` is not a valid key"]),
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

    /// A folder with these files.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn included_files_add_their_options_where_they_are_named() {
        let folder = folder(&[
            (
                "job.fio",
                "[global]\ninclude parts/common.fio ; of all jobs\n[a]\nrw=read\ninclude parts/depth.fio\nbs=4k",
            ),
            ("parts/common.fio", "thread=1\ninclude depth.fio\n"),
            ("parts/depth.fio", "\n# 8\niodepth=8"),
        ]);
        let file = JobFile::read(&folder.path().join("job.fio")).unwrap();
        let seen = |section: &Section| -> Vec<String> {
            let place = |entry: &Entry| {
                let file = entry.included.as_deref().map_or("", |name| name.rsplit('/').next().unwrap());
                format!("{file}:{} {}", entry.line, entry.key)
            };
            section.entries.iter().map(place).collect()
        };
        assert_eq!(seen(&file.sections[0]), ["common.fio:1 thread", "depth.fio:3 iodepth"]);
        assert_eq!(seen(&file.sections[1]), [":4 rw", "depth.fio:3 iodepth", ":6 bs"]);
    }

    #[test]
    fn sections_that_are_not_chosen_are_not_parsed() {
        let folder = folder(&[(
            "job.fio",
            "[a]\nrw=${IOLANE_UNSET}\n=\ninclude absent.inc\n[global]\nbs=4k\n[b]\n[c]\nrw=read\n[a]\n--\n[global]\ndirect=1",
        )]);
        let read = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().copied().map(Into::into).collect();
            JobFile::read_sections(&folder.path().join("job.fio"), &wanted)
        };
        let names = |file: JobFile| -> Vec<_> {
            file.sections.into_iter().map(|section| (section.name, section.entries.len())).collect()
        };
        let section = |name: &str, entries| (name.to_owned(), entries);
        assert_eq!(names(read(&["c"]).unwrap()), [section("global", 1), section("c", 1), section("global", 1)]);
        assert_eq!(
            names(read(&["c", "b", "c"]).unwrap()),
            [section("global", 1), section("b", 0), section("c", 1), section("global", 1)]
        );
        assert!(read(&["a", "b"]).unwrap_err().to_string().contains("line 2: `${IOLANE_UNSET}`"));
        for missing in ["d", "global"] {
            let error = read(&["b", missing]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--section {missing}: ")), "{error}");
            assert!(
                error.contains("job.fio has no job of that name; its jobs are a, b, c; name one of them"),
                "{error}"
            );
        }
    }

    #[test]
    fn files_that_cannot_be_included_are_refused_by_the_line_that_names_them() {
        let large = "#".repeat(4000).to_string() + "\n";
        let folder = folder(&[
            ("itself.fio", "[a]\n\ninclude itself.fio"),
            ("circle.fio", "[a]\ninclude one.inc"),
            ("one.inc", "include two.inc"),
            ("two.inc", "thread\ninclude one.inc"),
            ("missing.fio", "[a]\ninclude absent.inc"),
            ("section.fio", "[a]\ninclude section.inc"),
            ("section.inc", "thread\n[b]"),
            ("line.fio", "[a]\ninclude line.inc"),
            ("line.inc", "thread\n=4k"),
            ("endless.fio", "[a]\ninclude /dev/zero"),
            ("folder.fio", "[a]\ninclude /"),
            ("large.fio", &format!("[a]\n{}", "include large.inc\n".repeat(5))),
            ("large.inc", &large.repeat(60)),
        ]);
        for (name, parts) in [
            ("itself.fio", &["itself.fio line 3: `include itself.fio`: ", "includes itself"][..]),
            ("circle.fio", &["two.inc line 2: `include one.inc`: ", "includes itself"]),
            ("missing.fio", &["missing.fio line 2: `include absent.inc`: ", "no such file"]),
            ("section.fio", &["section.inc line 2: ", "no sections"]),
            ("line.fio", &["line.inc line 2: ", "not a valid key"]),
            ("endless.fio", &["endless.fio line 2: ", "larger than 1m"]),
            ("folder.fio", &["folder.fio line 2: ", "is a directory"]),
            ("large.fio", &["large.fio line 6: ", "larger than 1m"]),
        ] {
            let error = JobFile::read(&folder.path().join(name)).expect_err(name).to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{name}: {error}");
        }
        let chain: Vec<(String, String)> =
            (0..20).map(|file| (format!("{file}.inc"), format!("include {}.inc", file + 1))).collect();
        let mut files: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (&**name, &**text)).collect();
        files.push(("job.fio", "[a]\ninclude 0.inc"));
        let error = JobFile::read(&self::folder(&files).path().join("job.fio")).unwrap_err().to_string();
        assert!(error.contains("more than 16 files include one another"), "{error}");
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
