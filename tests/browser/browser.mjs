// Starts Chromium, and records problems of the pages that it shows.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core'), 'utf8');

/** Starts the browser: the executable in CHROMIUM, or that of Debian. */
export function browser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // Chromium does not support its sandbox for root.
    chromiumSandbox: process.getuid() !== 0,
    args: ['--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
  });
}

/** A user with a browser context. `problems` has all errors of the browser. */
export class User {
  problems = [];

  static async open(browser, demo, { scheme = 'light', width = 1280, script = true, ...options } = {}) {
    const context = await browser.newContext({
      baseURL: demo.base,
      colorScheme: scheme,
      javaScriptEnabled: script,
      viewport: { width, height: 800 },
      ...options,
    });
    context.setDefaultTimeout(60_000);
    const user = new User();
    Object.assign(user, { demo, context, page: await context.newPage() });
    const report = (problem) => user.problems.push(`${user.page.url()}: ${problem}`);
    context.on('request', (request) => {
      if (new URL(request.url()).origin !== demo.base) report(`requests ${request.url()}`);
    });
    context.on('requestfailed', (request) => {
      const error = request.failure()?.errorText;
      // A navigation aborts the update of the page that it leaves.
      const isAborted = error === 'net::ERR_ABORTED' && 'supercargo-update' in request.headers();
      if (!isAborted) report(`${request.url()} failed: ${error}`);
    });
    // A page may return 403 or 404; its files may not.
    const pages = new Set();
    context.on('request', (request) => {
      if (request.isNavigationRequest()) pages.add(request.url());
    });
    context.on('console', (message) => {
      const isExpected = /^Failed to load resource: .* (403|404) /.test(message.text()) && pages.has(message.location().url);
      if (!isExpected) report(`${message.type()}: ${message.text()}`);
    });
    context.on('weberror', (error) => report(error.error().stack));
    return user;
  }

  async signIn() {
    await this.page.goto('/ui/sign-in');
    await this.page.getByLabel('Token').fill(this.demo.token);
    await this.page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
    await this.page.waitForURL(`**/ui/${this.demo.organization}`);
  }

  /** Violations of all rules of axe, including best practices and experimental ones. */
  async violations() {
    await this.page.evaluate(axe);
    const violations = await this.page.evaluate(async () => {
      const rules = Object.fromEntries(window.axe.getRules().map(({ ruleId }) => [ruleId, { enabled: true }]));
      const { violations } = await window.axe.run({ rules, resultTypes: ['violations'] });
      return violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html, failureSummary }) => [html, failureSummary]) }));
    });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.length} times, first\n    ${nodes[0].join('\n    ')}`);
  }

  /** Pixels by which the page is wider than the window. */
  overflow() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }

  async close() {
    await this.context.close();
  }
}
