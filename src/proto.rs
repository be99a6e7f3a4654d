//! The generated code of `proto/` and nothing else.
//!
//! May import: nothing of ours.

/// The contract, version 1. Its comments are those of the `.proto` files.
pub mod v1 {
    #![allow(missing_docs, clippy::all, rustdoc::all)]
    tonic::include_proto!("abeyance.v1");
}

/// The encoded `FileDescriptorSet` of the contract and all that it imports, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/abeyance.v1.bin"));

/// The domain of every `google.rpc.ErrorInfo` that Abeyance sends.
pub const ERROR_DOMAIN: &str = "abeyance.v1";
