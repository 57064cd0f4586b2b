// The read commands of the public client against the service, and ours beside them.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { client, read, start, supercargo, token } from './service.mjs';

let service;

/** Digests by digit. */
const digest = (digit) => digit.repeat(64);

const pod = (name, digit) => ({
  podName: name, namespace: 'shop', digests: { [`registry/cart:${digit}`]: digest(digit) },
  creationTimestamp: 1_790_000_000, owners: null,
});

/** Reports pods with these digits. */
async function report(environment, digits) {
  const artifacts = [...digits].map((digit, n) => pod(`p-${n}`, digit));
  const response = await fetch(`${service.base}/api/v2/environments/acme/${environment}/report/K8S`, {
    method: 'PUT', body: JSON.stringify({ artifacts }),
    headers: { Authorization: `Bearer ${token.admin}`, 'Content-Type': 'application/json' },
  });
  assert.ok(response.ok, await response.text());
}

before(async () => {
  service = await start();
  for (const digits of ['aa', 'ab', 'bbb']) await report('prod', digits);
  await report('stage', 'b');
});

after(() => service?.stop());

/** Output of the public client. */
function theirs(command, { exit = 0, env } = {}) {
  const { status, stdout, stderr } = client(service, token.reader, command, env);
  assert.equal(status, exit, `${command.join(' ')}\n${stdout}${stderr}\n${service.log.slice(-2_000)}`);
  return stdout + stderr;
}

function ours(command, exit = 0) {
  const { status, stdout, stderr } = supercargo(service, command);
  assert.equal(status, exit, `${command.join(' ')}\n${stdout}${stderr}`);
  return stdout + stderr;
}

const has = (text, ...parts) => parts.forEach((part) => assert.ok(text.includes(part), `expected ${part}:\n${text}`));

test('list environments, as a whole, by page and filtered', () => {
  has(theirs(['list', 'environments']), 'prod', 'stage', 'declared', 'K8S');
  has(theirs(['list', 'environments', '--page', '2', '--page-limit', '2']), 'stage');
  has(theirs(['list', 'environments', '--page', '9', '--page-limit', '2']), 'No environments were found');
  has(ours(['list', 'environments', '--name', 'PRO']), 'prod');
});

test('get environment that is reported, or was never reported', () => {
  has(theirs(['get', 'environment', 'prod']), 'prod', 'K8S', 'N/A');
  has(theirs(['get', 'environment', 'declared']), 'declared');
  has(theirs(['get', 'environment', 'nowhere'], { exit: 1 }), 'environment "nowhere" not found');
  has(ours(['get', 'environment', 'prod']), 'last report');
});

for (const [expression, artifact] of [
  ['prod', 'cart:b'], ['prod#1', 'cart:a'], ['prod~1', 'cart:a'], ['prod@{now}', 'cart:b'], ['prod@{0.hours.ago}', 'cart:b'],
]) {
  test(`get snapshot ${expression}`, async () => {
    const shown = theirs(['get', 'snapshot', expression]);
    has(shown, artifact, 'NON-COMPLIANT');
    has(ours(['get', 'snapshot', expression]), artifact, 'is unknown');
  });
}

test('get snapshot that does not exist says why', () => {
  has(theirs(['get', 'snapshot', 'prod#9'], { exit: 1 }), 'it has 3 snapshots');
  has(theirs(['get', 'snapshot', 'prod@{2.weeks.ago}'], { exit: 1 }), 'the first report was received at');
  has(theirs(['get', 'snapshot', 'declared'], { exit: 1 }), 'it was never reported');
  has(ours(['get', 'snapshot', 'prod@2w'], 4), 'the first report was received at');
});

test('assert snapshot of an environment without a policy', () => {
  has(theirs(['assert', 'snapshot', 'prod'], { exit: 1 }), 'NON-COMPLIANT');
});

test('list snapshots, by interval, reversed and beyond the end', () => {
  has(theirs(['list', 'snapshots', 'prod']), '3', '2', '1', 'now');
  has(theirs(['list', 'snapshots', 'prod', '--interval', '1..2', '--reverse']), '2');
  has(theirs(['list', 'snapshots', 'prod', '--page', '9']), 'No environment snapshots were found');
  has(theirs(['list', 'snapshots', 'prod', '--interval', 'a..b'], { exit: 1 }), 'expected A..B');
  has(ours(['list', 'snapshots', 'prod', '--all']), 'SNAPSHOT');
});

test('log environment', () => {
  has(theirs(['log', 'environment', 'prod']), 'cart:b', 'started running (from 0 to 1)');
  has(theirs(['log', 'environment', 'prod', '--interval', '1', '--reverse']), 'cart:a');
  has(theirs(['log', 'environment', 'declared']), 'No environment events were found');
  has(theirs(['log', 'environment', 'nowhere'], { exit: 1 }), 'not found');
  has(ours(['list', 'events', 'prod', '--start', '1h']), 'exited');
});

test('diff snapshots within and across environments', () => {
  has(theirs(['diff', 'snapshots', 'prod#1', 'prod#3']), 'cart:a', 'cart:b');
  has(theirs(['diff', 'snapshots', 'prod', 'stage', '--show-unchanged']), 'cart:b', '3', '1');
  has(theirs(['diff', 'snapshots', 'prod', 'nowhere'], { exit: 1 }), 'not found');
  has(ours(['diff', 'prod~2', 'prod']), 'only in prod#1', 'only in prod#3', 'cart:a');
});

test('integers are written without a fraction', async () => {
  const snapshot = await read(service, '/snapshots/acme/prod/-1');
  const response = await fetch(`${service.base}/api/v2/snapshots/acme/prod/-1`, { headers: { Authorization: `Bearer ${token.reader}` } });
  assert.match(await response.text(), /"index":3,.*"creationTimestamp":\[1790000000/s);
  assert.equal(snapshot.artifacts[0].annotation.now, 3);
});
