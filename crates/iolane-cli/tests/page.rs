//! The pages of a study's results, and of two compared, in a real browser: charts are drawn, controls work, the layout
//! holds, the page is accessible without sight, and nothing is fetched. The results are those of a study whose names
//! are as hostile as a study's file allows.

mod common;

use std::path::Path;
use std::sync::OnceLock;

use common::browser::Browser;
use common::{Folder, iolane, skipped};
use serde_json::{Value, json};

/// Names that try to inject elements, to reverse the text around them, or to be too long.
const SCRIPT: &str = "<script>alert(1)</script>";
const REVERSED: &str = "\u{202e}lamron";

fn long() -> String {
    "n".repeat(300)
}

fn study() -> String {
    let long = long();
    let points = |path: &str| format!("{{ path = {path:?}, x = 4, against = 9000, y = 50000 }}");
    format!(
        r#"
name = "hostile"
title = "</title><script>document.title = 'changed'</script> \u202Eesrever"
source = "<img src=http://example.org/x onerror=alert(1)>"
published_on = "</script><b>a machine</b>"
[paths]
{SCRIPT:?} = "libaio"
"\u202Elamron" = "libaio"
{long:?} = "psync"
[[group]]
path = [{SCRIPT:?}, "\u202Elamron"]
depth = [1, 4, 16]
[[group]]
path = [{long:?}]
[[figure]]
id = "1 <b>"
title = "<svg onload=alert(1)> IOPS by depth"
x = "depth"
x_scale = "log"
y = "iops"
[[figure]]
id = "2"
title = "latency against IOPS"
where = {{ depth = ">=1" }}
x = "depth"
against = "iops"
y = "p50_ns"
y_scale = "log"
published = [{}]
[[figure]]
id = "3"
title = "latency by path"
where = {{ depth = 1 }}
x = "path"
y = "p99_ns"
published = [{{ path = {long:?}, y = 50000 }}]
[[claim]]
id = "H1"
says = "<script>alert(2)</script>"
published = "{long}"
[[claim.check]]
says = "a rate"
rule = "value"
metric = "iops"
of = {{ where = {{ depth = 1 }}, take = "largest" }}
at_least = 1
"#,
        points(SCRIPT)
    )
}

/// A page under test.
#[derive(Debug, Clone, Copy)]
enum Page {
    /// The page of a study.
    Study,
    /// The comparison of its results with others, in a folder with a hostile name.
    Comparison,
}

const PAGES: [Page; 2] = [Page::Study, Page::Comparison];

impl Page {
    /// The page's file. The study is measured once for all tests.
    fn file(self) -> std::path::PathBuf {
        static MADE: OnceLock<Folder> = OnceLock::new();
        let folder = MADE.get_or_init(|| {
            let folder = Folder::new();
            std::fs::write(folder.join("hostile.toml"), study()).unwrap();
            let lengths = ["--runtime", "50ms", "--warmup", "10ms", "--repeat", "3", "--size", "8m"];
            let ended = iolane(&folder, ["study", "hostile.toml"].iter().chain(&lengths)).done();
            assert!(ended.stdout.contains("Results: results/hostile/report.html, "), "{ended:#?}");
            let other = format!("{REVERSED}<b>");
            std::fs::create_dir(folder.join(&other)).unwrap();
            for file in ["study.json", "records.parquet"] {
                std::fs::copy(folder.join("results/hostile").join(file), folder.join(&other).join(file)).unwrap();
            }
            iolane(&folder, ["compare", "results/hostile", &other, "--html", "compare.html"]).done();
            folder
        });
        folder.join(match self {
            Self::Study => "results/hostile/report.html",
            Self::Comparison => "compare.html",
        })
    }
}

/// A browser with a page open; prints a SKIPPED line and returns `None` where there is no browser.
fn open_page(page: Page, test: &str, width: u32, scheme: &str) -> Option<Browser> {
    let Some(mut browser) = Browser::start() else {
        skipped(test, "chromium is not installed; apt-get install chromium");
        return None;
    };
    browser.show_as(width, 900, scheme);
    browser.open(&page.file());
    Some(browser)
}

/// The study's page in a browser.
fn open(test: &str, width: u32, scheme: &str) -> Option<Browser> {
    open_page(Page::Study, test, width, scheme)
}

/// Opens every closed section and scrolls to every chart, until each is drawn; returns the number of charts.
fn draw_all(browser: &mut Browser) -> u64 {
    let drawn = browser.promised(
        "(async () => {
            document.querySelectorAll('details').forEach(details => details.open = true);
            const plots = [...document.querySelectorAll('.plot')];
            for (const plot of plots) {
                plot.scrollIntoView();
                for (let frame = 0; frame < 600 && !plot.querySelector('svg path'); frame++) {
                    await new Promise(requestAnimationFrame);
                }
            }
            return plots.filter(plot => plot.querySelector('svg path')).length;
        })()",
    );
    drawn.as_u64().unwrap()
}

#[test]
fn every_chart_draws_without_a_word_on_the_console_or_a_request() {
    for page in PAGES {
        let Some(mut browser) = open_page(page, "every_chart_draws", 1280, "light") else { return };
        let charts = browser.evaluate("document.querySelectorAll('.plot').length").as_u64().unwrap();
        assert!(charts >= 5, "{page:?}: {charts}");
        assert_eq!(draw_all(&mut browser), charts, "{page:?}");
        let marks = "[...document.querySelectorAll('.plot svg')].map(svg => svg.querySelectorAll('path').length)";
        let marks = browser.evaluate(marks);
        assert!(marks.as_array().unwrap().iter().all(|count| count.as_u64().unwrap() > 4), "{page:?}: {marks}");
        for said in
            ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening"]
        {
            assert_eq!(browser.heard(said), Vec::<&Value>::new(), "{page:?}");
        }
        let requests = browser.heard("Network.requestWillBeSent");
        let urls: Vec<&str> = requests.iter().filter_map(|request| request["request"]["url"].as_str()).collect();
        assert_eq!(urls, [format!("file://{}", page.file().display())], "the page, and nothing else");
    }
}

#[test]
fn hostile_names_show_as_text() {
    let Some(mut browser) = open("hostile_names_show_as_text", 1280, "light") else { return };
    draw_all(&mut browser);
    let names =
        browser.evaluate("[...document.querySelectorAll('#figure-1-b .legend bdi')].map(name => name.textContent)");
    let mut names: Vec<&str> = names.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    names.sort_unstable_by_key(|name| name.len());
    assert_eq!(names, [REVERSED, SCRIPT, &long()]);
    assert_eq!(browser.evaluate("document.scripts.length"), 3, "the charts, the library and the page's own");
    assert_eq!(browser.evaluate("document.querySelectorAll('body img, h1 script, [onload], [onerror]').length"), 0);
    let title = browser.evaluate("document.title");
    assert!(title.as_str().unwrap().starts_with("hostile: </title><script>"), "{title}");
    let Some(mut browser) = open_page(Page::Comparison, "hostile_names_show_as_text", 1280, "light") else { return };
    let facts = browser.evaluate("[...document.querySelectorAll('.facts dt')].map(fact => fact.textContent)");
    assert!(facts[1].as_str().unwrap().contains(&format!("{REVERSED}<b>")), "{facts}");
    assert_eq!(browser.evaluate("document.querySelectorAll('.facts b, td script, th script').length"), 0);
}

#[test]
fn a_legend_takes_a_line_away_and_brings_it_back() {
    let Some(mut browser) = open("a_legend_takes_a_line_away", 1280, "light") else { return };
    draw_all(&mut browser);
    let state = "(() => {
        const button = document.querySelector('#figure-1-b .legend button');
        return [button.getAttribute('aria-pressed'), document.querySelectorAll('#figure-1-b .plot svg path').length];
    })()";
    let before = browser.evaluate(state);
    assert_eq!(before[0], "true");
    browser.evaluate("document.querySelector('#figure-1-b .legend button').focus()");
    let press = |browser: &mut Browser| {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({"type": kind, "key": " ", "code": "Space", "windowsVirtualKeyCode": 32, "text": " "});
            browser.ask("Input.dispatchKeyEvent", key);
        }
    };
    press(&mut browser);
    let without = browser.evaluate(state);
    assert_eq!(without[0], "false");
    assert!(without[1].as_u64() < before[1].as_u64(), "{without} of {before}");
    assert_eq!(browser.evaluate("document.activeElement.closest('.legend') != null"), true, "the keyboard stays there");
    press(&mut browser);
    assert_eq!(browser.evaluate(state), before);
}

#[test]
fn the_pointer_and_the_arrow_keys_bring_up_values_with_intervals() {
    let Some(mut browser) = open("the_pointer_and_the_arrow_keys", 1280, "light") else { return };
    draw_all(&mut browser);
    let place = browser.evaluate(
        "(() => {
            const plot = document.querySelector('#figure-1-b .plot');
            plot.scrollIntoView({ block: 'center', behavior: 'instant' });
            const { left, top, width, height } = plot.getBoundingClientRect();
            return [left + width / 2, top + height / 2];
        })()",
    );
    // A tip comes with one of the next frames: waits for it, for ten seconds at most.
    let tip = |holds: &str| {
        format!(
            "new Promise(done => {{
                const text = () => [...document.querySelectorAll('.tip')].map(tip => tip.innerText).join(' ');
                const began = performance.now();
                const look = () => text().includes('{holds}') || performance.now() - began > 1e4
                    ? done(text()) : requestAnimationFrame(look);
                look();
            }})"
        )
    };
    let moved = json!({"type": "mouseMoved", "x": place[0], "y": place[1]});
    browser.ask("Input.dispatchMouseEvent", moved);
    let words = browser.promised(&tip("depth 4"));
    let words = words.as_str().unwrap();
    assert!(words.contains("depth 4") && words.contains(SCRIPT) && words.contains(" to "), "{words}");
    // The same figures as in the table.
    let cell = "[...document.querySelectorAll('#figure-1-b tbody tr')].find(row => row.cells[0].innerText == '4').cells[1].innerText";
    let cell = browser.evaluate(cell);
    let value = cell.as_str().unwrap().split(" (").next().unwrap();
    assert!(words.contains(value), "{value} is not in {words}");
    browser.evaluate("document.querySelector('#figure-2 .plot').focus()");
    let key = json!({"type": "keyDown", "key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39});
    browser.ask("Input.dispatchKeyEvent", key);
    let words = browser.promised(&tip("depth 1"));
    assert!(words.as_str().unwrap().contains("depth 1"), "{words}");
}

#[test]
fn the_colors_follow_the_button() {
    let Some(mut browser) = open("the_colors_follow_the_button", 1280, "light") else { return };
    draw_all(&mut browser);
    let colors = "[getComputedStyle(document.body).backgroundColor, document.querySelector('.plot svg path[stroke-width=\"1.8\"]').getAttribute('stroke')]";
    let light = browser.evaluate(colors);
    assert_eq!(light[0], "rgb(255, 255, 255)");
    browser.evaluate("document.getElementById('theme').click()");
    let dark = browser.evaluate(colors);
    assert!(dark[0] != light[0] && dark[1] != light[1], "{light} {dark}");
    assert_eq!(browser.evaluate("document.getElementById('theme').textContent"), "Light");
}

#[test]
fn no_view_is_wider_than_its_window() {
    let views = [(360, "light"), (360, "dark"), (768, "dark"), (1280, "light"), (1280, "dark")];
    for (page, (width, scheme)) in PAGES.into_iter().flat_map(|page| views.map(|view| (page, view))) {
        let Some(mut browser) = open_page(page, "no_view_is_wider_than_its_window", width, scheme) else { return };
        draw_all(&mut browser);
        let wide = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]");
        assert_eq!(wide, json!([width, width]), "{page:?} {scheme}");
        let charts =
            "[...document.querySelectorAll('.plot svg')].every(svg => svg.getBoundingClientRect().right <= innerWidth)";
        assert_eq!(browser.evaluate(charts), true, "{page:?} {width} {scheme}");
    }
}

#[test]
fn without_scripts_the_tables_say_it_all() {
    let Some(mut browser) = Browser::start() else {
        return skipped("without_scripts_the_tables_say_it_all", "chromium is not installed; apt-get install chromium");
    };
    browser.ask("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&Page::Study.file());
    let shown = "[...document.querySelectorAll('.plot, .legend, #theme')].filter(one => one.checkVisibility()).length";
    assert_eq!(browser.evaluate(shown), 0, "no empty frames");
    let tables = "[...document.querySelectorAll('.chart')].every(chart => chart.querySelector('details td'))";
    assert_eq!(browser.evaluate(tables), true);
}

#[test]
fn an_accessibility_checker_finds_nothing_serious() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm/checker/node_modules/axe-core/axe.min.js");
    let Ok(checker) = std::fs::read_to_string(&file) else {
        let reason = format!("there is no {}; `cargo xtask test` fetches it by npm", file.display());
        return skipped("an_accessibility_checker_finds_nothing_serious", &reason);
    };
    let views = [(1280, "light"), (1280, "dark"), (360, "light")];
    for (page, (width, scheme)) in PAGES.into_iter().flat_map(|page| views.map(|view| (page, view))) {
        let test = "an_accessibility_checker_finds_nothing_serious";
        let Some(mut browser) = open_page(page, test, width, scheme) else { return };
        draw_all(&mut browser);
        browser.evaluate(&format!("{checker}; 0"));
        let found = browser.promised(
            "axe.run().then(({ violations }) => violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
                .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(node => node.html + node.failureSummary)}`))",
        );
        assert_eq!(found, json!([]), "{page:?} {width} {scheme}: {found:#}");
    }
}
