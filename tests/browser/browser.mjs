// Debian's Chromium, and what is held against every page that it shows.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core'), 'utf8');

/** Starts the browser: the one that CHROMIUM names, or Debian's. */
export function browser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // Chromium refuses its sandbox to root.
    chromiumSandbox: process.getuid() !== 0,
    args: ['--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
  });
}

/** Somebody at the browser, with a session of their own. What the browser complains of is in `complaints`. */
export class Person {
  complaints = [];

  static async at(browser, demo, { scheme = 'light', width = 1280, script = true, ...how } = {}) {
    const context = await browser.newContext({
      baseURL: demo.base,
      colorScheme: scheme,
      javaScriptEnabled: script,
      viewport: { width, height: 800 },
      ...how,
    });
    context.setDefaultTimeout(10_000);
    const person = new Person();
    Object.assign(person, { demo, context, page: await context.newPage() });
    const complain = (what) => person.complaints.push(`${person.page.url()}: ${what}`);
    context.on('request', (request) => {
      if (new URL(request.url()).origin !== demo.base) complain(`it asks for ${request.url()}`);
    });
    context.on('requestfailed', (request) => complain(`${request.url()} failed: ${request.failure()?.errorText}`));
    // The pages themselves may refuse what was asked for; nothing that belongs to them may.
    const pages = new Set();
    context.on('request', (request) => {
      if (request.isNavigationRequest()) pages.add(request.url());
    });
    context.on('console', (message) => {
      const isRefusal = /^Failed to load resource: .* (403|404) /.test(message.text()) && pages.has(message.location().url);
      if (!isRefusal) complain(`${message.type()}: ${message.text()}`);
    });
    context.on('weberror', (error) => complain(error.error().stack));
    return person;
  }

  async signIn() {
    await this.page.goto('/ui/sign-in');
    await this.page.getByLabel('Token').fill(this.demo.token);
    await this.page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
    await this.page.waitForURL(`**/ui/${this.demo.organization}`);
  }

  /** What axe finds on the page by any of its rules: best practices, the strictest levels and experiments too. */
  async faults() {
    await this.page.evaluate(axe);
    const found = await this.page.evaluate(async () => {
      const rules = Object.fromEntries(window.axe.getRules().map(({ ruleId }) => [ruleId, { enabled: true }]));
      const { violations } = await window.axe.run({ rules, resultTypes: ['violations'] });
      return violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html, failureSummary }) => [html, failureSummary]) }));
    });
    return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.length} times, first\n    ${nodes[0].join('\n    ')}`);
  }

  /** By how many pixels the page is wider than the window. */
  overhang() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }

  async leave() {
    await this.context.close();
  }
}
