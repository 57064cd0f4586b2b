// Sign-in at an OpenID provider in a browser, and tokens of it: SUPERCARGO=PROGRAM node --test tests/browser/sign-in.test.mjs

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { digest, report, serve, token } from '../client/service.mjs';
import { User, browser } from './browser.mjs';
import { provider } from './provider.mjs';

const OPTIONS = { timeout: 600_000 };

const bootstrap = (issuer) => `
generation: 1
organizations:
  - name: acme
    tokens: [{name: admin, role: admin, file: admin}]
    flows: [{name: cart}]
    environments: [{name: prod, policy: {approval: true}}]
    issuers:
      - name: sso
        issuer: ${issuer}
        signIn: {clientId: pages, clientSecret: {file: sso}, scopes: [groups], maxAge: 1h}
        rules:
          - {claims: {groups: approvers}, role: approve, flows: [cart], environments: [prod]}
          - {claims: {groups: staff}, role: read}
      - name: ci
        issuer: ${issuer}
        audience: supercargo
        rules: [{claims: {client_id: pipeline}, role: attest, flows: [cart]}]
`;

let chromium;
let folder;
let oidc;
let service;

before(async () => {
  oidc = await provider();
  folder = await mkdtemp(join(tmpdir(), 'supercargo-sign-in-'));
  for (const [name, content] of [['admin', token.admin], ['sso', oidc.secret], ['bootstrap.yaml', bootstrap(oidc.issuer)]]) {
    await writeFile(join(folder, name), content);
  }
  process.env.SUPERCARGO_ALLOW_INTERNAL = '127.0.0.1/32';
  service = await serve(folder);
  oidc.register(service.base);
  await report(service, 'prod', 'a');
  chromium = await browser();
}, OPTIONS);

after(async () => {
  await chromium?.close();
  await service?.end();
  await oidc?.stop();
  await rm(folder, { recursive: true });
}, OPTIONS);

const ARTIFACT = `/ui/acme/artifacts/${digest('a')}`;

/** Signs in at the provider, whose pages are those of its development mode. */
async function signIn(page, name) {
  await page.getByRole('link', { name: 'Sign in with sso' }).click();
  await page.locator('input[name="login"]').fill(name);
  await page.locator('input[name="password"]').fill('any');
  await page.locator('button[type="submit"]').click();
  await page.getByRole('button', { name: 'Continue' }).click();
}

test('people sign in at a provider, approve, and sign out here and there', OPTIONS, async () => {
  const user = await User.open(chromium, service);
  const { context, page } = user;
  // The pages of the provider load a font.
  await context.route((url) => url.hostname !== '127.0.0.1', (route) => route.abort());
  await page.goto(ARTIFACT);
  assert.deepEqual(await user.violations(), []);
  await signIn(page, 'kim');
  await page.waitForURL(`**${ARTIFACT}`);
  await page.getByLabel('Comment').fill('tested');
  await page.getByRole('button', { name: 'Approve' }).click();
  const kim = 'sso/kim (Kim Doe) <kim@example.com>';
  await page.getByRole('status').filter({ hasText: `by ${kim}` }).waitFor();
  await page.getByRole('region', { name: 'Approvals' }).getByRole('row').filter({ hasText: kim }).waitFor();

  // Signed out here only, the provider signs in again without a question.
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You are signed out.').waitFor();
  assert.deepEqual(await user.violations(), []);
  await page.goto(ARTIFACT);
  await page.getByRole('link', { name: 'Sign in with sso' }).click();
  await page.waitForURL(`**${ARTIFACT}`);

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('link', { name: 'Sign out at sso, too' }).click();
  await page.getByRole('button', { name: 'Yes, sign me out' }).click();
  await page.waitForURL('**/ui/sign-in');
  await page.goto(ARTIFACT);
  await signIn(page, 'lee');
  await page.waitForURL(`**${ARTIFACT}`);
  await page.getByText('sso/lee (Lee Poe)').waitFor();
  await page.getByRole('region', { name: 'Approvals' }).getByRole('row').filter({ hasText: kim }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);

  // A person without a group of the service.
  await context.clearCookies();
  await page.goto('/ui/sign-in');
  await signIn(page, 'max');
  await page.getByRole('alert').filter({ hasText: 'You are sso/max at sso, but may not read pages of this service.' }).waitFor();
  await user.close();
});

test('a token that the provider issues to a pipeline attests in its flow, also after a key rotation', OPTIONS, async () => {
  const attest = async (flow, token) => {
    const body = new FormData();
    body.append('data_json', JSON.stringify({ attestation_name: 'unit', junit_results: [] }));
    const url = `${service.base}/api/v2/attestations/acme/${flow}/trail/t/junit`;
    const response = await fetch(url, { method: 'POST', headers: { Authorization: `Bearer ${token}` }, body });
    return [response.status, (await response.json()).message];
  };
  const first = await oidc.accessToken('supercargo');
  assert.equal((await attest('cart', first))[0], 201);
  assert.deepEqual(await attest('web', first), [403, 'this token with role attest does not list this flow']);
  const [status, message] = await attest('cart', await oidc.accessToken('other'));
  assert.equal(status, 401);
  assert.match(message, /it is for another audience/);
  oidc.rotate(service.base);
  const second = await oidc.accessToken('supercargo');
  const keyOf = (token) => JSON.parse(atob(token.split('.')[0])).kid;
  assert.notEqual(keyOf(second), keyOf(first));
  assert.equal((await attest('cart', second))[0], 201);
});
