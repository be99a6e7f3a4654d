// From methods of the generated code to calls of grpc-js.

import {
  type DescMessage,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageShape,
} from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import {
  type Client,
  type ClientReadableStream,
  connectivityState,
  Metadata,
  status as Status,
  type StatusObject,
} from "@grpc/grpc-js";

import { onAbort } from "./abort.js";
import { encode } from "./encode.js";
import { localRefusal, type Refusal, type StatusCode } from "./errors.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema, StatusSchema } from "./gen/google/rpc/details_pb.js";
import { length } from "./time.js";

/** A call, or a stream, that did not end well. */
export class Cut extends Error {
  /** What the broker, the transport or the client itself said. */
  readonly refusal: Refusal;
  /** The connection itself is in doubt: the next try should be made on a new one. */
  readonly deadConnection: boolean;
  /** The stream ended as planned: there is no trouble to back off from. */
  readonly planned: boolean;

  constructor(refusal: Refusal, more: { deadConnection?: boolean; planned?: boolean } = {}) {
    super(refusal.message);
    this.refusal = refusal;
    this.deadConnection = more.deadConnection ?? false;
    this.planned = more.planned ?? false;
  }
}

/** What a call needs to know beside its request. */
export interface CallOptions {
  /** When the call is over, by the client's own clock too. */
  readonly deadline?: Date;
  /** Cancels the call. */
  readonly signal?: AbortSignal | undefined;
}

// How many messages may wait for a reader before the stream is paused. The streams of waits never come near it.
const HIGH_WATER = 256;

/**
 * Makes a call that has one answer. Rejects with a {@link Cut}, with the signal's reason, or with what keeps the request from being sent at all.
 */
export function unary<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodUnary<I, O>,
  request: MessageShape<I>,
  options: CallOptions,
): Promise<MessageShape<O>> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    let response: MessageShape<O> | undefined;
    const call = client.makeUnaryRequest(
      path(method),
      asItIs,
      deserialize(method),
      encode(method.input, request),
      new Metadata(),
      callOptions(options),
      (_error, received) => {
        response = received;
      },
    );
    const callOff = onAbort(signal, () => call.cancel());
    // Comes right after the callback, to which grpc-js tells an UNIMPLEMENTED of its own where OK came without a message.
    call.on("status", (status) => {
      callOff();
      if (signal?.aborted) {
        reject(signal.reason);
      } else if (status.code !== Status.OK) {
        reject(cut(client, status));
      } else if (response === undefined) {
        reject(new Cut(localRefusal("INTERNAL", "OK without a message")));
      } else {
        resolve(response);
      }
    });
  });
}

/** Begins a call that has a stream of answers. */
export function serverStream<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodServerStreaming<I, O>,
  request: MessageShape<I>,
  options: CallOptions,
): MessageStream<MessageShape<O>> {
  const call = client.makeServerStreamRequest(
    path(method),
    asItIs,
    deserialize(method),
    encode(method.input, request),
    new Metadata(),
    callOptions(options),
  );
  return new MessageStream(client, call, options.signal);
}

/** The messages of a stream, read from the connection at once. */
export class MessageStream<T> {
  readonly #client: Client;
  readonly #call: ClientReadableStream<T>;
  readonly #queue: T[] = [];
  readonly #release: () => void;
  #status: StatusObject | undefined;
  #drained = false;
  #wake: (() => void) | undefined;

  constructor(client: Client, call: ClientReadableStream<T>, signal: AbortSignal | undefined) {
    this.#client = client;
    this.#call = call;
    this.#release = onAbort(signal, () => call.cancel());
    if (signal?.aborted) {
      call.cancel();
    }
    call.on("data", (message: T) => {
      this.#queue.push(message);
      if (this.#queue.length >= HIGH_WATER) {
        call.pause();
      }
      this.#wake?.();
    });
    // Told as a status too.
    call.on("error", () => {});
    call.on("status", (status) => {
      this.#status = status;
      this.#release();
      this.#wake?.();
    });
    call.on("end", () => {
      this.#drained = true;
      this.#wake?.();
    });
  }

  /**
   * The next message; `undefined` at an end with OK. Rejects with a {@link Cut} at any other end, and when nothing arrives for
   * `timeoutMs`; `silence` says what that means.
   */
  async next(timeoutMs: number, silence: string): Promise<T | undefined> {
    if (!this.#ready()) {
      await this.#awaitNews(timeoutMs);
    }
    const message = this.#queue.shift();
    if (message !== undefined) {
      if (this.#queue.length === 0 && this.#call.isPaused()) {
        this.#call.resume();
      }
      return message;
    }
    if (this.#status === undefined) {
      throw new Cut(localRefusal("UNAVAILABLE", silence), { deadConnection: true });
    }
    if (this.#status.code === Status.OK) {
      return undefined;
    }
    throw cut(this.#client, this.#status);
  }

  /**
   * Reads the stream to its end, for up to `timeoutMs`. Giving it up before its trailers would send a reset, and many resets cost the
   * connection.
   */
  async finish(timeoutMs: number): Promise<void> {
    const end = performance.now() + timeoutMs;
    try {
      while ((await this.next(Math.max(0, end - performance.now()), "")) !== undefined) {}
    } catch {
      // What comes behind the last event changes nothing.
    }
    this.cancel();
  }

  /** Gives the stream up. */
  cancel(): void {
    this.#release();
    if (this.#status === undefined) {
      this.#call.cancel();
    }
  }

  #ready(): boolean {
    return this.#queue.length > 0 || (this.#status !== undefined && this.#drained);
  }

  #awaitNews(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
      const timer = setTimeout(done, timeoutMs);
      this.#wake = () => {
        if (this.#ready()) {
          done();
        }
      };
    });
  }
}

function path(method: { name: string; parent: { typeName: string } }): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** A request is encoded before the call begins: what cannot be is the caller's error, and grpc-js would make a passing one of it. */
function asItIs(bytes: Buffer): Buffer {
  return bytes;
}

function deserialize<O extends DescMessage>(method: { output: O }): (bytes: Buffer) => MessageShape<O> {
  return (bytes) => fromBinary(method.output, bytes);
}

function callOptions(options: CallOptions): { deadline?: Date } {
  return options.deadline === undefined ? {} : { deadline: options.deadline };
}

// What grpc-js makes of HTTP/2's ENHANCE_YOUR_CALM, whether it ended a stream or the whole connection.
const CALM_DETAILS = "Bandwidth exhausted or memory limit exceeded";
const CALM = "the server ended the connection with ENHANCE_YOUR_CALM";

/** Reads a status with its details. */
export function refusal(status: Pick<StatusObject, "code" | "details" | "metadata">): Refusal {
  const code = (Status[status.code] ?? "UNKNOWN") as StatusCode;
  // grpc-js ends its words on a connection with a note that is often empty.
  const said = status.details.replace(/\.? Resolution note: ?$/, "");
  const message = said === CALM_DETAILS ? CALM : said || code;
  const found: { -readonly [K in keyof Refusal]: Refusal[K] } = localRefusal(code, message);
  const [bytes] = status.metadata.get("grpc-status-details-bin");
  for (const detail of details(bytes)) {
    const info = anyUnpack(detail, ErrorInfoSchema);
    const badRequest = anyUnpack(detail, BadRequestSchema);
    const retry = anyUnpack(detail, RetryInfoSchema);
    if (info !== undefined) {
      found.reason = info.reason;
      found.metadata = info.metadata;
    } else if (badRequest !== undefined) {
      found.violations = badRequest.fieldViolations.map(({ field, description }) => ({ field, description }));
    } else if (retry !== undefined) {
      found.retryDelayMs = length(retry.retryDelay);
    }
  }
  return found;
}

function details(bytes: string | Buffer | undefined) {
  if (!(bytes instanceof Uint8Array)) {
    return [];
  }
  try {
    return fromBinary(StatusSchema, bytes).details;
  } catch {
    // A proxy may have cut it short. The code says enough.
    return [];
  }
}

function cut(client: Client, status: Pick<StatusObject, "code" | "details" | "metadata">): Cut {
  const found = refusal(status);
  // A connection that could not be made, or that swallowed the call: the broker says why it was too late, a dead connection does not.
  const deadConnection =
    (found.code === "UNAVAILABLE" &&
      client.getChannel().getConnectivityState(false) === connectivityState.TRANSIENT_FAILURE) ||
    (found.code === "DEADLINE_EXCEEDED" && found.reason === undefined);
  return new Cut(found, { deadConnection });
}
