// Tests of the pages in a browser: SUPERCARGO=PROGRAM node --test tests/browser

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { User, browser } from './browser.mjs';
import { demo } from './demo.mjs';
import { pages } from './pages.mjs';

const OPTIONS = { timeout: 600_000 };

let chromium;
let running;
/** At most two pages of every kind. */
let all;

before(async () => {
  running = await demo(process.env.SUPERCARGO ?? 'target/debug/supercargo');
  await attachPolicy(running, 'warehouse');
  chromium = await browser();
  const user = await User.open(chromium, running);
  await user.signIn();
  all = await pages(user, 2);
  await user.close();
}, OPTIONS);

/** Creates a policy that no artifact fulfills, and attaches it to an environment. */
async function attachPolicy({ base, organization, token }, environment) {
  const form = new FormData();
  form.set('payload', JSON.stringify({ name: 'four-eyes', description: 'approved by two persons', comment: 'first version', type: 'env' }));
  const file = '_schema: x/v1\nartifacts:\n  provenance: {required: true}\n  approval: {count: 2, not_author: true}\n';
  form.set('policy_file', new Blob([file]), 'policy.yaml');
  for (const [path, init] of [
    [`policies/${organization}`, { method: 'PUT', body: form }],
    [`environments/${organization}/${environment}/policies`, { method: 'POST', body: JSON.stringify({ policy_names: ['four-eyes'] }) }],
  ]) {
    const response = await fetch(`${base}/api/v2/${path}`, { ...init, headers: { Authorization: `Bearer ${token}` } });
    assert.ok(response.ok, `${path}: ${response.status} ${await response.text()}`);
  }
}

after(async () => {
  await chromium?.close();
  await running?.stop();
}, OPTIONS);

/** Fails with the problems, unless there are none. */
function assertNone(problems) {
  if (problems.length > 0) assert.fail(problems.join('\n'));
}

/** A test with one user, which also fails on any error of the browser. */
function userTest(name, options, body) {
  test(name, OPTIONS, async () => {
    const user = await User.open(chromium, running, options);
    try {
      await body(user, user.page);
      assertNone(user.problems);
    } finally {
      await user.close();
    }
  });
}

userTest('links lead from the organization to a failed test; the past and sign-out work', {}, async (user, page) => {
  await page.goto(running.link);
  const front = page.url();
  // Three clicks: the environment, its non-compliant artifacts, and the first of them.
  await page.getByRole('article').filter({ has: page.getByText('non-compliant', { exact: true }) }).first().getByRole('link').first().click();
  const environment = page.url();
  await page.getByRole('list', { name: 'Verdicts' }).getByRole('link', { name: /non-compliant/ }).click();
  await page.getByRole('table').locator('a[href*="/artifacts/"]').first().click();
  assert.match(page.url(), /\/artifacts\/[0-9a-f]{64}$/);
  // The failed attestation of the artifact shows the failed tests first.
  const failed = page.getByRole('region', { name: 'Attestations' }).getByRole('row').filter({ hasText: 'failed' }).first();
  await failed.getByRole('link').first().click();
  assert.match(page.url(), /\/attestations\//);
  await page.getByRole('heading', { name: 'Failed tests' }).waitFor();
  await page.getByRole('article').first().getByText(/^(failed|error)$/).waitFor();

  await page.goto(environment);
  const hour = new Date(Date.now() - 3_600_000).toISOString().slice(0, 19);
  await page.getByLabel('Point in time (UTC)').fill(hour);
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByRole('heading', { name: `As of ${hour.replace('T', ' ')} UTC` }).waitFor();
  await page.getByRole('columnheader', { name: 'Then' }).waitFor();
  await page.getByRole('columnheader', { name: 'Today' }).waitFor();

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL('**/ui/sign-in');
  for (const past of [front, environment]) {
    await page.goto(past);
    assert.match(page.url(), /\/ui\/sign-in\?next=/);
  }
});

userTest('open page shows a new artifact, and its form is not replaced while in use', {}, async (user, page) => {
  const report = async (name) => {
    const pod = { podName: name, namespace: 'live', digests: { [name]: name.padEnd(64, '0') }, creationTimestamp: 1_700_000_000, owners: [] };
    const response = await fetch(`${running.base}/api/v2/environments/${running.organization}/live/report/K8S?create=true`, {
      method: 'PUT',
      body: JSON.stringify({ type: 'K8S', artifacts: [pod] }),
      headers: { Authorization: `Bearer ${running.token}`, 'Content-Type': 'application/json' },
    });
    assert.ok(response.ok, await response.text());
  };
  await report('a1');
  await user.signIn();
  await page.clock.install();
  await page.goto(`/ui/${running.organization}/environments/live`);
  const shows = (name) => page.getByRole('main').getByText(name, { exact: true }).first();
  await shows('a1').waitFor();
  await report('b2');
  await page.clock.runFor(20_000);
  await shows('b2').waitFor();
  await page.getByRole('main').getByRole('searchbox').or(page.getByRole('main').getByRole('textbox')).first().focus();
  await report('c3');
  await page.clock.runFor(20_000);
  await shows('b2').waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.clock.runFor(20_000);
  await shows('c3').waitFor();
  const [data] = await Promise.all([page.waitForResponse('**/api/v2/snapshots/**'), page.getByRole('link', { name: 'JSON' }).click()]);
  assert.equal(data.status(), 200);
});

userTest('pages can be used by keyboard', {}, async (user, page) => {
  const press = (key) => page.keyboard.press(key);
  const focused = () => page.evaluate(() => document.activeElement.matches(':focus-visible') && document.activeElement.outerHTML);
  const reach = async (pattern) => {
    for (let tabs = 0; tabs < 40; tabs += 1) {
      await press('Tab');
      if (pattern.test((await focused()) || '')) return;
    }
    assert.fail(`expected to reach ${pattern} within 40 tabs`);
  };
  await page.goto('/ui');
  // Browsers apply `autofocus` after the page was loaded (HTML Standard, "flush autofocus candidates").
  await page.locator('input[name="token"]:focus').waitFor();
  await page.keyboard.type(running.token);
  await press('Enter');
  await page.waitForURL(`**/ui/${running.organization}`);
  // The first tab stop is the link that skips the header.
  await press('Tab');
  assert.match(await focused(), /class="skip"/);
  await reach(/type="search"/);
  await page.keyboard.type('shop/web');
  await press('Enter');
  await page.waitForURL('**/search?q=*');
  assert.equal(await page.getByRole('searchbox').inputValue(), 'shop/web');
  await reach(/\/artifacts\//);
  await press('Enter');
  await page.waitForURL('**/artifacts/*');
});

for (const scheme of ['light', 'dark']) {
  userTest(`pages have no accessibility violations, ${scheme}`, { scheme }, async (user, page) => {
    await page.goto('/ui/sign-in');
    const problems = (await user.violations()).map((violation) => `sign-in: ${violation}`);
    await user.signIn();
    for (const { path } of all) {
      await page.goto(path);
      problems.push(...(await user.violations()).map((violation) => `${path}: ${violation}`));
    }
    assertNone(problems);
  });
}

userTest('pages fit into 320 px', { width: 320 }, async (user, page) => {
  await page.goto('/ui/sign-in');
  const wide = [];
  const check = async (path) => {
    const overflow = await user.overflow();
    if (overflow > 0) wide.push(`${path} by ${overflow} px`);
  };
  await check('sign-in');
  await user.signIn();
  for (const { path } of all) {
    await page.goto(path);
    await check(path);
  }
  assertNone(wide);
});

userTest('pages work without scripts', { script: false }, async (user, page) => {
  await user.signIn();
  for (const { path } of all) {
    await page.goto(path);
    await page.getByRole('heading', { level: 1 }).waitFor();
  }
  await page.goto('/ui');
  await page.getByRole('searchbox').fill('web');
  await page.getByRole('searchbox').press('Enter');
  await page.getByRole('heading', { name: 'Search: web' }).waitFor();
});

userTest('an artifact is approved on its page, without scripts', { script: false }, async (user, page) => {
  await user.signIn();
  const { path } = all.find(({ name }) => name === 'artifact');
  await page.goto(path);
  const flow = await page.locator('#flow-names option').first().getAttribute('value');
  const environment = await page.locator('#environment option:not([value=""])').first().getAttribute('value');
  await page.getByLabel('Flow', { exact: true }).fill(flow);
  await page.getByLabel('Environment', { exact: true }).selectOption(environment);
  await page.getByLabel('Comment').fill('looks good in the browser');
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('status').filter({ hasText: `for ${environment}: approval` }).waitFor();
  await page.getByRole('region', { name: 'Approvals' }).getByRole('row').filter({ hasText: 'looks good in the browser' }).waitFor();
});

test('times are in UTC, with the local time as a title; a button switches', OPTIONS, async () => {
  const user = await User.open(chromium, running, { locale: 'en-GB', timezoneId: 'Asia/Tokyo' });
  await user.signIn();
  const time = user.page.locator('time').first();
  const [utc, at] = [await time.innerText(), await time.getAttribute('datetime')];
  assert.match(utc, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
  const local = new Date(Date.parse(at) + 9 * 3_600_000).toISOString().slice(11, 19);
  await user.page.waitForFunction((time) => time.title !== '', await time.elementHandle());
  const title = await time.getAttribute('title');
  assert.ok(title.includes(`${local} GMT+9`), `${title}, ${local}`);
  await user.page.getByRole('button', { name: 'Use local times' }).click();
  assert.deepEqual([await time.innerText(), await time.getAttribute('title')], [title, utc]);
  // The browser remembers it.
  await user.page.reload();
  assert.match(await time.innerText(), /GMT\+9$/);
  await user.page.getByRole('button', { name: 'Use UTC' }).click();
  assert.match(await time.innerText(), /UTC$/);
  await user.close();
});

userTest('printed pages contain full digests and their URL', {}, async (user, page) => {
  await user.signIn();
  const { path } = all.find(({ name }) => name === 'environment');
  await page.goto(path);
  await page.emulateMedia({ media: 'print' });
  const text = await page.getByRole('main').innerText();
  const artifacts = page.getByRole('table', { name: /^Running artifacts/ });
  const rows = await artifacts.getByRole('row').filter({ has: page.getByRole('cell') }).count();
  assert.ok(rows > 0);
  assert.ok((text.match(/\b[0-9a-f]{64}\b/g) ?? []).length >= rows, text);
  assert.ok((await page.getByRole('contentinfo').innerText()).includes(`${running.base}${path}`));
  assert.equal(await page.getByRole('button').count(), 0);
});
