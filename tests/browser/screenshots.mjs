// Screenshots of every kind of page, in both color schemes and two widths:
//   node tests/browser/screenshots.mjs PROGRAM FOLDER
// The images of the documents, in docs/images: node tests/browser/screenshots.mjs PROGRAM --docs

import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { User, browser } from './browser.mjs';
import { demo } from './demo.mjs';
import { pages } from './pages.mjs';

const DOCS = join(dirname(fileURLToPath(import.meta.url)), '../../docs/images');

/** The images of the documents: the first page of the kind with a problem, or the first page. */
const CHOSEN = [
  { kind: 'organization', scheme: 'light' },
  { kind: 'environment', scheme: 'light' },
  { kind: 'artifact', scheme: 'light' },
  { kind: 'timeline', scheme: 'dark' },
];

/** Maximum height of an image in the documents, in pixels. */
const MAX_HEIGHT = 1000;

async function all(chromium, running, folder) {
  for (const scheme of ['light', 'dark']) {
    for (const width of [1280, 360]) {
      const user = await User.open(chromium, running, { scheme, width });
      const screenshot = (name) => user.page.screenshot({ path: join(folder, `${name}-${scheme}-${width}.png`), fullPage: true });
      await user.page.goto('/ui/sign-in');
      await screenshot('sign-in');
      await user.signIn();
      for (const { name, path } of await pages(user, 3)) {
        await user.page.goto(path);
        await screenshot(name);
      }
      await user.close();
    }
  }
}

async function documentImages(chromium, running) {
  for (const { kind, scheme } of CHOSEN) {
    const user = await User.open(chromium, running, { scheme, width: 1120 });
    await user.signIn();
    const ofKind = (await pages(user, 8)).filter(({ name }) => name.replace(/-\d+$/, '') === kind);
    const hasProblem = async ({ path }) => {
      await user.page.goto(path);
      return (await user.page.locator('.badge.bad').count()) > 0;
    };
    let path = ofKind[0].path;
    for (const page of ofKind) {
      if (await hasProblem(page)) {
        path = page.path;
        break;
      }
    }
    await user.page.goto(path);
    const height = Math.min(MAX_HEIGHT, Math.ceil((await user.page.locator('footer').boundingBox()).y));
    const file = join(DOCS, `${kind}.png`);
    await user.page.screenshot({ path: file, fullPage: true, clip: { x: 0, y: 0, width: 1120, height } });
    execFileSync('pngquant', ['--force', '--strip', '--quality', '60-95', '--output', file, file]);
    await user.close();
  }
}

const [program, folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: node tests/browser/screenshots.mjs PROGRAM FOLDER|--docs');
  process.exit(2);
}
await mkdir(folder === '--docs' ? DOCS : folder, { recursive: true });
const running = await demo(program);
const chromium = await browser();
try {
  await (folder === '--docs' ? documentImages(chromium, running) : all(chromium, running, folder));
} finally {
  await chromium.close();
  await running.stop();
}
