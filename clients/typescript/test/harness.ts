// A real broker, and the proxy that does to connections what networks do.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { AbeyanceClient, type Logger, type Settings } from "../src/index.js";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const BROKER = process.env.ABEYANCE_BIN ?? join(ROOT, "target/debug/abeyance");

/** A broker with a data directory of its own. It ends with the test. */
export class Broker {
  readonly #dir: string;
  readonly #flags: readonly string[];
  #process: ChildProcess | undefined;
  /** `host:port`, the same after a restart. */
  address = "127.0.0.1:0";

  private constructor(dir: string, flags: readonly string[]) {
    this.#dir = dir;
    this.#flags = flags;
  }

  static async start(t: TestContext, ...flags: string[]): Promise<Broker> {
    const broker = new Broker(await mkdtemp(join(tmpdir(), "abeyance-")), flags);
    t.after(async () => {
      await broker.kill();
      await rm(broker.#dir, { recursive: true, force: true });
    });
    await broker.start();
    return broker;
  }

  async start(): Promise<void> {
    const args = ["serve", "--listen", this.address, "--data-dir", this.#dir, "--log", "error", ...this.#flags];
    this.#process = spawn(BROKER, args, { stdio: ["ignore", "pipe", "inherit"] });
    await once(this.#process, "spawn");
    for await (const line of linesOf(this.#process)) {
      const address = /^listening on (\S+)/.exec(line)?.[1];
      if (address !== undefined) {
        this.address = address;
        return;
      }
    }
    throw new Error(`${BROKER} ended before it served`);
  }

  /** Ends it as a power cut does. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
  }
}

/** What the proxy tells. */
export interface ProxyEvent {
  readonly event: "connection" | "frozen" | "cut" | "scolded" | "done";
  readonly n: number;
  readonly at: number;
}

/** The proxy of the interop tests. It ends with the test. */
export class FaultProxy {
  readonly #process: ChildProcess;
  /** All that it told so far. */
  readonly events: ProxyEvent[] = [];
  readonly #told = new Set<() => void>();
  /** `host:port` of the proxy. */
  readonly address: string;

  private constructor(child: ChildProcess, address: string) {
    this.#process = child;
    this.address = address;
  }

  static async start(t: TestContext, target: string, ...flags: string[]): Promise<FaultProxy> {
    const script = join(ROOT, "tests/interop/fault_proxy.py");
    const child = spawn("python3", [script, "--target", target, ...flags], { stdio: ["pipe", "pipe", "inherit"] });
    const ended = once(child, "exit");
    t.after(async () => {
      child.stdin?.end();
      child.kill();
      await ended;
    });
    const lines = linesOf(child)[Symbol.asyncIterator]();
    const first = await lines.next();
    const proxy = new FaultProxy(child, (JSON.parse(first.value ?? "null") as { listen: string }).listen);
    void (async () => {
      for (let line = await lines.next(); !line.done; line = await lines.next()) {
        proxy.events.push(JSON.parse(line.value) as ProxyEvent);
        for (const told of proxy.#told) {
          told();
        }
      }
    })();
    return proxy;
  }

  /** Gives a command and waits until it is carried out. */
  async command(command: "freeze" | "cut" | "calm"): Promise<void> {
    const done = this.count("done") + 1;
    this.#process.stdin?.write(`${command}\n`);
    await this.until(() => this.count("done") >= done);
  }

  /** How many events of a kind there were. */
  count(event: ProxyEvent["event"]): number {
    return this.events.filter((e) => e.event === event).length;
  }

  /** Waits until what it told fulfils a condition. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      await new Promise<void>((resolve) => {
        const told = () => {
          this.#told.delete(told);
          resolve();
        };
        this.#told.add(told);
      });
    }
  }
}

/** A logger that keeps what it is told. */
export class Log implements Logger {
  readonly lines: string[] = [];
  readonly warnings: string[] = [];

  debug(message: string): void {
    this.lines.push(message);
  }

  warn(message: string): void {
    this.lines.push(message);
    this.warnings.push(message);
  }
}

/** A client that is closed with the test. */
export function clientOf(t: TestContext, address: string, settings: Settings = {}): AbeyanceClient {
  const client = new AbeyanceClient(address, settings);
  t.after(() => client.close());
  return client;
}

/** What a promise rejects with. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it did not reject");
}

function linesOf(child: ChildProcess): AsyncIterable<string> {
  if (child.stdout === null) {
    throw new Error("no standard output");
  }
  return createInterface({ input: child.stdout });
}
