// GroupMQ in scenario `latency`: one producer or one consumer process. nodejs.py starts it; the packages are those of
// the working directory. Its only argument is a JSON object; rows of its history are those of history.py.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const SETTLE_MS = 200; // to see what is handled twice
const PATIENCE_MS = 5_000; // without anything handled, after the end of input

const require = createRequire(`${process.cwd()}/`);
const { Queue, Worker } = require("groupmq");
const { default: Redis } = require("ioredis");

const job = JSON.parse(process.argv[2]);
const now = () => Number(process.hrtime.bigint()) / 1e9; // CLOCK_MONOTONIC, as time.monotonic() in Python
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const redis = new Redis(job.redis, { maxRetriesPerRequest: null });
// Queue names of GroupMQ become `groupmq:NAMESPACE:...`; the one given here must be found by what deletes a run's keys.
const queue = new Queue({ redis, namespace: job.namespace });
const rows = [];

async function ready() {
  await redis.ping();
  process.stdout.write("ready\n");
  if ((await lines.next()).value !== "go") process.exit(1);
}

function finish() {
  writeFileSync(job.history, JSON.stringify(rows));
  process.stdout.write(`${JSON.stringify({ ended: now() })}\n`, () => process.exit(0));
}

async function produce() {
  const plan = JSON.parse(readFileSync(job.plan, "utf8"));
  await ready();
  lines.next().then(() => process.exit(1)); // the parent is gone
  const began = now();
  const pending = [];
  for (const [dueS, group, id, number, data] of plan) {
    const due = began + dueS;
    const leftMs = (due - now()) * 1000;
    if (leftMs > 0) await sleep(leftMs);
    const started = now();
    const added = queue.add({ groupId: group, jobId: id, data, orderMs: Date.now() });
    pending.push(added.then(() => rows.push([group, id, due, number, 0, started, now()])));
  }
  await Promise.all(pending);
  finish();
}

async function consume() {
  const ids = new Set();
  const handler = async ({ groupId, id }) => {
    const started = now();
    ids.add(id);
    rows.push([groupId, id, 0, 0, 0, started, now()]);
  };
  const worker = new Worker({ queue, handler, concurrency: job.concurrency });
  worker.on("error", (error) => console.error(error));
  await ready();
  worker.run();
  await lines.next();
  const until = () => (rows.length ? rows.at(-1)[6] : now()) + PATIENCE_MS / 1000;
  const since = now() + PATIENCE_MS / 1000;
  while (ids.size < job.messages && now() < Math.max(since, until())) await sleep(10);
  await sleep(SETTLE_MS);
  finish();
}

await (job.role === "produce" ? produce() : consume());
