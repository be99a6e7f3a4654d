//! Opens the store that the settings name.

use std::sync::Arc;

use super::Error;
use crate::{
    config,
    domain::{KeyRing, token::TokenKey},
    store::{Clock as _, Store, SystemClock, memory::MemoryStore, sqlite::SqliteStore},
};

/// The store and the token keys that belong to it.
pub(super) async fn open(kind: &config::Store) -> Result<(Arc<dyn Store>, KeyRing), Error> {
    match kind {
        config::Store::Memory => {
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).map_err(Error::Randomness)?;
            let store = MemoryStore::new(Arc::new(SystemClock), SystemClock.now());
            Ok((Arc::new(store), KeyRing::new(1, TokenKey::new(secret))))
        }
        config::Store::Sqlite(options) => {
            let options = options.clone();
            // It reads files, and may wait for another process.
            let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&options)).await;
            // Nobody aborts it, so all that can have happened is a panic, which is passed on.
            let store = opened.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()))?;
            let keys = store.key_ring().clone();
            Ok((Arc::new(store), keys))
        }
    }
}
