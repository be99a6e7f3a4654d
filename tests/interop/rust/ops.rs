//! The operations of the protocol.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use abeyance::client::{Answer, Client, OpenOptions, Token, Wait};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    forms::{self, Failure, text},
    stock::Held,
    warnings::Warnings,
};

/// A wait that is followed, by the client or by the stub alone.
enum Followed {
    Client(Box<Wait>),
    Stub(Box<Held>),
}

pub struct Driver {
    warnings: Warnings,
    /// One for each broker's address.
    clients: Mutex<HashMap<String, Client>>,
    /// By wait id, until their outcome is asked for.
    followed: Mutex<HashMap<String, Followed>>,
}

impl Driver {
    pub fn new(warnings: Warnings) -> Self {
        Self {
            warnings,
            clients: Mutex::default(),
            followed: Mutex::default(),
        }
    }

    pub async fn carry_out(&self, request: &Value) -> Result<Value, Failure> {
        match text(request, "op")? {
            "open" => self.open(request).await,
            "outcome" => self.outcome(request).await,
            "mark_asked" => {
                let client = self.client(request)?;
                client.mark_asked(&token(request)?).await?;
                Ok(json!({}))
            }
            "cancel" => {
                let client = self.client(request)?;
                let (token, reason) = (token(request)?, text(request, "reason")?);
                let outcome = client.cancel(&token, reason).await?;
                Ok(json!({"state": forms::state(outcome.state())}))
            }
            "resolve" => self.resolve(request).await,
            "fail" => {
                let client = self.client(request)?;
                let (error_type, details) = (&request["error_type"], &request["details_json"]);
                let (token, reason) = (token(request)?, text(request, "reason")?);
                let failed = client.fail(&token, reason, error_type.as_str(), details.as_str());
                let settled = failed.await?;
                Ok(json!({"state": forms::state(settled.state), "replayed": settled.replayed}))
            }
            "describe" => {
                let wait = self.client(request)?.describe(&token(request)?).await?;
                Ok(json!({
                    "state": forms::state(wait.state),
                    "name": wait.name,
                    "timeout_ms": milliseconds(wait.timeout),
                    "timeout_source": forms::timeout_source(wait.timeout_source),
                }))
            }
            "by_deadline" => Ok(self.hold(Held::by_deadline(request).await?)),
            "hold" => Ok(self.hold(Held::with_keepalive(request).await?)),
            "crowd" => self.crowd(request).await,
            "warnings" => Ok(json!({"warnings": self.warnings.take()})),
            other => Err(Failure::client(format!("no such op: {other}"))),
        }
    }

    fn client(&self, request: &Value) -> Result<Client, Failure> {
        let target = text(request, "target")?;
        let mut clients = locked(&self.clients);
        if let Some(client) = clients.get(target) {
            return Ok(client.clone());
        }
        let client = Client::connect(&format!("http://{target}"))?;
        clients.insert(target.to_owned(), client.clone());
        Ok(client)
    }

    async fn open(&self, request: &Value) -> Result<Value, Failure> {
        let mut options = match request["timeout_ms"].as_u64() {
            Some(timeout) => OpenOptions::new().timeout(Duration::from_millis(timeout)),
            None => OpenOptions::new().no_timeout(),
        };
        if let Some(key) = request["key"].as_str() {
            options = options.key(key);
        }
        if !request["question"].is_null() {
            options = options.question(forms::question(&request["question"])?);
        }
        for (key, value) in request["labels"].as_object().into_iter().flatten() {
            options = options.label(key, value.as_str().unwrap_or_default());
        }
        let client = self.client(request)?;
        let wait = client.wait(text(request, "name")?, options).await?;
        let opened = wait.opened();
        let answer = json!({
            "token": opened.token.expose(),
            "wait_id": opened.wait_id,
            "asked": opened.asked,
            "resumed": opened.resumed,
            "timeout_ms": milliseconds(opened.timeout),
            "timeout_source": forms::timeout_source(opened.timeout_source),
        });
        let id = wait.wait_id().to_owned();
        locked(&self.followed).insert(id, Followed::Client(Box::new(wait)));
        Ok(answer)
    }

    async fn outcome(&self, request: &Value) -> Result<Value, Failure> {
        let id = text(request, "wait_id")?;
        let followed = locked(&self.followed).remove(id);
        match followed {
            Some(Followed::Client(wait)) => {
                let outcome = wait.outcome().await?;
                let reattached = wait.progress().borrow().reattached;
                Ok(forms::outcome(&outcome, reattached))
            }
            Some(Followed::Stub(held)) => held.outcome().await,
            None => Err(Failure::client(format!("the wait {id} is not followed"))),
        }
    }

    async fn resolve(&self, request: &Value) -> Result<Value, Failure> {
        let mut answer = match request["payload_json"].as_str() {
            Some(json) => Answer::json(json),
            None => forms::results(&request["results"])?.into(),
        };
        if request["partial"] == true {
            answer = answer.partial();
        }
        if let Some(who) = request["answered_by"].as_str() {
            answer = answer.by(who);
        }
        if let Some(id) = request["request_id"].as_str() {
            answer = answer.request_id(id);
        }
        let client = self.client(request)?;
        let settled = client.resolve(&token(request)?, answer).await?;
        Ok(json!({
            "state": forms::state(settled.state),
            "replayed": settled.replayed,
            "answered_by": settled.answered_by,
        }))
    }

    fn hold(&self, held: Held) -> Value {
        let opened = &held.opened;
        let source = opened.timeout_source().as_str_name();
        let timeout = opened.timeout.and_then(|t| Duration::try_from(t).ok());
        let answer = json!({
            "token": opened.token,
            "wait_id": opened.wait_id,
            "asked": opened.asked,
            "resumed": opened.resumed,
            "timeout_ms": milliseconds(timeout.unwrap_or_default()),
            "timeout_source": source.trim_start_matches("TIMEOUT_SOURCE_"),
        });
        let id = opened.wait_id.clone();
        locked(&self.followed).insert(id, Followed::Stub(Box::new(held)));
        answer
    }

    async fn crowd(&self, request: &Value) -> Result<Value, Failure> {
        let client = self.client(request)?;
        let name = text(request, "name")?;
        let mut opening = JoinSet::new();
        for _ in 0..request["count"].as_u64().unwrap_or_default() {
            let (client, name) = (client.clone(), name.to_owned());
            let options = OpenOptions::new().timeout(Duration::from_secs(300));
            opening.spawn(async move { client.wait(&name, options).await });
        }
        let mut waits = opening
            .join_all()
            .await
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        let last = waits
            .pop()
            .ok_or_else(|| Failure::client("count must be at least 1"))?;
        let begun = Instant::now();
        client.resolve(last.token(), "true").await?;
        let took = begun.elapsed();
        last.outcome().await?;
        let mut cancelling = JoinSet::new();
        for wait in waits {
            let client = client.clone();
            cancelling.spawn(async move {
                client.cancel(wait.token(), "The crowd goes home.").await?;
                wait.outcome().await
            });
        }
        for ended in cancelling.join_all().await {
            ended?;
        }
        Ok(json!({"resolve_ms": took.as_secs_f64() * 1000.0}))
    }
}

fn token(request: &Value) -> Result<Token, Failure> {
    Ok(Token::new(text(request, "token")?))
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
