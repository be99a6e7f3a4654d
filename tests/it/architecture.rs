//! The import arrows. Rust does not stop cycles inside a crate, so this does: it reads `src/` and holds each `crate::` path against
//! the map in `src/lib.rs`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What each room may import. All but `domain` may use `telemetry`.
fn arrows() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("proto", &[][..]),
        ("telemetry", &[]),
        ("domain", &[]),
        ("store", &["domain", "telemetry"]),
        ("broker", &["store", "domain", "telemetry"]),
        ("grpc", &["proto", "domain", "broker", "telemetry"]),
        ("client", &["proto"]),
        // Settings are made of each room's own options.
        (
            "config",
            &["domain", "store", "broker", "grpc", "server", "telemetry"],
        ),
        (
            "server",
            &[
                "config",
                "proto",
                "domain",
                "store",
                "broker",
                "grpc",
                "telemetry",
            ],
        ),
        ("cli", &["client", "proto", "config", "server", "telemetry"]),
        ("main", &["cli"]),
    ])
}

/// Crates that the rules must not know: they are pure.
const BANNED_IN_DOMAIN: [&str; 10] = [
    "tokio",
    "tonic",
    "prost",
    "rusqlite",
    "getrandom",
    "rand::",
    "std::time::SystemTime",
    "std::time::Instant",
    "async fn",
    "std::fs",
];

#[test]
fn every_import_follows_the_arrows() {
    let arrows = arrows();
    let mut faults = Vec::new();
    for file in sources() {
        let room = room_of(&file);
        let allowed = arrows
            .get(room.as_str())
            .unwrap_or_else(|| panic!("{room} is not on the map; add it here and in src/lib.rs"));
        let text = fs::read_to_string(&file).expect("a readable source");
        for (number, imported) in imports(code(&text)) {
            if imported != room && !allowed.contains(&imported.as_str()) && imported != "crate" {
                faults.push(format!("{}:{number}: {room} -> {imported}", file.display()));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "imports against the arrows:\n{}",
        faults.join("\n")
    );
}

#[test]
fn the_rules_are_pure() {
    let mut faults = Vec::new();
    for file in sources() {
        if room_of(&file) != "domain" {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a readable source");
        for (number, line) in code(&text).lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            for banned in BANNED_IN_DOMAIN {
                if line.contains(banned) {
                    faults.push(format!("{}:{}: {banned}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "not pure:\n{}", faults.join("\n"));
}

#[test]
fn files_keep_one_clear_job() {
    for file in sources() {
        let text = fs::read_to_string(&file).expect("a readable source");
        let lines = code(&text).lines().count();
        if lines > 400 {
            println!(
                "over 400 lines, wants a reason or a split: {} ({lines})",
                file.display()
            );
        }
        assert!(
            lines <= 600,
            "{} has {lines} lines: split it",
            file.display()
        );
    }
}

/// A source without its unit tests, which stand last.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

/// The rooms that a source names: `crate::room` and `crate::{room::…, other}`.
fn imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let line = text[..at].lines().count();
        let before = text[..at].rsplit('\n').next().unwrap_or_default();
        let is_word = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if before.contains("//") || is_word {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        let rooms = match rest.strip_prefix('{') {
            Some(group) => top_level_names(group),
            None => vec![leading_name(rest)],
        };
        found.extend(
            rooms
                .into_iter()
                .filter(|r| !r.is_empty())
                .map(|r| (line, r)),
        );
    }
    found
}

fn leading_name(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_ascii_lowercase() || *c == '_')
        .collect()
}

/// The names at the first level of a `use` group whose opening brace was taken.
fn top_level_names(group: &str) -> Vec<String> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                names.push(leading_name(group[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn room_of(file: &Path) -> String {
    let inside = file.strip_prefix(root()).expect("below src");
    let first = inside.components().next().expect("a name");
    let name = first.as_os_str().to_string_lossy();
    name.trim_end_matches(".rs").to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && path != root().join("lib.rs") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 10, "the sources were not found");
    found
}
