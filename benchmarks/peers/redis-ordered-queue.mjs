// redis-ordered-queue. It orders by priority, and equal ones by the bytes of their JSON: the priority is the producer's
// number. Settings: `window` (sends on their way at once), `consumers` and `batchSize` (messages for each lock).

import { begin, inWindows, job, note, require } from "./stage.mjs";

const { RedisQueueClient } = require("redis-ordered-queue");
const Redis = require("ioredis");

const redis = new Redis({ host: job.host, port: job.port });
await redis.ping();
const { consumers = 1, batchSize = 10 } = job.setting;
const client = new RedisQueueClient({
  redis,
  batchSize,
  groupVisibilityTimeoutMs: 60_000,
  pollingTimeoutMs: 1_000,
  consumerCount: consumers,
  redisKeyPrefix: `{${job.name}}`,
});

if (job.role === "produce") {
  await inWindows(({ group, id, number, body }) =>
    client.send({ groupId: group, priority: number, data: { id, body } }),
  );
} else {
  await begin();
  await client.startConsumers({
    handleMessage: async ({ data, context }) => note(context.lock.groupId, data.id),
  });
}
