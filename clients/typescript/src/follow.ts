import { create } from "@bufbuild/protobuf";

import { Shared } from "./abort.js";
import { type Core, HEALTHY_MS, type Stop } from "./core.js";
import { localRefusal, ProtocolError } from "./errors.js";
import { type Detached, Detached_Reason, type WaitEvent } from "./gen/abeyance/v1/wait_pb.js";
import {
  type AttachRequest,
  AttachRequestSchema,
  type WaitRequest,
  WaitService,
} from "./gen/abeyance/v1/wait_service_pb.js";
import { Cut, type MessageStream, serverStream } from "./grpc.js";
import { type Outcome, outcomeFromWire } from "./outcome.js";
import { aliveInterval, length } from "./time.js";
import { type Decided, decidedFromWire, Opened } from "./types.js";

/** The period of `alive` events where a broker does not name it, in milliseconds. */
const ALIVE_INTERVAL_MS = 25_000;
/** How long the end of a stream may take after its last event. It comes with that event, unless a proxy holds it back. */
export const END_OF_STREAM_MS = 1_000;
/** How far the clocks of a deadline may be apart. */
const WINDOW_MARGIN_MS = 100;

/** How to begin: open and stay, or attach to what is there. */
export type Beginning = { readonly wait: WaitRequest } | { readonly attach: AttachRequest };

/** A message of either rpc's stream. */
interface WaitMessage {
  readonly event?: WaitEvent | undefined;
}

/** A stream that has begun. */
export interface Attached {
  readonly opened: Opened;
  readonly stream: MessageStream<WaitMessage>;
  /** Gives up the connection, which is dead. */
  readonly renew: () => void;
  readonly aliveIntervalMs: number;
  /** When the client's own window ends, by its clock. */
  readonly windowEnd: number;
}

/** Begins a stream: one try, which ends when `opened` has arrived. Rejects with a {@link Cut} if another try may help. */
async function begin(core: Core, beginning: Beginning, signal: AbortSignal): Promise<Attached> {
  signal.throwIfAborted();
  const { attachWindowMs, attemptTimeoutMs } = core.settings;
  const link = core.links.waits;
  const { client } = link;
  const windowEnd = Date.now() + attachWindowMs * (0.9 + 0.1 * Math.random());
  const options = { deadline: new Date(windowEnd), signal };
  const stream: MessageStream<WaitMessage> =
    "wait" in beginning
      ? serverStream(client, WaitService.method.wait, beginning.wait, options)
      : serverStream(client, WaitService.method.attach, beginning.attach, options);
  const renew = () => link.renew(client);
  try {
    const event = await firstEvent(stream, attemptTimeoutMs);
    if (event.case === "opened") {
      const aliveIntervalMs = aliveInterval(event.value.aliveInterval, ALIVE_INTERVAL_MS);
      return { opened: new Opened(event.value), stream, renew, aliveIntervalMs, windowEnd };
    }
    if (event.case === "detached") {
      await stream.finish(END_OF_STREAM_MS);
      throw letGo(event.value, 0);
    }
    throw new ProtocolError("a stream that does not begin with opened");
  } catch (error) {
    stream.cancel();
    signal.throwIfAborted();
    if (error instanceof Cut && error.deadConnection) {
      renew();
    }
    throw error;
  }
}

async function firstEvent(stream: MessageStream<WaitMessage>, timeoutMs: number) {
  const silence = `no answer within ${timeoutMs / 1000} s`;
  // One time for all of it: events that say nothing must not keep an opening going.
  const end = performance.now() + timeoutMs;
  for (;;) {
    const leftMs = end - performance.now();
    if (leftMs <= 0) {
      throw new Cut(localRefusal("UNAVAILABLE", silence), { deadConnection: true });
    }
    const message = await stream.next(leftMs, silence);
    if (message === undefined) {
      throw ended();
    }
    const event = message.event?.event;
    if (event?.case !== undefined) {
      return event;
    }
  }
}

/** Begins a stream, with patience. */
export async function beginPatiently(core: Core, beginning: Beginning, signal: AbortSignal): Promise<Attached> {
  return core.patiently(() => begin(core, beginning, signal), { signal });
}

/** Follows a wait through all the streams it takes until its outcome. The one reader of its streams. */
export class Follower {
  readonly #core: Core;
  readonly #stop: Stop;
  /** The wait's outcome. Rejects if it cannot be known: the broker refused, or the following was stopped. */
  readonly outcome: Shared<Outcome>;
  /** Whether there is nothing more to come. */
  over = false;
  /** Whether a stream is attached now. */
  attached = true;
  /** How many times the wait was attached to again. */
  reattached = 0;
  /** The time left until the wait expires, as the broker told it last, and when it told it. */
  timeLeft: { readonly ms: number; readonly at: number } | undefined;
  /** What is decided, as far as the broker has told. */
  decided: Decided | undefined;
  #tellNews: () => void = () => {};
  /** Resolves at the next change of `decided`, and at the end. */
  news: Promise<void> = this.#freshNews();

  constructor(core: Core, attached: Attached, stop: Stop) {
    this.#core = core;
    this.#stop = stop;
    this.outcome = new Shared(
      this.#follow(attached).finally(() => {
        this.attached = false;
        this.over = true;
        stop.release();
        this.#tell();
      }),
    );
  }

  /** Stops following. The wait is as it was. */
  async stop(): Promise<void> {
    this.#stop.stop();
    await this.outcome.promise.catch(() => {});
  }

  async #follow(attached: Attached): Promise<Outcome> {
    const { signal } = this.#stop;
    const { token, waitId } = attached.opened;
    const beginning = { attach: create(AttachRequestSchema, { target: { case: "token", value: token } }) };
    let current = attached;
    let attempt = 0;
    for (;;) {
      const begun = performance.now();
      let cut: Cut;
      try {
        return await this.#read(current);
      } catch (error) {
        current.stream.cancel();
        signal.throwIfAborted();
        if (!(error instanceof Cut)) {
          throw error;
        }
        cut = error;
      }
      if (cut.deadConnection) {
        current.renew();
      }
      this.attached = false;
      this.#core.settings.logger.debug(`wait ${waitId}: ${cut.message}`);
      attempt = this.#core.afterCut(cut.refusal, attempt, begun);
      for (;;) {
        attempt = await this.#core.retry(cut, attempt, { signal, link: this.#core.links.waits });
        try {
          current = await begin(this.#core, beginning, signal);
          break;
        } catch (error) {
          if (!(error instanceof Cut)) {
            throw error;
          }
          cut = error;
        }
      }
      this.attached = true;
      this.reattached += 1;
    }
  }

  /** Reads one stream to its end. Rejects with a {@link Cut} if it brought no outcome. */
  async #read({ stream, aliveIntervalMs, windowEnd }: Attached): Promise<Outcome> {
    const begun = performance.now();
    for (;;) {
      const message = await stream
        .next(2 * aliveIntervalMs, "no sign of life on the stream")
        .catch((error: unknown) => {
          const late = error instanceof Cut && error.refusal.code === "DEADLINE_EXCEEDED";
          throw late && Date.now() >= windowEnd - WINDOW_MARGIN_MS ? new Cut(error.refusal, { planned: true }) : error;
        });
      if (message === undefined) {
        throw ended();
      }
      const event = message.event?.event;
      switch (event?.case) {
        case "outcome":
          await stream.finish(END_OF_STREAM_MS);
          return outcomeFromWire(event.value);
        case "detached":
          await stream.finish(END_OF_STREAM_MS);
          throw letGo(event.value, performance.now() - begun);
        case "alive":
          this.timeLeft = { ms: length(event.value.timeLeft), at: performance.now() };
          break;
        case "progress":
          this.#progress(decidedFromWire(event.value));
          break;
      }
    }
  }

  /** A stream that was just attached to may know less than the one before: that is no news. */
  #progress(decided: Decided): void {
    if (this.decided === undefined || decided.decidedCalls > this.decided.decidedCalls) {
      this.decided = decided;
      this.#tell();
    }
  }

  #tell(): void {
    const tell = this.#tellNews;
    this.news = this.#freshNews();
    tell();
  }

  #freshNews(): Promise<void> {
    return new Promise((resolve) => {
      this.#tellNews = resolve;
    });
  }
}

function ended(): Cut {
  return new Cut(localRefusal("UNAVAILABLE", "the stream ended without an outcome"));
}

/**
 * The broker's own end of a stream that lived for so many milliseconds. The end of a lifetime that was none is not as planned, whatever it is
 * called: attaching again at once would go on for ever.
 */
export function letGo(detached: Detached, livedMs: number): Cut {
  const refusal = localRefusal("UNAVAILABLE", "the broker let go of the stream", length(detached.retryDelay));
  return new Cut(refusal, { planned: detached.reason === Detached_Reason.LIFETIME && livedMs >= HEALTHY_MS });
}
