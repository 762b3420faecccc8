//! The sample's fixed lines, and the matrix under each of its titles.

pub(super) const TITLE: &str = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]";

pub(super) const NOTE_ACCESS: &str = "\
***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.
So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.";

pub(super) const NOTE_END: &str = "NOTE: The CUDA Samples are not meant for performance measurements. \
                                   Results may vary when GPU Boost is enabled.";

/// Title and matrix, GB/s.
pub(super) const BANDWIDTHS: [(&str, &str); 4] = [
    ("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", "sample.uni.off"),
    ("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", "sample.uni.on"),
    ("Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)", "sample.bi.off"),
    ("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)", "sample.bi.on"),
];

/// Title, matrix of GPU times and of CPU times, us.
pub(super) const LATENCIES: [(&str, &str, &str); 2] = [
    ("P2P=Disabled Latency Matrix (us)", "sample.latency.off.gpu", "sample.latency.off.cpu"),
    ("P2P=Enabled Latency (P2P Writes) Matrix (us)", "sample.latency.on.gpu", "sample.latency.on.cpu"),
];
