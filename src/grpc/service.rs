//! One short method for each rpc: decode, one call of the broker, encode.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};

use super::{
    Options, answer, bounds::Bounds, check, convert, deadline::Deadline, question, status::refused,
    stream::WaitStream, watch::WatchTask,
};
use crate::{
    broker::{Attached, Broker},
    domain::{Answer, Command, Ending, Record, Refusal, Verdict, WaitId, limits::Limits},
    proto::v1::{
        self, attach_request::Target, inbox_service_server::InboxService,
        resolve_service_server::ResolveService, wait_service_server::WaitService,
    },
};

/// The three services over one broker. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) broker: Broker,
    pub(super) options: Options,
    pub(super) watches: TaskTracker,
}

impl Door {
    /// Verifies the token, then checks what came with it: a guessed token is told before anything else is looked at.
    async fn apply(
        &self,
        token: &str,
        check: impl FnOnce(&Limits) -> Result<Command, Refusal>,
    ) -> Result<(Record, Verdict), Status> {
        let id = self.broker.verify(token)?;
        let command = check(self.broker.limits()).map_err(|r| refused(&r))?;
        Ok(self.broker.apply_to(id, command).await?)
    }

    fn attached<M>(
        &self,
        attached: Attached,
        bounds: Bounds,
        wrap: fn(v1::WaitEvent) -> M,
    ) -> Response<WaitStream<M>> {
        Response::new(WaitStream::new(attached, bounds, &self.options, wrap))
    }
}

fn deadline<T>(request: &Request<T>) -> Option<Deadline> {
    request.extensions().get().copied()
}

fn bounds<T>(request: &Request<T>, options: &Options) -> Bounds {
    Bounds::new(
        deadline(request),
        request.extensions().get().copied(),
        options,
    )
}

#[tonic::async_trait]
impl WaitService for Door {
    type WaitStream = WaitStream<v1::WaitResponse>;
    type AttachStream = WaitStream<v1::AttachResponse>;

    async fn wait(
        &self,
        request: Request<v1::WaitRequest>,
    ) -> Result<Response<Self::WaitStream>, Status> {
        let bounds = bounds(&request, &self.options);
        let timeout = deadline(&request).map(|d| d.timeout);
        let request = request.into_inner();
        let open = check::open(
            request.spec,
            &request.request_id,
            timeout,
            self.broker.limits(),
        );
        let attached = self
            .broker
            .open_attached(open.map_err(|r| refused(&r))?)
            .await?;
        let wrap = |event| v1::WaitResponse { event: Some(event) };
        Ok(self.attached(attached, bounds, wrap))
    }

    async fn open_wait(
        &self,
        request: Request<v1::OpenWaitRequest>,
    ) -> Result<Response<v1::OpenWaitResponse>, Status> {
        let request = request.into_inner();
        let open = check::open(
            request.spec,
            &request.request_id,
            None,
            self.broker.limits(),
        );
        let (wait, token, resumed) = self.broker.open(open.map_err(|r| refused(&r))?).await?;
        let outcome = wait.record.outcome.as_ref();
        Ok(Response::new(v1::OpenWaitResponse {
            opened: Some(convert::opened(&wait, &token, resumed, None)),
            outcome: outcome.map(|outcome| convert::outcome(wait.record.id, outcome)),
        }))
    }

    async fn attach(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let bounds = bounds(&request, &self.options);
        let attached = match request.into_inner().target {
            Some(Target::Token(token)) => self.broker.attach(&token).await?,
            Some(Target::Key(key)) => {
                let (namespace, key) = check::wait_key(&key).map_err(|r| refused(&r))?;
                self.broker.attach_by_key(namespace, key).await?
            }
            None => {
                return Err(refused(&Refusal::field(
                    "target",
                    "is required: token or key",
                )));
            }
        };
        let wrap = |event| v1::AttachResponse { event: Some(event) };
        Ok(self.attached(attached, bounds, wrap))
    }

    async fn set_question(
        &self,
        request: Request<v1::SetQuestionRequest>,
    ) -> Result<Response<v1::SetQuestionResponse>, Status> {
        let request = request.into_inner();
        let checked = |limits: &Limits| {
            question::check("question", request.question, limits).map(Command::SetQuestion)
        };
        self.apply(&request.token, checked).await?;
        Ok(Response::new(v1::SetQuestionResponse {}))
    }

    async fn mark_asked(
        &self,
        request: Request<v1::MarkAskedRequest>,
    ) -> Result<Response<v1::MarkAskedResponse>, Status> {
        let (record, _) = self
            .apply(&request.get_ref().token, |_| Ok(Command::MarkAsked))
            .await?;
        Ok(Response::new(v1::MarkAskedResponse {
            ask_time: record.ask_time.map(convert::to_timestamp),
        }))
    }

    async fn cancel_wait(
        &self,
        request: Request<v1::CancelWaitRequest>,
    ) -> Result<Response<v1::CancelWaitResponse>, Status> {
        let request = request.into_inner();
        let checked = |_: &Limits| check::cancel(&request.reason);
        let (record, _) = self.apply(&request.token, checked).await?;
        let outcome = record.outcome.as_ref();
        Ok(Response::new(v1::CancelWaitResponse {
            outcome: outcome.map(|outcome| convert::outcome(record.id, outcome)),
        }))
    }
}

/// What an accepted `Resolve` and an accepted `Fail` tell alike.
struct Settled {
    wait_id: String,
    state: i32,
    settle_time: Option<prost_types::Timestamp>,
    replayed: bool,
}

impl From<(Record, Verdict)> for Settled {
    fn from((record, verdict): (Record, Verdict)) -> Self {
        Self {
            wait_id: record.id.to_string(),
            state: convert::to_state(record.state()).into(),
            settle_time: record.outcome.map(|o| convert::to_timestamp(o.settle_time)),
            replayed: verdict == Verdict::Repeat,
        }
    }
}

/// Who gave the answer that is recorded, or which calls are decided and by whom.
fn answered(record: &Record) -> (String, Option<v1::Progress>) {
    let by = match record.outcome.as_ref().map(|outcome| &outcome.ending) {
        Some(Ending::Resolved(Answer::Json { answered_by, .. })) => {
            convert::by(answered_by.as_ref())
        }
        _ => String::new(),
    };
    (by, answer::progress_of(record))
}

#[tonic::async_trait]
impl ResolveService for Door {
    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        let mut request = request.into_inner();
        let token = std::mem::take(&mut request.token);
        let checked = |limits: &Limits| answer::resolve(request, limits);
        let (record, verdict) = self.apply(&token, checked).await?;
        let (answered_by, progress) = answered(&record);
        let settled = Settled::from((record, verdict));
        Ok(Response::new(v1::ResolveResponse {
            answered_by,
            progress,
            wait_id: settled.wait_id,
            state: settled.state,
            settle_time: settled.settle_time,
            replayed: settled.replayed,
        }))
    }

    async fn fail(
        &self,
        request: Request<v1::FailRequest>,
    ) -> Result<Response<v1::FailResponse>, Status> {
        let request = request.into_inner();
        let checked = |limits: &Limits| check::fail(&request, limits);
        let settled = Settled::from(self.apply(&request.token, checked).await?);
        Ok(Response::new(v1::FailResponse {
            wait_id: settled.wait_id,
            state: settled.state,
            settle_time: settled.settle_time,
            replayed: settled.replayed,
        }))
    }

    async fn describe_wait(
        &self,
        request: Request<v1::DescribeWaitRequest>,
    ) -> Result<Response<v1::DescribeWaitResponse>, Status> {
        let wait = self.broker.describe(&request.get_ref().token).await?;
        Ok(Response::new(v1::DescribeWaitResponse {
            wait: Some(convert::whole(wait)),
        }))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        let (record, _) = self
            .apply(&request.get_ref().token, |_| Ok(Command::Heartbeat))
            .await?;
        let expire_time = record.heartbeat_expire_time();
        Ok(Response::new(v1::HeartbeatResponse {
            heartbeat_expire_time: expire_time.map(convert::to_timestamp),
        }))
    }
}

/// Of one page of a list: what is given where nothing is asked for, and the most.
const PAGE_SIZE: (usize, usize) = (50, 1000);

#[tonic::async_trait]
impl InboxService for Door {
    type WatchWaitsStream = ReceiverStream<Result<v1::WatchWaitsResponse, Status>>;

    async fn list_waits(
        &self,
        request: Request<v1::ListWaitsRequest>,
    ) -> Result<Response<v1::ListWaitsResponse>, Status> {
        let request = request.into_inner();
        let filter = check::filter(request.filter, self.broker.limits());
        let filter = filter.map_err(|r| refused(&r))?;
        let limit = match usize::try_from(request.page_size) {
            Ok(0) => PAGE_SIZE.0,
            Ok(size) => size.min(PAGE_SIZE.1),
            Err(_) => {
                return Err(refused(&Refusal::field(
                    "page_size",
                    "must not be negative",
                )));
            }
        };
        let before = page_token(&request.page_token).map_err(|r| refused(&r))?;
        let page = self.broker.list(&filter, before, limit).await?;
        Ok(Response::new(v1::ListWaitsResponse {
            waits: page.waits.iter().map(convert::summary).collect(),
            next_page_token: page.next.map_or_else(String::new, |id| id.to_string()),
        }))
    }

    async fn get_wait(
        &self,
        request: Request<v1::GetWaitRequest>,
    ) -> Result<Response<v1::GetWaitResponse>, Status> {
        let id = check::wait_id(&request.get_ref().wait_id).map_err(|r| refused(&r))?;
        let wait = self.broker.get(id).await?;
        Ok(Response::new(v1::GetWaitResponse {
            wait: Some(convert::whole(wait)),
        }))
    }

    async fn watch_waits(
        &self,
        request: Request<v1::WatchWaitsRequest>,
    ) -> Result<Response<Self::WatchWaitsStream>, Status> {
        let bounds = bounds(&request, &self.options);
        let filter = check::filter(request.into_inner().filter, self.broker.limits());
        let watch = self.broker.watch(filter.map_err(|r| refused(&r))?)?;
        let (out, told) = mpsc::channel(16);
        let task = WatchTask {
            broker: self.broker.clone(),
            watch,
            bounds,
            options: self.options,
            out,
        };
        self.watches.spawn(task.run());
        Ok(Response::new(ReceiverStream::new(told)))
    }
}

/// Where a page begins: the last id of the page before.
fn page_token(text: &str) -> Result<Option<WaitId>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        Refusal::field(
            "page_token",
            "is not one; pass on next_page_token as it came, or leave it out",
        )
    })
}
