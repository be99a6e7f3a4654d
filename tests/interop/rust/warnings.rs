//! What the client logs at warning level, kept for the runner and shown on standard error.

use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

/// The lines that were logged since they were last taken.
#[derive(Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<u8>>>);

/// Begins to collect. Called once.
pub fn collect() -> Warnings {
    let warnings = Warnings::default();
    tracing_subscriber::fmt()
        .with_env_filter("abeyance=warn")
        .with_ansi(false)
        .with_writer(warnings.clone())
        .init();
    warnings
}

impl Warnings {
    pub fn take(&self) -> Vec<String> {
        let bytes = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::to_owned).collect()
    }
}

impl MakeWriter<'_> for Warnings {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(bytes)?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
