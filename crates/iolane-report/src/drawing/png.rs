//! Pixels as a PNG file (<https://www.w3.org/TR/png-3/>): eight bits of red, green and blue, unfiltered, since charts are flat
//! areas of few colours.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use iolane::{Error, Result};

use super::layout::layout;
use super::picture::PIXELS;
use super::raster::rasterize;
use crate::charts::Chart;

/// A chart as a PNG file's bytes; `footer` says where its figures are from.
///
/// # Errors
/// `Failed` if the pixels cannot be compressed, which nothing in a chart causes.
pub fn png(chart: &Chart, footer: &str) -> Result<Vec<u8>> {
    let pixels = rasterize(&layout(chart, footer));
    encoded(&pixels.0).map_err(|error| Error::failed(format!("drawing {}", chart.id), error.to_string()))
}

fn encoded(pixels: &[u8]) -> io::Result<Vec<u8>> {
    const NO_FILTER: [u8; 1] = [0];
    let mut rows = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in pixels.chunks_exact(PIXELS.0 as usize * 3) {
        rows.write_all(&NO_FILTER)?;
        rows.write_all(row)?;
    }
    let [width, height] = [PIXELS.0, PIXELS.1].map(u32::to_be_bytes);
    // Bit depth 8, colour type 2 (true colour), the only compression and filter methods, not interlaced.
    let header = [&width[..], &height, &[8, 2, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", header), (b"IDAT", rows.finish()?), (b"IEND", Vec::new())] {
        write_chunk(&mut file, kind, &data);
    }
    Ok(file)
}

fn write_chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let checked = file.len();
    file.extend(kind);
    file.extend(data);
    file.extend(crc32fast::hash(&file[checked..]).to_be_bytes());
}
