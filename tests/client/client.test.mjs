// The public client against the service: SUPERCARGO=PROGRAM node --test tests/client/client.test.mjs

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CI } from './ci.mjs';
import { client, digest, read, report, start, supercargo, token } from './service.mjs';

let service;

before(async () => {
  service = await start();
  await mkdir(join(service.folder, 'results'));
  const files = {
    'results/TEST-a.xml': '<testsuite name="a" tests="1"><testcase name="t" time="0.5"/></testsuite>',
    'template.yaml': 'version: 1\ntrail:\n  artifacts: [{name: app, attestations: [{name: unit, type: junit}]}]\n',
    'broken.yaml': 'version: 1\ntrial: {}\n',
    'cart.jar': 'a program',
    'data.json': '{"coverage": 95.5}',
    'sbom.json': '{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": [{"name": "a"}]}',
    'bom.json': '{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"type": "library", "name": "x", "purl": "pkg:npm/left-pad@1.3.0"}]}',
    'sarif.json': JSON.stringify({
      $schema: 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json',
      version: '2.1.0', runs: [{ tool: { driver: { name: 'Snyk Container', rules: [] } }, results: [] }],
    }),
  };
  for (const [name, content] of Object.entries(files)) await writeFile(join(service.folder, name), content);
});

after(() => service?.stop());

/** Runs a command line of the client, and checks its exit code and what it prints. */
function run(secret, command, { exit = 0, prints = '', env } = {}) {
  const { status, stdout, stderr } = client(service, secret, command.split(' '), env);
  const shown = `${command}\n${stdout}${stderr}\n${service.log.slice(-2_000)}`;
  assert.equal(status, exit, shown);
  assert.ok((stdout + stderr).includes(prints), `expected ${prints}:\n${shown}`);
}

/** The output of our own client. */
function ours(command) {
  const { status, stdout, stderr } = supercargo(service, command.split(' '));
  assert.equal(status, 0, `${command}\n${stdout}${stderr}`);
  return stdout;
}

for (const { name, env, repository, origin, filters = [] } of CI) {
  test(`attest junit from ${name} keeps repository and origin`, async () => {
    const variables = Object.entries(env).map(([key, value]) => [key, value.replace('%SHA%', service.sha)]);
    const command = 'attest junit --name unit --flow shop --trail build --results-dir results';
    run(token.attester, command, { env: Object.fromEntries(variables), prints: 'is reported to trail: build' });
    const [attestation] = (await read(service, '/attestations/acme/shop?per_page=1')).data;
    assert.deepEqual(attestation.repo_info, repository);
    assert.equal(attestation.origin_url, origin);
    assert.equal(attestation.is_compliant, true);
    const [trail] = (await read(service, '/trails/acme?flow=shop')).data;
    assert.equal(trail.git_commit_info.sha1, service.sha);
    for (const filter of ['', ...filters].filter(() => repository)) {
      ours(`get live-artifacts ${repository.name}${filter && ` --provider ${filter}`}`);
    }
  });
}

const ATTESTED = [
  ['generic --name generic', 'generic', true],
  ['generic --name failed --compliant=false --user-data data.json', 'generic', false],
  ['custom --name cov --type coverage --attestation-data data.json', 'custom:coverage', null],
  ['sbom --name sbom --sbom-file sbom.json', 'sbom', null],
  ['decision --name decision --control C-1 --compliant=true', 'decision', true],
  ['snyk --name snyk --scan-results sarif.json', 'snyk', true],
  ['jira --name jira --commit HEAD --jira-base-url OTHERS --jira-username u --jira-api-token t', 'jira', true],
  ['sonar --name sonar --sonar-server-url OTHERS --sonar-api-token t --sonar-project-key p --sonar-revision SHA', 'sonar', true],
  ['pullrequest gitlab --name pr --commit HEAD --gitlab-base-url OTHERS --gitlab-token t --gitlab-org acme --repository cart', 'pull_request', false],
];

for (const [command, type, isCompliant] of ATTESTED) {
  test(`attest ${command}`, async () => {
    run(token.attester, 'attest junit --name unit --flow shop --trail types --results-dir results');
    const line = command.replace('OTHERS', service.others).replace('SHA', service.sha);
    run(token.attester, `attest ${line} --flow shop --trail types`, { prints: 'is reported to trail: types' });
    const [attestation] = (await read(service, '/attestations/acme/shop?per_page=1')).data;
    assert.equal(attestation.attestation_type, type);
    assert.equal(attestation.is_compliant, isCompliant);
    assert.ok(ours('list attestations shop').includes(type));
  });
}

test('the packages of an attached bill of materials are searched', async () => {
  run(token.attester, 'attest junit --name unit --flow shop --trail bills --results-dir results');
  const attest = `attest generic --name bill --flow shop --trail bills --fingerprint ${digest('b')} --attachments bom.json`;
  run(token.attester, attest, { prints: 'is reported to trail: bills' });
  await report(service, 'shelf', 'b');
  const found = JSON.parse(ours('search --package left-pad --version <2 -o json'));
  assert.deepEqual(found.data.map(({ environment, package: { purl } }) => [environment, purl]), [['shelf', 'pkg:npm/left-pad@1.3.0']]);
});

test('status, assert status and default-org need no setup', () => {
  run('', 'status', { prints: 'OK' });
  run('', 'assert status', { prints: 'OK' });
  run(token.reporter, 'get default-org', { prints: 'acme' });
});

test('create environment, and create it again', async () => {
  run(token.reporter, 'create environment dev --type K8S --description Development', { prints: 'created' });
  run(token.reporter, 'create environment dev --type K8S', { prints: 'created' });
  run(token.reader, 'get environment dev', { prints: 'Development' });
  assert.equal((await read(service, '/environments/acme/dev')).state, null);
  const rejected = [
    [token.admin, 'create environment declared --type K8S', 'the bootstrap file declares the environment'],
    [token.admin, 'create environment bucket --type S3', 'expected `K8S`'],
    [token.reporter, 'create environment other --type K8S', 'does not list'],
    [token.attester, 'create environment dev --type K8S', 'requires a token with role report or admin'],
    [token.stranger, 'create environment dev --type K8S', 'belongs to another organization'],
    [token.reader, 'get environment nowhere', 'environment nowhere not found'],
  ];
  for (const [secret, command, prints] of rejected) run(secret, command, { exit: 1, prints });
});

test('snapshot k8s creates its environment', async () => {
  const config = { clusters: [{ name: 'c', cluster: { server: service.others } }], contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }] };
  const kubeconfig = { apiVersion: 'v1', kind: 'Config', 'current-context': 'c', users: [{ name: 'u', user: {} }], ...config };
  await writeFile(join(service.folder, 'kubeconfig'), JSON.stringify(kubeconfig));
  const snapshot = 'snapshot k8s stage --kubeconfig kubeconfig --auto-environment';
  run(token.reporter, snapshot, { prints: 'environment stage was created' });
  run(token.reporter, snapshot, { prints: 'pods were reported to environment stage' });
  assert.ok((await read(service, '/environments/acme/stage')).last_reported_at);
  run(token.reporter, snapshot.replace('stage', 'other'), { exit: 1, prints: 'does not list this environment' });
});

test('create flow, begin trail, attest artifact and its tests', async () => {
  run(token.attester, 'create flow cart --description Cart --template-file template.yaml', { prints: 'created' });
  run(token.attester, 'create flow cart --description Cart --template-file template.yaml', { prints: 'updated' });
  run(token.attester, 'begin trail build-1 --flow cart --commit HEAD --user-data data.json', { prints: 'begun' });
  run(token.attester, 'begin trail build-1 --flow cart', { prints: 'updated' });
  const compliance = async () => (await read(service, '/trails/acme?flow=cart')).data[0].compliance_status;
  assert.equal((await compliance()).is_compliant, false);
  const urls = '--build-url https://ci.example.com/1 --commit-url https://git.example.com/c';
  run(token.attester, `attest artifact cart.jar --artifact-type file --name app --flow cart --trail build-1 --commit HEAD ${urls}`, { prints: 'cart.jar' });
  run(token.attester, 'attest junit --name app.unit --flow cart --trail build-1 --commit HEAD --results-dir results');
  const status = await compliance();
  assert.equal(status.is_compliant, true);
  const fingerprint = status.artifacts_statuses.app.artifact_fingerprint;
  const [trail] = (await read(service, `/trails/acme?fingerprint=${fingerprint}`)).data;
  assert.deepEqual(trail.user_data, { coverage: 95.5 });
  assert.ok(ours(`list trails --fingerprint ${fingerprint}`).includes('build-1'));
  const rejected = [
    [token.attester, 'create flow cart --template-file broken.yaml', 'unknown field'],
    [token.attester, 'create flow web', 'does not list this flow'],
    [token.admin, 'create flow declared --use-empty-template', 'the bootstrap file declares the flow'],
    [token.admin, 'begin trail t --flow nowhere', 'flow nowhere not found'],
    [token.admin, 'begin trail t --flow declared --template-file template.yaml', 'the bootstrap file declares the template'],
    [token.admin, 'begin trail a/b --flow cart', 'expected a letter or digit'],
    [token.attester, `attest artifact cart.jar --artifact-type file --name app --flow cart --trail nowhere --commit HEAD ${urls}`, 'trail "nowhere" of flow "cart" not found'],
    [token.reader, 'begin trail t --flow cart', 'requires a token with role attest or admin'],
  ];
  for (const [secret, command, prints] of rejected) run(secret, command, { exit: 1, prints });
});

test('allow artifact', async () => {
  const fingerprint = 'a'.repeat(64);
  run(token.reporter, 'create environment prod --type K8S');
  const allow = (env, reason) => `allow artifact postgres --fingerprint ${fingerprint} --environment ${env} --reason ${reason}`;
  run(token.admin, allow('prod', 'vendor'), { prints: 'was allow listed' });
  run(token.admin, allow('prod', 'tested'), { prints: 'was allow listed' });
  run(token.admin, allow('nowhere', 'vendor'), { exit: 1, prints: 'environment nowhere not found' });
  run(token.reporter, allow('prod', 'vendor'), { exit: 1, prints: 'requires a token with role admin' });
});

test('attestations are rejected with a reason', () => {
  const generic = 'attest generic --name g --flow shop --trail';
  run(token.attester, `${generic} nowhere`, { exit: 1, prints: 'trail "nowhere" of flow "shop" not found' });
  run(token.reader, `${generic} build`, { exit: 1, prints: 'requires a token with role attest or admin' });
  run(token.stranger, `${generic} build`, { exit: 1, prints: 'this token belongs to another organization' });
  run('guessed', `${generic} build`, { exit: 1, prints: 'a valid token is required' });
  run(token.attester, `${generic.replace('shop', 'other')} build`, { exit: 1, prints: 'does not list this flow' });
});

test('assert artifact stops an untested artifact and lets a tested one pass', async () => {
  const policy = '_schema: https://example.com/schemas/policy/environment/v1\nartifacts:\n  provenance: {required: true}\n'
    + '  attestations: [{name: unit, type: junit}]\n';
  await writeFile(join(service.folder, 'rules.yaml'), policy);
  run(token.reporter, 'create environment prod --type K8S');
  for (const [flow, name, digit] of [['shop', 'lint', '1'], ['cart', 'unit', '2']]) {
    run(token.attester, `attest junit --name ${name} --fingerprint ${digest(digit)} --flow ${flow} --trail gate --results-dir results`);
  }
  const assert_ = (digit, options) => `assert artifact --fingerprint ${digest(digit)} ${options}`;
  run(token.reader, assert_('1', '--environment prod'), { prints: 'COMPLIANT' });
  run(token.admin, 'create policy rules rules.yaml --comment first', { prints: 'created' });
  run(token.admin, 'attach-policy rules --environment prod', { prints: 'rules' });
  run(token.reader, assert_('1', '--environment prod'), { exit: 1, prints: 'unit' });
  run(token.reader, assert_('2', '--environment prod'), { prints: 'COMPLIANT' });
  run(token.reader, assert_('1', '--policy rules'), { exit: 1, prints: 'rules' });
  run(token.reader, assert_('2', '--policy rules,rules'), { prints: 'COMPLIANT' });
  run(token.reader, assert_('1', '--flow shop'), { prints: 'COMPLIANT' });
  run(token.reader, assert_('1', '--environment prod --output json'), { exit: 1, prints: '"missing_attestation"' });
  run(token.admin, 'detach-policy rules --environment prod', { prints: 'rules' });
  run(token.reader, assert_('1', '--environment prod'), { prints: 'COMPLIANT' });
  const rejected = [
    [token.reader, assert_('3', '--environment prod'), 'not found in any flow of organization'],
    [token.reader, assert_('1', '--flow cart'), 'not found in flow'],
    [token.reader, assert_('1', '--environment nowhere'), 'environment nowhere not found'],
    [token.reader, assert_('1', '--policy missing'), 'policy missing not found'],
    [token.attester, assert_('1', '--environment prod'), 'requires a token with role read or admin'],
    [token.stranger, assert_('1', '--environment prod'), 'this token belongs to another organization'],
  ];
  for (const [secret, command, prints] of rejected) run(secret, command, { exit: 1, prints });
});
