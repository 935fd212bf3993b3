//! A study's results as GitHub Flavored Markdown, for a pull request or a note: the answer, the best of each load, the claims,
//! what was skipped, the machine and the command. `iolane report --md` writes it. Names from results are escaped.

use std::fmt::Write;

use crate::facts::facts;
use crate::rerun::Rerun;
use crate::text::is_bidi_control;
use iolane_study::claims::Verdict;
use iolane_study::format::{count, number, range, time, times};
use iolane_study::results::{ArmReport, Loaded, RateUntil, answers, arm_reports, sentences};

/// Rows beyond these are only counted.
const ROWS_MAX: usize = 40;

/// The summary of a study's results.
pub fn summary(loaded: &Loaded) -> String {
    let mut text = format!("### iolane study {}: {}\n\n", plain(&loaded.document.name), plain(&loaded.document.title));
    let rate_until = &loaded.document.rate_until;
    let advice = rate_until.as_ref().map_or_else(|| sentences(&answers(&loaded.results())), RateUntil::sentences);
    for sentence in advice {
        let _ = writeln!(text, "- {}", plain(&sentence));
    }
    text.push('\n');
    text.push_str(&match rate_until {
        Some(rate_until) => highest_rates(rate_until),
        None => best_arms(loaded),
    });
    text.push_str(&claims(loaded));
    text.push_str(&skipped(loaded));
    text.push_str(&warnings(loaded));
    for fact in facts(loaded) {
        let _ = writeln!(text, "**{}:** {}<br>", fact.label, plain(&fact.value));
    }
    let Rerun { command, version, seed, .. } = Rerun::new(loaded);
    let _ = writeln!(text, "**iolane:** {}, seed {}", plain(&version), plain(&seed));
    if !command.is_empty() {
        let fence = fence(&command);
        let _ = write!(text, "\nTo run it again:\n\n{fence}sh\n{}\n{fence}\n", one_line(&command));
    }
    text
}

/// The highest rate of each path of a search.
fn highest_rates(rate_until: &RateUntil) -> String {
    let headings = ["load", "path", "depth", "highest rate", "95 % interval", "of best"];
    let mut text = format!("| {} |\n|{}\n", headings.join(" | "), " --- |".repeat(headings.len()));
    for answer in &rate_until.answers {
        let cells = [
            answer.load.clone(),
            answer.path.clone(),
            answer.depth.to_string(),
            answer.rate_in_words(),
            answer.interval_in_words(),
            answer.standing(),
        ];
        let _ = writeln!(text, "| {} |", cells.map(|cell| plain(&cell)).join(" | "));
    }
    text.push('\n');
    text
}

/// The best arm of each load and depth, and the runner-up.
fn best_arms(loaded: &Loaded) -> String {
    let reports = arm_reports(&loaded.results(), &loaded.rows);
    let groups: Vec<&[ArmReport]> = reports.chunk_by(|a, b| a.arm.competes_with(&b.arm)).collect();
    let has_syncs = reports.iter().any(ArmReport::has_syncs);
    let are_applications = reports.iter().any(|arm| arm.arm.application.is_some());
    let rate = if are_applications { "per second" } else { "IOPS" };
    let mut headings = vec!["load", "depth", "best path", rate, "95 % interval", "p99, all repeats"];
    headings.extend(has_syncs.then_some("p99 of commits"));
    headings.extend(["cores", "runner-up"]);
    let mut text = format!("| {} |\n|{}\n", headings.join(" | "), " --- |".repeat(headings.len()));
    for arms in groups.iter().take(ROWS_MAX) {
        if let Some(best) = arms.iter().find(|arm| arm.best) {
            let cells: Vec<String> = row(best, arms, has_syncs).iter().map(|cell| plain(cell)).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    if groups.len() > ROWS_MAX {
        let _ = writeln!(text, "\nand {} more; the page has them all.", groups.len() - ROWS_MAX);
    }
    text.push('\n');
    text
}

fn row(best: &ArmReport, arms: &[ArmReport], has_syncs: bool) -> Vec<String> {
    let next = arms.iter().filter_map(|arm| Some((arm, arm.of_best?)));
    let next = next.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value)).map(|(arm, ratio)| {
        let ends = range(&number(ratio.low), &number(ratio.high));
        format!("{} {} ({ends})", arm.arm.label(), times(ratio))
    });
    let mut cells = vec![
        best.arm.load_in_words(),
        best.arm.workload.depth.to_string(),
        best.arm.label(),
        count(best.iops.value),
        range(&count(best.iops.low), &count(best.iops.high)),
        best.p99_ns.map_or("unavailable".into(), |ns| time(ns as f64)),
    ];
    cells.extend(has_syncs.then(|| best.commit_p99_ns.map_or(String::new(), |ns| time(ns as f64))));
    cells.extend([best.cores_used.map_or("unavailable".into(), number), next.unwrap_or_default()]);
    cells
}

fn claims(loaded: &Loaded) -> String {
    let claims = &loaded.document.claims;
    if claims.is_empty() {
        return String::new();
    }
    let counts = Verdict::counts(claims.iter().map(|claim| claim.verdict)).into_iter();
    let counts = counts.filter(|(_, count)| *count > 0).map(|(verdict, count)| format!("{verdict}: {count}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut rows = String::new();
    for claim in claims {
        let measured = claim.measured.as_deref().unwrap_or_default();
        let cells = [&claim.id, &claim.says, claim.verdict.name(), &claim.published, measured].map(plain);
        let _ = writeln!(rows, "| {} |", cells.join(" | "));
    }
    let head = "| claim | statement | verdict | published | measured |\n| --- | --- | --- | --- | --- |";
    folded(&format!("{} published claims ({counts})", claims.len()), &format!("{head}\n{rows}"))
}

fn skipped(loaded: &Loaded) -> String {
    let skipped = &loaded.document.skipped;
    if skipped.is_empty() {
        return String::new();
    }
    let arms: usize = skipped.iter().map(|skipped| skipped.arms).sum();
    let mut rows = String::new();
    for skipped in skipped {
        let remedy = if skipped.remedy.is_empty() { String::new() } else { format!("; {}", plain(&skipped.remedy)) };
        let (what, plural) = (plain(&skipped.path), if skipped.arms == 1 { "" } else { "s" });
        let _ = writeln!(rows, "- {what}, {} arm{plural}: {}{remedy}", skipped.arms, plain(&skipped.reason));
    }
    folded(&format!("{arms} arms were not measured"), &rows)
}

fn warnings(loaded: &Loaded) -> String {
    let warnings = loaded.warnings();
    let rows: String = warnings.iter().map(|warning| format!("- {}\n", plain(warning))).collect();
    let plural = if warnings.len() == 1 { "" } else { "s" };
    if rows.is_empty() { rows } else { folded(&format!("{} warning{plural}", warnings.len()), &rows) }
}

/// A section that is collapsed until it is opened.
fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{body}\n</details>\n\n")
}

/// Text escaped for a line or a table's cell: no markup, no mention of a person, no change of direction.
fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let text = one_line(text);
    let mut before = None;
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        let is_within_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // A space of no width keeps it from mentioning, and notifying, a person.
            '@' => escaped.push_str("@\u{200b}"),
            // Within a word it is no markup.
            '_' if is_within_word(before) && is_within_word(letters.peek().copied()) => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' => escaped.extend(['\\', c]),
            _ => escaped.push(c),
        }
        before = Some(c);
    }
    escaped
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_bidi_control(c) { ' ' } else { c }).collect()
}

/// The fence of a code block that may contain backticks.
fn fence(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {

    use super::*;
    use iolane_study::plan::Scale;
    use iolane_study::results::fixtures::built_in_study;

    #[test]
    fn a_summary_begins_with_the_recommendation_and_lists_what_was_not_measured() {
        let loaded = built_in_study("hotstorage23", Scale::Scaled);
        let text = summary(&loaded);
        let answer = text.find("for latency take ").unwrap();
        let table = text.find("| load | depth |").unwrap();
        assert!(answer < table && table < text.find(" published claims (").unwrap(), "{text}");
        assert!(text.contains("no controller is bound; iolane nvme bind"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(rows.len() > 10);
    }

    #[test]
    fn every_row_of_a_table_has_its_cells_whatever_names_are_in_it() {
        let mut loaded = built_in_study("hotstorage23", Scale::Scaled);
        let name = "a|b <script>`x` @someone\n_c_ \u{202e}".to_owned() + &"x".repeat(300);
        loaded.rows.iter_mut().for_each(|row| row.arm.name.clone_from(&name));
        loaded.document.skipped[0].reason.clone_from(&name);
        loaded.document.claims[0].says.clone_from(&name);
        loaded.document.host.host.command_line = ["iolane", "```\n# heading"].map(String::from).into();
        let text = summary(&loaded);
        let (mut cells, mut seen) = (0, 0);
        for line in text.lines() {
            let count = line.replace(r"\|", "").matches('|').count();
            if line.starts_with("| load |") || line.starts_with("| claim |") {
                cells = count;
            }
            if line.starts_with('|') {
                assert_eq!(count, cells, "{line}");
                seen += 1;
            }
        }
        assert!(seen > 6, "{text}");
        for hostile in ["<script>", "`x`", "@someone", "\n_c_", "\u{202e}", "\n# heading"] {
            assert!(!text.replace("\\`", "").contains(hostile), "{hostile:?} in {text}");
        }
        assert!(text.contains("````sh"), "{text}");
    }

    #[test]
    fn names_of_paths_stay_as_they_are() {
        assert_eq!(plain("io_uring+sqpoll,fixedbufs 95 % (1.2x)"), "io_uring+sqpoll,fixedbufs 95 % (1.2x)");
        assert_eq!(plain("_a_ ~1.0x"), r"\_a\_ \~1.0x");
    }
}
