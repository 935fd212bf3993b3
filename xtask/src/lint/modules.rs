//! The modules of a crate as its source files declare them, and what a path written in one of them names. The check of
//! circles between files calls it. It knows names, not types: a method that is called is not followed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

/// The modules of one library or program; the first is its root.
pub(super) struct Modules {
    modules: Vec<Module>,
    /// Source files, by which modules name theirs.
    pub(super) files: Vec<PathBuf>,
}

/// One module: a file, or a block within one.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Functions, types, constants and the like that are defined here.
    items: Vec<String>,
    /// Names of `macro_rules!`, each with its `!`.
    macros: Vec<String>,
    imports: Vec<Import>,
    /// Paths that are written here outside `use`.
    mentions: Vec<Mention>,
}

/// One name that a `use` brings in.
struct Import {
    /// The name by which it is known here; `None` for a glob.
    name: Option<String>,
    path: Vec<String>,
    line: usize,
    /// Whether others may take it from here.
    is_public: bool,
}

/// A path that is written in code.
struct Mention {
    path: Vec<String>,
    line: usize,
    /// A module may be what is meant, as in `#[serde(with = "crate::bytes")]`.
    may_be_module: bool,
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Named {
    Module(usize),
    /// Something that is defined in this module.
    ItemOf(usize),
}

/// That one file uses what another defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) line: usize,
    pub(super) path: String,
}

/// How files are read: from the disk, or from memory in tests.
pub(super) type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Reads a file of the tree.
pub(super) fn from_disk(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

impl Modules {
    /// Reads all modules from the root file on; those for tests are left out.
    pub(super) fn read(root: &Path, read: Read<'_>) -> Result<Self> {
        let mut all = Self { modules: Vec::new(), files: Vec::new() };
        let folder = root.parent().unwrap_or(Path::new(""));
        all.read_file(root, folder, None, read)?;
        Ok(all)
    }

    /// `folder` is where the files of its child modules are.
    fn read_file(&mut self, path: &Path, folder: &Path, parent: Option<usize>, read: Read<'_>) -> Result<usize> {
        let text = read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        self.files.push(path.to_owned());
        let index = self.add(self.files.len() - 1, parent);
        self.read_items(index, &parsed.items, folder, read)?;
        Ok(index)
    }

    fn add(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module { file, parent, ..Module::default() });
        self.modules.len() - 1
    }

    fn read_items(&mut self, index: usize, items: &[Item], folder: &Path, read: Read<'_>) -> Result<()> {
        for item in items {
            if is_for_tests(attributes_of(item)) {
                continue;
            }
            match item {
                Item::Mod(module) => self.read_child(index, module, folder, read)?,
                Item::Macro(syn::ItemMacro { ident: Some(name), .. }) => {
                    self.modules[index].macros.push(format!("{name}!"));
                    Collector { module: &mut self.modules[index] }.visit_item(item);
                }
                _ => {
                    self.modules[index].items.extend(name_of(item));
                    let mut collector = Collector { module: &mut self.modules[index] };
                    collector.visit_item(item);
                }
            }
        }
        Ok(())
    }

    fn read_child(&mut self, parent: usize, module: &ItemMod, folder: &Path, read: Read<'_>) -> Result<()> {
        let name = module.ident.to_string();
        let below = folder.join(&name);
        let child = match &module.content {
            Some((_, items)) => {
                let child = self.add(self.modules[parent].file, Some(parent));
                self.read_items(child, items, &below, read)?;
                child
            }
            None => {
                let own = module.attrs.iter().find_map(path_attribute).map(|path| {
                    let file = self.files[self.modules[parent].file].clone();
                    file.parent().unwrap_or(Path::new("")).join(path)
                });
                let candidates = own.into_iter().chain([folder.join(format!("{name}.rs")), below.join("mod.rs")]);
                let mut candidates = candidates.collect::<Vec<_>>();
                let found = candidates.iter().position(|path| read(path).is_some());
                let found = found.with_context(|| format!("module {name} below {} has no file", folder.display()))?;
                self.read_file(&candidates.swap_remove(found), &below, Some(parent), read)?
            }
        };
        self.modules[parent].children.insert(name, child);
        Ok(())
    }

    /// Every use of one file's items by another, in the order of files and lines. A public `use` of what lies below is no
    /// use but a sign for others.
    pub(super) fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (index, module) in self.modules.iter().enumerate() {
            let imports = module.imports.iter().filter(|import| import.name.is_some()).filter_map(|import| {
                let Some(Named::ItemOf(target)) = self.resolve(index, &import.path, 0) else { return None };
                (!(import.is_public && self.is_below(target, index))).then_some((target, &import.path, import.line))
            });
            let mentions = module.mentions.iter().filter_map(|mention| {
                if self.is_told_by_import(index, mention) {
                    return None;
                }
                let target = match self.resolve(index, &mention.path, 0)? {
                    Named::ItemOf(target) => target,
                    Named::Module(target) if mention.may_be_module => target,
                    Named::Module(_) => return None,
                };
                Some((target, &mention.path, mention.line))
            });
            uses.extend(imports.chain(mentions).filter_map(|(target, path, line)| {
                let (from, to) = (module.file, self.modules[target].file);
                (from != to).then(|| Use { from, to, line, path: path.join("::") })
            }));
        }
        uses.sort();
        uses.dedup();
        uses
    }

    /// Whether a path begins with a name that a `use` of this module, which counts itself, has brought in.
    fn is_told_by_import(&self, index: usize, mention: &Mention) -> bool {
        let imports = self.modules[index].imports.iter().filter(|import| !import.is_public);
        let mut same = imports.filter(|import| import.name.as_deref() == mention.path.first().map(String::as_str));
        same.any(|import| matches!(self.resolve(index, &import.path, 0), Some(Named::ItemOf(_))))
    }

    fn is_below(&self, module: usize, ancestor: usize) -> bool {
        std::iter::successors(Some(module), |&index| self.modules[index].parent).skip(1).any(|index| index == ancestor)
    }

    /// What a path names that is written in `module`; `None` if it is of another crate, or a local name.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Named> {
        // Names that are brought in by each other in a circle name nothing.
        const DEPTH_MAX: usize = 32;
        if depth > DEPTH_MAX {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Named::Module(0),
            "self" => Named::Module(module),
            "super" => Named::Module(self.modules[module].parent?),
            name => self.look_up(module, name, rest.is_empty(), depth).or_else(|| self.textual_macro(module, name))?,
        };
        let mut here = start;
        for (position, name) in rest.iter().enumerate() {
            let Named::Module(index) = here else { return Some(here) };
            if name == "super" {
                here = Named::Module(self.modules[index].parent?);
                continue;
            }
            let is_last = position + 1 == rest.len();
            here = match self.look_up(index, name, is_last, depth) {
                Some(named) => named,
                None if self.has_foreign_imports(index, name) => return None,
                // A name that a macro makes is one of that module's.
                None => Named::ItemOf(index),
            };
        }
        Some(here)
    }

    /// What a name means in a module. A module and a function may share one: the end of a path names the function.
    fn look_up(&self, module: usize, name: &str, is_last: bool, depth: usize) -> Option<Named> {
        let here = &self.modules[module];
        let child = here.children.get(name).map(|&child| Named::Module(child));
        let item = here.items.iter().any(|item| item == name).then_some(Named::ItemOf(module));
        let own = if is_last { item.or(child) } else { child.or(item) };
        own.or_else(|| {
            let imports = here.imports.iter().filter(|import| import.name.as_deref() == Some(name));
            imports.filter_map(|import| self.resolve(module, &import.path, depth + 1)).next()
        })
        .or_else(|| {
            let globs = here.imports.iter().filter(|import| import.name.is_none());
            let targets = globs.filter_map(|import| self.resolve(module, &import.path, depth + 1));
            let modules = targets.filter_map(|target| match target {
                Named::Module(target) if target != module => Some(target),
                _ => None,
            });
            let found: Vec<usize> = modules.collect();
            found.into_iter().find_map(|target| self.look_up_beneath(target, name, is_last, depth + 1))
        })
    }

    fn look_up_beneath(&self, module: usize, name: &str, is_last: bool, depth: usize) -> Option<Named> {
        const DEPTH_MAX: usize = 8;
        if depth > DEPTH_MAX { None } else { self.look_up(module, name, is_last, depth) }
    }

    /// A `macro_rules!` of a module above, which those below may call by its name.
    fn textual_macro(&self, module: usize, name: &str) -> Option<Named> {
        let above = std::iter::successors(Some(module), |&index| self.modules[index].parent);
        let mut defining = above.filter(|&index| self.modules[index].macros.iter().any(|known| known == name));
        defining.next().map(Named::ItemOf)
    }

    /// Whether a name may come into a module from another crate.
    fn has_foreign_imports(&self, module: usize, name: &str) -> bool {
        let candidates = self.modules[module].imports.iter();
        let mut candidates = candidates.filter(|import| import.name.as_deref().is_none_or(|known| known == name));
        candidates.any(|import| self.resolve(module, &import.path, 1).is_none())
    }
}

/// Gathers what the items of one module import and mention, at any depth.
struct Collector<'a> {
    module: &'a mut Module,
}

impl Collector<'_> {
    fn mention(&mut self, path: Vec<String>, line: usize, may_be_module: bool) {
        self.module.mentions.push(Mention { path, line, may_be_module });
    }

    fn import(&mut self, tree: &UseTree, above: &[String], is_public: bool) {
        let with = |name: &syn::Ident| [above, &[name.to_string()]].concat();
        let mut add = |name: Option<String>, path: Vec<String>, line| {
            self.module.imports.push(Import { name, path, line, is_public });
        };
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), is_public),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, above, is_public)),
            UseTree::Glob(glob) => add(None, above.to_vec(), glob.star_token.spans[0].start().line),
            // `use a::b::{self}` brings in `b`.
            UseTree::Name(name) if name.ident == "self" => {
                add(above.last().cloned(), above.to_vec(), name.ident.span().start().line);
            }
            UseTree::Name(name) => {
                add(Some(name.ident.to_string()), with(&name.ident), name.ident.span().start().line);
            }
            UseTree::Rename(rename) => {
                let path = if rename.ident == "self" { above.to_vec() } else { with(&rename.ident) };
                add(Some(rename.rename.to_string()), path, rename.ident.span().start().line);
            }
        }
    }

    /// Paths among the tokens of a macro, which nobody but the macro can parse.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_colon =
            |index: usize| matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
        let mut index = 0;
        while index < tokens.len() {
            match &tokens[index] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let line = first.span().start().line;
                    let mut path = vec![first.to_string()];
                    let follows_dot = index > 0
                        && matches!(&tokens[index - 1], TokenTree::Punct(punct) if matches!(punct.as_char(), '.' | ':' | '\''));
                    while is_colon(index + 1) && is_colon(index + 2) {
                        let Some(TokenTree::Ident(next)) = tokens.get(index + 3) else { break };
                        path.push(next.to_string());
                        index += 3;
                    }
                    if matches!(tokens.get(index + 1), Some(TokenTree::Punct(punct)) if punct.as_char() == '!')
                        && path.len() == 1
                    {
                        path[0].push('!');
                    }
                    if !follows_dot {
                        self.mention(path, line, false);
                    }
                }
                _ => {}
            }
            index += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes_of(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // `use ::name` is always another crate's.
        if item.leading_colon.is_none() {
            self.import(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.mention(names, first.ident.span().start().line, false);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(name) = call.path.get_ident() {
            self.mention(vec![format!("{name}!")], name.span().start().line, false);
        }
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let syn::Meta::List(list) = &attribute.meta else { return };
        let line = attribute.pound_token.span.start().line;
        for token in list.tokens.clone() {
            // As in `#[serde(with = "crate::bytes")]`.
            if let TokenTree::Literal(literal) = &token
                && let Ok(syn::Lit::Str(text)) = syn::parse_str::<syn::Lit>(&literal.to_string())
                && let Ok(path) = text.parse::<syn::Path>()
            {
                self.mention(path.segments.iter().map(|segment| segment.ident.to_string()).collect(), line, true);
            }
        }
        self.tokens(list.tokens.clone());
    }
}

/// Whether it is left out of every build but that of the tests.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let words = list.tokens.to_string();
            words == "test" || words.starts_with("all (test") || words.starts_with("all(test")
        }
        meta => meta.path().is_ident("test"),
    })
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| text.value())
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
