// Finds pages of every kind by following links.

/** The paths of each kind of page, below that of the organization. */
const KINDS = [
  ['organization', /^$/],
  ['environment', /^\/environments\/[^/?]+$/],
  ['environment-past', /^\/environments\/[^/?]+\?at=[^&]*$/],
  ['environment-filtered', /^\/environments\/[^/?]+\?compliance=[^&]*$/],
  ['timeline', /^\/environments\/[^/?]+\/timeline$/],
  ['agents', /^\/environments\/[^/?]+\/agents$/],
  ['compare', /^\/environments\/[^/?]+\/compare\?/],
  ['artifact', /^\/artifacts\/[0-9a-f]{64}$/],
  ['trail', /^\/flows\/[^/]+\/trails\/[^/?]+$/],
  ['attestation', /^\/flows\/[^/]+\/trails\/[^/]+\/attestations\/[^/?]+$/],
  ['policies', /^\/policies$/],
  ['policy', /^\/policies\/[^/?]+$/],
  ['search', /^\/search\?/],
  ['actions', /^\/actions$/],
  ['action', /^\/actions\/[^/?]+$/],
];

/** The links of a page; links of entries with problems come first. */
function links(user) {
  return user.page.locator('main a, header a').evaluateAll((links) => {
    const isBad = (link) => link.closest('article, tr')?.querySelector('.bad, .warning') != null;
    return [...links.filter(isBad), ...links.filter((link) => !isBad(link))].map((link) => link.getAttribute('href'));
  });
}

/** Follows links from the page of the organization, and returns at most `max` pages per kind: `{ name, path }`. */
export async function pages(user, max) {
  const start = `/ui/${user.demo.organization}`;
  const hour = new Date(Date.now() - 3_600_000).toISOString().slice(0, 16);
  const found = new Map(KINDS.map(([kind]) => [kind, []]));
  const seen = new Set();
  const queue = [start];
  while (queue.length > 0) {
    const path = queue.shift().split('#')[0];
    if (seen.has(path)) continue;
    seen.add(path);
    const kind = KINDS.find(([, pattern]) => path.startsWith(start) && pattern.test(path.slice(start.length)))?.[0];
    if (kind === undefined || found.get(kind).length === max) continue;
    const response = await user.page.goto(path);
    if (response.status() !== 200) throw new Error(`${path}: expected 200, got ${response.status()}`);
    found.get(kind).push(path);
    if (kind === 'environment') queue.push(`${path}?at=${hour}Z`);
    queue.push(...(await links(user)));
    if (kind === 'organization') queue.push(`${start}/search?q=web`, `${start}/search?q=nothing-like-it`);
  }
  const named = [...found].flatMap(([kind, paths]) => paths.map((path, number) => ({ name: number === 0 ? kind : `${kind}-${number + 1}`, path })));
  return [...named, { name: 'not-found', path: `${start}/nothing-here` }];
}
