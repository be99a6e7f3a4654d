import type { ChannelOptions } from "@grpc/grpc-js";

import type { Backoff } from "./backoff.js";
import { checkNames, type Names } from "./keys.js";

/** Where a client tells what happens to its connections. No line carries a token or a payload. */
export interface Logger {
  /** What only somebody who looks for a fault wants to read. */
  debug(message: string): void;
  /** What somebody should look into. */
  warn(message: string): void;
}

/** How a client connects and how patient it is. Every value has a default that fits most. Times are in milliseconds. */
export interface Settings {
  /**
   * How long one try of a call may take, and how long a stream may take to its first event, before it is dropped and tried again.
   * Default: 15 000.
   */
  readonly attemptTimeoutMs?: number;
  /**
   * For how long a call that fails for want of a connection is tried again before it gives up with `Unavailable`; a try that has begun is
   * not cut by it. 0: one try. It does not bound an attached wait, which attaches again for as long as somebody waits. Default: 30 000.
   */
  readonly patienceMs?: number;
  /** The delays between tries. Default: below 250, 500, 1000 … 30 000. */
  readonly backoff?: Partial<Backoff>;
  /**
   * How long one stream of a wait lives before the client attaches again by itself: between nine tenths of this and all of it. At most an
   * hour, which is the default; shorter where something on the way cuts streams sooner.
   */
  readonly attachWindowMs?: number;
  /**
   * How long a connection with open streams may be silent before it is tested with an HTTP/2 ping. Default: 330 000, which servers of the
   * gRPC family take without calling it abuse. Shorten it only where the server is known to allow that: the broker's own `alive` events
   * show a dead stream much sooner.
   */
  readonly keepaliveTimeMs?: number;
  /** How long the answer to such a ping may take. Default: 20 000. */
  readonly keepaliveTimeoutMs?: number;
  /** Where the client tells what happens to its connections. Default: warnings go to `console.warn`, nothing else is told. */
  readonly logger?: Logger;
}

/** Settings without gaps. */
export interface FullSettings extends Required<Omit<Settings, "backoff">> {
  readonly backoff: Backoff;
}

const HOUR_MS = 3_600_000;
const SILENT_LOGGER: Logger = { debug: () => {}, warn: (message) => console.warn(`abeyance: ${message}`) };

const SETTINGS: Names<Settings> = {
  attemptTimeoutMs: true,
  patienceMs: true,
  backoff: true,
  attachWindowMs: true,
  keepaliveTimeMs: true,
  keepaliveTimeoutMs: true,
  logger: true,
};
const BACKOFF: Names<Backoff> = { baseMs: true, capMs: true };

/** Fills the gaps. Throws a `RangeError` for a time that cannot be one, and a `TypeError` for a setting that is not known. */
export function complete(settings: Settings): FullSettings {
  checkNames("the settings", settings, SETTINGS);
  checkNames("backoff", settings.backoff ?? {}, BACKOFF);
  const full = {
    attemptTimeoutMs: settings.attemptTimeoutMs ?? 15_000,
    patienceMs: settings.patienceMs ?? 30_000,
    backoff: { baseMs: settings.backoff?.baseMs ?? 250, capMs: settings.backoff?.capMs ?? 30_000 },
    attachWindowMs: settings.attachWindowMs ?? HOUR_MS,
    keepaliveTimeMs: settings.keepaliveTimeMs ?? 330_000,
    keepaliveTimeoutMs: settings.keepaliveTimeoutMs ?? 20_000,
    logger: settings.logger ?? SILENT_LOGGER,
  };
  const atLeast = (name: string, value: number, least: number) => {
    // Beyond an hour there is no use, and beyond 2^31 ms a timer of Node fires at once.
    if (!(value >= least && value <= HOUR_MS)) {
      throw new RangeError(`${name} must be between ${least} and ${HOUR_MS} milliseconds, and is ${value}`);
    }
  };
  atLeast("attemptTimeoutMs", full.attemptTimeoutMs, 1);
  atLeast("patienceMs", full.patienceMs, 0);
  atLeast("backoff.baseMs", full.backoff.baseMs, 0);
  atLeast("backoff.capMs", full.backoff.capMs, 0);
  atLeast("attachWindowMs", full.attachWindowMs, 1);
  atLeast("keepaliveTimeMs", full.keepaliveTimeMs, 1);
  atLeast("keepaliveTimeoutMs", full.keepaliveTimeoutMs, 1);
  return full;
}

/** The largest message that is taken: a page of a list is a thousand waits with their labels. */
const MESSAGE_BYTES = 64 << 20;

/** The window of each stream and connection. One that a slow reader fills stalls every wait on it, so it is far wider than any payload. */
const WINDOW_BYTES = 16 << 20;

/** The options of each channel. */
export function channelOptions(settings: FullSettings): ChannelOptions {
  return {
    "grpc.primary_user_agent": "abeyance-typescript/0.1.0",
    "grpc.keepalive_time_ms": settings.keepaliveTimeMs,
    "grpc.keepalive_timeout_ms": settings.keepaliveTimeoutMs,
    // Pings on an idle connection are what servers punish; there is nothing to lose on one.
    "grpc.keepalive_permit_without_calls": 0,
    "grpc.max_receive_message_length": MESSAGE_BYTES,
    "grpc-node.flow_control_window": WINDOW_BYTES,
    // Channels with equal options would share one connection, and a new channel would get the frozen one of the old.
    "grpc.use_local_subchannel_pool": 1,
    // Repeating is this client's own work.
    "grpc.enable_retries": 0,
    "grpc.service_config_disable_resolution": 1,
    // The broker is reached directly, whatever `http_proxy` says.
    "grpc.enable_http_proxy": 0,
  };
}

/** `host:port` of a target, which may be written as `http://host:port` too. Throws a `TypeError` for anything else. */
export function address(target: string): string {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(target)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== "http") {
    const why =
      scheme === "https"
        ? "TLS is not supported yet; use http:// to a broker on this machine"
        : "only http:// is known";
    throw new TypeError(`${JSON.stringify(target)} is no address of a broker: ${why}`);
  }
  const rest = scheme === undefined ? target : target.slice("http://".length).replace(/\/$/, "");
  const port = /^(?:\[[0-9a-f:.%]+\]|[^\s:/?#[\]@]+):(\d{1,5})$/i.exec(rest)?.[1];
  if (port === undefined || Number(port) < 1 || Number(port) > 65_535) {
    throw new TypeError(
      `${JSON.stringify(target)} is no address of a broker: host:port is expected, as in 127.0.0.1:2239, with a port of 1 to 65535`,
    );
  }
  return rest;
}
