//! The broker inside a program: no other process, the same contract.
//!
//! ```sh
//! cargo run --example embedded
//! ```
//!
//! The broker keeps its data in a directory. Here it is stopped and started again while a worker waits, and the worker does not
//! notice.

use std::{error::Error, net::SocketAddr, path::Path};

use abeyance::{
    client::{Ask, Client, OpenOptions},
    config::Config,
    server::{self, Server},
};
use tokio::{sync::oneshot, task::JoinHandle};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let broker = Broker::start(directory.path(), SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = broker.address;
    println!("the broker listens on {address}");

    let client = Client::connect(&format!("http://{address}"))?;
    let (hand_on, token) = oneshot::channel();
    let worker = tokio::spawn({
        let client = client.clone();
        async move {
            let ask = async |ticket: abeyance::client::Ticket| {
                hand_on
                    .send(ticket.token)
                    .map_err(|_| "nobody takes the token")?;
                Ok::<_, &str>(Ask::HandedOn)
            };
            client
                .wait_for_external_event("greeting", ask, OpenOptions::new())
                .await
        }
    });
    let token = token.await?;
    println!("a worker waits");

    broker.stop().await?;
    let broker = Broker::start(directory.path(), address).await?;
    println!("the broker was stopped and started again");

    client.resolve(&token, r#"{"hello": "world"}"#).await?;
    println!("the worker got {}", worker.await??);
    broker.stop().await
}

/// A broker that runs beside the rest of the program.
struct Broker {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), server::Error>>,
}

impl Broker {
    async fn start(directory: &Path, listen: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let config = Config {
            listen,
            ..Config::new(directory)
        };
        let server = Server::bind(config).await?;
        let (stop, stopped) = oneshot::channel();
        Ok(Self {
            address: server.local_addr(),
            stop,
            running: tokio::spawn(server.run(async {
                let _ = stopped.await;
            })),
        })
    }

    /// Stops it in order: streams are told to attach again, calls in flight are finished, and the data is closed.
    async fn stop(self) -> Result<(), Box<dyn Error>> {
        let _ = self.stop.send(());
        Ok(self.running.await??)
    }
}
