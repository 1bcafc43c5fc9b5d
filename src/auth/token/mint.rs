//! Making tokens, for `tipcast token new` and tests: what signs them in earnest is the operator's own site.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use crate::auth::crypto;

/// What signs.
pub struct Minter {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Minter {
    /// By HS256 with a secret.
    pub fn secret(secret: &str) -> Minter {
        crypto::install();
        Minter { algorithm: Algorithm::HS256, key: EncodingKey::from_secret(secret.as_bytes()) }
    }

    /// With a private key, a PEM file's content; RSA keys by RS256.
    pub fn private_pem(pem: &[u8]) -> Result<Minter, String> {
        crypto::install();
        let read = crypto::private_pem(pem);
        let (algorithm, key) = read
            .map_err(|_| "is no private key of RSA, P-256 or Ed25519 in PEM (PKCS#8: BEGIN PRIVATE KEY)")?;
        Ok(Minter { algorithm, key })
    }

    /// By PS256 in place of RS256.
    pub fn pss(mut self) -> Minter {
        if self.algorithm == Algorithm::RS256 {
            self.algorithm = Algorithm::PS256;
        }
        self
    }

    /// Signs these claims, with `kid` in the head if there is one.
    pub fn sign(&self, claims: &Value, kid: Option<&str>) -> Result<String, String> {
        let mut head = json!({"alg": format!("{:?}", self.algorithm), "typ": "JWT"});
        if let Some(kid) = kid {
            head["kid"] = kid.into();
        }
        self.sign_with_head(&head, claims)
    }

    /// Signs these claims under this head, whatever it says.
    pub fn sign_with_head(&self, head: &Value, claims: &Value) -> Result<String, String> {
        self.sign_parts(&head.to_string(), &claims.to_string())
    }

    /// Signs these texts as they stand.
    pub fn sign_parts(&self, head: &str, claims: &str) -> Result<String, String> {
        let encode = |part: &str| BASE64URL_NOPAD.encode(part.as_bytes());
        let signed = format!("{}.{}", encode(head), encode(claims));
        let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &self.key, self.algorithm);
        Ok(format!("{signed}.{}", signature.map_err(|_| "the key cannot sign")?))
    }
}
