// The `ioredis` package, unmodified: RESP2 from Node, pipelined by itself.
'use strict';

const Redis = require('ioredis');
const { assert, becomes, everyByte, runAll, test } = require('./expect.js');

const { equal, deepStrictEqual } = assert;
const [host, port] = process.env.SHORTTAIL_REDIS.split(':');
const redis = new Redis(Number(port), host, { connectionName: 'tester', enableAutoPipelining: true, retryStrategy: () => null });

test('ping, echo, names', async () => {
  equal(await redis.ping(), 'PONG');
  equal(await redis.echo('\r\n$-1'), '\r\n$-1');
  equal(await redis.client('GETNAME'), 'tester');
});

test('set with options, get, getdel, getex', async () => {
  await redis.del('io:a');
  equal(await redis.set('io:a', '0', 'XX'), null);
  equal(await redis.set('io:a', '1', 'EX', 100, 'NX'), 'OK');
  equal(await redis.set('io:a', '2', 'NX'), null);
  equal(await redis.set('io:a', '3', 'KEEPTTL', 'GET'), '1');
  equal((await redis.ttl('io:a')) > 90, true);
  equal(await redis.getex('io:a', 'PERSIST'), '3');
  equal(await redis.ttl('io:a'), -1);
  equal(await redis.getdel('io:a'), '3');
  equal(await redis.get('io:a'), null);
});

test('bytes of every kind and size', async () => {
  for (const size of [0, 1, 255, 4096, 65536, 1000000]) {
    await redis.set(everyByte(200), everyByte(size));
    deepStrictEqual(await redis.getBuffer(everyByte(200)), everyByte(size));
  }
});

test('counters and errors', async () => {
  await redis.del('io:n');
  equal(await redis.incr('io:n'), 1);
  equal(await redis.incrby('io:n', 41), 42);
  equal(await redis.decrby('io:n', 2), 40);
  equal(await redis.incrbyfloat('io:n', 0.1), '40.1');
  await assert.rejects(redis.incr('io:n'), { message: 'ERR value is not an integer or out of range' });
  await assert.rejects(redis.call('GET'), { message: "ERR wrong number of arguments for 'get' command" });
});

test('mset, mget, append, ranges', async () => {
  equal(await redis.mset('io:1', 'a', 'io:2', 'b'), 'OK');
  deepStrictEqual(await redis.mget('io:1', 'io:2', 'io:absent'), ['a', 'b', null]);
  equal(await redis.append('io:1', 'bc'), 3);
  equal(await redis.setrange('io:1', 4, 'xy'), 6);
  equal(await redis.getrange('io:1', 1, -2), 'bc\0x');
  equal(await redis.strlen('io:1'), 6);
  equal(await redis.exists('io:1', 'io:2', 'io:absent'), 2);
  equal(await redis.unlink('io:1', 'io:2', 'io:absent'), 2);
});

test('expiry', async () => {
  await redis.set('io:soon', 'x', 'PX', 50);
  await redis.set('io:kept', 'y');
  equal(await redis.pexpire('io:kept', 100000), 1);
  equal(await redis.expire('io:kept', 200, 'LT'), 0);
  equal(await redis.expire('io:kept', 200, 'GT'), 1);
  equal(await redis.persist('io:kept'), 1);
  await becomes(null, () => redis.get('io:soon'));
  equal(await redis.get('io:kept'), 'y');
});

test('pipeline keeps order around an error', async () => {
  const pipeline = redis.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.set(`io:p${i % 7}`, i).get(`io:p${i % 7}`);
  pipeline.call('BOGUS').get('io:p0');
  const answers = await pipeline.exec();
  equal(answers.length, 2002);
  for (let i = 0; i < 1000; i++) deepStrictEqual(answers[2 * i + 1], [null, String(i)]);
  equal(/^ERR unknown command 'BOGUS'/.test(answers[2000][0].message), true);
  deepStrictEqual(answers[2001], [null, '994']);
});

test('scan stream, dbsize, flush', async () => {
  equal(await redis.flushall(), 'OK');
  await Promise.all(Array.from({ length: 300 }, (_, i) => redis.set(`io:k${i}`, 'x')));
  equal(await redis.dbsize(), 300);
  const seen = new Set();
  for await (const page of redis.scanStream({ match: 'io:k*', count: 20 })) page.forEach((key) => seen.add(key));
  equal(seen.size, 300);
  equal(await redis.flushdb(), 'OK');
  equal(await redis.randomkey(), null);
});

runAll();
