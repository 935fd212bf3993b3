//! What a page embeds: the charts as JSON that cannot end its script element, and a Content-Security-Policy that allows the
//! page's own scripts and style by their hashes and nothing else.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::chart_style::{Look, Marker};
use crate::charts::{Axis, Chart, Line, Mark};

/// The charts as JSON: `charts` in the page's order, the `looks` that lines name by number, the outlines of `markers`.
pub(super) fn data(charts: &[Chart]) -> String {
    let mut looks: Vec<&Look> = Vec::new();
    let charts: Vec<Value> = charts.iter().map(|chart| chart_json(chart, &mut looks)).collect();
    let markers: serde_json::Map<String, Value> =
        Marker::ALL.iter().filter_map(|marker| Some((name(marker)?, marker.outline().into()))).collect();
    escaped(&json!({"charts": charts, "looks": looks, "markers": markers}).to_string())
}

fn chart_json<'a>(chart: &'a Chart, looks: &mut Vec<&'a Look>) -> Value {
    let lines: Vec<Value> = chart.series.iter().map(|line| line_json(line, looks)).collect();
    json!({
        "id": chart.id, "title": chart.title, "section": chart.section, "kind": chart.kind,
        "x": axis_json(&chart.x), "y": axis_json(&chart.y), "lines": lines,
    })
}

fn axis_json(axis: &Axis) -> Value {
    json!({
        "label": axis.label, "unit": axis.unit, "kind": axis.kind,
        "names": axis.categories, "ticks": axis.ticks,
    })
}

/// Points are lists: x, y, the ends of the interval, what identifies the point; published points are lists of x and y.
fn line_json<'a>(line: &'a Line, looks: &mut Vec<&'a Look>) -> Value {
    let look = looks.iter().position(|known| **known == line.look).unwrap_or_else(|| {
        looks.push(&line.look);
        looks.len() - 1
    });
    let point = |mark: &Mark| {
        let mut point = vec![rounded(mark.x), rounded(mark.y)];
        let ends = [mark.low.map(rounded), mark.high.map(rounded)];
        if ends.iter().any(Option::is_some) || !mark.at.is_empty() {
            point.extend(ends.map(Value::from));
        }
        if !mark.at.is_empty() {
            point.push(mark.at.clone().into());
        }
        Value::Array(point)
    };
    let published: Vec<[Value; 2]> = line.published.iter().map(|point| [rounded(point.x), rounded(point.y)]).collect();
    json!({
        "name": line.name, "path": line.path, "look": look,
        "points": line.points.iter().map(point).collect::<Vec<_>>(), "published": published,
    })
}

/// Six digits: more than a chart can show, and half the bytes.
fn rounded(value: f64) -> Value {
    let rounded = format!("{value:.5e}").parse().unwrap_or(value);
    match rounded {
        whole if whole == f64::trunc(whole) && f64::abs(whole) < 9e15 => (whole as i64).into(),
        other => other.into(),
    }
}

fn name(marker: &Marker) -> Option<String> {
    Some(serde_json::to_value(marker).ok()?.as_str()?.to_owned())
}

/// JSON safe for a script element: characters that could end it, or begin another, become escapes
/// (<https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements>).
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", letter as u32)),
            other => text.push(other),
        }
    }
    text
}

/// The policy of a page with these scripts and this style: nothing is fetched and nothing else runs. Style attributes are
/// allowed because the charts' SVG has its fonts in them.
pub(super) fn policy(scripts: &[&str], style: &str) -> String {
    let scripts: Vec<String> = scripts.iter().map(|script| hash(script)).collect();
    format!(
        "default-src 'none'; script-src {}; style-src-elem {}; style-src-attr 'unsafe-inline'; base-uri 'none'; form-action 'none'",
        scripts.join(" "),
        hash(style)
    )
}

/// A hash source (<https://www.w3.org/TR/CSP3/#grammardef-hash-source>).
fn hash(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())))
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(*chunk.get(at).unwrap_or(&0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn no_json_can_end_the_element_it_stands_in() {
        let hostile = json!("</script><!--<script>&\u{2028}\u{2029}");
        let text = escaped(&hostile.to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), hostile);
    }

    #[test]
    fn a_policy_allows_only_what_it_hashes() {
        let policy = policy(&["a", "b"], "c");
        // printf a | openssl dgst -sha256 -binary | base64
        assert!(
            policy.contains("script-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs=' 'sha256-"),
            "{policy}"
        );
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe-eval"), "{policy}");
    }

    #[test]
    fn values_keep_six_digits_and_whole_ones_no_point() {
        assert_eq!(rounded(182_400.0).to_string(), "182400");
        assert_eq!(rounded(85_231.456_789).to_string(), "85231.5");
        assert_eq!(rounded(0.123_456_789).to_string(), "0.123457");
    }
}
