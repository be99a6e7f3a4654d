//! The library that is preloaded into the broker: compiled once, and set by environment variables (see its source).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempDir;

use crate::torture::process::Setup;

type Env = Vec<(&'static str, OsString)>;

/// A temporary directory for a broker that runs under the library.
pub struct Shim {
    /// Holds everything.
    pub root: TempDir,
    pub files: Files,
}

impl Shim {
    pub fn new() -> Self {
        let root = TempDir::new().expect("a temporary directory can be made");
        let base = root.path().canonicalize().expect("it exists");
        std::fs::create_dir(base.join("disk")).expect("a folder can be made");
        Self {
            root,
            files: Files { base },
        }
    }
}

/// What lies where in it.
#[derive(Clone, Debug)]
pub struct Files {
    base: PathBuf,
}

impl Files {
    /// The folder that stands for the disk.
    pub fn disk(&self) -> PathBuf {
        self.base.join("disk")
    }

    /// Once this file exists, what was set begins.
    pub fn arm(&self) -> PathBuf {
        self.base.join("arm")
    }

    /// The journal of start `number`.
    pub fn journal(&self, number: usize) -> PathBuf {
        self.base.join(format!("journal-{number}"))
    }

    /// A broker on that disk, under the library, with its first start written down. Its data lies two new folders deep, so that
    /// these count too.
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

    /// The first flush of a file that ends in `suffix` fails with EIO, once armed.
    pub fn eio(&self, suffix: &str) -> Env {
        self.fault("eio", suffix)
    }

    /// The first flush of a file that ends in `suffix` is the last thing that the process does, once armed.
    pub fn kill(&self, suffix: &str) -> Env {
        self.fault("kill", suffix)
    }

    fn fault(&self, fault: &str, suffix: &str) -> Env {
        vec![
            ("SHIM_FAULT", fault.into()),
            ("SHIM_SUFFIX", suffix.into()),
            ("SHIM_ARM", self.arm().into()),
        ]
    }

    /// Flushes of files that end in `suffix` take longer, once armed.
    pub fn delay(&self, millis: u32, suffix: &str) -> Env {
        vec![
            ("SHIM_DELAY_MS", millis.to_string().into()),
            ("SHIM_SUFFIX", suffix.into()),
            ("SHIM_ARM", self.arm().into()),
        ]
    }
}

/// The `nth` flush of any file or folder fails, counted from the start of the process.
pub fn eio_at(nth: usize) -> Env {
    vec![
        ("SHIM_FAULT", "eio".into()),
        ("SHIM_SUFFIX", "".into()),
        ("SHIM_NTH", nth.to_string().into()),
    ]
}

/// Flushes of files that end in `suffix` return 0 and flush nothing.
pub fn lie(suffix: &str) -> Env {
    vec![("SHIM_LIE", "1".into()), ("SHIM_SUFFIX", suffix.into())]
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
            .args([
                "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o",
            ])
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
