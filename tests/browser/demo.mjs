// The program's demo, which the browser looks at: started, listened to until it has told its story, and ended.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';

const PATIENCE = 60_000;

/** Starts the demo of a program. */
export async function demo(program) {
  const child = spawn(program, ['demo', '--keep'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000);
    child.kill('SIGTERM');
    await once(child, 'exit');
    clearTimeout(late);
  };
  try {
    await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the demo told no end within ${PATIENCE} ms:\n${said}`)), PATIENCE);
      const heard = (text) => {
        said += text;
        if (/^\s*kill \d+$/m.test(said)) {
          clearTimeout(late);
          resolve();
        }
      };
      child.stdout.setEncoding('utf8').on('data', heard);
      child.stderr.setEncoding('utf8').on('data', heard);
      child.once('error', reject);
      child.once('exit', (code, signal) => reject(new Error(`the demo ended (${code ?? signal}):\n${said}`)));
    });
  } catch (error) {
    await stop();
    throw error;
  }
  const word = (name) => said.match(new RegExp(`export SUPERCARGO_${name}=(\\S+)`))?.[1];
  return {
    base: word('BASE_URL'),
    link: said.match(/^\s*(http\S+\/ui\/sign-in\?once=\S+)$/m)?.[1],
    organization: word('ORG'),
    token: (await readFile(word('TOKEN_FILE'), 'utf8')).trim(),
    stop,
  };
}
