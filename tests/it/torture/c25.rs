//! C25: callers that leave while their answer is committed. Nothing is decided in silence.
//!
//! The preloaded library slows each flush of the log by 200 ms, so that most callers are gone before the commit.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::transport::{Channel, Endpoint};

use super::{
    history::Said,
    process::BOUND,
    rng::{Rng, seed},
    run::{Run, print},
    wire::{Case, Line},
};
use crate::power_loss::shim::Shim;

const WAITS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c25_callers_who_leave_before_the_commit_leave_nobody_untold() {
    let Shim { root, files } = Shim::new();
    let mut setup = files.setup();
    setup.env.extend(files.delay(200, "-wal"));
    let mut run = Run::with("c25", seed(), root, setup).await;
    let line = run.load.line(&mut run.rng).clone();
    let mut cases = Vec::new();
    for n in 0..WAITS {
        let case = run.load.plain_case(n % 2 == 0);
        line.open(&case).await.expect("the broker is up");
        run.load.publish(&case);
        let holder = run.load.hold(&case, &mut run.rng);
        cases.push((case, holder));
    }
    let only: Vec<_> = cases.iter().map(|(case, _)| case.clone()).collect();
    run.until_attached(&only).await;
    std::fs::write(files.arm(), "").expect("the delay can be armed");

    let mut callers = JoinSet::new();
    for (number, case) in only.iter().enumerate() {
        let rng = run.rng.fork(number as u64);
        let call = leave_early(run.address(), line.clone(), case.clone(), rng);
        callers.spawn(call);
    }
    callers.join_all().await;
    std::fs::remove_file(files.arm()).expect("the delay can be disarmed");
    // What was queued before is committed before.
    let barrier = run.load.plain_case(true);
    line.open(&barrier).await.expect("the broker is up");
    run.load.publish(&barrier);

    let mut decided = 0;
    for (case, holder) in cases {
        line.describe(&case).await.expect("the broker is up");
        if case.is_settled() {
            decided += 1;
            let told = timeout(BOUND, holder).await;
            assert!(told.is_ok(), "wait {} is decided in silence", case.number);
        }
    }
    print(&format!("c25: {decided} of {WAITS} were decided, all told"));
    assert!(decided > 0, "nobody's answer was kept: this shows nothing");
    let (faults, _) = run.finish().await;
    run.judge(&faults);
}

/// Answers, and is gone after up to 300 ms: by a reset of the stream, or by closing the connection.
async fn leave_early(address: SocketAddr, shared: Line, case: Arc<Case>, mut rng: Rng) {
    sleep(Duration::from_millis(rng.below(1000))).await;
    let patience = Duration::from_millis(rng.below(301));
    let said = Said::Resolve(format!("{{\"answer\":{}}}", case.number));
    if rng.chance(50) {
        // Dropping the call resets its stream.
        let _ = timeout(patience, shared.say(&case, &said, "")).await;
        return;
    }
    let socket = Arc::new(Mutex::new(None));
    let own = Line::over(
        channel(address, socket.clone()),
        Arc::clone(&shared.history),
    );
    let call = async {
        sleep(patience).await;
        let socket = socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(socket) = socket {
            close(&socket);
        }
    };
    let _ = tokio::join!(own.say(&case, &said, ""), call);
}

fn close(socket: &TcpStream) {
    // It may be closed already.
    let _ = socket.shutdown(Shutdown::Both);
}

/// A connection whose socket the test can close under it.
fn channel(address: SocketAddr, keep: Arc<Mutex<Option<TcpStream>>>) -> Channel {
    let connect = move |_| {
        let keep = keep.clone();
        async move {
            let socket = TcpStream::connect(address)?;
            socket.set_nonblocking(true)?;
            let copy = socket.try_clone()?;
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(copy);
            Ok::<_, io::Error>(TokioIo::new(tokio::net::TcpStream::from_std(socket)?))
        }
    };
    Endpoint::from_shared(format!("http://{address}"))
        .expect("it is a URL")
        .connect_with_connector_lazy(tower::service_fn(connect))
}
