//! The services describe themselves (`grpc.reflection`), in both versions that tools ask for.

use tonic::service::Routes;
use tonic_reflection::server::{Builder, Error};

use crate::proto;

/// Adds reflection of all that is served.
pub(super) fn add(routes: Routes) -> Result<Routes, Error> {
    let describe = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(routes
        .add_service(describe().build_v1()?)
        .add_service(describe().build_v1alpha()?))
}
