//! Every peer, in the order of help texts.

use super::bdevperf::Bdevperf;
use super::fio::Fio;
use super::peer::Peer;
use super::spdk_nvme_perf::SpdkNvmePerf;

pub static PEERS: &[&dyn Peer] = &[&Fio, &SpdkNvmePerf, &Bdevperf];
