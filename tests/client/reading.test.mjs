// The read commands of the public client against the service, and ours beside them.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { client, digest, read, report, start, supercargo, token } from './service.mjs';

let service;

const COMMIT = 'd'.repeat(40);

before(async () => {
  service = await start();
  for (const digits of ['aa', 'ab', 'bbb']) await report(service, 'prod', digits);
  await report(service, 'stage', 'b');
  const template_file = 'version: 1\ntrail: {artifacts: [{name: app, attestations: [{name: unit, type: junit}]}]}\n';
  await send('PUT', '/flows/acme/template_file', { data_json: { name: 'cart', description: 'The cart' }, template_file });
  await send('PUT', '/flows/acme/template_file', { data_json: { name: 'empty' } });
  await send('PUT', '/trails/acme/cart', { data_json: { name: 'build-1', git_commit_info: { sha1: COMMIT } } });
  const reported = { fingerprint: digest('b'), filename: 'registry/cart:b', git_commit: COMMIT, build_url: 'https://ci.example.com/1', commit_url: 'https://git.example.com/d', trail_name: 'build-1', template_reference_name: 'app', repo_info: { name: 'acme/cart', provider: 'gitlab', id: '1', url: 'https://git.example.com/acme/cart' } };
  await send('POST', '/artifacts/acme/cart', reported, true);
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
  has(theirs(['get', 'environment', 'nowhere'], { exit: 1 }), 'environment nowhere not found');
  has(ours(['get', 'environment', 'prod']), 'last report');
});

for (const [expression, artifact] of [
  ['prod', 'cart:b'], ['prod#1', 'cart:a'], ['prod~1', 'cart:a'], ['prod@{now}', 'cart:b'], ['prod@{0.hours.ago}', 'cart:b'],
]) {
  test(`get snapshot ${expression}`, async () => {
    const shown = theirs(['get', 'snapshot', expression]);
    has(shown, artifact, 'NON-COMPLIANT');
    has(ours(['get', 'snapshot', expression]), artifact, ': unknown,');
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

/** Sends a request as the admin: JSON, or a form. */
async function send(method, path, body, json = false) {
  const headers = { Authorization: `Bearer ${token.admin}`, ...(json && { 'Content-Type': 'application/json' }) };
  const response = await fetch(`${service.base}/api/v2${path}`, { method, headers, body: json ? JSON.stringify(body) : form(body) });
  assert.ok(response.ok, `${path}: ${await response.text()}`);
}

function form(parts) {
  const sent = new FormData();
  for (const [name, part] of Object.entries(parts)) sent.set(name, typeof part === 'string' ? part : JSON.stringify(part));
  return sent;
}

const attestUnit = (fingerprint) => send('POST', '/attestations/acme/cart/trail/build-1/junit', {
  data_json: { attestation_name: 'unit', junit_results: [{ name: 'all', total: 3, failures: 0, errors: 0 }], artifact_fingerprint: fingerprint },
});

/** The output of the public client as a table, which has these parts, and as JSON. */
function both(command, ...parts) {
  has(theirs(command), ...parts);
  return JSON.parse(theirs([...command, '--output', 'json']));
}

const missing = (command, message) => has(theirs(command, { exit: 1 }), message);

test('list flows, as a whole, by name and page', () => {
  assert.deepEqual(both(['list', 'flows'], 'cart', 'The cart', 'declared').map(({ name }) => name), ['cart', 'declared', 'empty']);
  assert.equal(both(['list', 'flows', '--name', 'DECL', '--ignore-case'], 'declared').length, 1);
  has(theirs(['list', 'flows', '--name', 'DECL']), 'No flows were found');
  has(theirs(['list', 'flows', '--page', '2', '--page-limit', '2']), 'empty');
  has(theirs(['list', 'flows', '--page', '9', '--page-limit', '2']), 'No flows were found');
});

test('get flow prints its template', () => {
  assert.equal(both(['get', 'flow', 'cart'], 'The cart', 'version: 1', 'name: unit').latest_state, 'INCOMPLETE');
  both(['get', 'flow', 'empty'], 'empty');
  missing(['get', 'flow', 'nowhere'], 'flow nowhere not found');
});

test('list and get trails, whose state is that of their attestations', async () => {
  has(theirs(['list', 'trails', '--flow', 'cart']), 'build-1', 'INCOMPLETE');
  has(theirs(['list', 'trails', '--flow', 'cart', '--page', '9']), 'No trails were found');
  has(theirs(['list', 'trails', '--flow', 'empty']), 'No trails were found');
  missing(['list', 'trails', '--flow', 'nowhere'], 'flow nowhere not found');
  assert.equal(both(['get', 'trail', 'build-1', '--flow', 'cart'], 'build-1', 'INCOMPLETE', COMMIT).compliance_state, 'INCOMPLETE');
  await attestUnit(digest('b'));
  const { events } = both(['get', 'trail', 'build-1', '--flow', 'cart'], 'COMPLIANT', 'unit', 'prod');
  const types = events.map(({ type }) => type);
  for (const type of ['trail_reported', 'artifact_creation_reported', 'artifact_attestation_reported', 'artifact_started_running']) assert.ok(types.includes(type), types);
  has(theirs(['get', 'trail', 'build-1', '--flow', 'cart', '--output', 'markdown']), 'build-1', 'unit');
  missing(['get', 'trail', 'nowhere', '--flow', 'cart'], 'trail "nowhere" of flow "cart" not found');
});

test('list and get artifacts', () => {
  assert.equal(both(['list', 'artifacts', '--flow', 'cart'], 'registry/cart:b', 'ddddddd', 'COMPLIANT').length, 1);
  assert.equal(both(['list', 'artifacts', '--repo', 'acme/cart'], 'registry/cart:b').length, 1);
  for (const options of [['--flow', 'empty'], ['--flow', 'cart', '--page', '2']]) {
    has(theirs(['list', 'artifacts', ...options]), 'No artifacts were found');
  }
  missing(['list', 'artifacts', '--flow', 'nowhere'], 'flow nowhere not found');
  for (const expression of [`cart@${digest('b')}`, 'cart@bbbbb', `cart:${COMMIT}`, 'cart:ddddd']) {
    both(['get', 'artifact', expression, '--trail', 'build-1'], 'registry/cart:b', COMMIT, 'COMPLIANT', 'prod', 'Attestation unit passed');
  }
  missing(['get', 'artifact', `cart@${digest('a')}`], 'not found in flow "cart"');
  missing(['get', 'artifact', `cart:${'e'.repeat(40)}`], 'not found in flow "cart"');
  missing(['get', 'artifact', 'cart:ddddd', '--trail', 'nowhere'], 'trail "nowhere" of flow "cart" not found');
});

test('search by fingerprint and commit, whole and shortened', () => {
  for (const sha of [digest('b'), 'bbbbb', COMMIT, 'ddddd']) {
    const { artifacts } = both(['search', sha], 'registry/cart:b', 'COMPLIANT', 'prod');
    assert.deepEqual(artifacts.map(({ fingerprint }) => fingerprint), [digest('b')]);
  }
  assert.equal(both(['search', digest('a')], 'registry/cart:a', 'prod').artifacts[0].has_provenance, false);
  missing(['search', 'ffffff'], 'no artifact has a fingerprint or commit');
  has(ours(['search', 'bbbbb']), 'registry/cart:b', 'prod');
  has(ours(['search', 'CART']), 'image', 'registry/cart:a', 'trail', 'build-1');
});

test('get attestation by name and identifier', () => {
  const named = [['--trail', 'build-1'], ['--fingerprint', digest('b')]];
  let id;
  for (const options of named) {
    const found = both(['get', 'attestation', 'unit', '--flow', 'cart', ...options], 'unit', 'junit', digest('b'));
    id = found[0].attestation_id;
    has(theirs(['get', 'attestation', 'nothing', '--flow', 'cart', ...options]), 'No attestations found');
  }
  has(theirs(['get', 'attestation', '--attestation-id', id]), 'unit');
  has(theirs(['get', 'attestation', '--attestation-id', id.replace(/.$/, (last) => (last === '0' ? '1' : '0'))]), 'No attestations found');
  missing(['get', 'attestation', 'unit', '--flow', 'cart', '--trail', 'nowhere'], 'trail "nowhere" of flow "cart" not found');
});

test('evaluate trail reads the attestations of the trail', async () => {
  await writeFile(join(service.folder, 'policy.rego'), 'package policy\n\nimport rego.v1\n\nallow if input.trail.compliance_state == "COMPLIANT"\n');
  const shown = theirs(['evaluate', 'trail', 'build-1', '--flow', 'cart', '--policy', 'policy.rego', '--show-input', '--output', 'json']);
  has(shown, '"allow": true', '"junit_results"');
  await writeFile(join(service.folder, 'policies.rego'), 'package policy\n\nimport rego.v1\n\nallow if every trail in input.trails { trail.compliance_state == "COMPLIANT" }\n');
  has(theirs(['evaluate', 'trails', 'build-1', 'build-1', '--flow', 'cart', '--policy', 'policies.rego']), 'ALLOWED');
});

test('commands without an operation say so', () => {
  for (const command of [
    'list repos', 'get repo acme/cart', 'list controls', 'get control C-1', 'list attestation-types', 'get attestation-type coverage',
    'list service-accounts', 'rename environment prod live', 'rename flow cart basket', 'archive flow cart',
    'join environment --physical prod --logical all',
  ]) {
    const { status, stdout, stderr } = client(service, token.admin, command.split(' '));
    assert.equal(status, 1, `${command}\n${stdout}${stderr}`);
    has(stdout + stderr, 'not found; see /api/v2/openapi.json');
  }
});

test('archived environment is not listed until it is created again', async () => {
  const administer = (command) => {
    const { status, stdout, stderr } = client(service, token.admin, command);
    return { status, text: stdout + stderr };
  };
  const create = ['create', 'environment', 'old', '--type', 'K8S', '--description', 'of last year'];
  assert.equal(administer(create).status, 0);
  has(theirs(['list', 'environments']), 'old');
  assert.equal(administer(['archive', 'environment', 'old']).status, 0);
  assert.ok(!theirs(['list', 'environments']).includes('old'));
  has(theirs(['get', 'environment', 'old']), 'of last year');
  has(administer(['archive', 'environment', 'nowhere']).text, 'environment nowhere not found');
  assert.equal(administer(create).status, 0);
  has(theirs(['list', 'environments']), 'old');
});

test('list and get policies', async () => {
  has(theirs(['list', 'policies']), 'No environment policies were found');
  const policy_file = '_schema: https://example.com/v1\n';
  await send('PUT', '/policies/acme', { payload: { name: 'rules', type: 'env', description: 'All of them' }, policy_file });
  assert.equal(both(['list', 'policies'], 'rules').length, 1);
  both(['get', 'policy', 'rules'], 'rules', 'All of them', '_schema');
  missing(['get', 'policy', 'nowhere'], 'policy nowhere not found');
});

test('tag an environment and a flow', () => {
  const tag = (...options) => client(service, token.admin, ['tag', ...options]);
  for (const [kind, name] of [['env', 'prod'], ['flow', 'cart']]) {
    for (const options of [['--set', 'team=shop,tier=1'], ['--unset', 'tier']]) {
      const { status, stdout, stderr } = tag(kind, name, ...options);
      assert.equal(status, 0, stdout + stderr);
    }
    has(theirs(['get', kind === 'env' ? 'environment' : kind, name]), 'team', 'shop');
  }
  has(theirs(['list', 'environments', '--tag', 'team:shop']), 'prod');
  has(theirs(['list', 'flows']), 'team', 'shop');
  has(tag('flow', 'nowhere', '--set', 'a=b').stderr, 'flow nowhere not found');
  has(tag('flow', 'declared', '--set', 'a=b').stderr, 'the bootstrap file declares the flow');
});
