//! What comes from npm, with its versions: the chart library in report.html, bundled by `cargo xtask assets` and committed,
//! so that nobody else needs npm; and the checker of pages that tests use, which is fetched for them alone.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::child::{program, root, succeeds};
use crate::packages::{self, NPM};

const LIBRARY: &str = "echarts@6.1.0";
const BUNDLER: &str = "esbuild@0.28.2";
pub(crate) const CHECKER: &str = "axe-core@4.14.1";

/// Where the library is kept, from the root.
const FOLDER: &str = "crates/iolane-report/assets";

/// Licences that the library comes under, by where npm puts them and what they are called here.
const LICENCES: [(&str, &str); 3] = [
    ("echarts/LICENSE", "echarts.LICENSE"),
    ("echarts/NOTICE", "echarts.NOTICE"),
    ("zrender/LICENSE", "zrender.LICENSE"),
];

/// Bundles the chart library anew.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "it takes no options");
    ensure!(packages::install(&[NPM])?.is_empty(), "npm is needed; apt-get install npm");
    let modules = install("assets", &[LIBRARY, BUNDLER])?;
    let folder = root().join(FOLDER);
    let bundle = modules.join("echarts.min.js");
    let mut bundler = program("node");
    bundler
        .arg(modules.join("esbuild/bin/esbuild"))
        .arg(folder.join("echarts.entry.js"))
        .args(["--bundle", "--minify", "--format=iife", "--global-name=echarts", "--target=es2020"])
        .args(["--legal-comments=none", "--charset=ascii"])
        .arg(format!("--outfile={}", bundle.display()))
        .env("NODE_PATH", &modules);
    ensure!(succeeds(&mut bundler)?, "it could not be bundled: see above");
    let mut licences = String::new();
    for (from, to) in LICENCES {
        let text = fs::read_to_string(modules.join(from)).with_context(|| format!("reading {from}"))?;
        fs::write(folder.join(to), &text)?;
        if to != "echarts.LICENSE" {
            licences.push_str(&format!("\n{}\n", text.trim()));
        }
    }
    let code = fs::read_to_string(&bundle)?;
    // A page is the library handed on: its notices go with it.
    let head =
        format!("/*! {LIBRARY}, Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0\n{licences}*/\n");
    ensure!(head.matches("*/").count() == 1, "a licence would end the comment that it stands in");
    let text = format!("{head}{code}");
    ensure!(!text.to_lowercase().contains("</script"), "the library would end the element that it stands in");
    fs::write(folder.join("echarts.min.js"), &text)?;
    println!("{FOLDER}/echarts.min.js: {} bytes", text.len());
    Ok(true)
}

/// Fetches the checker that tests of pages run in the browser, where they look for it, unless it is there.
pub(crate) fn fetch_checker() -> Result<()> {
    if root().join("target/npm/checker/node_modules/axe-core/axe.min.js").exists() {
        return Ok(());
    }
    ensure!(packages::install(&[NPM])?.is_empty(), "npm is not installed; apt-get install npm");
    install("checker", &[CHECKER]).map(|_| ())
}

/// Installs packages into a folder of their own and gives that of the modules; no script of theirs runs.
fn install(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = root().join("target/npm").join(name);
    fs::create_dir_all(&folder)?;
    // Without it npm would look for one further up.
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    let mut npm = program("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", "--loglevel=error"])
        .args(packages);
    // Standard output is kept for what the caller was asked for.
    npm.current_dir(&folder).stdout(std::io::stderr());
    ensure!(succeeds(&mut npm)?, "npm could not fetch {}", packages.join(" "));
    Ok(folder.join("node_modules"))
}
