//! Tokens: the bearer credential of one wait.
//!
//! A token is `abey_` and the base64url form of 33 bytes: the number of the token key (1), the wait id (16) and the first 16
//! bytes of HMAC-SHA256 over a domain string, number and id. So a forged token is refused without a look at the store, a copy
//! of the store answers nothing, and a re-open gives the same token though it is stored nowhere.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{error::Refusal, wait::WaitId};

/// What every token begins with, so that people and secret scanners know it when they see it.
pub const PREFIX: &str = "abey_";

const DOMAIN: &[u8] = b"abeyance wait token v1";
const MAC_BYTES: usize = 16;
const TOKEN_BYTES: usize = 1 + 16 + MAC_BYTES;

/// The bearer credential of one wait. A secret: `Debug` does not show it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The text to hand to whoever may answer. Never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// The secret of one token key: 32 bytes.
#[derive(Clone)]
pub struct TokenKey(Hmac<Sha256>);

impl TokenKey {
    /// From 32 random bytes.
    pub fn new(secret: [u8; 32]) -> Self {
        // It fails for no length of key. Kept keyed, since to key it takes as long as to use it.
        Self(Hmac::new_from_slice(&secret).expect("HMAC takes a key of any length"))
    }

    fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// A number by which a store knows the key again, without telling anything of it.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mac = self.mac(&[b"abeyance token key fingerprint v1"]);
        let mut short = [0; 16];
        short.copy_from_slice(&mac[..16]);
        short
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(hidden)")
    }
}

/// The token keys of a broker: all of them verify, one of them signs. Immutable and never empty.
#[derive(Clone, Debug)]
pub struct KeyRing {
    keys: BTreeMap<u8, TokenKey>,
    signing: u8,
}

impl KeyRing {
    /// A ring of one key, which signs.
    pub fn new(number: u8, key: TokenKey) -> Self {
        Self {
            keys: BTreeMap::from([(number, key)]),
            signing: number,
        }
    }

    /// The same ring with one more key, which only verifies.
    #[must_use]
    pub fn with_verifying(mut self, number: u8, key: TokenKey) -> Self {
        self.keys.entry(number).or_insert(key);
        self
    }

    /// The number of the key that signs.
    pub fn signing(&self) -> u8 {
        self.signing
    }

    /// The key with this number.
    pub fn key(&self, number: u8) -> Option<&TokenKey> {
        self.keys.get(&number)
    }

    /// The token of a wait, or `None` if the key that made it is not in the ring. The same each time.
    pub fn token(&self, number: u8, id: WaitId) -> Option<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        bytes[0] = number;
        bytes[1..17].copy_from_slice(id.as_bytes());
        let mac = self.key(number)?.mac(&[DOMAIN, &bytes[..17]]);
        bytes[17..].copy_from_slice(&mac[..MAC_BYTES]);
        Some(Token(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// Reads a token that a caller sent and gives the wait it is for. Takes the same time for every forgery of one key.
    ///
    /// # Errors
    /// [`Refusal::InvalidFields`] if it is empty, else [`Refusal::TokenUnknown`], whatever is wrong with it.
    pub fn verify(&self, text: &str) -> Result<WaitId, Refusal> {
        if text.is_empty() {
            return Err(Refusal::field("token", "is required"));
        }
        let bytes = decode(text).ok_or(Refusal::TokenUnknown)?;
        let key = self.key(bytes[0]).ok_or(Refusal::TokenUnknown)?;
        let mac = key.mac(&[DOMAIN, &bytes[..17]]);
        if bool::from(mac[..MAC_BYTES].ct_eq(&bytes[17..])) {
            let mut id = [0; 16];
            id.copy_from_slice(&bytes[1..17]);
            Ok(WaitId::from_bytes(id))
        } else {
            Err(Refusal::TokenUnknown)
        }
    }
}

fn decode(text: &str) -> Option<[u8; TOKEN_BYTES]> {
    let encoded = text.strip_prefix(PREFIX)?;
    let mut bytes = [0; TOKEN_BYTES];
    // A wrong length must not reach the decoder, which would need a larger buffer.
    if encoded.len() != TOKEN_BYTES / 3 * 4 {
        return None;
    }
    let length = URL_SAFE_NO_PAD.decode_slice(encoded, &mut bytes).ok()?;
    (length == TOKEN_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    fn ring() -> KeyRing {
        KeyRing::new(7, TokenKey::new([1; 32]))
    }

    fn id(n: u8) -> WaitId {
        WaitId::new(Timestamp::from_micros(1_700_000_000_000_000), [n; 10])
    }

    #[test]
    fn a_token_verifies_and_is_the_same_each_time() {
        let token = ring().token(7, id(1)).expect("key 7");
        assert_eq!(token, ring().token(7, id(1)).expect("key 7"));
        assert_eq!(ring().verify(token.expose()), Ok(id(1)));
        assert_eq!(token.expose().len(), PREFIX.len() + 44);
    }

    #[test]
    fn no_change_of_any_character_verifies() {
        let token = ring().token(7, id(1)).expect("key 7");
        for at in 0..token.expose().len() {
            for with in ['A', 'B', 'z', '-', '=', ' ', 'é'] {
                let mut chars: Vec<char> = token.expose().chars().collect();
                if chars[at] == with {
                    continue;
                }
                chars[at] = with;
                let forged: String = chars.into_iter().collect();
                assert_eq!(ring().verify(&forged), Err(Refusal::TokenUnknown), "{at}");
            }
        }
        for forged in [
            "abey_",
            "abey",
            "x",
            &token.expose()[..40],
            &format!("{}A", token.expose()),
        ] {
            assert_eq!(ring().verify(forged), Err(Refusal::TokenUnknown));
        }
    }

    #[test]
    fn another_key_or_number_does_not_verify() {
        let other = KeyRing::new(7, TokenKey::new([2; 32]));
        let token = other.token(7, id(1)).expect("key 7");
        assert_eq!(ring().verify(token.expose()), Err(Refusal::TokenUnknown));
        let rotated =
            KeyRing::new(8, TokenKey::new([3; 32])).with_verifying(7, TokenKey::new([2; 32]));
        assert_eq!(rotated.verify(token.expose()), Ok(id(1)));
        assert_eq!(rotated.token(9, id(1)), None);
    }

    #[test]
    fn debug_hides_the_secret() {
        let token = ring().token(7, id(1)).expect("key 7");
        assert_eq!(format!("{token:?}"), "Token(hidden)");
        assert!(!format!("{:?}", ring()).contains('1'));
    }
}
