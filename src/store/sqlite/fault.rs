//! SQLite's errors: which of them the rooms above see, and which end the process.

use rusqlite::{ErrorCode, ffi};

use crate::store::Error;

/// The exit status after a failed flush: `EX_IOERR` of sysexits.
const EXIT_IO: i32 = 74;

/// The exit status after a panic of one of the store's threads: `EX_SOFTWARE` of sysexits.
const EXIT_PANIC: i32 = 70;

/// Puts a driver's error into the store's words. Does not look whether it must end the process; see [`end_if_fatal`].
pub(super) fn describe(error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Unavailable(
            "another process holds the lock of the database; find it and let it finish".to_owned(),
        ),
        Some(ErrorCode::DiskFull) => {
            Error::Unavailable("the disk is full; nothing was changed; free some space".to_owned())
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Corrupt(format!("{error}; restore a backup"))
        }
        Some(ErrorCode::ConstraintViolation) => Error::Corrupt(error.to_string()),
        Some(_) => Error::Unavailable(error.to_string()),
        None => match error {
            // A row that does not decode, or is not there where the rules say it must be.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::StatementChangedRows(..) => Error::Corrupt(error.to_string()),
            _ => Error::Unavailable(error.to_string()),
        },
    }
}

/// Whether an error may be the fault of one operation alone, so that its neighbours deserve another try without it.
pub(super) fn is_of_one_operation(error: &rusqlite::Error) -> bool {
    !matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull)
    )
}

/// Ends the process if a write or a flush failed. After a failed flush nobody knows what is on the disk: the kernel may have
/// dropped the pages and call the next flush a success. Only a start from what is really there can be trusted.
pub(super) fn end_if_fatal(doing: &str, error: &rusqlite::Error) {
    if is_fatal(error) {
        tracing::error!(
            doing,
            error = %error,
            "the disk failed; ending the process, the next start recovers what was acknowledged"
        );
        std::process::exit(EXIT_IO);
    }
}

/// Ends the process if the thread that holds it panics. A broker that cannot write is of no use to anybody, and a bug may have left
/// the connection anyhow: it is better to start again from what is on the disk.
pub(super) struct EndAfterPanic(pub(super) &'static str);

impl Drop for EndAfterPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                thread = self.0,
                "a thread of the store panicked; ending the process, the next start recovers what was acknowledged"
            );
            std::process::exit(EXIT_PANIC);
        }
    }
}

fn is_fatal(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(ffi::Error { extended_code, .. }, _) = error else {
        return false;
    };
    match *extended_code {
        // The shared-memory index could not grow: a full disk, and nothing that was to be kept.
        ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_NOMEM => false,
        code => code & 0xff == ffi::SQLITE_IOERR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn every_failed_write_and_flush_is_fatal_and_a_full_disk_is_not() {
        for code in [
            ffi::SQLITE_IOERR,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_DIR_FSYNC,
            ffi::SQLITE_IOERR_TRUNCATE,
            ffi::SQLITE_IOERR_READ,
        ] {
            assert!(is_fatal(&failure(code)), "{code}");
        }
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_IOERR_SHMSIZE,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_CONSTRAINT_UNIQUE,
        ] {
            assert!(!is_fatal(&failure(code)), "{code}");
        }
    }

    #[test]
    fn each_error_says_whether_a_retry_is_worth_it() {
        for (code, retry) in [
            (ffi::SQLITE_BUSY, true),
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_CORRUPT, false),
            (ffi::SQLITE_NOTADB, false),
        ] {
            let told = describe(&failure(code));
            assert_eq!(matches!(told, Error::Unavailable(_)), retry, "{told}");
        }
    }
}
