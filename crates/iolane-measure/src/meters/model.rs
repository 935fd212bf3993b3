//! A power model for machines without a meter: watts of the idle machine, and watts that a busy core adds. Its joules are
//! computed, not measured, and are marked as modelled wherever they are shown.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};

use super::work::Work;
use crate::telemetry::{Reading, Unavailable};

/// `idle=W,core=W`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerModel {
    /// Watts of the idle machine.
    pub idle_watts: f64,
    /// Watts that each busy core adds.
    pub core_watts: f64,
}

/// A larger number is taken for a mistake.
const WATTS_MAX: f64 = 1e5;

impl PowerModel {
    /// Joules of a run: idle power for its length, and the power of a core for each processor second.
    ///
    /// # Errors
    /// If the run's processor time is unavailable.
    pub fn joules(&self, work: Work) -> Reading<f64> {
        let unknown = || Unavailable::new("the model needs processor time, which is unavailable for this run");
        Ok(self.idle_watts * work.elapsed_s + self.core_watts * work.cpu_s.ok_or_else(unknown)?)
    }
}

impl FromStr for PowerModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            |cause: String| Error::usage(format!("power model `{text}`"), cause).remedy("such as idle=40,core=8");
        let (mut idle, mut core) = (None, None);
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(format!("`{part}` is not NAME=WATTS")))?;
            let slot = match name.trim() {
                "idle" => &mut idle,
                "core" => &mut core,
                other => return Err(wrong(format!("`{other}` is not a part of the model"))),
            };
            let watts: Option<f64> = value.trim().trim_end_matches(['W', 'w']).parse().ok();
            let in_range = watts.filter(|watts| (0.0..=WATTS_MAX).contains(watts));
            if slot.replace(in_range.ok_or_else(|| wrong(format!("`{value}` is not a number of watts")))?).is_some() {
                return Err(wrong(format!("`{name}` is given twice")));
            }
        }
        let missing = |name: &str| wrong(format!("`{name}` is missing"));
        let idle_watts = idle.ok_or_else(|| missing("idle"))?;
        let core_watts = core.ok_or_else(|| missing("core"))?;
        if idle_watts + core_watts <= 0.0 {
            return Err(wrong("a machine draws more than 0 W".into()));
        }
        Ok(Self { idle_watts, core_watts })
    }
}

impl fmt::Display for PowerModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "idle={},core={}", self.idle_watts, self.core_watts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn energy_is_idle_power_and_the_power_of_busy_cores() {
        let model: PowerModel = "idle=40,core=8W".parse().unwrap();
        let joules = |cpu_s| model.joules(Work { elapsed_s: 2.0, cpu_s });
        assert!(joules(None).unwrap_err().reason.contains("processor time"));
        assert_eq!(joules(Some(1.5)).unwrap(), 92.0);
    }

    #[test]
    fn an_invalid_model_is_refused_in_one_line() {
        for (text, why) in [
            ("", "`` is not NAME=WATTS"),
            ("idle=40", "`core` is missing"),
            ("core=8", "`idle` is missing"),
            ("idle=40,core=8,core=9", "`core` is given twice"),
            ("idle=40,gpu=300", "`gpu` is not a part of the model"),
            ("idle=-1,core=8", "`-1` is not a number of watts"),
            ("idle=nan,core=8", "`nan` is not a number of watts"),
            ("idle=0,core=0", "more than 0 W"),
        ] {
            let error = text.parse::<PowerModel>().unwrap_err().to_string();
            assert!(error.contains(why) && error.lines().count() == 1, "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_it_prints_it_reads(text in ".{0,40}", idle in 0.0..1e4_f64, core in 0.1..1e3_f64) {
            let _ = text.parse::<PowerModel>();
            let model = PowerModel { idle_watts: idle, core_watts: core };
            prop_assert_eq!(model.to_string().parse::<PowerModel>().unwrap(), model);
        }
    }
}
