// What people do with the pages, in a browser: SUPERCARGO=PROGRAM node --test tests/browser

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Person, browser } from './browser.mjs';
import { demo } from './demo.mjs';
import { pages } from './pages.mjs';

const LONGEST = { timeout: 120_000 };

let chromium;
let shown;
/** Two pages of every kind. */
let every;

before(async () => {
  shown = await demo(process.env.SUPERCARGO ?? 'target/debug/supercargo');
  chromium = await browser();
  const scout = await Person.at(chromium, shown);
  await scout.signIn();
  every = await pages(scout, 2);
  await scout.leave();
}, LONGEST);

after(async () => {
  await chromium?.close();
  await shown?.stop();
}, LONGEST);

/** Nothing was found. */
function none(found) {
  if (found.length > 0) assert.fail(found.join('\n'));
}

/** A test with somebody at the browser, whom no page may give a reason to complain. */
function person(name, how, does) {
  test(name, LONGEST, async () => {
    const somebody = await Person.at(chromium, shown, how);
    try {
      await does(somebody, somebody.page);
      none(somebody.complaints);
    } finally {
      await somebody.leave();
    }
  });
}

person('from the front page to the failing test, to what ran an hour ago, and out', {}, async (person, page) => {
  await page.goto(shown.link);
  const front = page.url();
  // Three clicks: the environment, what of it does not comply, and the artifact.
  await page.getByRole('article').filter({ has: page.getByText('non-compliant', { exact: true }) }).first().getByRole('link').first().click();
  const environment = page.url();
  await page.getByRole('list', { name: 'Verdicts' }).getByRole('link', { name: /non-compliant/ }).click();
  await page.getByRole('table').locator('a[href*="/artifacts/"]').first().click();
  assert.match(page.url(), /\/artifacts\/[0-9a-f]{64}$/);
  // Why it does not comply leads to the attestation, which has the tests that failed first.
  const failed = page.getByRole('region', { name: 'Attestations' }).getByRole('row').filter({ hasText: 'failed' }).first();
  await failed.getByRole('link').first().click();
  assert.match(page.url(), /\/attestations\//);
  await page.getByRole('heading', { name: 'Went wrong' }).waitFor();
  await page.getByRole('article').first().getByText(/^(failed|error)$/).waitFor();

  await page.goto(environment);
  const hour = new Date(Date.now() - 3_600_000).toISOString().slice(0, 19);
  await page.getByLabel('What ran at (UTC)').fill(hour);
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByRole('heading', { name: `At ${hour.replace('T', ' ')} UTC` }).waitFor();
  await page.getByRole('columnheader', { name: 'Then' }).waitFor();
  await page.getByRole('columnheader', { name: 'Today' }).waitFor();

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL('**/ui/sign-in');
  for (const past of [front, environment]) {
    await page.goto(past);
    assert.match(page.url(), /\/ui\/sign-in\?next=/);
  }
});

person('the keyboard alone signs in, searches and opens an artifact', {}, async (person, page) => {
  const press = (key) => page.keyboard.press(key);
  const focused = () => page.evaluate(() => document.activeElement.matches(':focus-visible') && document.activeElement.outerHTML);
  const reach = async (what) => {
    for (let tabs = 0; tabs < 40; tabs += 1) {
      await press('Tab');
      if (what.test((await focused()) || '')) return;
    }
    assert.fail(`40 times Tab do not lead to ${what}`);
  };
  await page.goto('/ui');
  // Browsers apply `autofocus` after the page was loaded (HTML Standard, "flush autofocus candidates").
  await page.locator('input[name="token"]:focus').waitFor();
  await page.keyboard.type(shown.token);
  await press('Enter');
  await page.waitForURL(`**/ui/${shown.organization}`);
  // The first that Tab leads to is the way past all that every page begins with.
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
  person(`axe finds nothing on any page, ${scheme}`, { scheme }, async (person, page) => {
    await page.goto('/ui/sign-in');
    const found = (await person.faults()).map((fault) => `sign-in: ${fault}`);
    await person.signIn();
    for (const { path } of every) {
      await page.goto(path);
      found.push(...(await person.faults()).map((fault) => `${path}: ${fault}`));
    }
    none(found);
  });
}

person('no page is wider than 320 px', { width: 320 }, async (person, page) => {
  await page.goto('/ui/sign-in');
  const wide = [];
  const look = async (path) => {
    const overhang = await person.overhang();
    if (overhang > 0) wide.push(`${path} by ${overhang} px`);
  };
  await look('sign-in');
  await person.signIn();
  for (const { path } of every) {
    await page.goto(path);
    await look(path);
  }
  none(wide);
});

person('without a script all is there but the local time', { script: false }, async (person, page) => {
  await person.signIn();
  for (const { path } of every) {
    await page.goto(path);
    await page.getByRole('heading', { level: 1 }).waitFor();
  }
  await page.goto('/ui');
  await page.getByRole('searchbox').fill('web');
  await page.getByRole('searchbox').press('Enter');
  await page.getByRole('heading', { name: 'Search: web' }).waitFor();
});

test('a moment is in UTC, and in the local time as a title', LONGEST, async () => {
  const somebody = await Person.at(chromium, shown, { locale: 'en-GB', timezoneId: 'Asia/Tokyo' });
  await somebody.signIn();
  const time = somebody.page.locator('time').first();
  const [utc, at] = [await time.innerText(), await time.getAttribute('datetime')];
  assert.match(utc, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
  const local = new Date(Date.parse(at) + 9 * 3_600_000).toISOString().slice(11, 19);
  await somebody.page.waitForFunction((time) => time.title !== '', await time.elementHandle());
  const title = await time.getAttribute('title');
  assert.ok(title.includes(`${local} GMT+9`), `${title}, ${local}`);
  await somebody.leave();
});

person('on paper digests are whole, and the page says where and when it is from', {}, async (person, page) => {
  await person.signIn();
  const { path } = every.find(({ name }) => name === 'environment');
  await page.goto(path);
  await page.emulateMedia({ media: 'print' });
  const text = await page.getByRole('main').innerText();
  const rows = await page.getByRole('row').filter({ has: page.getByRole('cell') }).count();
  assert.ok(rows > 0);
  assert.ok((text.match(/\b[0-9a-f]{64}\b/g) ?? []).length >= rows, text);
  assert.ok((await page.getByRole('contentinfo').innerText()).includes(`${shown.base}${path}`));
  assert.equal(await page.getByRole('button').count(), 0);
});
