//! Parses the name of a target, `pci:0000:00:04.0,ns=2,timeout=3s`, for `interface`, which opens it, and for the guard of the
//! library crate, which compares names. Nothing here accesses the machine.

use iolane_core::units;
use iolane_core::{Error, Result};

use crate::controller::ControllerOptions;
use crate::pci::Bdf;

/// The scheme of such names, before the colon.
pub const SCHEME: &str = "pci";

/// A parsed name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetName {
    /// The address of the controller.
    pub bdf: Bdf,
    /// The identifier of the namespace; the first active one if `None`.
    pub namespace: Option<u32>,
    /// The settings of the controller.
    pub options: ControllerOptions,
}

impl TargetName {
    /// Parses a whole name; `None` if it has another scheme.
    ///
    /// # Errors
    /// `Usage` if the rest of it is invalid.
    pub fn parse(name: &str) -> Option<Result<Self>> {
        let rest = name.strip_prefix(SCHEME)?.strip_prefix(':')?;
        Some(Self::parse_rest(rest, name))
    }

    /// Parses what follows the scheme: `00:04.0,ns=2,timeout=3s,coalesce=8x100us,shadow=off,sgl=off`. Error messages use `name`.
    pub(crate) fn parse_rest(rest: &str, name: &str) -> Result<Self> {
        let (bdf, settings) = rest.split_once(',').unwrap_or((rest, ""));
        let mut read = Self { bdf: bdf.parse()?, namespace: None, options: ControllerOptions::default() };
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            read.set(setting).ok_or_else(|| {
                let shown = |text: &str| text.replace(char::is_control, "?");
                Error::usage(format!("target {}", shown(name)), format!("`{}` is not a valid setting", shown(setting))).remedy(
                    "settings are ns=NUMBER, timeout=TIME, coalesce=NUMBERxTIME (up to 256 and 25500us), shadow=on|off, sgl=on|off",
                )
            })?;
        }
        Ok(read)
    }

    fn set(&mut self, setting: &str) -> Option<()> {
        let (key, value) = setting.split_once('=')?;
        let switch = || match value {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        match key {
            "ns" => self.namespace = Some(value.parse().ok().filter(|identifier| *identifier > 0)?),
            "timeout" => {
                self.options.timeout = units::parse_duration(value).ok().filter(|timeout| !timeout.is_zero())?
            }
            "coalesce" => self.options.coalescing = Some(coalescing(value)?),
            "shadow" => self.options.shadow_doorbells = switch()?,
            "sgl" => self.options.scatter_gather_lists = switch()?,
            _ => return None,
        }
        Some(())
    }
}

/// Parses `8x100us`: a number of completions and a time.
fn coalescing(text: &str) -> Option<(u8, u8)> {
    let (number, time) = text.split_once('x')?;
    let number: u32 = number.parse().ok()?;
    let units = units::parse_duration(time).ok()?.as_micros() / 100;
    // The feature's field holds one less than the number.
    Some((u8::try_from(number.checked_sub(1)?).ok()?, u8::try_from(units).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn read(name: &str) -> TargetName {
        TargetName::parse(name).expect("it is of the scheme").unwrap()
    }

    #[test]
    fn the_short_address_and_the_long_one_are_the_same() {
        assert_eq!(read("pci:00:04.0,ns=2"), read("pci:0000:00:04.0,ns=2"));
        assert_eq!(read("pci:00:1F.7").bdf.to_string(), "0000:00:1f.7");
        assert_eq!(read("pci:00:04.0,").namespace, None);
    }

    #[test]
    fn settings_are_read_in_any_order() {
        let options = read("pci:00:04.0,sgl=off,timeout=2s,coalesce=8x100us,shadow=off,ns=3");
        let expected = ControllerOptions {
            timeout: Duration::from_secs(2),
            shadow_doorbells: false,
            scatter_gather_lists: false,
            coalescing: Some((7, 1)),
        };
        assert_eq!((options.options, options.namespace), (expected, Some(3)));
    }

    #[test]
    fn what_is_no_name_of_this_scheme_is_left_to_others_and_one_that_cannot_be_read_is_wrong_use() {
        for name in ["pci", "/dev/pci:00:04.0", "null:1g", ""] {
            assert!(TargetName::parse(name).is_none(), "{name}");
        }
        for (name, says) in [
            ("pci:", "PCI address ``"),
            ("pci:nvme0", "PCI address `nvme0`"),
            ("pci:../../etc", "PCI address `../../etc`"),
            ("pci:00:04.0,ns=0", "`ns=0` is not a valid setting"),
            ("pci:00:04.0,ns=-1", "`ns=-1` is not a valid setting"),
            ("pci:00:04.0,fast", "`fast` is not a valid setting"),
            ("pci:00:04.0,timeout=0s", "`timeout=0s` is not a valid setting"),
            ("pci:00:04.0,coalesce=0x100us", "`coalesce=0x100us` is not a valid setting"),
            ("pci:00:04.0,\u{1b}[2J", "`?[2J` is not a valid setting"),
        ] {
            let error = TargetName::parse(name).expect("it is of the scheme").unwrap_err();
            assert_eq!(error.kind(), iolane_core::ErrorKind::Usage);
            assert!(error.to_string().contains(says), "{error}");
            assert!(!error.remedy_text().is_empty(), "{error}");
        }
    }
}
