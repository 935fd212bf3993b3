//! The claims of a study and the rules that decide them. Read from a study file by `serde`; `claims` applies the rules.

use serde::Deserialize;

use super::factor::Factor;
use super::metric::Metric;
use super::selection::Selection;

/// A published claim.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// S1, B2 and so on.
    pub id: String,
    /// The claim, in one line.
    pub says: String,
    /// The published figures, in one line.
    pub published: String,
    /// Why figures here may differ although the claim is correct; empty if no reason is known.
    #[serde(default)]
    pub differs: String,
    /// What it needs of a machine besides its arms.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// All of them must hold.
    #[serde(rename = "check", deserialize_with = "super::values::one_or_more")]
    pub checks: Vec<Check>,
}

/// What a claim can need of a machine besides its arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// A drive that some number of requests or bytes per second saturates.
    Ceiling,
    /// Writes that reach a medium.
    Medium,
}

/// One condition of a claim.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "CheckFile")]
pub struct Check {
    /// What is compared, in one line.
    pub says: String,
    pub rule: Rule,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    /// The published figure in the unit of the rule.
    pub published: Option<f64>,
}

/// The figure that a check computes, with its interval, to be compared with the bounds.
#[derive(Debug, Clone)]
pub enum Rule {
    /// A metric of one operand over that of another, paired by repeat.
    Ratio {
        metric: Metric,
        /// The numerator.
        of: Operand,
        /// The denominator.
        to: Operand,
        /// Computed separately for each value of this factor, with the same value in both operands.
        each: Option<Factor>,
        /// The share of those values at which it must be within its bounds; `None` is all of them.
        share: Option<f64>,
    },
    /// A metric itself; `each` and `share` as for a ratio.
    Value { metric: Metric, of: Operand, each: Option<Factor>, share: Option<f64> },
    /// Agreement of the order of the paths with the published order: Kendall's rank correlation, -1 to 1.
    Order {
        metric: Metric,
        /// One arm for each path.
        of: Selection,
        published_order: Vec<PublishedValue>,
    },
    /// The value of a factor at which one operand falls below another.
    Crossing {
        metric: Metric,
        /// The operand that is above at first.
        of: Operand,
        to: Operand,
        along: Factor,
    },
}

impl Rule {
    pub fn metric(&self) -> Metric {
        match self {
            Self::Ratio { metric, .. }
            | Self::Value { metric, .. }
            | Self::Order { metric, .. }
            | Self::Crossing { metric, .. } => *metric,
        }
    }

    /// The selections of the arms it uses: first those it is about, then those they are compared with.
    pub fn selections(&self) -> Vec<&Selection> {
        match self {
            Self::Ratio { of, to, .. } | Self::Crossing { of, to, .. } => vec![&of.select, &to.select],
            Self::Value { of, .. } => vec![&of.select],
            Self::Order { of, .. } => vec![of],
        }
    }
}

impl Check {
    /// The names of all paths it mentions.
    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        let published: &[PublishedValue] = match &self.rule {
            Rule::Order { published_order, .. } => published_order,
            _ => &[],
        };
        let selected = self.rule.selections().into_iter().flat_map(|select| &select.path);
        selected.chain(published.iter().map(|value| &value.path))
    }
}

/// The published value of a path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// The path's name in the study.
    pub path: String,
    /// In the unit of the metric, or any other that orders the same way.
    pub value: f64,
    /// Whether there is no verdict without this path, because the claim is about it.
    #[serde(default)]
    pub required: bool,
}

/// Arms, and which of them represents the others.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operand {
    #[serde(rename = "where")]
    pub select: Selection,
    #[serde(default)]
    pub take: Take,
}

/// Which of several arms is used, repeat by repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// The only one; more than one is an error in the file.
    #[default]
    Only,
    /// The one with the largest value.
    Largest,
    /// The one with the smallest value.
    Smallest,
}

/// A check as the file has it: the rule decides which keys it takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFile {
    says: String,
    rule: RuleName,
    metric: Metric,
    of: Operand,
    to: Option<Operand>,
    each: Option<Factor>,
    share: Option<f64>,
    along: Option<Factor>,
    #[serde(default, deserialize_with = "super::values::some_one_or_more")]
    published_order: Option<Vec<PublishedValue>>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    published: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RuleName {
    Ratio,
    Value,
    Order,
    Crossing,
}

impl TryFrom<CheckFile> for Check {
    type Error = String;

    fn try_from(file: CheckFile) -> Result<Self, String> {
        let CheckFile { says, metric, of, to, each, share, along, published_order, .. } = file;
        let needs = |key: &str| format!("check `{says}`: this rule needs `{key}`");
        let given = [
            ("to", to.is_some()),
            ("each", each.is_some()),
            ("share", share.is_some()),
            ("along", along.is_some()),
            ("published_order", published_order.is_some()),
        ];
        let allowed: &[&str] = match file.rule {
            RuleName::Ratio => &["to", "each", "share"],
            RuleName::Value => &["each", "share"],
            RuleName::Order => &["published_order"],
            RuleName::Crossing => &["to", "along"],
        };
        if let Some((key, _)) = given.into_iter().find(|(key, is_given)| *is_given && !allowed.contains(key)) {
            return Err(format!("check `{says}`: this rule does not take `{key}`"));
        }
        if share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            return Err(format!("check `{says}`: `share` must be above 0 and at most 1"));
        }
        let chooses = [Some(&of), to.as_ref()].into_iter().flatten().any(|operand| operand.take != Take::Only);
        if chooses && matches!(file.rule, RuleName::Crossing | RuleName::Order) {
            return Err(format!("check `{says}`: this rule compares single arms and does not take `take`"));
        }
        let rule = match file.rule {
            RuleName::Ratio => Rule::Ratio { metric, of, to: to.ok_or_else(|| needs("to"))?, each, share },
            RuleName::Value => Rule::Value { metric, of, each, share },
            RuleName::Order => Rule::Order {
                metric,
                of: of.select,
                published_order: published_order.ok_or_else(|| needs("published_order"))?,
            },
            RuleName::Crossing => Rule::Crossing {
                metric,
                of,
                to: to.ok_or_else(|| needs("to"))?,
                along: along.ok_or_else(|| needs("along"))?,
            },
        };
        Ok(Self { says, rule, at_least: file.at_least, at_most: file.at_most, published: file.published })
    }
}
