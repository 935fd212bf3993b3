//! The check that crates depend on each other as docs/architecture.md draws it, in a block that people read too:
//!
//! ```arrows
//! iolane-study -> iolane-measure, iolane      needs these to be built
//! iolane ..> iolane-measure                   needs it for its tests
//! iolane-measure -/-> parquet                 never needs it, nor does anything that it needs
//! ```
//!
//! Every dependency between crates of the workspace is drawn, every arrow exists, and no arrows make a circle.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::graph;

/// From one crate to another.
type Arrow = (String, String);

/// What is drawn, or what there is.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Arrows {
    /// What a crate needs to be built.
    pub(super) builds: BTreeSet<Arrow>,
    /// What only its tests need.
    pub(super) tests: BTreeSet<Arrow>,
    /// What it must not need, at any distance.
    pub(super) never: BTreeSet<Arrow>,
}

/// Reads the block of a page.
pub(super) fn parse(page: &str) -> Result<Arrows> {
    let (_, rest) = page.split_once("```arrows\n").context("there is no block that begins with ```arrows")?;
    let (block, _) = rest.split_once("```").context("the block ```arrows has no end")?;
    let mut arrows = Arrows::default();
    for line in block.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (from, kind, to) = match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [from, kind, to @ ..] if !to.is_empty() => ((*from).to_owned(), *kind, to.join(" ")),
            _ => bail!("`{line}` is not `crate -> crate, crate`"),
        };
        let set = match kind {
            "->" => &mut arrows.builds,
            "..>" => &mut arrows.tests,
            "-/->" => &mut arrows.never,
            other => bail!("`{line}`: `{other}` is not an arrow; they are ->, ..> and -/->"),
        };
        for name in to.split(',').map(str::trim) {
            if name.is_empty() || name.contains(' ') {
                bail!("`{line}`: `{name}` is not the name of a crate");
            }
            set.insert((from.clone(), name.to_owned()));
        }
    }
    Ok(arrows)
}

/// What is wrong with the drawing or with the crates. `needs` gives whether a crate needs another at any distance, or `None`
/// if there is no crate of one of these names.
pub(super) fn compare(drawn: &Arrows, found: &Arrows, needs: &dyn Fn(&str, &str) -> Option<bool>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, drawn, found) in [("->", &drawn.builds, &found.builds), ("..>", &drawn.tests, &found.tests)] {
        let missing = found.difference(drawn);
        wrong.extend(missing.map(|(from, to)| format!("{from} {what} {to} is not drawn; draw it, or cut it")));
        let gone = drawn.difference(found);
        wrong.extend(gone.map(|(from, to)| format!("{from} {what} {to} is drawn, and there is no such dependency")));
    }
    for (from, to) in &drawn.never {
        match needs(from, to) {
            Some(false) => {}
            Some(true) => wrong.push(format!("{from} needs {to}, which it must not")),
            None => wrong.push(format!("{from} -/-> {to}: there is no crate of one of these names")),
        }
    }
    let names: Vec<&String> = found
        .builds
        .iter()
        .chain(&found.tests)
        .flat_map(|(from, to)| [from, to])
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let index = |name: &String| names.iter().position(|known| *known == name).unwrap_or_default();
    let edges: Vec<(usize, usize)> =
        found.builds.iter().chain(&found.tests).map(|(from, to)| (index(from), index(to))).collect();
    for circle in graph::circles(names.len(), &edges) {
        let members: Vec<&str> = circle.iter().map(|&node| names[node].as_str()).collect();
        wrong.push(format!("a circle, tests included: {}", members.join(", ")));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(block: &str) -> Arrows {
        parse(&format!("# Crates\n\n```arrows\n{block}```\n")).unwrap()
    }

    fn wrong(drawn: &str, found: &str) -> Vec<String> {
        compare(&arrows(drawn), &arrows(found), &|_, to| match to {
            "parquet" => Some(true),
            "askama" => Some(false),
            _ => None,
        })
    }

    #[test]
    fn a_drawing_that_is_right_has_nothing_wrong() {
        let block = "cli -> study, core\nstudy -> core\nstudy ..> lab\n";
        assert!(wrong(&format!("{block}core -/-> askama\n"), block).is_empty());
    }

    #[test]
    fn a_missing_and_a_superfluous_arrow_are_named() {
        let expected =
            ["cli -> study is not drawn; draw it, or cut it", "cli -> lab is drawn, and there is no such dependency"];
        assert_eq!(wrong("cli -> lab\n", "cli -> study\n"), expected);
        assert_eq!(wrong("cli -> lab\n", "cli ..> lab\n").len(), 2);
    }

    #[test]
    fn a_circle_through_tests_is_a_circle() {
        let block = "study -> iolane\niolane ..> study\n";
        assert_eq!(wrong(block, block), ["a circle, tests included: iolane, study"]);
    }

    #[test]
    fn what_a_crate_must_not_need_is_named() {
        assert_eq!(wrong("measure -/-> parquet\n", ""), ["measure needs parquet, which it must not"]);
        assert!(wrong("measure -/-> parket\n", "")[0].contains("no crate of one of these names"));
    }

    #[test]
    fn a_line_that_is_no_arrow_is_an_error_that_shows_it() {
        for line in ["cli study", "cli => study", "cli ->", "cli -> a b"] {
            let error = parse(&format!("```arrows\n{line}\n```\n")).unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
        assert!(parse("# Crates\n").unwrap_err().to_string().contains("no block"));
    }
}
