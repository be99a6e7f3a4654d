//! The token key file: made on the first start, demanded on every later one.
//!
//! One line for each key, `<number> <32 bytes in base64url>`. The last one signs, the others verify. Empty lines and lines
//! that begin with `#` are skipped.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::OpenError;
use crate::domain::{KeyRing, token::TokenKey};

/// The number of the first key.
const FIRST: u8 = 1;

/// Reads the keys, or makes the first one where there is no database yet.
///
/// # Errors
/// [`OpenError::KeyMissing`] if the database exists and the file does not, [`OpenError::KeyFile`] if it cannot be understood.
pub(super) fn read_or_make(path: &Path, database_exists: bool) -> Result<KeyRing, OpenError> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map_err(|fault| OpenError::KeyFile {
            path: path.to_owned(),
            fault,
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound && database_exists => {
            Err(OpenError::KeyMissing {
                path: path.to_owned(),
            })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => make(path),
        Err(source) => Err(OpenError::Io {
            what: "read the token key file",
            path: path.to_owned(),
            source,
        }),
    }
}

fn parse(text: &str) -> Result<KeyRing, String> {
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (number, key) = parse_line(line).ok_or_else(|| {
            format!(
                "line {} is not `<number from 0 to 255> <32 bytes in base64url>`",
                at + 1
            )
        })?;
        if keys.iter().any(|(n, _)| *n == number) {
            return Err(format!("line {} has the number {number} again", at + 1));
        }
        keys.push((number, key));
    }
    let (number, key) = keys.pop().ok_or("it holds no key")?;
    Ok(keys
        .into_iter()
        .fold(KeyRing::new(number, key), |ring, (n, k)| {
            ring.with_verifying(n, k)
        }))
}

fn parse_line(line: &str) -> Option<(u8, TokenKey)> {
    let (number, secret) = line.split_once(char::is_whitespace)?;
    let secret = URL_SAFE_NO_PAD.decode(secret.trim().trim_end_matches('='));
    let secret: [u8; 32] = secret.ok()?.try_into().ok()?;
    Some((number.parse().ok()?, TokenKey::new(secret)))
}

/// Makes the first key and has it on the disk, with its folder, before anybody can be given a token. It is written beside and
/// renamed, so that a crash leaves a whole file or none.
fn make(path: &Path) -> Result<KeyRing, OpenError> {
    let io = |source| OpenError::Io {
        what: "make the token key file",
        path: path.to_owned(),
        source,
    };
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|e| io(io::Error::other(e.to_string())))?;
    let draft = path.with_extension("key.new");
    // Left by a crash; never used.
    match fs::remove_file(&draft) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    let mut file = private().open(&draft).map_err(io)?;
    writeln!(file, "{FIRST} {}", URL_SAFE_NO_PAD.encode(secret)).map_err(io)?;
    file.sync_all().map_err(io)?;
    fs::rename(&draft, path).map_err(io)?;
    sync_folder_of(path).map_err(io)?;
    Ok(KeyRing::new(FIRST, TokenKey::new(secret)))
}

/// A file that is not there yet and that only its owner can read.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a new name in a folder survive a loss of power.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Checks that these are the keys that the database's tokens were made with, and records the new ones.
///
/// # Errors
/// [`OpenError::KeyMismatch`] if a key is another than the recorded one of its number, or is gone and still needed.
pub(super) fn check(db: &Connection, keys: &KeyRing, path: &Path) -> Result<(), OpenError> {
    for number in 0..=u8::MAX {
        let name = format!("token_key.{number}");
        let recorded: Option<Vec<u8>> = db
            .query_row("SELECT value FROM meta WHERE name = ?1", [&name], |r| {
                r.get(0)
            })
            .optional()?;
        let mismatch = |fault| OpenError::KeyMismatch {
            path: path.to_owned(),
            number,
            fault,
        };
        match (keys.key(number), recorded) {
            (Some(key), Some(recorded)) if key.fingerprint()[..] != recorded[..] => {
                return Err(mismatch("is another one"));
            }
            (Some(key), None) => {
                // Recorded before the first token that it signs.
                db.execute(
                    "INSERT INTO meta (name, value) VALUES (?1, ?2)",
                    params![name, key.fingerprint()],
                )?;
            }
            // Taken out of the file. This looks at every wait, but only on the one start after.
            (None, Some(_)) if is_needed(db, number)? => return Err(mismatch("is not in it")),
            (None, Some(_)) => {
                db.execute("DELETE FROM meta WHERE name = ?1", [&name])?;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    Ok(())
}

fn is_needed(db: &Connection, number: u8) -> rusqlite::Result<bool> {
    db.query_row(
        "SELECT EXISTS (SELECT 1 FROM waits WHERE token_key = ?1)",
        [number],
        |r| r.get(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u8, byte: u8) -> String {
        format!("{number} {}\n", URL_SAFE_NO_PAD.encode([byte; 32]))
    }

    #[test]
    fn the_last_key_signs_and_the_others_verify() {
        let text = format!("# rotated\n{}\n{}", line(1, 7), line(2, 8));
        let ring = parse(&text).expect("two keys");
        assert_eq!(ring.signing(), 2);
        let fingerprint = |n| ring.key(n).map(TokenKey::fingerprint);
        assert_eq!(fingerprint(1), Some(TokenKey::new([7; 32]).fingerprint()));
        assert_eq!(fingerprint(2), Some(TokenKey::new([8; 32]).fingerprint()));
    }

    #[test]
    fn what_is_not_a_key_is_refused_with_its_line_and_without_its_text() {
        for (text, fault) in [
            (String::new(), "no key"),
            ("secret".to_owned(), "line 1"),
            (format!("{}1 c2VjcmV0", line(2, 1)), "line 2"),
            (format!("256 {}", &line(2, 1)[2..]), "line 1"),
            (format!("{}{}", line(1, 1), line(1, 2)), "line 2"),
        ] {
            let told = parse(&text).expect_err(&text);
            assert!(told.contains(fault), "{told}");
            assert!(!told.contains("c2VjcmV0") && !told.contains("secret"));
        }
    }
}
