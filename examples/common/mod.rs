//! What the examples share: a broker to talk to.

use std::{env, error::Error, future::pending, time::Duration};

use abeyance::{config::Config, server::Server};
use tokio::net::TcpStream;

/// The address of the broker: the one that `ABEYANCE_SERVER` names, else one that listens where brokers do, else one that this
/// process starts for itself and that keeps nothing.
pub async fn broker() -> Result<String, Box<dyn Error>> {
    if let Ok(url) = env::var("ABEYANCE_SERVER") {
        return Ok(url);
    }
    let usual = "127.0.0.1:2239";
    let connect = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(usual));
    if let Ok(Ok(_)) = connect.await {
        return Ok(format!("http://{usual}"));
    }
    let mut config = Config::in_memory();
    config.listen.set_port(0);
    let server = Server::bind(config).await?;
    let url = format!("http://{}", server.local_addr());
    println!("[example]  no broker is running, so here is one for the moment: {url}");
    // It ends with the process.
    tokio::spawn(server.run(pending()));
    Ok(url)
}
