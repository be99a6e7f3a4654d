//! The disk's floor: how long it takes until 4 KiB more of a file are durable.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use crate::Result;

/// What an append costs.
const BLOCK: [u8; 4096] = [0x5a; 4096];

/// The times of `fdatasync` after an append, in the folder where the data is.
pub fn syncs(folder: &Path, length: Duration) -> Result<Vec<Duration>> {
    let mut file = File::create(folder.join("floor"))?;
    let mut syncs = Vec::new();
    let end = Instant::now() + length;
    while Instant::now() < end {
        file.write_all(&BLOCK)?;
        let start = Instant::now();
        file.sync_data()?;
        syncs.push(start.elapsed());
    }
    Ok(syncs)
}
