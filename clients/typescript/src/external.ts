import { create } from "@bufbuild/protobuf";

import { Shared, sleep } from "./abort.js";
import { Answered, resolveRequest } from "./answer.js";
import { type Core, type Repeat, WITHDRAWAL_MS } from "./core.js";
import { AbeyanceError, AskFailed, ProtocolError, Refused, type WaitUnanswered } from "./errors.js";
import { DescribeWaitRequestSchema, ResolveService } from "./gen/abeyance/v1/resolve_service_pb.js";
import {
  CancelWaitRequestSchema,
  MarkAskedRequestSchema,
  OpenWaitRequestSchema,
  type WaitRequest,
  WaitService,
} from "./gen/abeyance/v1/wait_service_pb.js";
import { type OpenOptions, waitRequest } from "./options.js";
import { type Outcome, outcomeFromWire, unanswered } from "./outcome.js";
import type { DeferredToolResults } from "./results.js";
import { infoFromWire, Opened, type OpenedWait } from "./types.js";
import { attach, type Wait } from "./wait.js";

/** What an ask is given, to hand on to whoever can answer. Neither `util.inspect` nor `JSON.stringify` shows the token. */
export class Ticket {
  readonly #token: string;
  /** The wait's public name. */
  readonly waitId: string;
  /** Aborts when the ask is no longer needed: the outcome arrived meanwhile, or the caller gave up. */
  readonly signal: AbortSignal;

  /** Made by the client. */
  constructor(opened: Opened, signal: AbortSignal) {
    this.#token = opened.token;
    this.waitId = opened.waitId;
    this.signal = signal;
  }

  /**
   * The bearer credential of the wait. The same each time the same wait is asked, so an ask should be keyed on it. A secret: never log it.
   */
  get token(): string {
    return this.#token;
  }
}

/**
 * Hands question and token on to whoever can answer. It returns nothing when it has; or `new Answered(...)`, if the answer is known already,
 * which is recorded like anybody else's: if somebody was faster, theirs counts. Of decisions on tool calls those are left out that somebody
 * else decided meanwhile. Anything else that it returns is no answer: the ask has failed.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing is the usual ask
export type Ask = (ticket: Ticket) => Answered | void | null | Promise<Answered | void | null>;

/**
 * What a run goes on with after its tool calls waited, whatever became of the wait. Acting on it must be idempotent by wait id. To keep it, keep
 * `resultsJson`: `JSON.stringify` writes `results` in the same form, and throws a `TypeError` where it would change a number.
 */
export interface ToolResults {
  /** The wait's public name. */
  readonly waitId: string;
  /**
   * The decisions. Where the wait ended without an answer, the calls that were decided keep their decision, and every other is denied (an
   * approval) or failed (an external call, a question) with the message `No decision on this tool call arrived: <reason>`.
   */
  readonly results: DeferredToolResults;
  /** The same in the JSON form of Pydantic AI. Each value, override and metadata in it is byte for byte its sender's. */
  readonly resultsJson: string;
  /** Why there was no answer. Absent if the wait was answered. */
  readonly unanswered?: WaitUnanswered;
}

/** Opens a wait without staying attached. */
export async function openWait(core: Core, wait: WaitRequest, repeat: Repeat = {}): Promise<OpenedWait> {
  const request = create(OpenWaitRequestSchema, { requestId: wait.requestId });
  if (wait.spec !== undefined) {
    request.spec = wait.spec;
  }
  const response = await core.call(WaitService.method.openWait, request, repeat);
  if (response.opened === undefined) {
    throw new ProtocolError("an open without its wait");
  }
  const opened = new Opened(response.opened);
  return response.outcome === undefined ? { opened } : { opened, outcome: outcomeFromWire(response.outcome) };
}

/** Withdraws a wait. */
export async function cancelWait(core: Core, token: string, reason: string, repeat: Repeat = {}): Promise<Outcome> {
  const request = create(CancelWaitRequestSchema, { token, reason });
  const { outcome } = await core.call(WaitService.method.cancelWait, request, repeat);
  if (outcome === undefined) {
    throw new ProtocolError("a cancel without its outcome");
  }
  return outcomeFromWire(outcome);
}

/** Opens a wait, asks, and gives its outcome, whatever it is. */
export async function waitAsking(core: Core, name: string, ask: Ask, options: OpenOptions): Promise<Outcome> {
  const request = waitRequest(name, options);
  const waiting = askAndWait(core, request, ask, options.signal);
  // A client that is closed meanwhile withdraws it still.
  return isKeyed(request) ? waiting : core.beforeClosing(waiting);
}

function isKeyed(request: WaitRequest): boolean {
  return request.spec?.key !== "";
}

async function askAndWait(
  core: Core,
  request: WaitRequest,
  ask: Ask,
  signal: AbortSignal | undefined,
): Promise<Outcome> {
  signal?.throwIfAborted();
  // What only this caller can find again is not left behind, whatever ends the waiting.
  let mine = !isKeyed(request);
  let wait: Wait | undefined;
  try {
    wait = await attach(core, { wait: request }, signal);
    try {
      await askOnce(core, wait, ask, signal);
    } catch (error) {
      if (!mine || signal?.aborted) {
        throw error;
      }
      const recorded = await cancelWait(core, wait.token, "The ask failed.").catch(() => undefined);
      mine = recorded === undefined;
      // An answer that was recorded before the ask failed counts like one that cut it short.
      if (recorded === undefined || recorded.state === "cancelled") {
        throw error;
      }
      return recorded;
    }
    return await wait.outcome({ signal });
  } catch (error) {
    if (mine && (wait !== undefined || signal?.aborted || mayHaveOpened(error))) {
      const withdrawal = core.beforeClosing(withdraw(core, request, wait));
      if (signal?.aborted) {
        await withinLimit(withdrawal);
      }
    }
    signal?.throwIfAborted();
    throw error;
  } finally {
    await wait?.detach();
  }
}

/** Whether an open that failed so may have opened a wait: its answer was lost or was none, or it was not the broker that refused. */
function mayHaveOpened(error: unknown): boolean {
  return error instanceof AbeyanceError && !(error instanceof Refused && error.reason !== undefined);
}

/** Asks, unless the wait was asked before or is settled. Done when the ask is recorded, or when the outcome has arrived. */
async function askOnce(core: Core, wait: Wait, ask: Ask, signal: AbortSignal | undefined): Promise<void> {
  const { opened } = wait;
  // Opened tells nothing of the state, and the outcome of a settled wait is the event after it: nobody must be asked in between. A wait that this
  // call created is pending.
  if (opened.asked || (opened.resumed && !(await isPending(core, opened.token, signal)))) {
    return;
  }
  const stop = core.stoppable(signal);
  const settled = wait.outcome().then(
    () => {},
    () => {},
  );
  const asked = runAsk(core, new Ticket(opened, stop.signal), ask, stop.signal);
  // Where the outcome was faster, nobody looks at what became of the ask.
  asked.catch(() => {});
  try {
    await new Shared(Promise.race([settled, asked])).get(signal);
  } finally {
    stop.stop();
    stop.release();
  }
}

async function isPending(core: Core, token: string, signal: AbortSignal | undefined): Promise<boolean> {
  const request = create(DescribeWaitRequestSchema, { token });
  const { wait } = await core.call(ResolveService.method.describeWait, request, { signal });
  return infoFromWire(wait).state === "pending";
}

async function runAsk(core: Core, ticket: Ticket, ask: Ask, signal: AbortSignal): Promise<void> {
  let returned: unknown;
  try {
    returned = await ask(ticket);
  } catch (error) {
    throw AskFailed.threw(error);
  }
  if (returned instanceof Answered) {
    await give(core, ticket.token, returned, signal);
    return;
  }
  if (returned !== undefined && returned !== null) {
    throw AskFailed.returned(returned);
  }
  // For as long as it takes: what was handed on cannot be taken back.
  const request = create(MarkAskedRequestSchema, { token: ticket.token });
  await core.call(WaitService.method.markAsked, request, { signal, patienceMs: Number.POSITIVE_INFINITY });
}

async function give(core: Core, token: string, { answer, answeredBy }: Answered, signal: AbortSignal): Promise<void> {
  // Each turn but the last takes a call out of the answer.
  for (let left = answer; ; ) {
    try {
      await core.call(ResolveService.method.resolve, resolveRequest(token, left, { answeredBy }), { signal });
      return;
    } catch (error) {
      const reason = error instanceof AbeyanceError ? error.reason : undefined;
      if (reason === "ALREADY_SETTLED") {
        // Somebody was faster: the stream brings their outcome.
        return;
      }
      // Faster with one call: theirs counts, and the answer is still needed for the others.
      const decided = reason === "ALREADY_DECIDED" && (error as AbeyanceError).metadata.tool_call_id;
      const rest = decided && "results" in left ? left.results.without(decided) : undefined;
      if (rest === undefined) {
        throw error;
      }
      left = { results: rest };
    }
  }
}

/** Withdraws a wait for which nobody waits any more, also from a client that is being closed. Never rejects: there is nobody left to tell. */
async function withdraw(core: Core, request: WaitRequest, wait: Wait | undefined): Promise<void> {
  const repeat = { lastWord: true };
  try {
    // Given up while it was being opened: the request id finds the wait, or makes one that ends at once.
    const token = wait?.token ?? (await openWait(core, request, repeat)).opened.token;
    await cancelWait(core, token, "The worker's task was cancelled.", repeat);
    // The stream brings the outcome and ends, so that it need not be reset.
    await wait?.outcome();
  } catch (error) {
    core.settings.logger.debug(`a wait that was given up could not be cancelled: ${error}`);
  }
}

/** Waits for a withdrawal, but not for long: behind that it goes on alone. */
async function withinLimit(withdrawal: Promise<void>): Promise<void> {
  const limit = new AbortController();
  const done = withdrawal.finally(() => limit.abort());
  await Promise.race([done, sleep(WITHDRAWAL_MS, limit.signal).catch(() => {})]);
}

/** What a run whose tool calls waited goes on with. An outcome without results is never taken for an approval. */
export function toolResults(outcome: Outcome): ToolResults {
  const { waitId, results, resultsJson } = outcome;
  if (results === undefined || resultsJson === undefined) {
    throw new ProtocolError(`the wait is ${outcome.state}, and its outcome carries no results for tool calls`);
  }
  const why = unanswered(outcome);
  return { waitId, results, resultsJson, ...(why === undefined ? {} : { unanswered: why }) };
}
