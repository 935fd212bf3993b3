//! What the terminal shows: text, tables within 100 columns, progress, a screen; and documents, where one was asked for.
//! Numbers and units are written by `iolane_study::format`.

mod destination;
mod print;
mod progress;
mod safe;
pub(crate) mod screen;
mod table;

pub(crate) use destination::{Destination, Outputs};
pub(crate) use iolane_study::files::printable;
pub(crate) use print::{complain, exit, print, warn};
pub(crate) use progress::Bar;
pub(crate) use safe::SafeStream;
pub(crate) use table::{CellAlignment, or_unavailable, reasons, table, wrap};
