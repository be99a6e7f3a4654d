// The README's start, as it stands, in a folder that has nothing but the package.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Broker, clientOf } from "./harness.js";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

test("the README's ten lines run after npm install of a fresh copy", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "abeyance-start-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const made = new Set(["node_modules", "dist", "build"]);
  await cp(PACKAGE, join(folder, "package"), { recursive: true, filter: (path) => !made.has(basename(path)) });
  const app = join(folder, "app");
  await mkdir(app);
  await writeFile(join(app, "package.json"), "{}");
  const env = { ...process.env, npm_config_prefer_offline: "true" };
  await promisify(execFile)("npm", ["install", "--no-audit", "--no-fund", "../package"], { cwd: app, env });

  const readme = await readFile(join(PACKAGE, "README.md"), "utf8");
  const start = /```js\n(.*?)```/s.exec(readme)?.[1] ?? assert.fail("no start in the README");
  assert.ok(start.trim().split("\n").length <= 12, "a ten-line start, with its blank line");
  await writeFile(join(app, "start.mjs"), start);

  const broker = await Broker.start(t);
  const worker = spawn("node", ["start.mjs", broker.address], { cwd: app, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(worker, "exit");
  const printed: string[] = [];
  for await (const line of createInterface({ input: worker.stdout })) {
    printed.push(line);
    const command = /^abeyance resolve (\S+) '(.*)'$/.exec(line);
    if (command !== null) {
      await clientOf(t, broker.address).resolve(command[1] ?? "", { payloadJson: command[2] ?? "" });
    }
  }
  assert.deepEqual(await ended, [0, null]);
  assert.equal(printed.at(-1), '{ approved: true } {"approved": true}');
});

test("what is packed carries its licence", async () => {
  const args = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const { stdout } = await promisify(execFile)("npm", args, { cwd: PACKAGE });
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
  assert.ok(files.some(({ path }) => path === "LICENSE"));
  assert.deepEqual(await readFile(join(PACKAGE, "LICENSE")), await readFile(join(PACKAGE, "../../LICENSE")));
});
