//! The disk's floor: how long it takes until 4 KiB more of a file are durable.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use crate::{Result, load::percentile};

/// What an append costs.
const BLOCK: [u8; 4096] = [0x5a; 4096];

/// The median time of `fdatasync` after an append, in microseconds, in the folder where the data will be.
pub fn sync_p50(folder: &Path, length: Duration) -> Result<f64> {
    let mut file = File::create(folder.join("floor"))?;
    let mut syncs = Vec::new();
    let end = Instant::now() + length;
    while Instant::now() < end {
        file.write_all(&BLOCK)?;
        let start = Instant::now();
        file.sync_data()?;
        syncs.push(start.elapsed());
    }
    syncs.sort_unstable();
    Ok(percentile(&syncs, 0.5))
}
