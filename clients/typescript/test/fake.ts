// A broker of a few lines, which says what a test wants: what no real one can be made to say.

import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  type status,
} from "@grpc/grpc-js";

import { Wait_State, type WaitEventSchema } from "../src/gen/abeyance/v1/wait_pb.js";
import {
  type AttachRequest,
  type CancelWaitRequest,
  type MarkAskedRequest,
  type OpenWaitRequest,
  type WaitRequest,
  WaitService,
} from "../src/gen/abeyance/v1/wait_service_pb.js";
import { toDuration } from "../src/time.js";

/** The token of the one wait that there is. */
export const TOKEN = "abey_fake";

/** One event of a stream. */
export type Event = NonNullable<MessageInitShape<typeof WaitEventSchema>["event"]>;

/** A stream of a client. */
export class Stream {
  readonly #call: ServerWritableStream<unknown, { event: MessageInitShape<typeof WaitEventSchema> }>;
  #ended = false;
  /** What was asked for. */
  readonly request: WaitRequest | AttachRequest;
  /** Whether the client gave it up before its end. */
  cancelled = false;

  constructor(call: ServerWritableStream<WaitRequest | AttachRequest, never>) {
    this.#call = call;
    this.request = call.request;
    call.on("cancelled", () => {
      // grpc-js says so at every end of a stream.
      this.cancelled = !this.#ended;
    });
  }

  send(...events: Event[]): this {
    for (const event of events) {
      this.#call.write({ event: { event } });
    }
    return this;
  }

  /** Ends it with OK, or with another status. */
  end(code?: status): void {
    this.#ended = true;
    if (code === undefined) {
      this.#call.end();
    } else {
      this.#call.emit("error", { code, details: "the end", metadata: new Metadata() });
    }
  }
}

/** What the fake broker does. Each is called with the number of the call, from 0. */
export interface Script {
  /** A `Wait` or an `Attach`. */
  stream(stream: Stream, n: number): void;
  /** A `MarkAsked`: the status that it fails with, if it does. */
  markAsked?(n: number): status | undefined;
  /** An `OpenWait` or a `CancelWait`, which succeed. */
  called?(request: OpenWaitRequest | CancelWaitRequest): void;
}

/** Starts a fake broker, which ends with the test. Gives its address. */
export async function fakeBroker(t: TestContext, script: Script): Promise<string> {
  const server = new Server();
  let streams = 0;
  let marks = 0;
  const stream = (call: ServerWritableStream<WaitRequest | AttachRequest, never>) => {
    script.stream(new Stream(call), streams);
    streams += 1;
  };
  const { wait, attach, markAsked, openWait, cancelWait } = WaitService.method;
  server.addService(
    {
      wait: definition(wait),
      attach: definition(attach),
      markAsked: definition(markAsked),
      openWait: definition(openWait),
      cancelWait: definition(cancelWait),
    },
    {
      wait: stream,
      attach: stream,
      openWait({ request }: ServerUnaryCall<OpenWaitRequest, object>, done: sendUnaryData<object>) {
        script.called?.(request);
        done(null, { opened: opened().value });
      },
      cancelWait({ request }: ServerUnaryCall<CancelWaitRequest, object>, done: sendUnaryData<object>) {
        script.called?.(request);
        const settleTime = timestampFromDate(new Date());
        const result = { case: "cancelled", value: { reason: request.reason } };
        done(null, { outcome: { waitId: "fake", state: Wait_State.CANCELLED, settleTime, result } });
      },
      markAsked(_call: ServerUnaryCall<MarkAskedRequest, object>, done: sendUnaryData<object>) {
        const code = script.markAsked?.(marks);
        marks += 1;
        if (code === undefined) {
          done(null, {});
        } else {
          done({ code, details: "not now" });
        }
      },
    },
  );
  t.after(() => server.forceShutdown());
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  return `127.0.0.1:${port}`;
}

/** Starts a server that answers each call with `answer`, on the level of HTTP/2. It ends with the test. Gives its address. */
export async function http2Server(t: TestContext, answer: (stream: ServerHttp2Stream) => void): Promise<string> {
  const server = createServer();
  const streams = new Set<ServerHttp2Stream>();
  server.on("stream", (stream) => {
    streams.add(stream);
    stream.on("error", () => {});
    stream.resume().once("end", () => answer(stream));
  });
  t.after(() => {
    server.close();
    for (const { session } of streams) {
      session?.destroy();
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The first event of a stream. */
export function opened(aliveIntervalMs = 60_000): Event {
  const aliveInterval = toDuration(aliveIntervalMs);
  const expireTime = timestampFromDate(new Date(Date.now() + 60_000));
  return { case: "opened", value: { token: TOKEN, waitId: "fake", expireTime, aliveInterval } };
}

/** An answer. */
export function answer(payloadJson: string): Event {
  const settleTime = timestampFromDate(new Date());
  const result = { case: "resolved" as const, value: { payloadJson } };
  return { case: "outcome", value: { waitId: "fake", state: Wait_State.RESOLVED, settleTime, result } };
}

function definition(method: DescMethod): MethodDefinition<unknown, unknown> {
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: false,
    responseStream: method.methodKind === "server_streaming",
    requestSerialize: serialize(method.input),
    requestDeserialize: deserialize(method.input),
    responseSerialize: serialize(method.output),
    responseDeserialize: deserialize(method.output),
  };
}

function serialize(schema: DescMessage): (message: unknown) => Buffer {
  return (message) => Buffer.from(toBinary(schema, create(schema, message as MessageInitShape<DescMessage>)));
}

function deserialize(schema: DescMessage): (bytes: Buffer) => MessageShape<DescMessage> {
  return (bytes) => fromBinary(schema, bytes);
}
