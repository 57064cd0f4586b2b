// Runs `supercargo demo --keep` for the browser.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';

/** Maximum time until the demo is ready, in milliseconds. */
const TIMEOUT = 300_000;

/** Starts the demo, and waits until it is ready. */
export async function demo(program) {
  const child = spawn(program, ['demo', '--keep'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
    child.kill('SIGTERM');
    await once(child, 'exit');
    clearTimeout(timer);
  };
  try {
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the demo was not ready within ${TIMEOUT} ms:\n${output}`)), TIMEOUT);
      const read = (text) => {
        output += text;
        if (/^\s*kill \d+$/m.test(output)) {
          clearTimeout(timer);
          resolve();
        }
      };
      child.stdout.setEncoding('utf8').on('data', read);
      child.stderr.setEncoding('utf8').on('data', read);
      child.once('error', reject);
      child.once('exit', (code, signal) => reject(new Error(`the demo ended (${code ?? signal}):\n${output}`)));
    });
  } catch (error) {
    await stop();
    throw error;
  }
  const variable = (name) => output.match(new RegExp(`export SUPERCARGO_${name}=(\\S+)`))?.[1];
  return {
    base: variable('BASE_URL'),
    link: output.match(/^\s*(http\S+\/ui\/sign-in\?once=\S+)$/m)?.[1],
    organization: variable('ORG'),
    token: (await readFile(variable('TOKEN_FILE'), 'utf8')).trim(),
    stop,
  };
}
