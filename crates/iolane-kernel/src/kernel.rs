//! The release of the running kernel, for behaviour that changed with a release and that no call reports.

use std::sync::LazyLock;

use iolane_core::units::Bytes;

/// A kernel release as `uname -r` gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    text: String,
    version: (u32, u32),
}

impl Release {
    /// That of the running kernel.
    pub(crate) fn current() -> &'static Self {
        static CURRENT: LazyLock<Release> =
            LazyLock::new(|| Release::parse(&rustix::system::uname().release().to_string_lossy()));
        &CURRENT
    }

    fn parse(text: &str) -> Self {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Self { text: text.into(), version }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn at_least(&self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    /// Whether RWF_HIPRI makes a blocking read poll. Linux 5.19 removed that (commit 9650b453a3d4), and Red Hat backported the
    /// change to 5.14.0-114.el9.
    pub(crate) fn polls_blocking_reads(&self) -> bool {
        let red_hat_build = self
            .text
            .strip_prefix("5.14.0-")
            .filter(|rest| rest.contains(".el9"))
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok());
        match red_hat_build {
            Some(build) => build < 114,
            None => !self.at_least(5, 19),
        }
    }

    /// Whether a polled request that is larger than one command of the device completes.
    ///
    /// From Linux 6.2 (commit 9cea62b2cbab, backported to 5.15 and 6.1) until 6.5 (commit 2bc057692599) it does not: the block
    /// layer marks polled requests as non-blocking and fails those it would have to split with EAGAIN, on which io_uring's
    /// worker retries forever and occupies a core. Seen on Debian's 6.1.192; Red Hat's 5.14 is counted as affected because it
    /// contains many backports of those years. Seen to complete on 5.10.262 and 6.12.117.
    pub(crate) fn splits_polled_requests(&self) -> bool {
        !self.at_least(5, 14) || self.at_least(6, 5)
    }

    /// Whether passthrough commands can be polled without danger to the machine.
    ///
    /// Until Linux 6.8 (commit 8fadb86d4ced) `struct io_uring_cmd` keeps what is polled and the callback of the completion in
    /// the same place. Since 6.1.143 (commit 9ce6c9875f3e, also backported to 6.6) the callback is stored when any ring that
    /// polls the same queue of the drive finds the completion, and the command's own ring may poll on before the callback
    /// runs: it then reads the callback's code as a structure. Seen on Debian's 6.1.192, with four rings on two poll queues, as a general
    /// protection fault in `bio_poll`. The kernels before complete the command in the wrong ring, or fault as well when
    /// commands fail (until commit 9408d8a37e6c).
    pub(crate) fn polls_passthrough_safely(&self) -> bool {
        self.at_least(6, 8)
    }
}

/// The locked-memory limit as text, for the errors that it causes.
pub(crate) fn memory_lock_limit() -> String {
    match rustix::process::getrlimit(rustix::process::Resource::Memlock).current {
        Some(bytes) => Bytes(bytes).to_string(),
        None => "unlimited".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_reads_polled_until_5_19_and_on_red_hat_9_until_build_114() {
        let polls = |text: &str| Release::parse(text).polls_blocking_reads();
        assert!(polls("5.10.0-33-amd64") && polls("5.18.19") && polls("5.14.0-70.13.1.el9_0.x86_64"));
        assert!(!polls("5.19.0") && !polls("6.1.0-18-amd64") && !polls("6.18.44"));
        assert!(!polls("5.14.0-162.6.1.el9_1.x86_64") && polls("5.14.0-1-amd64"));
    }

    #[test]
    fn polled_requests_are_split_before_5_14_and_since_6_5() {
        let splits = |text: &str| Release::parse(text).splits_polled_requests();
        assert!(splits("5.10.0-46-amd64") && splits("6.5.0") && splits("6.12.117+deb13-amd64"));
        assert!(!splits("5.15.0-100-generic") && !splits("6.1.0-56-amd64") && !splits("6.4.16"));
    }

    #[test]
    fn passthrough_is_polled_from_6_8_on() {
        let polls = |text: &str| Release::parse(text).polls_passthrough_safely();
        assert!(polls("6.8.0-31-generic") && polls("6.12.117+deb13-amd64") && polls("7.2.12+deb13-amd64"));
        assert!(!polls("6.1.0-56-amd64") && !polls("6.6.97") && !polls("5.14.0-503.el9.x86_64"));
    }

    #[test]
    fn a_release_without_numbers_counts_as_old() {
        assert!(!Release::parse("mystery").at_least(2, 6));
        assert!(Release::parse("6.18.44-fc").at_least(6, 13));
    }
}
