//! The library that is preloaded into the broker: compiled once, and set by environment variables (see its source).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempDir;

use crate::torture::process::Setup;

/// What becomes of the flush that is meant.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails with EIO, once, and flushes nothing.
    Eio,
    /// It is done, and is the last thing that the process does.
    KillAfter,
}

/// A directory whose files a broker under the library works on.
pub struct Shim {
    /// Holds everything; the broker's data lies in `disk/nested/data`, so that new folders count too.
    pub root: TempDir,
    /// The root with its real name.
    base: PathBuf,
    /// Once this file exists, what was set begins.
    pub arm: PathBuf,
}

type Env = Vec<(&'static str, OsString)>;

impl Shim {
    pub fn new() -> Self {
        let root = TempDir::new().expect("a temporary directory can be made");
        let base = root.path().canonicalize().expect("it exists");
        std::fs::create_dir(base.join("disk")).expect("a folder can be made");
        Self {
            root,
            arm: base.join("arm"),
            base,
        }
    }

    /// The folder that stands for the disk.
    pub fn disk(&self) -> PathBuf {
        self.base.join("disk")
    }

    /// The journal of start `number`.
    pub fn journal(&self, number: usize) -> PathBuf {
        self.base.join(format!("journal-{number}"))
    }

    /// A broker on that disk, under the library. Journals its first start.
    pub fn setup(&self) -> Setup {
        let mut setup = Setup::new(&self.base);
        setup.data = self.disk().join("nested").join("data");
        setup.env = self.watched(0);
        setup
    }

    /// Only writes down what happens.
    pub fn watched(&self, number: usize) -> Env {
        vec![
            ("LD_PRELOAD", library().into()),
            ("SHIM_ROOT", self.disk().into()),
            ("SHIM_JOURNAL", self.journal(number).into()),
        ]
    }

    /// The first flush of files that end in `suffix`, once armed, goes wrong.
    pub fn fault(&self, fault: Fault, suffix: &str) -> Env {
        let fault = match fault {
            Fault::Eio => "eio",
            Fault::KillAfter => "kill",
        };
        vec![
            ("SHIM_FAULT", fault.into()),
            ("SHIM_SUFFIX", suffix.into()),
            ("SHIM_ARM", self.arm.clone().into()),
        ]
    }

    /// The `nth` flush of any file or folder fails, counted from the start of the process.
    pub fn fault_at(nth: usize) -> Env {
        vec![
            ("SHIM_FAULT", "eio".into()),
            ("SHIM_SUFFIX", "".into()),
            ("SHIM_NTH", nth.to_string().into()),
        ]
    }

    /// Flushes of files that end in `suffix` take longer, once armed.
    pub fn delay(&self, millis: u32, suffix: &str) -> Env {
        vec![
            ("SHIM_DELAY_MS", millis.to_string().into()),
            ("SHIM_SUFFIX", suffix.into()),
            ("SHIM_ARM", self.arm.clone().into()),
        ]
    }

    /// Flushes of files that end in `suffix` return 0 and flush nothing.
    pub fn lie(suffix: &str) -> Env {
        vec![("SHIM_LIE", "1".into()), ("SHIM_SUFFIX", suffix.into())]
    }
}

/// The compiled library. Without a C compiler this fails, and says so: what it would show is not shown.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let folder = TempDir::new().expect("a temporary directory can be made");
        let path = folder.path().join("disk.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/disk.c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let output = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&path)
            .arg(&source)
            .arg("-lpthread")
            .output()
            .unwrap_or_else(|e| {
                panic!("a C compiler is needed to show what a failing disk does: {compiler:?}: {e}")
            });
        assert!(
            output.status.success(),
            "{compiler:?} cannot compile {source:?}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        (folder, path)
    });
    path
}
