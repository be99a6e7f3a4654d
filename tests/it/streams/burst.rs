//! Many calls in the same moment on one connection, as a worker makes them that attaches all its waits again after a restart.

use abeyance::proto::v1::{self, wait_event::Event, wait_service_client::WaitServiceClient};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use crate::harness::{Kind, TestServer, soon};

/// More than h2 lets through by itself: it takes small frames that wait to be read for an attack.
const WAITS: usize = 12_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_waits_of_a_plain_client_on_one_channel_is_held() {
    let server = TestServer::start_with(Kind::Memory, |_| ()).await;
    let channel = Endpoint::from_shared(format!("http://{}", server.addr))
        .expect("an address")
        .initial_connection_window_size(64 << 20)
        .connect()
        .await
        .expect("connects");
    let mut opening = JoinSet::new();
    for n in 0..WAITS {
        let mut waits = WaitServiceClient::new(channel.clone());
        let spec = v1::WaitSpec {
            name: format!("burst {n}"),
            ..Default::default()
        };
        opening.spawn(async move {
            let request = v1::WaitRequest {
                spec: Some(spec),
                request_id: String::new(),
            };
            let mut stream = waits.wait(request).await?.into_inner();
            let first = stream
                .message()
                .await?
                .and_then(|m| m.event)
                .and_then(|e| e.event);
            assert!(matches!(first, Some(Event::Opened(_))), "{first:?}");
            Ok::<_, tonic::Status>(stream)
        });
    }
    let mut held = Vec::new();
    soon("all are open", async {
        while let Some(opened) = opening.join_next().await {
            held.push(opened.expect("no panic").expect("opens"));
        }
    })
    .await;
    assert_eq!(held.len(), WAITS);
}
