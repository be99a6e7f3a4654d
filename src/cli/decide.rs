//! `approve`, `deny` and `answer`: decisions on the tool calls of a wait, each by whoever may make it.

use clap::Args;

use super::{
    args::Broker,
    exit::{self, Failure},
    input::{CALL_HELP, JsonSource, PREFIX, TOKEN_HELP, TokenFile},
    output, progress, record,
    undecided::{self, Why},
    way::Way,
};
use crate::client::{
    Answer, CallKind, Client, DeferredToolCall, DeferredToolRequests, DeferredToolResults,
    Question, Settled, State, Token, WaitInfo,
};

/// Approve tool calls that wait for it, so that they run
///
/// Approves the calls that are named, or without CALL each one whose approval is still pending. All of them are recorded or none. What is
/// not named stays for somebody else to decide, and the worker goes on once the last call is decided. A decision is never overruled; the same
/// one again is fine.
#[derive(Debug, Args)]
#[command(
    after_help = TOKEN_HELP,
    after_long_help = format!("{TOKEN_HELP} {CALL_HELP}

Examples:
  abeyance show abey_AQGT...                        # what is to be approved
  abeyance approve abey_AQGT... call_1 --by alice
  abeyance approve abey_AQGT...                     # every approval that is pending
  abeyance approve --token-file token.txt call_1 --override-args '{{\"amount\": 100}}'"),
    override_usage = "abeyance approve [OPTIONS] [TOKEN] [CALL]..."
)]
pub(super) struct ApproveArgs {
    /// The token, unless it comes from elsewhere, and the ids of the calls, as `show` tells them
    #[arg(value_name = "ARGUMENT", hide = true)]
    arguments: Vec<String>,
    /// Run the call, exactly one, with these arguments instead of the model's: a JSON object, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    override_args: Option<JsonSource>,
    #[command(flatten)]
    common: Common,
}

/// Deny tool calls, so that they do not run
///
/// Denies the calls that are named, or without CALL everything that is still pending: approvals are denied, and calls that need a result or
/// an answer fail. The model is told the message. The run goes on, once the last call is decided; `fail` ends the wait instead.
#[derive(Debug, Args)]
#[command(
    after_help = TOKEN_HELP,
    after_long_help = format!("{TOKEN_HELP} {CALL_HELP}

Examples:
  abeyance deny abey_AQGT... call_1 --message 'Over the limit.' --by bob
  abeyance deny abey_AQGT...                        # everything that is pending"),
    override_usage = "abeyance deny [OPTIONS] [TOKEN] [CALL]..."
)]
pub(super) struct DenyArgs {
    /// The token, unless it comes from elsewhere, and the ids of the calls, as `show` tells them
    #[arg(value_name = "ARGUMENT", hide = true)]
    arguments: Vec<String>,
    /// What the model is told
    #[arg(long, value_name = "TEXT", default_value = DENIED)]
    message: String,
    #[command(flatten)]
    common: Common,
}

/// What a model is told of a call that was denied without a word. The broker says the same.
const DENIED: &str = "The tool call was denied.";

/// Give the result of a tool call that is made elsewhere, or answer a model's question
///
/// The JSON is the value that the call returns, whatever it looks like. What else a call may end with, such as a demand to try again, goes by
/// `resolve --partial`.
#[derive(Debug, Args)]
#[command(
    after_help = TOKEN_HELP,
    after_long_help = format!("{TOKEN_HELP} {CALL_HELP}

A wait that asks a free question or for a form is answered by `abeyance resolve`; a call that needs an approval by `approve` or `deny`.

Examples:
  abeyance answer abey_AQGT... call_2 '{{\"status\": \"shipped\"}}'
  abeyance answer --token-file token.txt call_3 '\"blue\"' --by alice
  ./ship 4711 | abeyance answer abey_AQGT... call_2 -"),
    override_usage = "abeyance answer [OPTIONS] [TOKEN] <CALL> <JSON|@FILE|->"
)]
pub(super) struct AnswerArgs {
    /// The token, unless it comes from elsewhere, the id of the call, and the value: JSON text, `@FILE`, or `-` for stdin
    #[arg(value_name = "ARGUMENT", num_args = 0..=3, allow_negative_numbers = true, hide = true)]
    arguments: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// What the three have in common.
#[derive(Debug, Args)]
struct Common {
    /// Who decides, for the record
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    token: TokenFile,
    /// Print one JSON object: wait_id, state, settle_time, replayed, progress (what is decided and what is pending)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: Broker,
}

impl Common {
    fn split(&self, arguments: Vec<String>) -> Result<(Token, Way, Vec<String>), Failure> {
        let given = self.token.split_calls(arguments)?;
        let way = Way::new(&self.broker, &self.token, given.is_argument);
        Ok((given.token, way, given.rest))
    }
}

pub(super) async fn approve(args: ApproveArgs) -> Result<(), Failure> {
    let common = &args.common;
    let (token, way, ids) = common.split(args.arguments)?;
    let override_args = match &args.override_args {
        Some(source) => {
            common.token.leaves_stdin_to(source)?;
            if ids.len() > 1 {
                return Err(one_override());
            }
            Some(source.read()?)
        }
        None => None,
    };
    let order = Order {
        common,
        token: &token,
        way: &way,
        ids: &ids,
        all: |call| call.kind == CallKind::Approval,
        source: args.override_args.as_ref(),
    };
    order
        .carry_out(|results, call| match (call.kind, &override_args) {
            (CallKind::Approval, None) => Ok(results.approve(&call.tool_call_id)),
            (CallKind::Approval, Some(_)) if !results.approvals.is_empty() => Err(one_override()),
            (CallKind::Approval, Some(json)) => {
                Ok(results.approve_with(&call.tool_call_id, json.as_str()))
            }
            _ => Err(undecided::wrong_kind(call, &way)),
        })
        .await
}

pub(super) async fn deny(args: DenyArgs) -> Result<(), Failure> {
    let (token, way, ids) = args.common.split(args.arguments)?;
    let order = Order {
        common: &args.common,
        token: &token,
        way: &way,
        ids: &ids,
        all: |_| true,
        source: None,
    };
    order
        .carry_out(|results, call| match call.kind {
            CallKind::Approval => Ok(results.deny(&call.tool_call_id, &args.message)),
            CallKind::External | CallKind::Question => {
                Ok(results.failed(&call.tool_call_id, &args.message))
            }
            _ => Err(undecided::wrong_kind(call, &way)),
        })
        .await
}

pub(super) async fn answer(args: AnswerArgs) -> Result<(), Failure> {
    let common = &args.common;
    let (token, way, mut ids) = common.split(args.arguments)?;
    let (Some(source), 1) = (ids.pop(), ids.len()) else {
        return Err(Failure::usage(
            "a call and its value are needed: abeyance answer [TOKEN] CALL JSON; a free question or a form is answered by \
             `abeyance resolve`",
        ));
    };
    let Ok(source) = source.parse::<JsonSource>();
    common.token.leaves_stdin_to(&source)?;
    let value = source.read()?;
    let order = Order {
        common,
        token: &token,
        way: &way,
        ids: &ids,
        all: |_| false,
        source: Some(&source),
    };
    order
        .carry_out(|results, call| match call.kind {
            CallKind::External | CallKind::Question => {
                Ok(results.value(&call.tool_call_id, value.as_str()))
            }
            _ => Err(undecided::wrong_kind(call, &way)),
        })
        .await
}

/// What to decide.
struct Order<'a> {
    common: &'a Common,
    token: &'a Token,
    way: &'a Way,
    /// The calls that were named.
    ids: &'a [String],
    /// Those that are meant where none was.
    all: fn(&DeferredToolCall) -> bool,
    /// The JSON that came with it.
    source: Option<&'a JsonSource>,
}

impl Order<'_> {
    /// Decides each call that is meant, by `decide`, and tells what is recorded.
    async fn carry_out(
        &self,
        decide: impl Fn(DeferredToolResults, &DeferredToolCall) -> Result<DeferredToolResults, Failure>,
    ) -> Result<(), Failure> {
        let client = self.common.broker.client()?;
        let mut overtaken = 0;
        loop {
            let wait = self.describe(&client).await?;
            let requests = match &wait.question {
                Some(Question::Deferred(requests)) if !requests.calls.is_empty() => requests,
                _ => return Err(self.why(&client).nothing_asked(&wait).await),
            };
            let (calls, may_shrink) = self.meant(&wait, requests)?;
            let results = calls
                .iter()
                .try_fold(DeferredToolResults::new(), |results, call| {
                    decide(results, call)
                })?;
            let mut answer = Answer::from(results);
            if let Some(who) = &self.common.by {
                answer = answer.by(who);
            }
            match client.decide(self.token, answer).await {
                Ok(settled) => return self.tell(&settled, requests, &calls),
                // Somebody was faster with one of those that were pending. Fewer are now.
                Err(error)
                    if may_shrink
                        && error.reason() == Some("ALREADY_DECIDED")
                        && overtaken < requests.calls.len() =>
                {
                    overtaken += 1;
                }
                Err(error) => {
                    let failure = self.why(&client).refused(&error, &calls).await;
                    return Err(match self.source {
                        Some(source) => source.explain(failure, &error),
                        None => failure,
                    });
                }
            }
        }
    }

    fn why<'c>(&'c self, client: &'c Client) -> Why<'c> {
        Why {
            client,
            token: self.token,
            way: self.way,
        }
    }

    async fn describe(&self, client: &Client) -> Result<WaitInfo, Failure> {
        let wait = client.describe(self.token).await;
        wait.map_err(|e| {
            let failure = self.way.failure(e.clone());
            // It may be a call whose id has the form of a token.
            match e.reason() {
                Some("TOKEN_UNKNOWN") if self.common.token.is_overruled(self.token) => failure.and(
                    "hint: the first argument was taken for the token; if it is the id of a call, give the token before it",
                ),
                _ => failure,
            }
        })
    }

    /// The calls that are meant, and whether that depends on which are pending.
    fn meant<'r>(
        &self,
        wait: &WaitInfo,
        requests: &'r DeferredToolRequests,
    ) -> Result<(Vec<&'r DeferredToolCall>, bool), Failure> {
        if !self.ids.is_empty() {
            return Ok((self.named(requests)?, false));
        }
        let all: Vec<_> = requests.calls.iter().filter(|c| (self.all)(c)).collect();
        let Some(first) = requests.calls.first().filter(|_| all.is_empty()) else {
            let decided = wait.decided.clone().unwrap_or_default();
            let pending = progress::pending(requests, &decided);
            let is_pending = |call: &&&DeferredToolCall| pending.contains(&&*call.tool_call_id);
            let left: Vec<_> = all.iter().filter(is_pending).copied().collect();
            // Where nothing is left, the broker knows whether all was decided so before. That is a repeat then.
            return Ok(match wait.state {
                State::Pending if !left.is_empty() => (left, true),
                _ => (all, false),
            });
        };
        let none = "error: no call of this wait needs an approval";
        Err(Failure::new(exit::REFUSED, none).and(undecided::hint(first, self.way)))
    }

    fn tell(
        &self,
        settled: &Settled,
        requests: &DeferredToolRequests,
        calls: &[&DeferredToolCall],
    ) -> Result<(), Failure> {
        if self.common.json {
            return output::json(&record::Settled::new(settled, Some(requests)));
        }
        output::line(&progress::recorded(settled, requests, calls))
    }

    /// The calls that were named, each once.
    fn named<'r>(
        &self,
        requests: &'r DeferredToolRequests,
    ) -> Result<Vec<&'r DeferredToolCall>, Failure> {
        let mut calls: Vec<&DeferredToolCall> = Vec::new();
        for id in self.ids {
            let call = requests.calls.iter().find(|c| c.tool_call_id == *id);
            let Some(call) = call else {
                let known: Vec<_> = requests.calls.iter().map(|c| &*c.tool_call_id).collect();
                // It may be a token that stands in the wrong place.
                let shown = output::without_tokens(id);
                let unknown = format!("error: this wait has no call {}", output::id(&shown));
                let known = format!("hint: its calls are {}", progress::names(&known));
                let failure = Failure::new(exit::REFUSED, unknown).and(known);
                return Err(match id.trim().starts_with(PREFIX) {
                    true => failure.and("hint: if that is meant to be a token, it is not whole"),
                    false => failure,
                });
            };
            if calls.iter().all(|c| c.tool_call_id != *id) {
                calls.push(call);
            }
        }
        Ok(calls)
    }
}

fn one_override() -> Failure {
    Failure::usage("--override-args goes with exactly one call; name it")
}
