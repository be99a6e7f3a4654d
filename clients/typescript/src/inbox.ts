import { create } from "@bufbuild/protobuf";

import type { Core } from "./core.js";
import { localRefusal } from "./errors.js";
import { END_OF_STREAM_MS, letGo } from "./follow.js";
import {
  InboxService,
  ListWaitsRequestSchema,
  type WaitFilter,
  WaitFilterSchema,
  WatchWaitsRequestSchema,
  type WatchWaitsResponse,
} from "./gen/abeyance/v1/inbox_service_pb.js";
import { Cut, type MessageStream, serverStream } from "./grpc.js";
import { checkNames, type Names } from "./keys.js";
import type { SignalOption } from "./options.js";
import { type State, stateToWire } from "./state.js";
import { aliveInterval, toDuration } from "./time.js";
import { infoFromWire, type WaitInfo } from "./types.js";

/** How long a watch may be silent before its broker has named the period of its signs of life, in milliseconds. */
const FIRST_SILENCE_MS = 50_000;

/** Which waits. Everything that is set must match. */
export interface Filter extends SignalOption {
  /** The namespace. Default: `default`. */
  readonly namespace?: string;
  /** Waits in one of these states. Default: in any. */
  readonly states?: readonly State[];
  /** Waits of exactly this name. Default: of any. */
  readonly name?: string;
  /** Waits with all of these labels, with exactly these values. Default: with any. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Waits opened at least so many milliseconds ago. */
  readonly minAgeMs?: number;
  /** Waits opened at most so many milliseconds ago. */
  readonly maxAgeMs?: number;
}

/** Which waits to list, and how. */
export interface ListOptions extends Filter {
  /** How many waits one call asks for: 1 to 1000. Default: 50. */
  readonly pageSize?: number;
}

/** One thing that a watch tells. */
export type WatchEvent =
  | {
      /**
       * A watch begins, for the first time or again after a cut: all waits that match are told anew. Of those told before, what is not told
       * again before the next `synced` matches no longer.
       */
      readonly kind: "began";
    }
  | {
      /** A wait's latest state. */
      readonly kind: "wait";
      /** The wait, without question and outcome. */
      readonly wait: WaitInfo;
    }
  | {
      /** All waits that matched when the watch began have been told; what follows are changes. */
      readonly kind: "synced";
    };

const FILTER: Names<Filter> = {
  signal: true,
  namespace: true,
  states: true,
  name: true,
  labels: true,
  minAgeMs: true,
  maxAgeMs: true,
};
const LIST: Names<ListOptions> = { ...FILTER, pageSize: true };

function filterToWire(filter: Filter): WaitFilter {
  const wire = create(WaitFilterSchema, {
    namespace: filter.namespace ?? "",
    states: (filter.states ?? []).map(stateToWire),
    name: filter.name ?? "",
    labels: { ...filter.labels },
  });
  if (filter.minAgeMs !== undefined) {
    wire.minAge = toDuration(filter.minAgeMs);
  }
  if (filter.maxAgeMs !== undefined) {
    wire.maxAge = toDuration(filter.maxAgeMs);
  }
  return wire;
}

/** Lists waits, page by page. */
export async function* list(core: Core, options: ListOptions): AsyncGenerator<WaitInfo, void, undefined> {
  checkNames("the options", options, LIST);
  const filter = filterToWire(options);
  let pageToken = "";
  do {
    const request = create(ListWaitsRequestSchema, { filter, pageSize: options.pageSize ?? 0, pageToken });
    const page = await core.call(InboxService.method.listWaits, request, { signal: options.signal });
    for (const wait of page.waits) {
      yield infoFromWire(wait);
    }
    // The broker bounds the rows it looks at, so an empty page need not be the last one.
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
}

/** Follows waits, and begins again by itself after a cut. */
export async function* watch(core: Core, filter: Filter): AsyncGenerator<WatchEvent, never, undefined> {
  checkNames("the filter", filter, FILTER);
  const stop = core.stoppable(filter.signal);
  const { signal } = stop;
  const request = create(WatchWaitsRequestSchema, { filter: filterToWire(filter) });
  // Whoever watches wants to know that there is no broker; once a watch has begun it begins again for as long as it is read.
  const firstTry = performance.now();
  let begunOnce = false;
  let attempt = 0;
  try {
    for (;;) {
      signal.throwIfAborted();
      const link = core.links.watches;
      const { client } = link;
      const stream = serverStream(client, InboxService.method.watchWaits, request, { signal });
      const begun = performance.now();
      try {
        for await (const event of events(core, stream)) {
          begunOnce = true;
          core.reached();
          yield event;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof Cut)) {
          throw error;
        }
        if (error.deadConnection) {
          link.renew(client);
        }
        const within = begunOnce ? {} : { begun: firstTry, patienceMs: core.settings.patienceMs };
        attempt = await core.retry(error, core.afterCut(error.refusal, attempt, begun), { ...within, signal, link });
      } finally {
        stream.cancel();
      }
    }
  } finally {
    stop.stop();
    stop.release();
  }
}

/** The events of one stream, which ends with a {@link Cut}. */
async function* events(
  core: Core,
  stream: MessageStream<WatchWaitsResponse>,
): AsyncGenerator<WatchEvent, never, undefined> {
  const { attemptTimeoutMs } = core.settings;
  const begun = performance.now();
  let message = await stream.next(attemptTimeoutMs, `no answer within ${attemptTimeoutMs / 1000} s`);
  if (message !== undefined) {
    yield { kind: "began" };
  }
  let silence = FIRST_SILENCE_MS;
  for (; message !== undefined; message = await stream.next(silence, "no sign of life on the watch")) {
    const { event } = message;
    switch (event.case) {
      case "wait":
        yield { kind: "wait", wait: infoFromWire(event.value) };
        break;
      case "synced":
        yield { kind: "synced" };
        break;
      case "alive":
        silence = 2 * aliveInterval(event.value.aliveInterval, silence / 2);
        break;
      case "detached":
        await stream.finish(END_OF_STREAM_MS);
        throw letGo(event.value, performance.now() - begun);
    }
  }
  throw new Cut(localRefusal("UNAVAILABLE", "the watch ended"));
}
