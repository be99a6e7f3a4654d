//! Compiles `proto/` without `protoc`, and keeps the descriptor set for reflection and for tests.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 7] = [
    "abeyance/v1/error_reason.proto",
    "abeyance/v1/inbox_service.proto",
    "abeyance/v1/question.proto",
    "abeyance/v1/resolve_service.proto",
    "abeyance/v1/results.proto",
    "abeyance/v1/wait.proto",
    "abeyance/v1/wait_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    println!("cargo::rerun-if-changed=src/store/sqlite/migrations");

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(FILES)?;
    let descriptors = compiler.file_descriptor_set();

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("abeyance.v1.bin"), descriptors.encode_to_vec())?;

    tonic_prost_build::configure()
        // Maps have one order on the wire and in `Debug`, so equal messages look equal.
        .btree_map(".")
        .codec_path("crate::proto::Codec")
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        .compile_fds(descriptors)?;
    Ok(())
}
