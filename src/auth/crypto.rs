//! The cryptography of tokens: `jsonwebtoken` over `ring`, which TLS uses already, so that there is one back end
//! in the program. Only the algorithms that tokens may have are there.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Signer, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA256, RSA_PSS_SHA256, RsaKeyPair,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use ring::{hmac, signature};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| Ok(Box::new(Signing { algorithm: *algorithm, key: key.clone() })),
    verifier_factory: |algorithm, key| {
        let algorithm = *algorithm;
        // What makes a public key useless as a secret: the key says for which kind of algorithm it is.
        match key.family() == algorithm.family() {
            true => Ok(Box::new(Verifying { algorithm, key: key.clone() })),
            false => Err(ErrorKind::InvalidAlgorithm.into()),
        }
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// Chooses the back end, once. Before that nothing can be verified.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Another part of the program cannot have chosen one: nothing else here uses the crate.
        let _ = PROVIDER.install_default();
    });
}

struct Verifying {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for Verifying {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Verifying {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let right = match (self.algorithm, self.key.kind()) {
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret), message, signature)
            }
            (Algorithm::RS256, kind) => rsa(&RSA_PKCS1_2048_8192_SHA256, kind, message, signature),
            (Algorithm::PS256, kind) => rsa(&RSA_PSS_2048_8192_SHA256, kind, message, signature),
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        right.map_err(|_| Error::new())
    }
}

fn rsa(
    parameters: &'static RsaParameters,
    key: &DecodingKeyKind,
    message: &[u8],
    signature: &[u8],
) -> std::result::Result<(), ring::error::Unspecified> {
    match key {
        DecodingKeyKind::SecretOrDer(der) => {
            UnparsedPublicKey::new(parameters, der).verify(message, signature)
        }
        DecodingKeyKind::RsaModulusExponent { n, e } => {
            RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
        }
    }
}

struct Signing {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl JwtSigner for Signing {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Signer<Vec<u8>> for Signing {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        if self.key.family() != self.algorithm.family() {
            return Err(Error::new());
        }
        let (key, random) = (self.key.as_bytes(), SystemRandom::new());
        let rsa = |padding: &'static dyn signature::RsaEncoding| {
            let pair = RsaKeyPair::from_der(key)
                .or_else(|_| RsaKeyPair::from_pkcs8(key))
                .map_err(|_| Error::new())?;
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(padding, &random, message, &mut signature).map_err(|_| Error::new())?;
            Ok(signature)
        };
        match self.algorithm {
            Algorithm::HS256 => {
                Ok(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec())
            }
            Algorithm::RS256 => rsa(&RSA_PKCS1_SHA256),
            Algorithm::PS256 => rsa(&RSA_PSS_SHA256),
            Algorithm::ES256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random);
                let signed = pair.map_err(|_| Error::new())?.sign(&random, message);
                signed.map(|signature| signature.as_ref().to_vec()).map_err(|_| Error::new())
            }
            Algorithm::EdDSA => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).map_err(|_| Error::new())?;
                Ok(pair.sign(message).as_ref().to_vec())
            }
            _ => Err(Error::new()),
        }
    }
}

/// A public key from a PEM file, with the kind of algorithm that it is for.
pub(super) fn public_pem(pem: &[u8]) -> Result<DecodingKey> {
    DecodingKey::from_rsa_pem(pem)
        .or_else(|_| DecodingKey::from_ec_pem(pem))
        .or_else(|_| DecodingKey::from_ed_pem(pem))
}

/// A private key from a PEM file, with the algorithm that it signs with.
pub(super) fn private_pem(pem: &[u8]) -> Result<(Algorithm, EncodingKey)> {
    EncodingKey::from_rsa_pem(pem)
        .map(|key| (Algorithm::RS256, key))
        .or_else(|_| EncodingKey::from_ec_pem(pem).map(|key| (Algorithm::ES256, key)))
        .or_else(|_| EncodingKey::from_ed_pem(pem).map(|key| (Algorithm::EdDSA, key)))
}

/// Whether keys of this kind can have this algorithm.
pub(super) fn fits(algorithm: Algorithm, family: AlgorithmFamily) -> bool {
    algorithm.family() == family
}
