//! The studies that are built in: one TOML file each, parsed by the code that parses a user's own.

#[derive(Debug)]
pub struct BuiltIn {
    /// The name on the command line.
    pub name: &'static str,
    /// The content of its file.
    pub text: &'static str,
}

pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "systor22", text: include_str!("builtin/systor22.toml") },
    BuiltIn { name: "ijraset24", text: include_str!("builtin/ijraset24.toml") },
    BuiltIn { name: "hotstorage23", text: include_str!("builtin/hotstorage23.toml") },
    BuiltIn { name: "floe26", text: include_str!("builtin/floe26.toml") },
    BuiltIn { name: "application", text: include_str!("builtin/application.toml") },
];

pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|study| study.name == name)
}
