// Makes `dist`, so that `npm install PATH/TO/clients/typescript` works from anywhere. npm runs this script there without having installed
// what it needs: where the folder is linked, not even what the package itself depends on.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const cwd = fileURLToPath(new URL("..", import.meta.url));
const run = (...args) => execFileSync("npm", args, { cwd, stdio: "inherit", shell: process.platform === "win32" });

if (!existsSync(new URL("../node_modules/typescript", import.meta.url))) {
  run("ci", "--ignore-scripts");
}
run("run", "build");
