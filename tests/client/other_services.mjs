// The other services that the client asks, in a process of their own: an issue tracker, code analysis, pull requests, and an
// API server. Prints its URL.

import { createServer } from 'node:http';

const [, , sha] = process.argv;

const pod = {
  metadata: { name: 'cart-1', namespace: 'shop', creationTimestamp: '2026-01-01T00:00:00Z' },
  status: {
    phase: 'Running',
    containerStatuses: [{ name: 'cart', image: 'registry/cart:1', imageID: `registry/cart@sha256:${'b'.repeat(64)}` }],
  },
};

const ANSWERS = [
  [/\/rest\/api\/2\/issue\/CART-1/, { id: '1', key: 'CART-1', fields: {} }],
  [/\/api\/ce\/activity/, {}],
  [/\/api\/project_analyses\/search/, { analyses: [{ key: 'k', date: '2026-01-01T00:00:00+0000', revision: sha }] }],
  [/\/api\/qualitygates\/project_status/, { projectStatus: { status: 'OK', conditions: [] } }],
  [/\/merge_requests/, []],
  [/\/api\/v1\/pods/, { kind: 'PodList', apiVersion: 'v1', metadata: {}, items: [pod] }],
];

const server = createServer((request, response) => {
  const answer = ANSWERS.find(([path]) => path.test(request.url));
  response.writeHead(answer ? 200 : 404, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer?.[1] ?? {}));
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
