//! What the terminal shows: text, tables within 100 columns, progress, a screen; and documents, where one was asked for.
//! Numbers and units are written by `iolane_study::format`.

mod destination;
mod print;
mod progress;
pub(crate) mod screen;
mod table;

pub(crate) use destination::{Destination, Outputs};
pub(crate) use iolane_study::files::printable;
pub(crate) use print::{complain, print, warn};
pub(crate) use progress::Bar;
pub(crate) use table::{CellAlignment, or_unavailable, reasons, table, wrap};
