// A `serve` with a temporary database on a free port of loopback, and the programs that are run against it.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const CLIENT = fileURLToPath(new URL('node_modules/.bin/kosli', import.meta.url));
const OTHERS = fileURLToPath(new URL('other_services.mjs', import.meta.url));
const SUPERCARGO = resolve(process.env.SUPERCARGO ?? 'target/debug/supercargo');

/** Maximum time until the service is ready, in milliseconds. */
const TIMEOUT = 60_000;

/** Tokens by name; each is its own secret. */
const TOKENS = ['admin', 'reader', 'reporter', 'attester', 'stranger'].map((name) => [name, `${name}-0123456789abcdef`]);
export const token = Object.fromEntries(TOKENS);

const BOOTSTRAP = `
generation: 1
organizations:
  - name: acme
    tokens:
      - {name: admin, role: admin, file: admin}
      - {name: reader, role: read, file: reader}
      - {name: reporter, role: report, environments: [prod, dev, stage], create: true, file: reporter}
      - {name: attester, role: attest, flows: [cart, shop], file: attester}
    flows:
      - {name: declared, template: {attestations: [{name: unit, type: junit}]}}
    environments:
      - {name: declared}
  - name: stranger
    retention: 21d
    environments:
      - {name: old, silentAfter: 60d}
    tokens:
      - {name: stranger, role: admin, file: stranger}
`;

/** Starts the service, and creates a working copy in which commands run. */
export async function start() {
  const folder = await mkdtemp(join(tmpdir(), 'supercargo-client-'));
  for (const [name, secret] of TOKENS) await writeFile(join(folder, name), secret);
  await writeFile(join(folder, 'bootstrap.yaml'), BOOTSTRAP);
  const service = await serve(folder);
  const git = (...command) => run('git', ['-c', 'user.name=Jo', '-c', 'user.email=jo@example.com', ...command], { cwd: folder });
  git('init', '--quiet', '--initial-branch', 'main');
  git('remote', 'add', 'origin', 'https://git.example.com/acme/cart.git');
  git('commit', '--quiet', '--allow-empty', '--message', 'CART-1: Count');
  service.sha = git('rev-parse', 'HEAD').stdout.trim();
  const others = spawn(process.execPath, [OTHERS, service.sha], { stdio: ['ignore', 'pipe', 'inherit'] });
  service.stop = async () => {
    others.kill();
    await service.end();
    await rm(folder, { recursive: true });
  };
  [service.others] = await once(others.stdout.setEncoding('utf8'), 'data');
  service.others = service.others.trim();
  return service;
}

/** Moves the history of environments back by a number of days each, while the service is stopped. */
export async function backdate(service, days) {
  await service.end();
  const { status, stderr } = run('python3', ['-c', BACKDATE, JSON.stringify(days)], { cwd: service.folder });
  if (status !== 0) throw new Error(stderr);
  Object.assign(service, await serve(service.folder));
}

const BACKDATE = `
import json, sqlite3, sys
database = sqlite3.connect("evidence.db")
for name, days in json.loads(sys.argv[1]).items():
    (environment,) = database.execute("SELECT id FROM environments WHERE name = ?", (name,)).fetchone()
    for table, key in [("environments", "id"), *((table, "environment") for table in ("snapshots", "confirmations", "artifact_runs", "pod_runs", "verdicts"))]:
        for _, column, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
            if column.endswith("_at") and (table, column) != ("pod_runs", "created_at"):
                database.execute(f"UPDATE {table} SET {column} = {column} - ? WHERE {key} = ?", (days * 86_400_000_000, environment))
database.commit()
`;

/** Starts the service in a folder. */
export async function serve(folder) {
  const args = ['serve', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--log-format', 'text'];
  const child = spawn(SUPERCARGO, [...args, '--database', 'sqlite:evidence.db', '--bootstrap', 'bootstrap.yaml'], {
    cwd: folder, stdio: ['ignore', 'ignore', 'pipe'],
  });
  const service = { folder, log: '', base: '' };
  service.end = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  };
  try {
    await new Promise((ready, reject) => {
      const timer = setTimeout(() => reject(new Error(`not ready:\n${service.log}`)), TIMEOUT);
      child.stderr.setEncoding('utf8').on('data', (text) => {
        service.log += text;
        service.base = service.log.match(/serving on (http:\/\/[^,\s]+),/)?.[1] ?? '';
        if (service.base) {
          clearTimeout(timer);
          ready();
        }
      });
      child.once('error', reject);
      child.once('exit', (code, signal) => reject(new Error(`ended (${code ?? signal}):\n${service.log}`)));
    });
  } catch (error) {
    await service.end();
    await rm(folder, { recursive: true });
    throw error;
  }
  return service;
}

/** Runs the public client with a token. Only loopback can be reached: other requests go to a proxy that does not exist. */
export function client(service, secret, args, env = {}) {
  const { PATH } = process.env;
  const proxy = 'http://127.0.0.1:9';
  return run(CLIENT, args, {
    cwd: service.folder,
    env: {
      PATH, HOME: service.folder, HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NO_PROXY: '127.0.0.1', KOSLI_MAX_API_RETRIES: '0',
      KOSLI_HOST: service.base, KOSLI_ORG: 'acme', KOSLI_API_TOKEN: secret, ...env,
    },
  });
}

/** Runs our own client as a token of an organization. */
export function supercargo(service, args, organization = 'acme', name = 'reader') {
  const { PATH } = process.env;
  const env = {
    PATH, SUPERCARGO_BASE_URL: service.base, SUPERCARGO_ORG: organization, SUPERCARGO_TOKEN_FILE: join(service.folder, name),
  };
  return run(SUPERCARGO, args, { cwd: service.folder, env });
}

/** Digests by digit. */
export const digest = (digit) => digit.repeat(64);

/** Reports pods with these digits. */
export async function report(service, environment, digits, organization = 'acme', secret = token.admin) {
  const pod = (digit, n) => ({
    podName: `p-${n}`, namespace: 'shop', digests: { [`registry/cart:${digit}`]: digest(digit) },
    creationTimestamp: 1_790_000_000, owners: null,
  });
  const response = await fetch(`${service.base}/api/v2/environments/${organization}/${environment}/report/K8S?create=true`, {
    method: 'PUT', body: JSON.stringify({ artifacts: [...digits].map(pod) }),
    headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' },
  });
  if (!response.ok) throw new Error(await response.text());
}

/** The JSON of a read operation. */
export async function read(service, path) {
  const response = await fetch(`${service.base}/api/v2${path}`, { headers: { Authorization: `Bearer ${token.reader}` } });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

function run(program, args, options) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', timeout: TIMEOUT, ...options });
  if (error) throw error;
  return { status, stdout, stderr };
}
