// Environments with weeks of history: time expressions, a silence, and what the retention removed.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { backdate, client, report, start, supercargo, token } from './service.mjs';

let service;

const reported = (environment, digits) => report(service, environment, digits, 'stranger', token.stranger);

before(async () => {
  service = await start();
  for (const digits of ['a', 'ab']) await reported('old', digits);
  await reported('silent', 'c');
  // The retention of 21 days removes the first snapshot, which ended 28 days ago.
  await backdate(service, { old: 28, silent: 1 });
  await reported('old', 'b');
});

after(() => service?.stop());

/** Output of the public client, and of ours. */
function theirs(command, exit = 0) {
  const { status, stdout, stderr } = client(service, token.stranger, command, { KOSLI_ORG: 'stranger' });
  assert.equal(status, exit, `${command.join(' ')}\n${stdout}${stderr}`);
  return stdout + stderr;
}

function ours(command, exit = 0) {
  const { status, stdout, stderr } = supercargo(service, command, 'stranger', 'stranger');
  assert.equal(status, exit, `${command.join(' ')}\n${stdout}${stderr}`);
  return stdout + stderr;
}

const has = (text, ...parts) => parts.forEach((part) => assert.ok(text.includes(part), `expected ${part}:\n${text}`));

const tenDaysAgo = new Date(Date.now() - 10 * 86_400_000).toISOString().slice(0, 19);

for (const expression of ['old@{2.weeks.ago}', `old@{${tenDaysAgo}}`, 'old@{336.hours.ago}', 'old@{14.days.ago}', 'old~1', 'old#2']) {
  test(`get snapshot ${expression}`, () => {
    has(theirs(['get', 'snapshot', expression]), 'cart:a', 'cart:b');
    has(ours(['get', 'snapshot', expression]), 'cart:a', 'cart:b', 'old #2');
    has(theirs(['diff', 'snapshots', expression, 'old']), 'cart:a');
  });
}

test('snapshots that the retention removed are said', () => {
  for (const expression of ['old#1', 'old~2', 'old@{2.months.ago}']) theirs(['get', 'snapshot', expression], 1);
  has(theirs(['get', 'snapshot', 'old#1'], 1), 'was removed by retention', 'the first available is 2 of 3');
  has(theirs(['diff', 'snapshots', 'old#1', 'old'], 1), 'was removed by retention');
  has(theirs(['assert', 'snapshot', 'old#1'], 1), 'was removed by retention');
  has(ours(['get', 'snapshot', 'old#1'], 4), 'was removed by retention');
  const listed = JSON.parse(theirs(['list', 'snapshots', 'old', '--output', 'json']));
  assert.deepEqual(listed.map(({ index }) => index), [3, 2]);
  has(ours(['get', 'snapshot', 'old@25d']), 'retention');
  has(theirs(['get', 'snapshot', 'old@{25.days.ago}']), 'cart:a');
});

test('what runs in a silent environment is unknown', () => {
  has(theirs(['get', 'environment', 'silent']), 'N/A');
  has(theirs(['get', 'snapshot', 'silent']), 'cart:c', 'NON-COMPLIANT');
  has(theirs(['assert', 'snapshot', 'silent'], 1), 'NON-COMPLIANT');
  has(theirs(['list', 'snapshots', 'silent']), '1');
  has(ours(['get', 'environment', 'silent']), 'silent', 'true');
  has(ours(['get', 'snapshot', 'silent']), 'cart:c', 'unknown');
});
