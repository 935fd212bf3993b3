//! How a path looks in every chart of every study: a colour for light and for dark paper, a marker and a dash. Charts ask
//! for it by path; the page and the static figures draw with it. Nothing here knows of a study or a value.

use iolane::{CompletionMode, IoPath, SubmissionMode};
use serde::Serialize;

/// How lines, marks and bars of one path look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Look {
    /// Its colour on light paper, `#rrggbb`.
    pub light: String,
    /// Its colour on dark paper.
    pub dark: String,
    /// The shape of its marks.
    pub marker: Marker,
    /// Lengths of dashes and gaps in turn, in pixels; a whole line if empty.
    pub dash: &'static [u8],
}

/// The shape of a mark. Measured points are filled, published ones hollow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say all there is")]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    TriangleDown,
    Diamond,
    Pentagon,
    Hexagon,
    Star,
    Plus,
    Cross,
}

impl Marker {
    /// Every shape.
    pub const ALL: [Self; 10] = [
        Self::Circle,
        Self::Square,
        Self::Triangle,
        Self::TriangleDown,
        Self::Diamond,
        Self::Pentagon,
        Self::Hexagon,
        Self::Star,
        Self::Plus,
        Self::Cross,
    ];

    /// Its outline as the data of an SVG path, around (0, 0) and within 5 of it: closed, and to be filled or stroked.
    pub fn outline(self) -> &'static str {
        match self {
            Self::Circle => "M4.4,0A4.4,4.4,0,1,1,-4.4,0A4.4,4.4,0,1,1,4.4,0Z",
            Self::Square => "M-4,-4H4V4H-4Z",
            Self::Triangle => "M0,-4.8L4.8,3.8H-4.8Z",
            Self::TriangleDown => "M0,4.8L4.8,-3.8H-4.8Z",
            Self::Diamond => "M0,-5L5,0L0,5L-5,0Z",
            Self::Pentagon => "M0,-4.9L4.7,-1.5L2.9,4H-2.9L-4.7,-1.5Z",
            Self::Hexagon => "M-2.5,-4.3H2.5L5,0L2.5,4.3H-2.5L-5,0Z",
            Self::Star => "M0,-5L1.5,-1.7L5,-1.4L2.3,0.9L3.1,4.4L0,2.5L-3.1,4.4L-2.3,0.9L-5,-1.4L-1.5,-1.7Z",
            Self::Plus => "M-1.4,-5H1.4V-1.4H5V1.4H1.4V5H-1.4V1.4H-5V-1.4H-1.4Z",
            Self::Cross => "M-5,-3L-3,-5L0,-2L3,-5L5,-3L2,0L5,3L3,5L0,2L-3,5L-5,3L-2,0Z",
        }
    }
}

/// What a path without options looks like.
struct Base {
    interface: &'static str,
    submission: SubmissionMode,
    completion: CompletionMode,
    light: &'static str,
    dark: &'static str,
    marker: Marker,
}

const fn base(
    interface: &'static str,
    modes: (SubmissionMode, CompletionMode),
    (light, dark): (&'static str, &'static str),
    marker: Marker,
) -> Base {
    Base { interface, submission: modes.0, completion: modes.1, light, dark, marker }
}

const SYSCALL: SubmissionMode = SubmissionMode::Default;
const SPOLL: SubmissionMode = SubmissionMode::Spoll;
const OWN: CompletionMode = CompletionMode::Default;
const CPOLL: CompletionMode = CompletionMode::Cpoll;
const HYBRID: CompletionMode = CompletionMode::Hybrid;

/// In the order of legends. The hues are those of Okabe and Ito's palette for all kinds of colour vision
/// (<https://jfly.uni-koeln.de/color/>), made darker or lighter until each stands out from its paper by 3:1 (WCAG 1.4.11);
/// where two are near each other in hue, they differ in lightness and marker.
const BASES: [Base; 18] = [
    base("psync", (SYSCALL, OWN), ("#4d4d4d", "#c4c4c4"), Marker::Square),
    base("psync", (SYSCALL, CPOLL), ("#94712f", "#d3b57c"), Marker::Hexagon),
    base("posix_aio", (SYSCALL, OWN), ("#c05a96", "#e7a0cb"), Marker::Pentagon),
    base("libaio", (SYSCALL, OWN), ("#00805e", "#2fc196"), Marker::Circle),
    base("io_uring", (SYSCALL, OWN), ("#005aa8", "#5ba4e6"), Marker::Circle),
    base("io_uring", (SYSCALL, CPOLL), ("#2b95cf", "#9bd8f9"), Marker::Triangle),
    base("io_uring", (SYSCALL, HYBRID), ("#6a5acd", "#aea4f4"), Marker::Diamond),
    base("io_uring", (SPOLL, OWN), ("#cc4b00", "#ff8b52"), Marker::Square),
    base("io_uring", (SPOLL, CPOLL), ("#b07c00", "#f5c451"), Marker::TriangleDown),
    base("io_uring", (SPOLL, HYBRID), ("#7d5c3b", "#d9b08c"), Marker::Diamond),
    base("io_uring_cmd", (SYSCALL, OWN), ("#0b6b74", "#3fb8c4"), Marker::Hexagon),
    base("io_uring_cmd", (SYSCALL, CPOLL), ("#3f9a8f", "#8fe0d4"), Marker::Triangle),
    base("io_uring_cmd", (SPOLL, OWN), ("#a8442f", "#f0a08c"), Marker::Square),
    base("io_uring_cmd", (SPOLL, CPOLL), ("#8f7a00", "#dccb57"), Marker::TriangleDown),
    base("nvme", (SYSCALL, OWN), ("#82104f", "#e0609f"), Marker::Star),
    base("nvme", (SYSCALL, CompletionMode::Interrupt), ("#b0304a", "#f08a9c"), Marker::Diamond),
    base("null", (SYSCALL, OWN), ("#767676", "#9a9a9a"), Marker::Diamond),
    base("sim", (SYSCALL, OWN), ("#8a8060", "#a89f80"), Marker::Pentagon),
];

/// The one for what the table lacks.
const OTHER: Base = base("", (SYSCALL, OWN), ("#707070", "#a6a6a6"), Marker::Hexagon);

fn place(path: &IoPath) -> Option<usize> {
    // An interface's own way to complete, asked for by name, is the same way; a user-space driver's own is to poll.
    let own = match path.interface() {
        "nvme" => CompletionMode::Cpoll,
        _ => CompletionMode::Interrupt,
    };
    let completion = if path.completion == own { OWN } else { path.completion };
    BASES.iter().position(|base| {
        base.interface == path.interface() && base.submission == path.submission && base.completion == completion
    })
}

/// The look of a path, by whatever name a study calls it; `peer` is what measured it where that is not iolane itself.
pub fn look(path: &IoPath, peer: Option<&str>) -> Look {
    let base = place(path).map_or(&OTHER, |place| &BASES[place]);
    let (marker, dash): (Marker, &[u8]) = match peer {
        Some("fio") => (Marker::Cross, &[1, 3]),
        Some(_) => (Marker::Plus, &[1, 3]),
        None => (base.marker, dash(path)),
    };
    // What a path's set-up adds or leaves out is a shade of its colour: further from the paper.
    let shade = match (path.options.fixed_buffers, path.options.plain) {
        (true, _) => 0.42,
        (false, true) => 0.22,
        (false, false) => 0.0,
    };
    Look { light: mixed(base.light, 0, shade), dark: mixed(base.dark, 255, shade), marker, dash }
}

fn dash(path: &IoPath) -> &'static [u8] {
    let options = &path.options;
    match (options.plain, options.fixed_buffers, options.names().len()) {
        (_, _, 0) => &[],
        (true, false, _) => &[9, 3],
        (_, true, _) => &[4, 2],
        _ => &[8, 3, 2, 3],
    }
}

/// A colour with so much of black (0) or white (255) in it.
fn mixed(color: &str, towards: u8, share: f64) -> String {
    let channel = |at: usize| {
        let own = color.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        (f64::from(own) + (f64::from(towards) - f64::from(own)) * share).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(1), channel(3), channel(5))
}

/// Where a path stands in legends: paths of one interface together, peers behind iolane's own.
pub(super) fn rank(path: &IoPath, peer: Option<&str>) -> (bool, usize, String) {
    (peer.is_some(), place(path).unwrap_or(BASES.len()), path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Look {
        look(&path.parse().unwrap(), None)
    }

    #[test]
    fn the_names_of_papers_look_as_the_paths_they_are() {
        for (alias, path) in [("iou+k", "io_uring+spoll"), ("iou+p", "io_uring+cpoll"), ("posix-sio", "psync")] {
            assert_eq!(of(alias), of(path));
        }
        assert_eq!(of("io_uring+int"), of("io_uring"));
        assert_ne!(of("nvme+int"), of("nvme"));
    }

    #[test]
    fn no_two_paths_of_the_registry_look_alike_even_without_color() {
        let paths: Vec<IoPath> = iolane::interfaces().flat_map(|interface| interface.paths()).collect();
        assert!(paths.len() > 15);
        for (index, a) in paths.iter().enumerate() {
            assert!(place(a).is_some(), "{a} has no look of its own");
            for b in &paths[..index] {
                let (one, other) = (look(a, None), look(b, None));
                assert!((&one.light, &one.dash) != (&other.light, &other.dash), "{a} and {b}");
                assert_ne!(one.dark, other.dark, "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_peer_looks_like_no_path_but_has_the_color_of_the_one_it_takes() {
        let path: IoPath = "libaio".parse().unwrap();
        let (own, fio, perf) = (look(&path, None), look(&path, Some("fio")), look(&path, Some("spdk_nvme_perf")));
        assert_eq!((&own.light, &own.dark), (&fio.light, &fio.dark));
        assert!(own.marker != fio.marker && fio.marker != perf.marker && own.dash != fio.dash);
    }

    #[test]
    fn every_color_stands_out_from_its_paper() {
        for base in BASES.iter().chain([&OTHER]) {
            let (light, dark) = (contrast(base.light, "#ffffff"), contrast(base.dark, "#14171c"));
            assert!(light >= 3.0 && dark >= 3.0, "{} {}: {light:.2}, {dark:.2}", base.interface, base.light);
        }
    }

    /// WCAG 2.2's contrast ratio.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |color: &str| {
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5) + 0.05
        };
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }
}
