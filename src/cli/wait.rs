//! `wait`: opens a wait, or attaches to one, and prints the answer when it comes.

use std::{
    pin::pin,
    process::ExitStatus,
    time::{Duration, SystemTime},
};

use clap::Args;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};

use super::{
    args::{Broker, Namespace, Spec},
    ask::Ask,
    exit::{self, Failure},
    input::{TokenFile, no_token},
    live::Line,
    outcome,
    output::{self, quoted},
    time,
};
use crate::client::{self, Client, Outcome, State, Token, Verdict, Wait, WaitError};

/// Open a wait, or attach to one, and print the answer when it comes
///
/// With --name it opens a wait, or re-opens it by its --key. With --key alone, --token, --token-file or ABEYANCE_TOKEN it
/// attaches to one that is there. The answer's JSON goes to stdout byte for byte, and nothing else does.
///
/// A wait about tool calls (--calls) has results however it ends: they go to stdout as Pydantic AI reads DeferredToolResults, also where it
/// failed, expired or was cancelled, with every call denied that nobody decided. Each decision is told on stderr as it comes; the last one
/// comes as the outcome.
///
/// With --ask the command is run beside the open stream, to hand the token on: by mail, by a chat message, to another program.
/// Without it the token is printed on stderr. Once it is handed on the wait is marked asked, and not asked again by whoever
/// re-opens it by its --key.
///
/// A cut connection and a restart of the broker do no harm: it attaches again by itself. Ctrl-C and SIGTERM cancel a wait that
/// it opened without --key; any other goes on at the broker, and can be attached to again: give what must survive a --key.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 answered, 3 failed, 4 expired, 5 cancelled, 70 the ask failed; see `abeyance --help`.

Examples:
  abeyance wait --name lunch --timeout 30m
  abeyance wait --name refund --key order-4711 --question '{\"amount\":50}' --ask './notify-slack'
  abeyance wait --name auto --ask 'abeyance resolve true'
  abeyance wait --name refund --calls @requests.json --timeout 2h > results.json
  abeyance wait --name stay --form @schema.json --message 'How many nights?'
  abeyance wait --key order-4711"
)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    spec: Spec,
    #[command(flatten, next_help_heading = "The wait")]
    namespace: Namespace,
    /// Run this command with `sh -c`, once, with ABEYANCE_TOKEN, ABEYANCE_WAIT_ID and ABEYANCE_SERVER in its environment. Exit 0
    /// means that the token was handed on. Its output goes to stderr; it is ended when an outcome arrives. If it fails, a wait
    /// without --key is cancelled, and one with --key can be asked for again by running this again
    #[arg(long, value_name = "COMMAND")]
    ask: Option<String>,
    /// Attach to the wait of this token
    #[arg(long, conflicts_with_all = ["name", "key", "token_file"])]
    token: Option<String>,
    #[command(flatten)]
    token_file: TokenFile,
    #[command(flatten)]
    broker: Broker,
}

/// How long an opening may go on once the command is interrupted.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Which wait, and whether it is this command's own.
enum Target {
    /// One that is opened, or re-opened by its key.
    Open {
        name: String,
        keyed: bool,
    },
    Key(String),
    Token(Token),
}

impl Target {
    fn of(args: &WaitArgs) -> Result<Self, Failure> {
        let by_name = args.spec.name.is_some() || args.spec.key.is_some();
        if by_name && args.token_file.token_file.is_some() {
            return Err(Failure::usage(
                "--token-file goes with neither --name nor --key",
            ));
        }
        if let Some(name) = &args.spec.name {
            return Ok(Self::Open {
                name: name.clone(),
                keyed: args.spec.key.is_some(),
            });
        }
        if args.spec.needs_name() {
            return Err(Failure::usage("--name is required to open a wait"));
        }
        if let Some(key) = &args.spec.key {
            return Ok(Self::Key(key.clone()));
        }
        if let Some(token) = &args.token {
            return Ok(Self::Token(Token::new(token)));
        }
        match args.token_file.elsewhere()? {
            Some(token) => Ok(Self::Token(token)),
            None => Err(no_token().and("or open a wait with --name")),
        }
    }

    /// Whether the wait ends with this command.
    fn is_own(&self) -> bool {
        matches!(self, Self::Open { keyed: false, .. })
    }

    /// What is waited for, in a few words.
    fn what(&self) -> &str {
        match self {
            Self::Open { name, .. } => name,
            Self::Key(key) => key,
            Self::Token(_) => "an answer",
        }
    }
}

pub(super) async fn run(args: WaitArgs) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let target = Target::of(&args)?;
    let client = args.broker.client()?;
    let wait = {
        let mut attaching = pin!(attach(&args, &target, &client));
        let attached = tokio::select! {
            wait = &mut attaching => Ok(wait?),
            signal = signals.next() => Err(signal),
        };
        match attached {
            Ok(wait) => wait,
            // It may be open already, and then it must not be forgotten.
            Err(signal) => match timeout(LAST_MOMENT, attaching).await {
                Ok(Ok(wait)) => return interrupted(&args, &target, &client, &wait, signal).await,
                _ => return Err(Failure::new(128 + signal, "interrupted")),
            },
        }
    };
    let mut ask = args
        .ask
        .as_deref()
        .map(|command| Ask::new(command, &args.broker.server));
    let end = tokio::select! {
        end = ask_and_wait(&args, &target, &client, &wait, ask.as_mut()) => Ok(end),
        signal = signals.next() => Err(signal),
    };
    if let Some(ask) = &mut ask {
        ask.stop(end.is_ok()).await;
    }
    match end {
        Ok(Ok(outcome)) => outcome::tell(outcome),
        Ok(Err(WaitError::Client(error))) => Err(args.broker.failure(error)),
        Ok(Err(error)) => ask_failed(&target, &client, &wait, &error).await,
        Err(signal) => {
            let leave = interrupted(&args, &target, &client, &wait, signal);
            tokio::select! {
                result = leave => result,
                // Asked twice to go, it goes.
                signal = signals.next() => Err(Failure::quiet(128 + signal)),
            }
        }
    }
}

async fn attach(args: &WaitArgs, target: &Target, client: &Client) -> Result<Wait, Failure> {
    let namespace = args.namespace.namespace.as_deref().unwrap_or_default();
    let attached = match target {
        Target::Open { name, .. } => client.wait(name, args.spec.options(&args.namespace)?).await,
        Target::Key(key) => client.attach_by_key(namespace, key).await,
        Target::Token(token) => client.attach(token).await,
    };
    attached.map_err(|e| {
        let failure = args.broker.failure(e.clone());
        args.spec.asked.explain(failure, &e)
    })
}

/// Hands the token on, unless that was done before, and waits for the outcome.
async fn ask_and_wait(
    args: &WaitArgs,
    target: &Target,
    client: &Client,
    wait: &Wait,
    ask: Option<&mut Ask<'_>>,
) -> Result<Outcome, WaitError> {
    // Whoever came with the token has it, and whoever came with a key alone did not come to ask.
    let opens = matches!(target, Target::Open { .. });
    if wait.opened().asked || (ask.is_none() && !opens) {
        let shown = tell_attached(args, client, wait, opens && ask.is_none());
        tokio::select! {
            biased;
            outcome = wait.outcome() => return Ok(outcome?),
            () = shown => {}
        }
    } else {
        match ask {
            Some(ask) => client.ask(wait, |ticket| run_command(ask, ticket)).await?,
            None => {
                let print = async |_| {
                    tell_opened(args, wait, true, None);
                    Ok::<_, Failed>(client::Ask::HandedOn)
                };
                client.ask(wait, print).await?;
            }
        }
    }
    let mut line = Line::new();
    tokio::select! {
        // First, since the line would tell that the stream is gone.
        biased;
        outcome = wait.outcome() => Ok(outcome?),
        never = line.show(target.what(), wait) => match never {},
    }
}

/// Tells of a wait that was there before, and that nobody is asked about now. Not if it has ended: its outcome says all.
async fn tell_attached(args: &WaitArgs, client: &Client, wait: &Wait, with_token: bool) {
    let found = client.describe(wait.token()).await.ok();
    if found.as_ref().is_some_and(|w| w.state != State::Pending) {
        return;
    }
    let asked = match (found.and_then(|w| w.ask_time), wait.opened().asked) {
        (Some(when), _) => format!("already, {}", time::at(when, SystemTime::now())),
        (None, true) => "already".to_owned(),
        (None, false) => "not yet".to_owned(),
    };
    let asked = match (&args.ask, wait.opened().asked) {
        (Some(_), true) => format!("{asked}; attached again, and --ask is not run again"),
        (None, true) => format!("{asked}; attached again"),
        (_, false) => format!("{asked}; attached"),
    };
    tell_opened(args, wait, with_token, Some(&asked));
}

/// Tells what is waited for, and with the token how it is answered.
fn tell_opened(args: &WaitArgs, wait: &Wait, with_token: bool, asked: Option<&str>) {
    let opened = wait.opened();
    if with_token {
        output::note(format_args!("token    {}", opened.token.expose()));
    }
    output::note(format_args!("wait id  {}", opened.wait_id));
    let expires = time::at(opened.expire_time, SystemTime::now());
    output::note(format_args!("expires  {expires}"));
    if let Some(asked) = asked {
        output::note(format_args!("asked    {asked}"));
    }
    if with_token {
        output::note(how_to_answer(args));
    }
}

/// How whoever gets the token answers, wherever that is.
fn how_to_answer(args: &WaitArgs) -> String {
    let server = args.broker.flag_elsewhere();
    let show = format!("abeyance show{server} TOKEN");
    let resolve = format!("abeyance resolve{server} TOKEN JSON");
    let asked = &args.spec.asked;
    if asked.asks_calls() {
        format!("decide   {show}, then abeyance approve, deny or answer, as it tells")
    } else if asked.asks_form() {
        format!("answer   {resolve}; first {show}")
    } else {
        format!("answer   {resolve}")
    }
}

/// A command that did not hand the token on.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Status(ExitStatus),
    #[error("the shell cannot be started: {0}")]
    Start(#[from] std::io::Error),
}

async fn run_command(ask: &mut Ask<'_>, ticket: client::Ticket) -> Result<client::Ask, Failed> {
    let status = ask.run(ticket).await?;
    if !status.success() {
        return Err(Failed::Status(status));
    }
    Ok(client::Ask::HandedOn)
}

/// After a failed ask a wait of our own is cancelled; a keyed one can be asked for again.
async fn ask_failed(
    target: &Target,
    client: &Client,
    wait: &Wait,
    error: &WaitError,
) -> Result<(), Failure> {
    let failure = Failure::new(exit::ASK_FAILED, format!("error: {error}"));
    if !target.is_own() {
        return Err(failure.and("the wait stays open and not asked; the same command asks again"));
    }
    match client.cancel(wait.token(), "The ask failed.").await {
        Ok(outcome) if !is_cancelled(&outcome) => outcome::tell(outcome),
        Ok(_) => Err(failure.and("the wait was cancelled")),
        Err(error) => Err(failure.and(format!("the wait could not be cancelled: {error}"))),
    }
}

/// Ctrl-C or SIGTERM: a wait of our own is cancelled, any other goes on.
async fn interrupted(
    args: &WaitArgs,
    target: &Target,
    client: &Client,
    wait: &Wait,
    signal: u8,
) -> Result<(), Failure> {
    let code = 128 + signal;
    if !target.is_own() {
        let again = come_back(args, target);
        return Err(Failure::new(
            code,
            format!("interrupted; the wait goes on. Come back with: {again}"),
        ));
    }
    match client
        .cancel(wait.token(), "The worker was interrupted.")
        .await
    {
        Ok(outcome) => outcome::tell(outcome),
        Err(error) => Err(Failure::new(
            code,
            format!("interrupted; the wait could not be cancelled: {error}"),
        )),
    }
}

fn come_back(args: &WaitArgs, target: &Target) -> String {
    let mut command = format!("abeyance wait{}", args.broker.flag_elsewhere());
    if let Some(namespace) = &args.namespace.namespace {
        command.push_str(&format!(" --namespace {}", quoted(namespace)));
    }
    match (target, &args.spec.key) {
        (Target::Token(_), _) | (_, None) => command.push_str(" --token-file FILE"),
        (_, Some(key)) => command.push_str(&format!(" --key {}", quoted(key))),
    }
    command
}

fn is_cancelled(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Cancelled { .. })
}

/// Ctrl-C and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|e| Failure::os("cannot listen for signals", &e));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// The number of the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}
