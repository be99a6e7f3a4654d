import { create } from "@bufbuild/protobuf";

import { type Answer, type AnswerOptions, resolveRequest } from "./answer.js";
import { Core } from "./core.js";
import { type Ask, cancelWait, openWait, type ToolResults, toolResults, waitAsking } from "./external.js";
import { GetWaitRequestSchema, InboxService } from "./gen/abeyance/v1/inbox_service_pb.js";
import {
  DescribeWaitRequestSchema,
  FailRequestSchema,
  HeartbeatRequestSchema,
  ResolveService,
} from "./gen/abeyance/v1/resolve_service_pb.js";
import {
  AttachRequestSchema,
  MarkAskedRequestSchema,
  SetQuestionRequestSchema,
  WaitService,
} from "./gen/abeyance/v1/wait_service_pb.js";
import { type Filter, type ListOptions, list, type WatchEvent, watch } from "./inbox.js";
import { checkNames, type Names } from "./keys.js";
import { checkNotEmpty, type OpenOptions, type SignalOption, signalOnly, waitRequest } from "./options.js";
import { type Outcome, type Resolved, unanswered } from "./outcome.js";
import { type NewToolCall, Question, questionToWire } from "./question.js";
import { DeferredToolResults } from "./results.js";
import type { Settings } from "./settings.js";
import { optionalTime } from "./time.js";
import { infoFromWire, type OpenedWait, type Settled, settledFromWire, type WaitInfo } from "./types.js";
import { attach, type Wait } from "./wait.js";

/** What a resolver may say about one decision. */
export interface DecisionOptions extends SignalOption {
  /** Who decides: up to 256 characters. Default: not said. */
  readonly answeredBy?: string | undefined;
  /** Run the tool with these arguments instead of the model's. Only for an approval. Default: with the model's. */
  readonly overrideArgs?: Readonly<Record<string, unknown>> | undefined;
}

/** What a resolver may say about a failure. */
export interface FailOptions extends SignalOption {
  /** A name for the kind of failure, for programs: up to 256 characters. Default: none. */
  readonly errorType?: string | undefined;
  /** More about it: JSON text. Default: none. */
  readonly detailsJson?: string | undefined;
  /** The resolver's own id for this failure, as for an answer. Default: none. */
  readonly requestId?: string | undefined;
}

const DENIAL: Names<Omit<DecisionOptions, "overrideArgs">> = { signal: true, answeredBy: true };
const DECISION: Names<DecisionOptions> = { ...DENIAL, overrideArgs: true };
const FAILURE: Names<FailOptions> = { signal: true, errorType: true, detailsJson: true, requestId: true };
const TARGET = { key: true, namespace: true } as const;

/**
 * A client of one broker. It connects when the first call needs it, and keeps three connections: for the streams of waits, for calls, for watches.
 *
 * Every call is safe to repeat, so every call is repeated by itself while the broker cannot be reached, for as long as `Settings.patienceMs`
 * says, with full jitter. A clear refusal is never repeated. Calls reject with an `AbeyanceError`: `Refused`, `Unavailable`, `ProtocolError` or,
 * once the client is closed, `Stopped`. The first try that gets no answer is told as a warning, once until a call succeeds again.
 *
 * An option that is not known is a `TypeError`, which names the one that was probably meant.
 */
export class AbeyanceClient implements AsyncDisposable {
  readonly #core: Core;

  /**
   * @param target The broker, as `host:port` or `http://host:port`, with a port of 1 to 65535. Throws a `TypeError` for anything else.
   * @param settings How it connects and how patient it is. Throws a `RangeError` for a time that cannot be one.
   */
  constructor(target = "127.0.0.1:2239", settings: Settings = {}) {
    this.#core = new Core(target, settings);
  }

  /**
   * Opens a wait, or re-opens it by its key, without staying attached. Durable when it resolves.
   *
   * `name` says what kind of wait this is, 1 to 256 characters. Refused for example with `INVALID_FIELD` or `KEY_CONFLICT`.
   */
  async open(name: string, options: OpenOptions = {}): Promise<OpenedWait> {
    return openWait(this.#core, waitRequest(name, options), { signal: options.signal });
  }

  /**
   * Opens a wait, or re-opens it by its key, and stays attached. Resolves once the wait is durable; the outcome may be there already. The signal
   * ends the opening alone; a wait without a key that was opened by then runs until its timeout. Refused as `open`.
   */
  async wait(name: string, options: OpenOptions = {}): Promise<Wait> {
    return attach(this.#core, { wait: waitRequest(name, options) }, options.signal);
  }

  /**
   * Attaches to a wait in any state, by its token, or by its key and namespace (default: `default`). Never opens one. Refused with
   * `TOKEN_UNKNOWN`, `WAIT_UNKNOWN` or `WAIT_PURGED`.
   */
  async attach(
    target: string | { readonly key: string; readonly namespace?: string },
    options: SignalOption = {},
  ): Promise<Wait> {
    if (typeof target !== "string") {
      checkNames("the wait to attach to", target, TARGET);
      checkNotEmpty("key", target.key);
    }
    const request = create(AttachRequestSchema, {
      target:
        typeof target === "string"
          ? { case: "token", value: target }
          : { case: "key", value: { key: target.key, namespace: target.namespace ?? "" } },
    });
    return attach(this.#core, { attach: request }, signalOnly(options).signal);
  }

  /**
   * Answers a wait: with a value, with JSON text that is delivered byte for byte, or with decisions on tool calls. When it resolves, the answer is
   * durable and is what every worker gets.
   *
   * A refusal leaves the wait as it was: `INVALID_JSON` with the position; `INVALID_ANSWER` with each fault among `violations`; `ALREADY_SETTLED`
   * for a wait with another outcome (the same answer again is OK); `ALREADY_DECIDED` for a tool call that was decided otherwise; `TOKEN_UNKNOWN`,
   * `WAIT_PURGED`; `QUESTION_NOT_SET` with a retry delay. Throws a `TypeError` for a value that has no JSON form.
   */
  async resolve(token: string, answer: Answer & AnswerOptions, options: SignalOption = {}): Promise<Settled> {
    const request = resolveRequest(token, answer, answer);
    return settledFromWire(await this.#core.call(ResolveService.method.resolve, request, signalOnly(options)));
  }

  /**
   * Lets one tool run, and leaves the wait open until the last of its calls is decided. A click that comes twice is OK, and `Settled.decided` then
   * names who was first. Refused as `resolve`.
   */
  async approve(token: string, toolCallId: string, options: DecisionOptions = {}): Promise<Settled> {
    checkNames("the options", options, DECISION);
    const { answeredBy, overrideArgs, signal } = options;
    const results = new DeferredToolResults().approve(toolCallId, overrideArgs);
    return this.resolve(token, { results, partial: true, answeredBy }, { signal });
  }

  /** Keeps one tool from running, likewise; `message` is what the model is told. Default: `The tool call was denied.` */
  async deny(
    token: string,
    toolCallId: string,
    message?: string,
    options: Omit<DecisionOptions, "overrideArgs"> = {},
  ): Promise<Settled> {
    checkNames("the options", options, DENIAL);
    const { answeredBy, signal } = options;
    const results = new DeferredToolResults().deny(toolCallId, message);
    return this.resolve(token, { results, partial: true, answeredBy }, { signal });
  }

  /** Ends a wait without an answer: the worker gets the reason, as data. `reason` is for people, at most 4096 characters. Refused as `resolve`. */
  async fail(token: string, reason: string, options: FailOptions = {}): Promise<Settled> {
    checkNames("the options", options, FAILURE);
    const request = create(FailRequestSchema, {
      token,
      reason,
      errorType: options.errorType ?? "",
      detailsJson: options.detailsJson ?? "",
      requestId: options.requestId ?? "",
    });
    return settledFromWire(await this.#core.call(ResolveService.method.fail, request, { signal: options.signal }));
  }

  /**
   * Withdraws a wait whose answer is no longer needed, and gives what is recorded: cancelled, or the outcome that came before. `reason` is for
   * people, at most 4096 characters. Refused with `TOKEN_UNKNOWN` or `WAIT_PURGED`.
   */
  async cancel(token: string, reason = "", options: SignalOption = {}): Promise<Outcome> {
    return cancelWait(this.#core, token, reason, signalOnly(options));
  }

  /**
   * Shows a wait by its token: what is asked, until when, and the outcome if there is one. Refused with `TOKEN_UNKNOWN` or `WAIT_PURGED`.
   */
  async describe(token: string, options: SignalOption = {}): Promise<WaitInfo> {
    const request = create(DescribeWaitRequestSchema, { token });
    return infoFromWire((await this.#core.call(ResolveService.method.describeWait, request, signalOnly(options))).wait);
  }

  /** Shows a wait by its public name, for people's tools. Refused with `WAIT_UNKNOWN`. */
  async get(waitId: string, options: SignalOption = {}): Promise<WaitInfo> {
    const request = create(GetWaitRequestSchema, { waitId });
    return infoFromWire((await this.#core.call(InboxService.method.getWait, request, signalOnly(options))).wait);
  }

  /**
   * Says that the answering side is alive, and gives when the heartbeat timeout now runs out: `undefined` where no heartbeat is demanded and before
   * the wait is asked. Refused with `ALREADY_SETTLED`: stop working on it.
   */
  async heartbeat(token: string, options: SignalOption = {}): Promise<Date | undefined> {
    const request = create(HeartbeatRequestSchema, { token });
    const response = await this.#core.call(ResolveService.method.heartbeat, request, signalOnly(options));
    return optionalTime(response.heartbeatExpireTime);
  }

  /**
   * Records that question and token were handed on, so that a worker that runs again does not ask again. Starts the heartbeat clock. Idempotent:
   * gives when it was first marked, `undefined` if the wait was settled before anybody marked it. Refused with `TOKEN_UNKNOWN` or `WAIT_PURGED`.
   */
  async markAsked(token: string, options: SignalOption = {}): Promise<Date | undefined> {
    const request = create(MarkAskedRequestSchema, { token });
    return optionalTime((await this.#core.call(WaitService.method.markAsked, request, signalOnly(options))).askTime);
  }

  /**
   * Sets the question of a wait that was opened with `questionLater`. The same question again is OK. Refused with `QUESTION_CONFLICT`,
   * `ALREADY_SETTLED`, `INVALID_JSON` or `INVALID_FIELD`.
   */
  async setQuestion(token: string, question: Question, options: SignalOption = {}): Promise<void> {
    const request = create(SetQuestionRequestSchema, { token, question: questionToWire(question) });
    await this.#core.call(WaitService.method.setQuestion, request, signalOnly(options));
  }

  /** Lists waits, newest first, without question and outcome. Calls the broker page by page, as it is read. Refused with `INVALID_FIELD`. */
  list(options: ListOptions = {}): AsyncGenerator<WaitInfo, void, undefined> {
    return list(this.#core, options);
  }

  /**
   * Follows the waits that match a filter: first each of them as it is, then each one that changes. A wait that no longer matches is told once more.
   * Never ends by itself. It throws `Unavailable` if the broker cannot be reached at first; once it has begun it begins again for as long as it is
   * read. Read it steadily: a watcher that falls behind is let go by the broker, and then begins again.
   */
  watch(filter: Filter = {}): AsyncGenerator<WatchEvent, never, undefined> {
    return watch(this.#core, filter);
  }

  /**
   * Opens a wait, asks, and gives the answer.
   *
   * `ask` is called once and runs beside the open stream: an outcome that arrives meanwhile aborts its signal, and it is not waited for. It is not
   * called for a wait that was asked before, or that is settled. When it is done the wait is marked asked, or the answer that it returned is
   * recorded; only an `Answered` is one. If it throws, a wait without a key is cancelled; one with a key stays open and not asked, so that
   * running again asks again.
   *
   * Rejects with `WaitFailed`, `WaitExpired` or `WaitCancelled` where the wait ended without an answer; with `AskFailed`; with an `AbeyanceError`;
   * with the signal's reason. Aborted, it detaches from a wait with a key, which lives on: calling again with the same key, name and question
   * continues it. A wait without a key is cancelled first, which takes at most some seconds. On any other error it is cancelled in the
   * background.
   */
  async waitForExternalEvent(name: string, ask: Ask, options: OpenOptions = {}): Promise<Resolved> {
    const outcome = await waitAsking(this.#core, name, ask, options);
    if (outcome.state !== "resolved") {
      throw unanswered(outcome);
    }
    return outcome;
  }

  /**
   * Opens a wait for decisions on an agent's tool calls, asks, and gives the results that the run goes on with. `requests` are the calls; or a
   * question of the kinds `toolCalls` and `toolCallsJson`.
   *
   * Every ending of the wait gives results: an answer gives its decisions, and a failure, an expiry or a cancellation gives ready-made denials, with
   * the cause beside them as `unanswered`. Apart from that it asks, rejects and aborts as {@link AbeyanceClient.waitForExternalEvent}.
   */
  async requestInput(
    name: string,
    requests: readonly NewToolCall[] | Question,
    ask: Ask,
    options: Omit<OpenOptions, "question" | "questionLater"> = {},
  ): Promise<ToolResults> {
    const question = "kind" in requests ? requests : Question.toolCalls(requests);
    return toolResults(await waitAsking(this.#core, name, ask, { ...options, question }));
  }

  /**
   * Ends all calls and streams with `Stopped` and closes the connections. Waits stay as they are, but those without a key that
   * `waitForExternalEvent` or `requestInput` holds: they are cancelled first, which takes at most some seconds.
   */
  async close(): Promise<void> {
    await this.#core.close();
  }

  /** As {@link AbeyanceClient.close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
