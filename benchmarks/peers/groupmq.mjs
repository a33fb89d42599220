// GroupMQ. Its order: `orderMs` is the time now, equal ones keep the order of arrival; `jobId` makes repeats harmless.
// Settings: `autoBatch` (its own batching of adds, by size), `window` (adds on their way at once), `concurrency`.

import { begin, inWindows, job, note, require } from "./stage.mjs";

const { Queue, Worker } = require("groupmq");
const Redis = require("ioredis");

const redis = new Redis({ host: job.host, port: job.port, maxRetriesPerRequest: null });
await redis.ping();
const { autoBatch, concurrency } = job.setting;
const batching = job.role === "produce" && job.batch && autoBatch;
const queue = new Queue({
  redis,
  namespace: job.name,
  ...(batching ? { autoBatch: { size: autoBatch, maxWaitMs: 5 } } : {}),
});

if (job.role === "produce") {
  await inWindows(({ group, id, body }) => queue.add({ groupId: group, jobId: id, data: body, orderMs: Date.now() }));
} else {
  await begin();
  const worker = new Worker({
    queue,
    concurrency,
    handler: async (message) => note(message.groupId, message.id),
  });
  worker.on("error", (error) => console.error(error));
  worker.run();
}
