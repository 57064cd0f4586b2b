// Pages have times in UTC. A button shows them in the zone of the browser, which remembers the choice.
const ZONES = { utc: 'Use local times', local: 'Use UTC' };
// Sweden writes times as ISO 8601 does.
const local = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'long' });
let zone = localStorage.getItem('zone') === 'local' ? 'local' : 'utc';
function showTimes() {
  for (const time of document.querySelectorAll('time')) {
    time.dataset.utc ??= time.textContent;
    const inZone = local.format(new Date(time.dateTime));
    time.textContent = zone === 'local' ? inZone : time.dataset.utc;
    time.title = zone === 'local' ? time.dataset.utc : inZone;
  }
}
if (document.querySelector('time')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = ZONES[zone];
  button.addEventListener('click', () => {
    zone = zone === 'local' ? 'utc' : 'local';
    localStorage.setItem('zone', zone);
    button.textContent = ZONES[zone];
    showTimes();
  });
  document.querySelector('footer')?.append(button);
  showTimes();
}

// Keeps a live page current, unless it is hidden or somebody uses a form in it.
const SECONDS = 15;
const live = document.querySelector('main[data-live]');
if (live) {
  const note = document.querySelector('footer').appendChild(document.createElement('p'));
  note.textContent = `Updated every ${SECONDS} s`;
  const timer = setInterval(async () => {
    if (document.hidden || live.contains(document.activeElement)) return;
    // An update does not extend the session.
    const answer = await fetch(location.href, { headers: { 'Supercargo-Update': 'live' } }).catch(() => null);
    if (!answer || answer.status >= 500) return;
    if (!answer.ok || answer.redirected) {
      clearInterval(timer);
      note.textContent = 'Updates ended: reload the page';
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const open = [...live.querySelectorAll('details')].map((details) => details.open);
    live.replaceChildren(...page.querySelector('main').childNodes);
    live.querySelectorAll('details').forEach((details, n) => { details.open = open[n] ?? details.open; });
    document.querySelector('footer p').replaceWith(page.querySelector('footer p'));
    showTimes();
  }, SECONDS * 1000);
}
