//! A chart as a picture in a file of its own, SVG or PNG, with its title, its legend and the origin of its figures.
//! `iolane report` writes them. A picture shows what `charts` says and computes no value of its own.

mod axis_range;
mod font;
mod layout;
mod legend;
mod pen;
mod picture;
mod png;
mod raster;
mod svg;
#[cfg(test)]
mod tests;

pub use picture::PIXELS;
pub use png::png;
pub use svg::svg;
