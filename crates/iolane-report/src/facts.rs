//! What was measured, where and when, as labelled facts: the head of a page, the end of a summary, the footer of a picture, the
//! host's section. Read from study.json, which may come from anywhere: what it lacks is left out.

use iolane_study::format::number;
use iolane_study::results::Loaded;
use iolane_study::run_record::{HostRecord, TargetRecord};
use jiff::Timestamp;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) label: String,
    pub(crate) value: String,
}

fn fact(label: &str, value: impl Into<String>) -> Fact {
    Fact { label: label.into(), value: value.into() }
}

/// What was measured, where, when and how often.
pub(crate) fn facts(loaded: &Loaded) -> Vec<Fact> {
    let document = &loaded.document;
    let HostRecord { host, device } = &document.host;
    let targets: Vec<String> = document.targets.iter().map(target).collect();
    let model = device.as_ref().and_then(|device| device.model.as_ref()).map(|model| model.trim().to_owned());
    let cpu = host.cpu_model.clone().unwrap_or_default();
    let kernel = match host.kernel_release.as_str() {
        "" => String::new(),
        release => format!("Linux {release}"),
    };
    let machine: Vec<String> = [cpu, kernel].into_iter().filter(|part| !part.is_empty()).collect();
    let arms = loaded.results().arms.len();
    let began = loaded.rows.iter().map(|row| row.started_unix_s).fold(f64::INFINITY, f64::min);
    let runs = match &document.rate_until {
        Some(_) => format!("{} of {} s each, at {arms} rates and paths", loaded.rows.len(), number(document.runtime_s)),
        None => format!("{arms} arms, {} repeats of {} s each", document.repeats, number(document.runtime_s)),
    };
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

fn target(target: &TargetRecord) -> String {
    let TargetRecord { name, bytes, .. } = target;
    let size = if *bytes == 0 { String::new() } else { format!("{}, ", size(*bytes)) };
    format!("{name} ({size}{})", target.access())
}

fn size(bytes: u64) -> String {
    let exact = iolane::units::Bytes(bytes).to_string();
    if exact.len() <= 5 { exact } else { format!("{} GiB", number(bytes as f64 / (1u64 << 30) as f64)) }
}

/// Date and time in UTC, from seconds since 1970; empty for a time that no calendar has.
fn date(unix_s: f64) -> String {
    let timestamp = Timestamp::from_second(unix_s as i64);
    timestamp.map_or_else(|_| String::new(), |timestamp| timestamp.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// Where a study's figures are from, in a line: study, machine, day, repeats, version.
pub fn provenance(loaded: &Loaded) -> String {
    let version = loaded.document.host.host.iolane_version.as_str();
    let study = ["iolane", version, "study", &loaded.document.name].into_iter().filter(|word| !word.is_empty());
    let study = study.collect::<Vec<_>>().join(" ");
    let facts = facts(loaded).into_iter().map(|fact| fact.value);
    [study].into_iter().chain(facts).collect::<Vec<_>>().join(" · ")
}

/// The machine and the device, a line for each known property.
pub(crate) fn host(host: &HostRecord) -> Vec<Fact> {
    let mut facts = Vec::new();
    // A record of texts, numbers and switches is always JSON.
    flatten("", &serde_json::to_value(host).unwrap_or_default(), &mut facts);
    // The page has the command in its section on running the study again.
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
    use iolane_measure::host::Host;

    use super::*;

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
        let record = HostRecord {
            host: Host {
                cpu_model: Some("Xeon".into()),
                smt: Some(true),
                memory_bytes: Some(1 << 30),
                command_line: vec!["iolane".into()],
                ..Host::default()
            },
            device: None,
        };
        let lines: Vec<String> = host(&record).iter().map(|fact| format!("{}: {}", fact.label, fact.value)).collect();
        for line in ["cpu model: Xeon", "smt: yes", "memory: 1g"] {
            assert!(lines.iter().any(|known| known == line), "{line} in {lines:?}");
        }
        assert!(
            lines.iter().all(|line| !line.starts_with("command line") && !line.starts_with("governor")),
            "{lines:?}"
        );
    }
}
