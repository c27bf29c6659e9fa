//! `use` inside a body: what a short name stands for.

use std::collections::HashMap;

use syn::{Block, Item, Path, Stmt, UseTree};

/// The imports of one block, by the name that they go by there.
#[derive(Default)]
pub(super) struct Imports(HashMap<String, Vec<String>>);

impl Imports {
    pub(super) fn of(block: &Block) -> Self {
        let mut imports = Self::default();
        for statement in &block.stmts {
            if let Stmt::Item(Item::Use(item)) = statement {
                imports.add(&item.tree, &mut Vec::new());
            }
        }
        imports
    }

    fn add(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add(&part.tree, path);
                path.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add(tree, path);
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = path.last() {
                    self.0.insert(last.clone(), path.clone());
                }
            }
            UseTree::Name(name) => self.insert(name.ident.to_string(), &name.ident, path),
            UseTree::Rename(rename) => {
                self.insert(rename.rename.to_string(), &rename.ident, path);
            }
            UseTree::Glob(_) => {}
        }
    }

    fn insert(&mut self, alias: String, name: &syn::Ident, path: &[String]) {
        let whole = path.iter().cloned().chain([name.to_string()]);
        self.0.insert(alias, whole.collect());
    }
}

/// A path's segments, its first one resolved by the innermost import of that name.
pub(super) fn resolve(path: &Path, scopes: &[Imports]) -> Vec<String> {
    let mut segments: Vec<String> = path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    if path.leading_colon.is_none()
        && let Some(whole) = scopes
            .iter()
            .rev()
            .find_map(|imports| imports.0.get(&segments[0]))
    {
        segments.splice(..1, whole.iter().cloned());
    }
    segments
}
