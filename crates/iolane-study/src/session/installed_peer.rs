//! Finds an installed peer tool by name, for the sessions that run it.

use iolane::{Error, Result};

use crate::peers::{self, Installed, Peer};

#[derive(Clone)]
pub struct InstalledPeer {
    pub peer: &'static dyn Peer,
    pub installed: Installed,
}

impl std::fmt::Debug for InstalledPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.installed.fmt(f)
    }
}

impl InstalledPeer {
    /// Looks up a peer by name.
    ///
    /// # Errors
    /// `Usage` if no peer has this name; `Unavailable`, with how to install it, if it is not installed.
    pub fn find(name: &str) -> Result<Self> {
        let known = peers::PEERS.iter().find(|peer| peer.name() == name);
        let peer = *known.ok_or_else(|| {
            let names: Vec<&str> = peers::PEERS.iter().map(|peer| peer.name()).collect();
            Error::usage(format!("peer `{name}`"), "no peer has that name").remedy(format!("use {}", names.join(", ")))
        })?;
        Ok(Self { peer, installed: peers::find(peer)? })
    }

    /// Whether it opens targets for writing to read them, by the paths of some interface.
    pub fn opens_for_writing_to_read(&self) -> bool {
        iolane::interfaces().any(|interface| self.peer.opens_for_writing_to_read(interface.name()))
    }
}
