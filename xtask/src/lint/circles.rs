//! The check that no files of a crate use each other in a circle: whoever reads one of them has to know them all.
//! A use is a path in code that names what another file defines, wherever it was imported from; code for tests, and a
//! parent's re-export of what lies below it, count for nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::graph;
use super::modules::{Modules, Read, Use};

/// A circle, with the uses that make it: for each pair of files the lines, each with the path that is written there.
#[derive(Debug, PartialEq)]
pub(super) struct Circle {
    files: Vec<PathBuf>,
    uses: BTreeMap<(PathBuf, PathBuf), Vec<(usize, String)>>,
}

/// The circles between the files of one library or program.
pub(super) fn find(root: &Path, read: Read<'_>) -> Result<Vec<Circle>> {
    let modules = Modules::read(root, read)?;
    let uses = modules.uses();
    let edges: Vec<(usize, usize)> = uses.iter().map(|found| (found.from, found.to)).collect();
    let groups = graph::circles(modules.files.len(), &edges);
    Ok(groups.iter().map(|group| circle(group, &uses, &modules.files)).collect())
}

fn circle(group: &[usize], uses: &[Use], files: &[PathBuf]) -> Circle {
    let within = uses.iter().filter(|found| group.contains(&found.from) && group.contains(&found.to));
    let mut pairs: BTreeMap<(PathBuf, PathBuf), Vec<(usize, String)>> = BTreeMap::new();
    for found in within {
        let pair = (files[found.from].clone(), files[found.to].clone());
        pairs.entry(pair).or_default().push((found.line, found.path.clone()));
    }
    Circle { files: group.iter().map(|&file| files[file].clone()).collect(), uses: pairs }
}

impl Circle {
    /// For people: which files, and which lines lead from one to the other. Paths are shown from `folder`.
    pub(super) fn shown(&self, folder: &Path) -> String {
        /// Enough to see what it is about.
        const LINES_MAX: usize = 4;
        let short = |path: &Path| path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let names: Vec<String> = self.files.iter().map(|path| short(path)).collect();
        let mut text = format!("a circle of {} files: {}\n", names.len(), names.join(", "));
        for ((from, to), places) in &self.uses {
            let shown = places.iter().take(LINES_MAX).map(|(line, path)| format!("{line} {path}"));
            let more = places.len().saturating_sub(LINES_MAX);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let shown = shown.collect::<Vec<_>>().join(", ");
            text.push_str(&format!("    {} -> {}: line {shown}{more}\n", short(from), short(to)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles in a crate of these files, shown.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let read =
            |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
        let found = find(Path::new("src/lib.rs"), &read).unwrap();
        found.iter().map(|circle| circle.shown(Path::new("src"))).collect()
    }

    #[test]
    fn files_that_use_each_other_are_a_circle_with_the_lines_that_make_it() {
        let found = circles(&[
            ("src/lib.rs", "mod a;\nmod b;\nmod c;"),
            ("src/a.rs", "use crate::b::B;\npub struct A(B);"),
            ("src/b.rs", "pub struct B;\n\npub fn f() -> crate::a::A { todo!() }"),
            ("src/c.rs", "use crate::a::A;\nstruct C(A);"),
        ]);
        let expected = "a circle of 2 files: a.rs, b.rs\n    a.rs -> b.rs: line 1 crate::b::B\n    b.rs -> a.rs: line 3 crate::a::A\n";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn one_direction_is_no_circle_and_neither_are_tests_and_comments() {
        let found = circles(&[
            ("src/lib.rs", "mod a;\nmod b;\npub use a::A;"),
            ("src/a.rs", "/// See [`crate::b::B`].\npub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("src/b.rs", "use crate::A;\n// crate::b::B\npub struct B(A, &'static str);"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_name_from_the_parent_counts_for_the_file_that_defines_it() {
        let found = circles(&[
            ("src/lib.rs", "mod a;"),
            ("src/a/mod.rs", "mod one;\nmod two;\npub use one::One;\nuse two::Two;\npub fn f(_: Two) {}"),
            ("src/a/one.rs", "pub struct One;"),
            ("src/a/two.rs", "use super::One;\npub struct Two(One);"),
        ]);
        assert!(found.is_empty(), "{found:?}");
        let found = circles(&[
            ("src/lib.rs", "mod a;"),
            ("src/a/mod.rs", "mod one;\nmod two;\npub use one::*;\npub use two::Two;"),
            ("src/a/one.rs", "use super::Two;\npub struct One(Box<Two>);"),
            ("src/a/two.rs", "use super::One;\npub struct Two(Box<One>);"),
        ]);
        assert!(found.len() == 1 && found[0].contains("a/one.rs -> a/two.rs: line 1 super::Two"), "{found:?}");
    }

    #[test]
    fn a_child_that_uses_its_parent_which_calls_it_is_a_circle() {
        let parent = |call: &str| format!("mod child;\npub struct Type;\npub fn f() {{ {call} }}");
        let child = "use super::Type;\npub fn g() -> Type { Type }";
        let found = circles(&[("src/lib.rs", &parent("child::g();")), ("src/child.rs", child)]);
        assert!(found.len() == 1 && found[0].contains("lib.rs -> child.rs: line 3 child::g"), "{found:?}");
        assert!(circles(&[("src/lib.rs", &parent("")), ("src/child.rs", child)]).is_empty());
    }

    #[test]
    fn paths_in_macros_and_attributes_and_by_an_imported_module_are_seen() {
        for (line, what) in [
            ("fn f() { println!(\"{}\", crate::b::X); }", "a macro"),
            ("struct A { #[serde(with = \"crate::b\")] x: u8 }", "an attribute"),
            ("use crate::b;\nfn f() { b::g() }", "an imported module"),
            ("fn f() { use crate::b as other; vec![other::g()]; }", "a renamed module"),
            ("use crate::b::*;\nfn f() { g() }", "a glob"),
        ] {
            let text = format!("{line}\npub struct Y;");
            let found = circles(&[
                ("src/lib.rs", "mod a;\nmod b;"),
                ("src/a.rs", &text),
                ("src/b.rs", "pub const X: u8 = 1;\npub fn g() { let _ = crate::a::Y; }"),
            ]);
            assert_eq!(found.len(), 1, "{what} was not seen");
        }
    }

    #[test]
    fn names_of_other_crates_and_of_locals_are_no_uses() {
        let found = circles(&[
            ("src/lib.rs", "mod a;\nmod b;\npub use other::*;"),
            ("src/a.rs", "use crate::Error;\nuse other::b;\npub fn f() { let files = 1; b::g(files); }"),
            ("src/b.rs", "use crate::a;\npub fn g() { a::f() }"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_macro_of_a_module_above_is_a_use_of_its_file() {
        let found = circles(&[
            ("src/lib.rs", "macro_rules! m { () => {} }\nmod a;\nfn f() { a::g() }"),
            ("src/a.rs", "pub fn g() { m!() }"),
        ]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_module_without_a_file_is_an_error_that_names_it() {
        let read = |path: &Path| (path == Path::new("src/lib.rs")).then(|| "mod gone;".to_owned());
        let error = find(Path::new("src/lib.rs"), &read).unwrap_err().to_string();
        assert!(error.contains("module gone"), "{error}");
    }
}
