//! The place of this process in the session of its terminal, by proc_pid_stat(5). The system calls that tell the same return 0 for groups of another PID
//! namespace, which `rustix` takes for impossible.

/// Whether a shell can have stopped programs go on: the parent is in the same session. Without one, as in a container or a terminal of its own, the
/// kernel drops the signals of the terminal that stop (setpgid(2), orphaned process groups), and so does this program.
pub(crate) fn has_shell() -> bool {
    Stat::of("self").is_some_and(|own| own.has_session_of(Stat::of(&own.parent.to_string())))
}

/// Whether the terminal is this process's to draw on, and not that of the shell that runs it in the background.
pub(crate) fn is_in_foreground() -> bool {
    Stat::of("self").is_none_or(|own| own.is_in_foreground())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: i32,
    group: i32,
    session: i32,
    /// The group in the foreground of the controlling terminal; -1 without one.
    foreground: i32,
}

impl Stat {
    fn of(process: &str) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program, in parentheses, may hold anything.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(1).map(|field| field.parse().ok());
        let mut next = || fields.next().flatten();
        let (parent, group, session, _terminal) = (next()?, next()?, next()?, next()?);
        Some(Self { parent, group, session, foreground: next()? })
    }

    fn has_session_of(self, parent: Option<Self>) -> bool {
        self.session != 0 && parent.is_some_and(|parent| parent.session == self.session)
    }

    fn is_in_foreground(self) -> bool {
        self.foreground <= 0 || self.foreground == self.group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_process_is_read_whatever_its_name() {
        let stat = Stat::parse("71 (a) S (b) R 70 71 69 34816 71 4194560 1 2").unwrap();
        assert_eq!(stat, Stat { parent: 70, group: 71, session: 69, foreground: 71 });
        assert!(stat.is_in_foreground() && stat.has_session_of(Some(Stat { group: 70, ..stat })));
        assert!(!Stat { foreground: 70, ..stat }.is_in_foreground(), "the shell has the terminal");
        assert!(Stat { foreground: -1, ..stat }.is_in_foreground(), "there is no terminal");
        assert!(!stat.has_session_of(Some(Stat { session: 1, ..stat })) && !stat.has_session_of(None));
        assert_eq!(Stat::parse("71 (a) S 70"), None);
    }

    #[test]
    fn a_session_of_another_namespace_is_none() {
        let stat = Stat { parent: 1, group: 0, session: 0, foreground: -1 };
        assert!(!stat.has_session_of(Some(stat)));
    }
}
