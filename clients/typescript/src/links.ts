import { Client, credentials } from "@grpc/grpc-js";

import { address, channelOptions, type FullSettings } from "./settings.js";

/** One connection to the broker, made when it is first used and made anew when it is dead. */
export class Link {
  readonly #make: () => Client;
  #client: Client;
  #closed = false;
  /** Until when no stream that was cut begins again, by `performance.now()`, since the server asked for restraint. */
  restUntil = 0;

  constructor(make: () => Client) {
    this.#make = make;
    this.#client = make();
  }

  get client(): Client {
    return this.#client;
  }

  /**
   * Takes a new connection in place of a dead one. Many calls find out at once that one is dead: only the first of them gets anything done
   * here, and none once it is closed.
   */
  renew(dead: Client): void {
    if (dead === this.#client && !this.#closed) {
      this.#client = this.#make();
      dead.close();
    }
  }

  close(): void {
    this.#closed = true;
    this.#client.close();
  }
}

/**
 * The three connections of a client: for the streams of waits, for calls that have one answer, for watches. So no number of open waits, nor
 * a proxy's limit of 100 streams, keeps a `Resolve` from its turn.
 */
export class Links {
  readonly waits: Link;
  readonly calls: Link;
  readonly watches: Link;

  constructor(target: string, settings: FullSettings) {
    const to = address(target);
    const options = channelOptions(settings);
    const make = () => new Client(to, credentials.createInsecure(), options);
    this.waits = new Link(make);
    this.calls = new Link(make);
    this.watches = new Link(make);
  }

  close(): void {
    this.waits.close();
    this.calls.close();
    this.watches.close();
  }
}
