//! Pictures of invented results: whole documents, with the names of hostile studies as text.

use super::*;
use crate::charts::Charts;
use iolane_study::plan::Scale;
use iolane_study::results::fixtures::built_in_study;

#[test]
fn charts_of_every_kind_become_svg_documents() {
    let lines = ["figure-2d", "latency-randread-4k-1-core-depth-1", "within-randread-4k-1-core-depth-1"];
    for (study, ids) in [("systor22", &lines[..]), ("hotstorage23", &["figure-table-2-read-p50"])] {
        let charts = Charts::new(&built_in_study(study, Scale::Scaled)).charts;
        for id in ids {
            let chart = charts.iter().find(|chart| chart.id == *id).unwrap();
            let text = svg(chart, "Linux 6.1");
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{id}");
            for part in ["Linux 6.1", &chart.x.label, &chart.y.label] {
                assert!(text.contains(part), "{id}: no {part}");
            }
            let lines = chart.series.iter().filter(|line| !line.points.is_empty() || !line.published.is_empty());
            for line in lines.take(8) {
                assert!(text.contains(&line.look.light), "{id}: {}", line.name);
            }
            assert!(!text.contains("NaN") && !text.contains("inf"), "{id}");
        }
    }
}

#[test]
fn a_line_is_drawn_through_its_points_and_a_marker_stands_at_each() {
    let charts = Charts::new(&built_in_study("systor22", Scale::Scaled)).charts;
    let chart = charts.iter().find(|chart| chart.id == "figure-2a").unwrap();
    let text = svg(chart, "");
    let line = &chart.series[0];
    let stroke = format!("stroke=\"{}\" stroke-width=\"3.000\"", line.look.light);
    let drawn = text.lines().find(|path| path.contains(&stroke) && path.matches('L').count() == line.points.len() - 1);
    let data = drawn.unwrap().split('"').nth(1).unwrap();
    for point in data.trim_start_matches('M').split('L') {
        let marker = format!("translate({})", point.replace(',', " "));
        assert!(text.contains(&marker), "no marker at {point}");
    }
}

#[test]
fn a_png_is_decoded_to_a_picture_of_its_size_with_something_in_it() {
    let charts = Charts::new(&built_in_study("ijraset24", Scale::Scaled));
    let bytes = png(&charts.charts[0], "Linux 6.1").unwrap();
    let mut reader = ::png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), PIXELS);
    let inked = pixels.iter().filter(|channel| **channel < 200).count();
    assert!(inked > 10_000, "{inked}");
}

#[test]
fn hostile_names_stay_text() {
    let mut charts = Charts::new(&built_in_study("ijraset24", Scale::Scaled));
    let chart = &mut charts.charts[0];
    chart.title = format!("<script>alert(1)</script>\u{202e}{}", "x".repeat(300));
    chart.series[0].name = "a\u{202e}b&\"<c>\n".repeat(40);
    chart.x.label = "</text><script>".into();
    chart.x.categories.iter_mut().for_each(|name| name.push_str("<script>\u{0}"));
    let text = svg(chart, "</svg><script>");
    assert!(!text.contains("<script") && !text.contains(['\u{202e}', '\0']), "{text}");
    assert_eq!(text.matches("</svg>").count(), 1);
}

#[test]
fn values_beyond_every_axis_draw_nothing_outside_of_the_picture() {
    let mut charts = Charts::new(&built_in_study("systor22", Scale::Scaled));
    let chart = charts.charts.iter_mut().find(|chart| chart.id == "figure-2d").unwrap();
    let points = &mut chart.series[0].points;
    (points[0].y, points[1].y, points[2].x) = (f64::NAN, -1e300, f64::INFINITY);
    assert!(!svg(chart, "").contains("NaN"));
    png(chart, "").unwrap();
}
