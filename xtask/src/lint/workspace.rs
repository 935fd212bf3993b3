//! What `cargo metadata` says of this workspace, as far as the checks ask: members, their targets, who depends on whom.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::Result;
use serde::Deserialize;

use super::arrows::Arrows;
use crate::child::cargo_metadata;

/// The workspace, with every package that it depends on.
#[derive(Debug, Deserialize)]
pub(super) struct Workspace {
    pub(super) packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

/// A crate with its manifest.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) targets: Vec<Target>,
}

/// A library, program, test or example.
#[derive(Debug, Deserialize)]
pub(super) struct Target {
    kind: Vec<String>,
    pub(super) src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Workspace {
    /// Asks cargo.
    pub(super) fn read() -> Result<Self> {
        cargo_metadata()
    }

    /// The workspace's own packages.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The dependencies between its members.
    pub(super) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::default();
        for from in self.members() {
            for (to, is_for_tests) in self.dependencies(&from.id) {
                let Some(to) = self.members().find(|member| member.id == to) else { continue };
                let set = if is_for_tests { &mut arrows.tests } else { &mut arrows.builds };
                set.insert((from.name.clone(), to.name.clone()));
            }
        }
        arrows
    }

    /// Whether one package needs another to be built, at any distance; `None` if there is no package of one of the names.
    pub(super) fn needs(&self, from: &str, to: &str) -> Option<bool> {
        let from = self.members().find(|member| member.name == from)?;
        self.packages.iter().find(|package| package.name == to)?;
        let (mut seen, mut open) = (HashSet::new(), vec![from.id.as_str()]);
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.dependencies(id).filter(|(_, is_for_tests)| !is_for_tests).map(|(id, _)| id));
            }
        }
        let needed = |package: &&Package| package.name == to && seen.contains(package.id.as_str());
        Some(self.packages.iter().any(|package| needed(&package)))
    }

    /// What a package depends on, and whether only its tests do.
    fn dependencies<'a>(&'a self, id: &str) -> impl Iterator<Item = (&'a str, bool)> + use<'a> {
        let node = self.resolve.nodes.iter().find(|node| node.id == id);
        node.into_iter().flat_map(|node| &node.deps).map(|dependency| {
            let is_for_tests = dependency.dep_kinds.iter().all(|kind| kind.kind.as_deref() == Some("dev"));
            (dependency.pkg.as_str(), is_for_tests)
        })
    }
}

impl Package {
    /// Its library and its programs.
    pub(super) fn libraries_and_programs(&self) -> impl Iterator<Item = &Target> {
        let shipped =
            |target: &&Target| target.kind.iter().any(|kind| matches!(kind.as_str(), "lib" | "bin" | "proc-macro"));
        self.targets.iter().filter(shipped)
    }
}
