//! A file or a name that stands for a machine: fitted already, or to be fitted to what it tells.

use iolane::Result;
use iolane_model::{MachineFile, Observations, Published};

use super::Gathered;

/// What a file holds.
#[derive(Debug, Clone)]
pub enum Source {
    /// A machine.
    Machine(Box<MachineFile>),
    /// What a machine can be fitted to.
    Gathered(Box<Gathered>),
}

impl Source {
    /// Reads the text of a machine's file, of a file of `iolane run --json`, or of observations.
    ///
    /// # Errors
    /// `Usage` or `Failed` if it is none of them.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        if text.trim_start().starts_with('{') {
            return Ok(Self::Gathered(Box::new(Gathered::of_run_file(text, place)?)));
        }
        let begins = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == "schema");
        if text.lines().any(begins) {
            return Ok(Self::Machine(Box::new(MachineFile::parse(text, place)?)));
        }
        let observations = Observations::parse(text, place)?;
        Ok(Self::Gathered(Box::new(Gathered::of_observations(observations))))
    }

    /// What a publication states of its machine; `None` if no publication has that name.
    ///
    /// # Errors
    /// None: a test parses each.
    pub fn published(name: &str) -> Result<Option<Self>> {
        let Some(published) = Published::named(name) else { return Ok(None) };
        Ok(Some(Self::Gathered(Box::new(Gathered::of_observations(published.observations()?)))))
    }
}

#[cfg(test)]
mod tests {
    use iolane_model::PUBLISHED;

    use super::*;

    #[test]
    fn a_file_is_recognized_by_what_it_holds() {
        let observations = "name = \"a\"\n[processor]\ncores = 2\n[scheduler]\nkind = \"cfs\"\nhz = 250\n\
                            [[observation]]\npath = \"psync\"\niops = 1000.0\n";
        assert!(matches!(Source::parse(observations, "a"), Ok(Source::Gathered(_))));
        let machine = "schema = \"iolane.machine/1\"\nname = \"a\"\n";
        let error = Source::parse(machine, "a.toml").unwrap_err().to_string();
        assert!(error.starts_with("machine a.toml: missing field"), "{error}");
        let error = Source::parse("{}", "a.json").unwrap_err().to_string();
        assert!(error.starts_with("a.json: it does not say that iolane wrote it"), "{error}");
    }

    #[test]
    fn each_published_machine_has_its_name() {
        for published in PUBLISHED {
            assert!(matches!(Source::published(published.name), Ok(Some(Source::Gathered(_)))), "{}", published.name);
        }
        assert!(matches!(Source::published("nowhere"), Ok(None)));
    }
}
