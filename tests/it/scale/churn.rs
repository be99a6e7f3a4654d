//! C61: waits that come and go, each with an expiry far away. Nothing is left of them but rows.

use std::time::Duration;

use abeyance::{
    config::Config,
    proto::v1::{
        AttachRequest, attach_request::Target, wait_event::Event,
        wait_service_client::WaitServiceClient,
    },
    server::Server,
};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

use super::{connect, each, open, resolve, scaled};
use crate::torture::{
    print,
    process::{BOUND, Setup},
};

const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// What memory may grow by, whatever the count: caches that fill.
const GROWTH_KIB: u64 = 48 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c61_memory_and_threads_return_when_waits_come_and_go() {
    let count = scaled(2_000, 20_000, 200_000);
    let root = TempDir::new().expect("a temporary directory can be made");
    let process = Setup::new(root.path()).start().await;
    let channel = connect(process.url()).await;
    // Fills the caches first.
    come_and_go(&channel, 0..count / 10).await;
    let before = (process.status("VmRSS"), process.status("Threads"));
    come_and_go(&channel, count / 10..count).await;
    let after = (process.status("VmRSS"), process.status("Threads"));
    print(&format!(
        "c61: {count} waits came and went, memory {} -> {} KiB, threads {} -> {}",
        before.0, after.0, before.1, after.1
    ));
    assert!(
        after.0 <= before.0 + GROWTH_KIB,
        "memory grew: {before:?}, {after:?}"
    );
    // Threads for reads come and go with the load, but are few.
    assert!(
        after.1 <= before.1 + 8,
        "threads grew: {before:?}, {after:?}"
    );
}

/// The broker in this process, on a runtime of its own, whose tasks can be counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c61_no_task_is_left_when_waits_come_and_go() {
    let count = scaled(500, 5_000, 50_000);
    let root = TempDir::new().expect("a temporary directory can be made");
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let tasks = runtime.handle().clone();
    let mut config = Config::new(root.path().join("data"));
    config.listen = ([127, 0, 0, 1], 0).into();
    let (tell_url, url) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(async move {
        let server = Server::bind(config).await.expect("the server starts");
        let url = format!("http://{}", server.local_addr());
        tell_url.send(url).expect("the test listens");
        server.run(async { drop(stopped.await) }).await
    });

    let channel = connect(url.await.expect("the server starts")).await;
    come_and_go(&channel, 0..1).await;
    let before = settled(&tasks, 64).await;
    come_and_go(&channel, 1..count).await;
    let after = settled(&tasks, before + 2).await;
    print(&format!(
        "c61: {count} waits came and went, tasks {before} -> {after}"
    ));
    assert!(after <= before + 2, "tasks are left: {before}, {after}");

    drop(channel);
    stop.send(()).expect("the server runs");
    serving.await.expect("no panic").expect("it stops in order");
    runtime.shutdown_background();
}

/// Opens each, attaches and detaches once, and answers it.
async fn come_and_go(channel: &Channel, numbers: std::ops::Range<usize>) {
    let channel = channel.clone();
    each(numbers, 64, move |number| {
        let channel = channel.clone();
        async move {
            let token = open(&channel, MONTH, format!("churn-{number}")).await;
            attach_and_leave(&channel, token.clone()).await;
            resolve(&channel, token, number).await;
        }
    })
    .await;
}

async fn attach_and_leave(channel: &Channel, token: String) {
    let request = AttachRequest {
        target: Some(Target::Token(token)),
    };
    let mut client = WaitServiceClient::new(channel.clone());
    let mut stream = client
        .attach(request)
        .await
        .expect("it is there")
        .into_inner();
    let first = stream.message().await.expect("the connection lives");
    let event = first.and_then(|m| m.event?.event);
    assert!(matches!(event, Some(Event::Opened(_))), "{event:?}");
}

/// The number of tasks once it is down to `goal`, or when the bound is over: a task's end is no event that can be awaited.
async fn settled(runtime: &Handle, goal: usize) -> usize {
    let end = Instant::now() + BOUND;
    loop {
        let tasks = runtime.metrics().num_alive_tasks();
        if tasks <= goal || Instant::now() > end {
            return tasks;
        }
        sleep(Duration::from_millis(20)).await;
    }
}
