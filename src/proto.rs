//! The generated code of `proto/`, and how its messages are put into bytes.
//!
//! May import: nothing of ours.

use std::{fmt, marker::PhantomData};

use tonic::codec::BufferSettings;
use tonic_prost::ProstCodec;

/// The contract, version 1. Its comments are those of the `.proto` files.
pub mod v1 {
    #![allow(missing_docs, clippy::all, rustdoc::all)]
    tonic::include_proto!("abeyance.v1");
}

/// The encoded `FileDescriptorSet` of the contract and all that it imports, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/abeyance.v1.bin"));

/// The domain of every `google.rpc.ErrorInfo` that Abeyance sends.
pub const ERROR_DOMAIN: &str = "abeyance.v1";

/// How large a buffer each call begins with, in bytes. Most of our messages fit; larger ones make it grow. tonic's own size, 8 KiB,
/// stays with a stream for as long as it is held, and is too large for the allocator's quick path.
const BUFFER_BYTES: usize = 512;

/// How many bytes of ready messages are sent together: tonic's own size.
const YIELD_BYTES: usize = 32 << 10;

/// prost's encoding, with buffers of a size that suits waits.
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> fmt::Debug for Codec<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Codec")
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: prost::Message + Send + 'static,
    U: prost::Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as tonic::codec::Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as tonic::codec::Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }
}
