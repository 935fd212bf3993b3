//! What a run asks of a target: accesses, block sizes, offsets, depth and the rest, from a command line or a plan.
//! The engine draws its requests from here; nothing here performs I/O.

mod access;
mod arrivals;
mod block_sizes;
mod data_pattern;
mod definition;
mod offset_pattern;
mod offsets;
mod random;
mod rate;
mod region;
mod requests;
mod skew;
mod walk;

pub use access::Access;
pub use arrivals::Arrivals;
pub use block_sizes::BlockSizes;
pub use data_pattern::DataPattern;
pub use definition::Workload;
pub use offset_pattern::OffsetPattern;
pub use offsets::OffsetGenerator;
pub use random::random_stream;
pub(crate) use random::{percent_of, scale};
pub use rate::Rate;
pub use region::{Region, ThreadShare};
pub use requests::{PlannedRequest, RequestGenerator};
