// Every kind of page, found as a person would: by following links.

/** What an address has to look like to be of a kind, below the organization's. */
const KINDS = [
  ['organization', /^$/],
  ['environment', /^\/environments\/[^/?]+$/],
  ['environment-then', /^\/environments\/[^/?]+\?at=[^&]*$/],
  ['environment-filtered', /^\/environments\/[^/?]+\?compliance=[^&]*$/],
  ['timeline', /^\/environments\/[^/?]+\/timeline$/],
  ['compare', /^\/environments\/[^/?]+\/compare\?/],
  ['artifact', /^\/artifacts\/[0-9a-f]{64}$/],
  ['trail', /^\/flows\/[^/]+\/trails\/[^/?]+$/],
  ['attestation', /^\/flows\/[^/]+\/trails\/[^/]+\/attestations\/[^/?]+$/],
  ['search', /^\/search\?/],
  ['actions', /^\/actions$/],
  ['action', /^\/actions\/[^/?]+$/],
];

/** Where a page leads: first what it says something bad of. */
function links(person) {
  return person.page.locator('main a, header a').evaluateAll((links) => {
    const isBad = (link) => link.closest('article, tr')?.querySelector('.bad, .late') != null;
    return [...links.filter(isBad), ...links.filter((link) => !isBad(link))].map((link) => link.getAttribute('href'));
  });
}

/** Follows links from the organization's page on, and gives what there is, so many of a kind: `{ name, path }`. */
export async function pages(person, most) {
  const start = `/ui/${person.demo.organization}`;
  const hour = new Date(Date.now() - 3_600_000).toISOString().slice(0, 16);
  const found = new Map(KINDS.map(([kind]) => [kind, []]));
  const seen = new Set();
  const waiting = [start];
  while (waiting.length > 0) {
    const path = waiting.shift().split('#')[0];
    if (seen.has(path)) continue;
    seen.add(path);
    const kind = KINDS.find(([, address]) => path.startsWith(start) && address.test(path.slice(start.length)))?.[0];
    if (kind === undefined || found.get(kind).length === most) continue;
    const answer = await person.page.goto(path);
    if (answer.status() !== 200) throw new Error(`${path} answers ${answer.status()}`);
    found.get(kind).push(path);
    if (kind === 'environment') waiting.push(`${path}?at=${hour}Z`);
    waiting.push(...(await links(person)));
    if (kind === 'organization') waiting.push(`${start}/search?q=web`, `${start}/search?q=nothing-like-it`);
  }
  const named = [...found].flatMap(([kind, paths]) => paths.map((path, number) => ({ name: number === 0 ? kind : `${kind}-${number + 1}`, path })));
  return [...named, { name: 'not-found', path: `${start}/nothing-here` }];
}
