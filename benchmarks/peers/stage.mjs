// The worker's end of a cell, for Node: the control of workers/stage.py, where the rules are written down.
// Packages are those installed in the working directory.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const POLL_MS = 50;
const SETTLE_MS = 300;
const QUIET_MS = 15_000;

export const require = createRequire(`${process.cwd()}/`);

const now = () => Number(process.hrtime.bigint()) / 1e9; // seconds, a clock that never goes back
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const rows = [];
let began = 0;

export const job = JSON.parse((await lines.next()).value);

// All messages, in the order in which they are to be appended.
export function planned() {
  return JSON.parse(readFileSync(job.plan, "utf8")).map(([group, id, number, body]) => ({ group, id, number, body }));
}

// Say that all is prepared, and go on at `go`.
export async function begin() {
  process.stdout.write("ready\n");
  if ((await lines.next()).value !== "go") process.exit(1);
  lines.next().then(() => process.exit(1)); // the parent is gone
  if (job.role === "consume") watch();
  began = now();
}

// All that a handler does.
export function note(group, id) {
  rows.push([group, id, now()]);
}

// All appends are acknowledged, or all messages are handled.
export function finish() {
  writeFileSync(job.result, JSON.stringify({ began, ended: now(), rows }));
  process.exit(0);
}

function watch() {
  let seen = 0;
  let since = now();
  setInterval(() => {
    const quietMs = (now() - since) * 1000;
    if (rows.length > seen) {
      seen = rows.length;
      since = now();
    } else if (quietMs > QUIET_MS || (quietMs > SETTLE_MS && isComplete())) finish();
  }, POLL_MS);
}

function isComplete() {
  return new Set(rows.map(([group, id]) => JSON.stringify([group, id]))).size >= job.messages;
}

// Append all: one by one, or `window` at a time, each window begun when the one before is acknowledged.
export async function inWindows(send) {
  const messages = planned();
  await begin();
  if (job.batch) {
    const size = job.setting.window;
    for (let at = 0; at < messages.length; at += size) await Promise.all(messages.slice(at, at + size).map(send));
  } else {
    for (const message of messages) await send(message);
  }
  finish();
}
