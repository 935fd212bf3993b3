//! The table of answers: the best path of each load for each goal, with how sure the choice is.

use iolane_measure::figures::RunFigure;
use iolane_study::format::{capital, range_beside};
use iolane_study::results::{Answer, Goal, Loaded, RateAnswer, RateUntil, Sureness, answers};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerTable {
    /// What the cells hold, in a sentence.
    pub(super) lead: String,
    /// What a point of a figure is, in a sentence.
    pub(super) about_points: &'static str,
    /// In the order of the cells of a row.
    pub(super) goals: Vec<String>,
    pub(super) rows: Vec<AnswerRow>,
    /// Why the table is empty; an empty text where it is not.
    pub(super) none: String,
    /// Why energy is unavailable; empty where it was measured.
    pub(super) no_energy: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerRow {
    pub(super) load: String,
    pub(super) cells: Vec<Option<AnswerCell>>,
    /// The text of a cell without an answer: at a rate, which arms reach it.
    pub(super) no_answer: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerCell {
    /// The path's name, in pieces between which a line may break.
    pub(super) path: Vec<String>,
    /// The path in iolane's notation; empty where the name is the same.
    pub(super) notation: String,
    /// `depth 16, 0.98 cores`.
    pub(super) at: String,
    /// The value of the goal's metric.
    pub(super) value: String,
    pub(super) interval: String,
    /// How sure the choice is, as a class of the style sheet.
    pub(super) sureness_class: &'static str,
    /// The same in words.
    pub(super) sureness: String,
}

impl AnswerRow {
    /// Whether there is an answer for one of the goals.
    pub(super) fn is_answered(&self) -> bool {
        self.cells.iter().any(Option::is_some)
    }
}

impl AnswerTable {
    pub(super) fn new(loaded: &Loaded) -> Self {
        if let Some(rate_until) = &loaded.document.rate_until {
            return Self::of_rates(rate_until);
        }
        let answers = answers(&loaded.results());
        let has_answer = |goal: Goal| answers.iter().any(|answer| answer.goal == goal);
        let mut goals = vec![Goal::Latency, Goal::Commits, Goal::Throughput, Goal::Energy, Goal::Processor];
        goals.retain(|goal| matches!(goal, Goal::Latency | Goal::Throughput) || has_answer(*goal));
        let row = |answers: &[Answer]| AnswerRow {
            load: answers[0].load.clone(),
            no_answer: answers[0].rate_in_words().unwrap_or_else(|| "unavailable".into()),
            cells: goals.iter().map(|goal| answers.iter().find(|answer| answer.goal == *goal).map(cell)).collect(),
        };
        let why = loaded.rows.iter().find_map(|row| row.figures.why_missing(RunFigure::Joules));
        Self {
            lead: "The best path for each goal: the median of its repeats with the 95 % interval, and how certain its lead \
                   over the runner-up is."
                .into(),
            about_points: "Points are medians of the repeats, whiskers their 95 % intervals.",
            rows: answers.chunk_by(|a, b| a.load == b.load).map(row).collect(),
            none: if answers.is_empty() { iolane_study::results::sentences(&answers).concat() } else { String::new() },
            no_energy: match why {
                _ if has_answer(Goal::Energy) => String::new(),
                Some(why) => format!("Energy is unavailable: {why}."),
                None => "Energy is unavailable: no meter.".into(),
            },
            goals: goals.into_iter().map(|goal| capital(goal.words())).collect(),
        }
    }
}

impl AnswerTable {
    /// The highest rate of each load, and the path that comes next.
    fn of_rates(rate_until: &RateUntil) -> Self {
        let row = |answers: &[RateAnswer]| {
            let best = answers.first().filter(|answer| answer.best);
            let next = best.and_then(|_| answers.get(1));
            AnswerRow {
                load: answers[0].load.clone(),
                no_answer: match rate_until.why_none(answers) {
                    Some(why) => capital(&why),
                    None => "no other path was searched".into(),
                },
                cells: [best, next].map(|answer| answer.map(rate_cell)).into(),
            }
        };
        Self {
            lead: format!(
                "The highest rate of an open loop that keeps the bound, with its 95 % interval, and the path that comes next; \
                 {}.",
                rate_until.bound.counted_from()
            ),
            about_points: "Points are medians of the runs at a rate, whiskers their whole range.",
            goals: vec![format!("Highest rate with {}", rate_until.bound.in_words()), "Next".into()],
            rows: rate_until.answers.chunk_by(|a, b| a.load == b.load).map(row).collect(),
            none: String::new(),
            no_energy: String::new(),
        }
    }
}

fn rate_cell(answer: &RateAnswer) -> AnswerCell {
    let (sureness_class, sureness) = match answer.of_best {
        Some(ratio) if ratio.shows_difference() => ("shown", format!("{} of the best", answer.standing())),
        Some(_) => ("alike", format!("{} of the best: no significant difference", answer.standing())),
        None => ("alone", String::new()),
    };
    AnswerCell {
        path: pieces(&answer.path),
        notation: if answer.notation == answer.path { String::new() } else { answer.notation.clone() },
        at: format!("depth {}, {} runs", answer.depth, answer.runs),
        value: answer.rate_in_words(),
        interval: answer.interval_in_words(),
        sureness_class,
        sureness,
    }
}

/// A path's name in pieces between which a line may break.
fn pieces(path: &str) -> Vec<String> {
    path.split_inclusive(['+', ',', ' ']).map(String::from).collect()
}

fn cell(answer: &Answer) -> AnswerCell {
    let take = &answer.take;
    let shown = |value| answer.shown(value);
    AnswerCell {
        path: pieces(&take.path),
        notation: if take.notation == take.path { String::new() } else { take.notation.clone() },
        at: match take.cores {
            Some(cores) => format!("depth {}, {cores:.2} cores", take.depth),
            None => format!("depth {}", take.depth),
        },
        value: answer.value_in_words(),
        interval: range_beside(&shown(take.value.value), &shown(take.value.low), &shown(take.value.high)),
        sureness_class: match answer.sureness() {
            Sureness::Alone => "alone",
            Sureness::Shown => "shown",
            Sureness::Alike => "alike",
            Sureness::Noisy => "noisy",
        },
        sureness: answer.sureness_in_words(),
    }
}
