// Pictures of every kind of page, in both schemes and at two widths: node tests/browser/screenshots.mjs PROGRAM FOLDER
// The four of the documents, in docs/images: node tests/browser/screenshots.mjs PROGRAM --docs

import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Person, browser } from './browser.mjs';
import { demo } from './demo.mjs';
import { pages } from './pages.mjs';

const DOCS = join(dirname(fileURLToPath(import.meta.url)), '../../docs/images');

/** The documents' pictures: of which kind of page, of which the first that has something wrong is taken. */
const CHOSEN = [
  { kind: 'organization', scheme: 'light' },
  { kind: 'environment', scheme: 'light' },
  { kind: 'artifact', scheme: 'light' },
  { kind: 'timeline', scheme: 'dark' },
];

/** A picture of a page is no higher in the documents. */
const HIGHEST = 1000;

async function all(chromium, shown, folder) {
  for (const scheme of ['light', 'dark']) {
    for (const width of [1280, 360]) {
      const person = await Person.at(chromium, shown, { scheme, width });
      const picture = (name) => person.page.screenshot({ path: join(folder, `${name}-${scheme}-${width}.png`), fullPage: true });
      await person.page.goto('/ui/sign-in');
      await picture('sign-in');
      await person.signIn();
      for (const { name, path } of await pages(person, 3)) {
        await person.page.goto(path);
        await picture(name);
      }
      await person.leave();
    }
  }
}

async function chosen(chromium, shown) {
  for (const { kind, scheme } of CHOSEN) {
    const person = await Person.at(chromium, shown, { scheme, width: 1120 });
    await person.signIn();
    const ofKind = (await pages(person, 8)).filter(({ name }) => name.replace(/-\d+$/, '') === kind);
    const wrong = async ({ path }) => {
      await person.page.goto(path);
      return (await person.page.locator('.badge.bad').count()) > 0;
    };
    let path = ofKind[0].path;
    for (const page of ofKind) {
      if (await wrong(page)) {
        path = page.path;
        break;
      }
    }
    await person.page.goto(path);
    const height = Math.min(HIGHEST, Math.ceil((await person.page.locator('footer').boundingBox()).y));
    const file = join(DOCS, `${kind}.png`);
    await person.page.screenshot({ path: file, fullPage: true, clip: { x: 0, y: 0, width: 1120, height } });
    execFileSync('pngquant', ['--force', '--strip', '--quality', '60-95', '--output', file, file]);
    await person.leave();
  }
}

const [program, folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: node tests/browser/screenshots.mjs PROGRAM FOLDER|--docs');
  process.exit(2);
}
await mkdir(folder === '--docs' ? DOCS : folder, { recursive: true });
const shown = await demo(program);
const chromium = await browser();
try {
  await (folder === '--docs' ? chosen(chromium, shown) : all(chromium, shown, folder));
} finally {
  await chromium.close();
  await shown.stop();
}
