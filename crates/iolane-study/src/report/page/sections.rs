//! The page's parts that are words and tables: what stands at its head, the answers, the claims, the figures with their
//! tables, the host. Read from study.json, which may come from anywhere: what is missing in it is left out.

use serde_json::Value;

use super::super::charts::{Chart, Section};
use super::super::{Answer, Goal, Loaded, Sureness, answers};
use super::chart_tables::Table;
use crate::quantity::{capital, quantity, range_beside};

/// A line of a list of facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) struct Fact {
    pub(in crate::report) label: String,
    pub(in crate::report) value: String,
}

fn fact(label: &str, value: impl Into<String>) -> Fact {
    Fact { label: label.into(), value: value.into() }
}

/// What was measured, where, when and how often.
pub(in crate::report) fn facts(loaded: &Loaded) -> Vec<Fact> {
    let json = &loaded.json;
    let host = &json["host"];
    let targets: Vec<String> = json["targets"].as_array().into_iter().flatten().map(target).collect();
    let model = host["device"]["model"].as_str().map(|model| model.trim().to_owned());
    let machine = ["cpu_model", "kernel_release"].map(|key| host[key].as_str().unwrap_or_default());
    let [cpu, kernel] = machine;
    let kernel = if kernel.is_empty() { String::new() } else { format!("Linux {kernel}") };
    let machine: Vec<String> = [cpu.to_owned(), kernel].into_iter().filter(|part| !part.is_empty()).collect();
    let document = &loaded.document;
    let arms = loaded.results().arms.len();
    let began = loaded.rows.iter().map(|row| row.started_unix_s).fold(f64::INFINITY, f64::min);
    let runs =
        format!("{arms} arms, {} repeats of {} s each", document.repeats, crate::quantity::number(document.runtime_s));
    let runs = if document.complete { runs } else { format!("{runs}; the study was interrupted") };
    [
        fact("Measured on", targets.into_iter().chain(model).collect::<Vec<_>>().join(", ")),
        fact("Machine", machine.join(", ")),
        fact("When", if began.is_finite() && began > 0.0 { date(began) } else { String::new() }),
        fact("Runs", runs),
    ]
    .into_iter()
    .filter(|fact| !fact.value.is_empty())
    .collect()
}

fn target(target: &Value) -> String {
    let name = target["name"].as_str().unwrap_or("?");
    match target["bytes"].as_u64() {
        Some(bytes) if bytes > 0 => format!("{name} ({})", size(bytes)),
        _ => name.into(),
    }
}

fn size(bytes: u64) -> String {
    let exact = iolane::units::Bytes(bytes).to_string();
    if exact.len() <= 5 {
        exact
    } else {
        format!("{} GiB", crate::quantity::number(bytes as f64 / (1u64 << 30) as f64))
    }
}

/// A day and a time of day, UTC, from seconds since 1970 (the civil calendar's rule in days of 400 years,
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>).
fn date(unix_s: f64) -> String {
    let seconds = unix_s as i64;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second % 3600 / 60)
}

/// The answers, a row for each load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerTable {
    /// What is chosen for, in the order of the cells.
    pub(super) goals: Vec<String>,
    /// The loads.
    pub(super) rows: Vec<AnswerRow>,
    /// Why there are none, where there are none.
    pub(super) none: String,
    /// Why there is no energy; empty where there is.
    pub(super) no_energy: String,
}

/// What to take for a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerRow {
    pub(super) load: String,
    pub(super) cells: Vec<Option<AnswerCell>>,
}

/// What to take for a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerCell {
    /// The path's name, in pieces that a line may end between.
    pub(super) take: Vec<String>,
    /// The path in iolane's notation; empty where that is its name.
    pub(super) notation: String,
    /// Where: `depth 16, 0.98 cores`.
    pub(super) at: String,
    /// The metric's value.
    pub(super) value: String,
    /// Its interval.
    pub(super) interval: String,
    /// How sure it is: `shown`, `alike`, `noisy` or `alone`, which is how it is drawn.
    pub(super) sure_class: &'static str,
    /// The same in words.
    pub(super) sure: String,
}

impl AnswerTable {
    /// The answers that the runs give.
    pub(super) fn new(loaded: &Loaded) -> Self {
        let answers = answers(&loaded.results());
        let has_energy = answers.iter().any(|answer| answer.goal == Goal::Energy);
        let mut goals = vec![Goal::Latency, Goal::Throughput];
        if has_energy {
            goals.push(Goal::Energy);
        }
        if answers.iter().any(|answer| answer.goal == Goal::Processor) {
            goals.push(Goal::Processor);
        }
        let row = |answers: &[Answer]| AnswerRow {
            load: answers[0].load.clone(),
            cells: goals.iter().map(|goal| answers.iter().find(|answer| answer.goal == *goal).map(cell)).collect(),
        };
        let source = loaded.rows.iter().find_map(|row| row.sources.get("joules"));
        Self {
            rows: answers.chunk_by(|a, b| a.load == b.load).map(row).collect(),
            none: if answers.is_empty() { super::super::sentences(&answers).concat() } else { String::new() },
            no_energy: match source {
                _ if has_energy => String::new(),
                Some(source) => format!("Energy is {source}."),
                None => "Energy is unavailable: nothing measured it.".into(),
            },
            goals: goals.into_iter().map(|goal| capital(goal.words())).collect(),
        }
    }
}

fn cell(answer: &Answer) -> AnswerCell {
    let take = &answer.take;
    let shown = |value| quantity(answer.metric, value);
    AnswerCell {
        take: take.path.split_inclusive(['+', ',', ' ']).map(String::from).collect(),
        notation: if take.notation == take.path { String::new() } else { take.notation.clone() },
        at: match take.cores {
            Some(cores) => format!("depth {}, {cores:.2} cores", take.depth),
            None => format!("depth {}", take.depth),
        },
        value: answer.value_in_words(),
        interval: range_beside(&shown(take.value.value), &shown(take.value.low), &shown(take.value.high)),
        sure_class: match answer.sureness() {
            Sureness::Alone => "alone",
            Sureness::Shown => "shown",
            Sureness::Alike => "alike",
            Sureness::Noisy => "noisy",
        },
        sure: answer.sureness_in_words(),
    }
}

/// The published claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) rows: Vec<Claim>,
    /// How many of each verdict, those that there are.
    pub(super) counts: Vec<(Verdict, usize)>,
}

/// A claim with its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) id: String,
    pub(super) says: String,
    pub(super) verdict: Verdict,
    pub(super) published: String,
    pub(super) measured: String,
    pub(super) why: String,
    pub(super) differs: String,
}

/// A verdict in words, with a sign for who sees no colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) words: String,
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
}

impl Verdict {
    fn of(words: &str) -> Self {
        let (class, sign) = match words {
            "holds" => ("holds", "✓"),
            "does not hold" => ("fails", "✗"),
            "inconclusive" => ("unclear", "?"),
            _ => ("untested", "–"),
        };
        Self { words: words.into(), class, sign }
    }
}

impl Claims {
    /// The claims of study.json.
    pub(super) fn new(json: &Value) -> Self {
        let row = |claim: &Value| {
            let text = |key: &str| claim[key].as_str().unwrap_or_default().to_owned();
            Claim {
                id: text("id"),
                says: text("says"),
                verdict: Verdict::of(&text("verdict")),
                published: text("published"),
                measured: text("measured"),
                why: text("why"),
                differs: text("differs"),
            }
        };
        let rows: Vec<Claim> = json.as_array().into_iter().flatten().map(row).collect();
        let counts = crate::claims::Verdict::counts(rows.iter().map(|claim| claim.verdict.words.as_str()));
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        Self { counts: counts.map(|(verdict, count)| (Verdict::of(verdict.name()), count)).collect(), rows }
    }
}

/// A chart's place in the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) note: String,
    /// What a screen reader says in place of the picture.
    pub(super) label: String,
    pub(super) table: Table,
}

/// The charts of a part of the page.
pub(super) fn of_section(charts: &[Chart], section: Section) -> Vec<Figure> {
    charts.iter().filter(|chart| chart.section == section).map(figure).collect()
}

/// A chart with its table.
pub(super) fn figure(chart: &Chart) -> Figure {
    let names: Vec<&str> = chart.series.iter().map(|line| line.name.as_str()).collect();
    Figure {
        id: chart.id.clone(),
        title: chart.title.clone(),
        note: chart.note.clone(),
        label: format!(
            "Chart: {}. {} by {}, of {}. Its numbers are in the table below.",
            chart.title,
            chart.y.label,
            chart.x.label,
            names.join(", ")
        ),
        table: Table::of(chart),
    }
}

/// The machine and the device, a line for each thing that is known.
pub(super) fn host(json: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    flatten("", &json["host"], &mut facts);
    // The command stands where the page says how to repeat it.
    facts.retain(|fact| fact.label != "command line");
    facts
}

fn flatten(label: &str, value: &Value, facts: &mut Vec<Fact>) {
    let shown = match value {
        Value::Null => return,
        Value::Object(entries) => {
            for (key, value) in entries {
                let words = key.replace('_', " ");
                let label = if label.is_empty() { words } else { format!("{label}, {words}") };
                flatten(&label, value, facts);
            }
            return;
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            items.join(", ")
        }
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        other => plain(other),
    };
    let (label, shown) = match (label.strip_suffix(" bytes"), value.as_u64()) {
        (Some(label), Some(bytes)) => (label, size(bytes)),
        _ => (label, shown),
    };
    if !shown.is_empty() {
        facts.push(fact(label, shown));
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // date -u -d @N '+%F %H:%M UTC'
        let dates = [0.0, 951_782_400.0, 1_700_000_000.5, 4_102_444_799.0].map(date);
        assert_eq!(
            dates,
            ["1970-01-01 00:00 UTC", "2000-02-29 00:00 UTC", "2023-11-14 22:13 UTC", "2099-12-31 23:59 UTC"]
        );
    }

    #[test]
    fn the_host_is_a_line_for_each_fact_in_words() {
        let json = json!({"host": {
            "cpu_model": "Xeon", "smt": true, "governor": null, "memory_bytes": 1_073_741_824u64, "command_line": ["iolane"],
            "mitigations": {"mitigated": 3}, "cpus": ["0", "1"]
        }});
        let lines: Vec<String> = host(&json).iter().map(|fact| format!("{}: {}", fact.label, fact.value)).collect();
        assert_eq!(lines, ["cpu model: Xeon", "smt: yes", "memory: 1g", "mitigations, mitigated: 3", "cpus: 0, 1"]);
    }

    #[test]
    fn claims_are_counted_by_verdict_with_a_sign_for_each() {
        let claims =
            Claims::new(&json!([{"id": "S1", "verdict": "holds"}, {"verdict": "inconclusive"}, {"verdict": "holds"}]));
        let counts: Vec<(&str, usize)> = claims.counts.iter().map(|(verdict, count)| (verdict.sign, *count)).collect();
        assert_eq!(counts, [("✓", 2), ("?", 1)]);
        assert!(Claims::new(&Value::Null).rows.is_empty());
    }
}
