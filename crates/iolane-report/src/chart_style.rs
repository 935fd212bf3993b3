//! The look of a path in every chart of every study: a colour for light and one for dark backgrounds, a marker, a dash
//! pattern. Charts ask for it by path; pages and pictures draw with it. Nothing here depends on a study or a value.

use iolane::{CompletionMode, IoPath, SubmissionMode};
use serde::Serialize;

/// The look of one path's lines, markers and bars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Look {
    /// Colour on a light background, `#rrggbb`.
    pub light: String,
    /// Colour on a dark background.
    pub dark: String,
    pub marker: Marker,
    /// Lengths of dashes and gaps in turn, in pixels; a solid line if empty.
    pub dash: &'static [u8],
}

/// Measured points are filled, published points hollow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
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

    /// The outline as SVG path data: closed, around (0, 0), within 5 of it.
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

/// The look of a path without options.
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
const SQPOLL: SubmissionMode = SubmissionMode::Sqpoll;
const OWN: CompletionMode = CompletionMode::Default;
const IOPOLL: CompletionMode = CompletionMode::Iopoll;
const HYBRID: CompletionMode = CompletionMode::Hybrid;

/// In the order of legends. The hues are those of Okabe and Ito's palette for all kinds of colour vision
/// (<https://jfly.uni-koeln.de/color/>), made darker or lighter until each has a contrast of 3:1 with its background (WCAG 1.4.11);
/// colours of similar hue differ in lightness and marker.
const BASES: [Base; 18] = [
    base("psync", (SYSCALL, OWN), ("#4d4d4d", "#c4c4c4"), Marker::Square),
    base("psync", (SYSCALL, IOPOLL), ("#94712f", "#d3b57c"), Marker::Hexagon),
    base("posix_aio", (SYSCALL, OWN), ("#c05a96", "#e7a0cb"), Marker::Pentagon),
    base("libaio", (SYSCALL, OWN), ("#00805e", "#2fc196"), Marker::Circle),
    base("io_uring", (SYSCALL, OWN), ("#005aa8", "#5ba4e6"), Marker::Circle),
    base("io_uring", (SYSCALL, IOPOLL), ("#2b95cf", "#9bd8f9"), Marker::Triangle),
    base("io_uring", (SYSCALL, HYBRID), ("#6a5acd", "#aea4f4"), Marker::Diamond),
    base("io_uring", (SQPOLL, OWN), ("#cc4b00", "#ff8b52"), Marker::Square),
    base("io_uring", (SQPOLL, IOPOLL), ("#b07c00", "#f5c451"), Marker::TriangleDown),
    base("io_uring", (SQPOLL, HYBRID), ("#7d5c3b", "#d9b08c"), Marker::Diamond),
    base("io_uring_cmd", (SYSCALL, OWN), ("#0b6b74", "#3fb8c4"), Marker::Hexagon),
    base("io_uring_cmd", (SYSCALL, IOPOLL), ("#3f9a8f", "#8fe0d4"), Marker::Triangle),
    base("io_uring_cmd", (SQPOLL, OWN), ("#a8442f", "#f0a08c"), Marker::Square),
    base("io_uring_cmd", (SQPOLL, IOPOLL), ("#8f7a00", "#dccb57"), Marker::TriangleDown),
    base("nvme", (SYSCALL, OWN), ("#82104f", "#e0609f"), Marker::Star),
    base("nvme", (SYSCALL, CompletionMode::Interrupt), ("#b0304a", "#f08a9c"), Marker::Diamond),
    base("null", (SYSCALL, OWN), ("#767676", "#9a9a9a"), Marker::Diamond),
    base("sim", (SYSCALL, OWN), ("#8a8060", "#a89f80"), Marker::Pentagon),
];

/// Colours of interfaces that the table lacks, twelve hues of alternating lightness.
const FALLBACK_COLORS: [(&str, &str); 12] = [
    ("#9d3d25", "#e1a798"),
    ("#916f22", "#ba9236"),
    ("#546317", "#a3be37"),
    ("#3d841f", "#56aa31"),
    ("#196b2a", "#4dcb66"),
    ("#1f8466", "#31aa86"),
    ("#1c6578", "#6dc0d5"),
    ("#4570d3", "#7995d8"),
    ("#5e41d2", "#b8ace7"),
    ("#a945d3", "#bd7dd9"),
    ("#a12688", "#e29cd4"),
    ("#d03966", "#d87995"),
];

/// Their markers: all but those of peers.
const FALLBACK_MARKERS: [Marker; 8] = [
    Marker::Star,
    Marker::Pentagon,
    Marker::Diamond,
    Marker::TriangleDown,
    Marker::Hexagon,
    Marker::Triangle,
    Marker::Square,
    Marker::Circle,
];

/// The colours and marker of a path that the table lacks. The interface's name decides where in the lists it begins (FNV-1a,
/// so that it is the same in every version); its modes take steps from there, so that no two of its paths look alike.
fn fallback(path: &IoPath) -> (&'static str, &'static str, Marker) {
    let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let start = path.interface().bytes().fold(0x811c_9dc5, fnv) as usize;
    let modes = 4 * usize::from(path.polls_submissions()) + normalised(path) as usize;
    let (light, dark) = FALLBACK_COLORS[(start + 5 * modes) % FALLBACK_COLORS.len()];
    (light, dark, FALLBACK_MARKERS[(start + modes) % FALLBACK_MARKERS.len()])
}

/// How the path completes, where an interface's own way that is asked for by name counts as its own way.
fn normalised(path: &IoPath) -> CompletionMode {
    let own = match iolane::polls_completions(&IoPath::new(path.interface())) {
        true => CompletionMode::Iopoll,
        false => CompletionMode::Interrupt,
    };
    if path.completion == own { OWN } else { path.completion }
}

fn place(path: &IoPath) -> Option<usize> {
    let completion = normalised(path);
    BASES.iter().position(|base| {
        base.interface == path.interface() && base.submission == path.submission && base.completion == completion
    })
}

/// The look of a path; `peer` is the tool that measured it, `None` for iolane itself.
pub fn look(path: &IoPath, peer: Option<&str>) -> Look {
    let table = place(path).map(|place| &BASES[place]);
    let (light, dark, own_marker) = table.map_or_else(|| fallback(path), |base| (base.light, base.dark, base.marker));
    let (marker, dash): (Marker, &[u8]) = match peer {
        Some("fio") => (Marker::Cross, &[1, 3]),
        Some(_) => (Marker::Plus, &[1, 3]),
        None => (own_marker, dash(path)),
    };
    // Options are shades of the path's colour, with more contrast.
    let shade = match (path.options.fixed_buffers, path.options.plain) {
        (true, _) => 0.42,
        (false, true) => 0.22,
        (false, false) => 0.0,
    };
    Look { light: mixed(light, 0, shade), dark: mixed(dark, 255, shade), marker, dash }
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

/// A colour mixed with a share of black (0) or white (255).
fn mixed(color: &str, towards: u8, share: f64) -> String {
    let channel = |at: usize| {
        let own = color.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        (f64::from(own) + (f64::from(towards) - f64::from(own)) * share).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(1), channel(3), channel(5))
}

/// The order of paths in legends: those of one interface together, peers last.
pub(crate) fn rank(path: &IoPath, peer: Option<&str>) -> (bool, usize, String) {
    (peer.is_some(), place(path).unwrap_or(BASES.len()), path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Look {
        look(&path.parse().unwrap(), None)
    }

    #[test]
    fn the_names_that_papers_use_look_like_the_paths_they_mean() {
        for (alias, path) in [("iou+k", "io_uring+sqpoll"), ("iou+p", "io_uring+iopoll"), ("posix-sio", "psync")] {
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
        let table = BASES.iter().map(|base| (base.light, base.dark));
        for (light, dark) in table.chain(FALLBACK_COLORS) {
            let (on_light, on_dark) = (contrast(light, "#ffffff"), contrast(dark, "#14171c"));
            assert!(on_light >= 3.0 && on_dark >= 3.0, "{light} {dark}: {on_light:.2}, {on_dark:.2}");
        }
    }

    #[test]
    fn an_interface_that_the_table_lacks_gets_a_look_for_each_of_its_modes() {
        let texts = ["mmap", "mmap+iopoll", "mmap+hybrid", "mmap+sqpoll", "mmap+sqpoll+iopoll", "mmap,fixedbufs"];
        for (index, text) in texts.iter().enumerate() {
            let look = of(text);
            assert!(BASES.iter().all(|base| base.light != look.light && base.dark != look.dark), "{text}");
            assert!(texts[..index].iter().all(|other| of(other).light != look.light), "{text}");
        }
        assert_eq!((of("mmap"), of("mmap+int").light), (of("mmap"), of("mmap").light));
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
