//! One process for each data directory: a lock file, held as long as the store lives.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::OpenError;

/// How often a held lock is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The lock of a data directory. The kernel lets go of it when it is dropped, and also when the process dies.
#[derive(Debug)]
pub(super) struct DirLock(#[expect(dead_code, reason = "held, not read")] File);

impl DirLock {
    /// Takes the lock of `dir`. If another process has it, waits for it for up to `wait`, which covers a rolling restart.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if it is still held then.
    pub(super) fn take(dir: &Path, wait: Duration) -> Result<Self, OpenError> {
        let path = dir.join("lock");
        let io = |source| OpenError::Io {
            what: "open the lock file",
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io)?;
        let begin = Instant::now();
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::Error(source)) => return Err(io(source)),
                Err(TryLockError::WouldBlock) if begin.elapsed() >= wait => {
                    return Err(OpenError::InUse {
                        dir: dir.to_owned(),
                        waited: wait,
                    });
                }
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        told = true;
                        tracing::info!(dir = %dir.display(), ?wait, "waiting for another process to let go of the data directory");
                    }
                    thread::sleep(RETRY.min(wait.saturating_sub(begin.elapsed())));
                }
            }
        }
    }
}
